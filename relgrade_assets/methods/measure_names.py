"""Names of measures (P37), spelled as ir_measures spells them, and what each name means.

Only the grammar belongs here; the numbers are in measures.py. Standard library and errors only: the fast path imports
it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from relgrade_assets.errors import Fault, Refused

Family = Literal["nDCG", "Recall", "RR", "P", "AP", "Judged", "Success", "Rprec", "RBP", "ERR", "bpref", "infAP"]
Gain = Literal["exponential", "linear"]
Cutoff = Literal["must", "may", "none"]

SHAPES: dict[Family, tuple[Cutoff, tuple[str, ...]]] = {
    "nDCG": ("may", ("gain",)),
    "Recall": ("must", ("rel",)),
    "RR": ("may", ("rel",)),
    "P": ("must", ("rel",)),
    "AP": ("may", ("rel",)),
    "Judged": ("must", ()),
    "Success": ("must", ("rel",)),
    "Rprec": ("none", ("rel",)),
    "RBP": ("may", ("p", "rel")),
    "ERR": ("may", ("max",)),
    "bpref": ("none", ("rel",)),
    "infAP": ("none", ("rel",)),
}
"""For each family: whether it must, may or can't have a cut-off, and the parameters that it takes."""

SPELLED = (
    "nDCG@k",
    "nDCG(gain=linear)@k",
    "Recall@k",
    "R@k",
    "RR",
    "RR@k",
    "P@k",
    "P(rel=2)@k",
    "AP",
    "AP@k",
    "AP(rel=2)",
    "Success@k",
    "Rprec",
    "RBP(p=0.8)",
    "ERR@k",
    "ERR(max=4)@k",
    "bpref",
    "infAP",
    "Judged@k",
)
"""The names there are, as a refusal lists them."""

PERSISTENCE = 0.8
"""RBP's p where the name gives none, as ir_measures has it."""
_ALIASES: dict[str, Family] = {"R": "Recall", "Bpref": "bpref", "BPref": "bpref", "RPrec": "Rprec"}
_NAME = re.compile(r"([A-Za-z]+)(?:\(([^()]*)\))?(?:@([1-9][0-9]{0,8}))?")
_GRADE = re.compile(r"[1-9][0-9]{0,2}")
_P = re.compile(r"0?\.[0-9]{1,6}")


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure: its family, its cut-off in ranks (None: the whole ranking), and what departs from the scale.

    `rel` is the lowest relevant grade, `gain` the gain of a grade and `max` the scale's top grade (ERR's); None leaves
    them to the scale (P5). `p` is RBP's persistence, in (0, 1); no other measure has one.
    """

    family: Family
    cutoff: int | None = None
    rel: int | None = None
    gain: Gain | None = None
    p: float | None = None
    max: int | None = None

    @property
    def name(self) -> str:
        """The canonical spelling: `parse(m.name) == m`."""
        given = {"p": self.p, "rel": self.rel, "gain": self.gain, "max": self.max}
        inner = ",".join(f"{key}={value}" for key, value in given.items() if value is not None)
        return f"{self.family}{f'({inner})' if inner else ''}{f'@{self.cutoff}' if self.cutoff is not None else ''}"


def parse(name: str) -> Measure:
    """What a name means. Raises Refused, with the names there are and the nearest, for any other text."""
    return parse_all([name])[0]


def parse_all(names: Sequence[str]) -> list[Measure]:
    """What each name means, in order. Raises Refused with every fault at once; one measure under two names is a fault
    too."""
    faults: list[Fault] = []
    found: list[Measure] = []
    first: dict[Measure, str] = {}
    for name in names:
        measure = _parse(name)
        if isinstance(measure, Fault):
            faults.append(measure)
            continue
        if measure in first:
            faults.append(
                Fault(
                    f"measure {name!r}", f"the same as {first[measure]!r}", "each measure once", "Take one of them out."
                )
            )
        first.setdefault(measure, name)
        found.append(measure)
    if faults:
        raise Refused("Some measures can't be computed", faults)
    return found


def _parse(name: str) -> Measure | Fault:
    match = _NAME.fullmatch(name)
    if match is None:
        return _unknown(name)
    head, inner, cut = match.groups()
    family = _ALIASES.get(head) or (cast(Family, head) if head in SHAPES else None)
    if family is None:
        return _unknown(name)
    cuts, takes = SHAPES[family]
    if cuts == "must" and cut is None:
        return Fault(f"measure {name!r}", "no cut-off", f"one, such as {head}@10")
    if cuts == "none" and cut is not None:
        return Fault(f"measure {name!r}", f"the cut-off {cut}", f"none: {family} reads the whole ranking")
    given: dict[str, str] = {}
    for part in (inner or "").split(",") if inner is not None else ():
        key, _, value = part.partition("=")
        key, value = key.strip(), value.strip().strip("'\"")
        if key not in takes or key in given:
            expected = f"{' or '.join(takes)}, once" if takes else "no parameters"
            return Fault(f"measure {name!r}", f"the parameter {part.strip()!r}", expected)
        given[key] = value
    gain, p = given.get("gain"), given.get("p")
    for key in ("rel", "max"):
        if key in given and not _GRADE.fullmatch(given[key]):
            return Fault(f"measure {name!r}", f"{key}={given[key]}", "a whole grade from 1 up")
    if gain is not None and gain not in ("exponential", "linear"):
        return Fault(f"measure {name!r}", f"gain={gain}", "exponential or linear")
    if p is not None and not (_P.fullmatch(p) and float(p)):
        return Fault(f"measure {name!r}", f"p={p}", "a fraction between 0 and 1, such as 0.8")
    return Measure(
        family,
        int(cut) if cut else None,
        int(given["rel"]) if "rel" in given else None,
        cast("Gain | None", gain),
        (float(p) if p else PERSISTENCE) if family == "RBP" else None,
        int(given["max"]) if "max" in given else None,
    )


def _unknown(name: str) -> Fault:
    from difflib import get_close_matches  # for refusals alone

    cut = name.partition("@")[2] or "k"
    spelled = {s.replace("@k", f"@{cut}").lower(): s.replace("@k", f"@{cut}") for s in SPELLED}
    near = get_close_matches(name.lower(), spelled, n=1, cutoff=0.5)
    mend = f"The nearest is {spelled[near[0]]}." if near else ""
    return Fault(f"measure {name!r}", "no such measure", f"one of {', '.join(SPELLED)}", mend)
