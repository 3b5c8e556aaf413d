"""What two keys of a design make together: a partition (P8), shares that close (P9), departures undeclared (P3), gates
below the floor (P28).

Each function returns every fault as (key, sentence). What one key may hold is in `design.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from relgrade_assets.protocol.deviations import DeviationCode

if TYPE_CHECKING:
    from relgrade_assets.protocol.design import Auditor, Design, Grader, Strata

GATE_DEFAULTS: dict[str, float] = {"weighted_kappa": 0.75, "binary_kappa": 0.80, "disagreement": 0.10, "two_step": 0.02}
KAPPA_FLOOR = 0.60
"""P28: under this no key is made, declared or not."""
SHARES_WITHIN = 1e-9
SHARED_AT_LEAST = Fraction(1, 10)
"""P26: of the queries, those that two people grade, where several do."""
TIERS = ("head", "torso", "tail")

KeyFaults = list[tuple[str, str]]


def incoherent(d: Design) -> KeyFaults:
    """Names that stand twice, a headline that is no measure, types without a column, queries that nobody grades, gates
    below P28's floor.
    """
    faults: KeyFaults = []
    named: dict[str, list[str]] = {
        "arms": [a.name for a in d.arms],
        "graders": [*d.key_graders, d.auditor.name],
        "deviations": [str(x.code) for x in d.deviations],
        "measures": list(d.measures),
    }
    for key, names in named.items():
        faults += _repeated(key, names)
    if d.headline not in d.measures:
        faults.append(("headline", f"{d.headline!r} is not among measures ({', '.join(d.measures)})"))
    by_type = d.strata.by in ("type", "both")
    if by_type and d.strata.type_from == "column" and d.query_log.columns.type is None:
        faults.append(("query_log.columns.type", "strata are cut by the log's own type, and no column for it is named"))
    faults += _left_ungraded(d.graders)
    for gate in ("weighted_kappa", "binary_kappa"):
        value: float = getattr(d.gates, gate)
        if value < KAPPA_FLOOR:
            faults.append((f"gates.{gate}", f"{value:g} is below {KAPPA_FLOOR:g}, under which no key is made"))
    return faults


def _left_ungraded(graders: Sequence[Grader]) -> KeyFaults:
    """P1, P30: that what graders take falls short of all queries."""
    shares = {g.name: Fraction(str(g.takes)) for g in graders if g.takes != "all"}
    total = sum(shares.values())
    if len(shares) < len(graders) or total >= 1 - Fraction(str(SHARES_WITHIN)):
        return []
    each = ", ".join(f"{name} {float(share):g}" for name, share in shares.items())
    text = f"what graders take sums to {float(total):.12g} ({each}); it must sum to 1 or more, or one takes all"
    return [("graders", text)]


def strata_faults(d: Strata) -> KeyFaults:
    """P8: what keeps the strata from being a partition."""
    parts = d.parts
    by_tier, by_type = d.by in ("tier", "both"), d.by in ("type", "both")
    faults = _repeated("parts", [p.name for p in parts])
    for i, part in enumerate(parts):
        for used, key, values in ((by_tier, "tiers", part.tiers), (by_type, "types", part.types)):
            if used and not values:
                text = f"stratum {part.name!r} names no {key}, and strata are cut by {d.by}"
                faults.append((f"parts.{i}.{key}", text))
            if not used and values:
                text = f"stratum {part.name!r} names {key}, but strata are cut by {d.by}"
                faults.append((f"parts.{i}.{key}", text))
    cells = Counter((t, y) for p in parts for t in (p.tiers or ("",)) for y in (p.types or ("",)))
    for cell, n in cells.items():
        if n > 1 and any(cell):
            faults.append(("parts", f"{' '.join(filter(None, cell))!r} falls into {n} strata; it must fall into one"))
    if by_tier:
        missing = [t for t in TIERS if all(t not in p.tiers for p in parts)]
        faults += [("parts", f"no stratum holds the tier {t!r}; strata are a partition") for t in missing]
    if by_type and d.type_from == "classifier" and d.labelled is None:
        faults.append(("labelled", "the classifier needs a CSV query,type of labelled examples"))
    return faults


def share_faults(d: Strata) -> KeyFaults:
    """P1, P9: shares are declared for all strata or none, and sum to 1."""
    declared = [p.share for p in d.parts if p.share is not None]
    if declared and len(declared) < len(d.parts):
        return [
            (
                f"parts.{i}.share",
                f"stratum {p.name!r} has a target and no share, and others have one; declare all or none",
            )
            for i, p in enumerate(d.parts)
            if p.share is None
        ]
    if declared and abs(sum(declared) - 1) > SHARES_WITHIN:
        return [("parts", f"the shares sum to {sum(declared):.12g}; they must sum to 1 within 1e-9")]
    return []


def run_faults(who: Grader | Auditor) -> KeyFaults:
    """P21: a command belongs to a model; people and files are not run."""
    if who.run is None or who.kind == "model":
        return []
    return [("run", f"{who.name!r} is of kind {who.kind}, and only a model is run by a command")]


def undeclared(d: Design) -> KeyFaults:
    """P3: departures that the file itself shows and does not declare; those that only data shows are found later."""
    found: list[tuple[DeviationCode, str, str]] = []
    found += [("shared_families", key, text) for key, text in _shared_families(d)]
    if len(d.arms) == 1:
        found.append(("one_arm", "arms", "only one arm is pooled"))
    if d.depth < 10 or (d.depth < 20 and len(d.arms) > 3):
        found.append(("shallow_depth", "depth", f"depth {d.depth} with {_counted(len(d.arms), 'arm')}"))
    if d.audit.share < 0.10 or d.audit.at_least < 10:
        text = f"share {d.audit.share:g} and at least {d.audit.at_least}, under 0.1 and 10"
        found.append(("small_audit", "audit", text))
    if d.query_log.authored:
        found.append(("authored_queries", "query_log.authored", "the log is authored"))
    shared = shared_by_people(d.graders)
    if shared is not None and shared < SHARED_AT_LEAST:
        text = f"people share {float(shared):.0%} of the queries, under {float(SHARED_AT_LEAST):.0%}"
        found.append(("little_overlap", "graders", text))
    for gate, default in GATE_DEFAULTS.items():
        value: float = getattr(d.gates, gate)
        if value < default if gate.endswith("kappa") else value > default:
            found.append(("gate_lowered", f"gates.{gate}", f"{value:g} is easier than the default {default:g}"))
    return [
        (key, f"{text}: that departs from the protocol; declare {code!r} under deviations with a reason")
        for code, key, text in found
        if not d.declared(code)
    ]


def shared_by_people(graders: Sequence[Grader]) -> Fraction | None:
    """P26: the share of queries that two people or more grade; None where fewer than two people do. Shares are arcs of
    a circle, one after another (P30).
    """
    arcs: list[tuple[Fraction, Fraction]] = []
    people, at = 0, Fraction(0)
    for g in graders:
        start, length = (at, Fraction(str(g.takes))) if g.takes != "all" else (Fraction(0), Fraction(1))
        at = at if g.takes == "all" else at + length
        if g.kind == "human":
            people += 1
            begin = start % 1
            arcs += [(begin, min(begin + length, Fraction(1))), (Fraction(0), max(begin + length - 1, Fraction(0)))]
    if people < 2:
        return None
    ends = sorted({Fraction(0), Fraction(1), *(e for arc in arcs for e in arc)})
    held = [(b - a, sum(s <= a and b <= e for s, e in arcs)) for a, b in pairwise(ends)]
    return sum((length for length, n in held if n > 1), Fraction(0))


def _shared_families(d: Design) -> KeyFaults:
    """P26: a family that stands in two of graders, auditor and arms. Graders may share one, and so may arms."""
    roles = {
        "auditor": [("auditor.family", "the auditor", d.auditor.family)],
        "graders": [(f"graders.{i}.family", f"grader {g.name!r}", g.family) for i, g in enumerate(d.graders)],
        "arms": [(f"arms.{i}.family", f"arm {a.name!r}", a.family) for i, a in enumerate(d.arms)],
    }
    faults: KeyFaults = []
    held: dict[str, list[tuple[str, str]]] = {}
    for members in roles.values():
        for key, who, family in members:
            if family in held:
                faults.append((key, f"{who} and {held[family][0][1]} are both of family {family!r}"))
        for key, who, family in members:
            held.setdefault(family, []).append((key, who))
    return faults


def _repeated(key: str, names: list[str]) -> KeyFaults:
    counts = Counter(names)
    return [(key, f"the name {n!r} stands {c} times; each may stand once") for n, c in counts.items() if c > 1]


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
