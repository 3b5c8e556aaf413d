"""Names of measures (P37), spelled as ir_measures spells them, and what each name means.

Only the grammar belongs here; the numbers are in measures.py. Standard library and errors only: the fast path imports
it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, cast

from relgrade_assets.errors import Fault, Refused

Family = Literal["nDCG", "Recall", "RR", "P", "AP", "Judged"]
Gain = Literal["exponential", "linear"]

SHAPES: dict[Family, tuple[bool, tuple[str, ...]]] = {
    "nDCG": (False, ("gain",)),
    "Recall": (True, ("rel",)),
    "RR": (False, ("rel",)),
    "P": (True, ("rel",)),
    "AP": (False, ("rel",)),
    "Judged": (True, ()),
}
"""For each family: whether it must have a cut-off, and the parameters that it takes."""

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
    "Judged@k",
)
"""The names there are, as a refusal lists them."""

_ALIASES: dict[str, Family] = {"R": "Recall"}
_NAME = re.compile(r"([A-Za-z]+)(?:\(([^()]*)\))?(?:@([1-9][0-9]{0,8}))?")


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure: its family, its cut-off in ranks (None: the whole ranking), and what departs from the scale.

    `rel` is the lowest relevant grade and `gain` the gain of a grade; None leaves both to the scale (P5).
    """

    family: Family
    cutoff: int | None = None
    rel: int | None = None
    gain: Gain | None = None

    @property
    def name(self) -> str:
        """The canonical spelling: `parse(m.name) == m`."""
        given = {"rel": self.rel, "gain": self.gain}
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
    needs_cutoff, takes = SHAPES[family]
    if needs_cutoff and cut is None:
        return Fault(f"measure {name!r}", "no cut-off", f"one, such as {head}@10")
    given: dict[str, str] = {}
    for part in (inner or "").split(",") if inner is not None else ():
        key, _, value = part.partition("=")
        key, value = key.strip(), value.strip().strip("'\"")
        if key not in takes or key in given:
            expected = f"{' or '.join(takes)}, once" if takes else "no parameters"
            return Fault(f"measure {name!r}", f"the parameter {part.strip()!r}", expected)
        given[key] = value
    rel, gain = given.get("rel"), given.get("gain")
    if rel is not None and not re.fullmatch(r"[1-9][0-9]{0,2}", rel):
        return Fault(f"measure {name!r}", f"rel={rel}", "a whole grade from 1 up")
    if gain is not None and gain not in ("exponential", "linear"):
        return Fault(f"measure {name!r}", f"gain={gain}", "exponential or linear")
    return Measure(family, int(cut) if cut else None, int(rel) if rel else None, cast("Gain | None", gain))


def _unknown(name: str) -> Fault:
    cut = name.partition("@")[2] or "k"
    spelled = {s.replace("@k", f"@{cut}").lower(): s.replace("@k", f"@{cut}") for s in SPELLED}
    near = get_close_matches(name.lower(), spelled, n=1, cutoff=0.5)
    mend = f"The nearest is {spelled[near[0]]}." if near else ""
    return Fault(f"measure {name!r}", "no such measure", f"one of {', '.join(SPELLED)}", mend)
