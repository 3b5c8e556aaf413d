"""What goes wrong, told to people: faults, refusals and waiting.

Only the shapes of messages belong here; who raises them knows the culprits. Standard library only, so that
the fast path can import it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

SHOWN_AT_MOST = 20
"""Faults of one refusal that are written out; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One culprit: where it stands, what stood there, what was expected, and how to mend it.

    Where `expected` is empty, `found` is a whole sentence that says both.
    """

    where: str
    found: str
    expected: str = ""
    mend: str = ""

    def __str__(self) -> str:
        said = f"found {self.found}; expected {self.expected}" if self.expected else self.found
        text = f"{self.where}: {said}."
        return f"{text} {self.mend}" if self.mend else text


class Refused(Exception):
    """Input that relgrade will not use: every fault of the kind at once, and what was left untouched.

    `what` is one sentence without a full stop. `total` counts faults beyond those listed, where a reader stopped
    collecting.
    """

    def __init__(
        self,
        what: str,
        faults: Sequence[Fault] = (),
        *,
        untouched: str = "Nothing was changed.",
        total: int | None = None,
    ) -> None:
        self.what = what
        self.faults = tuple(faults)
        self.untouched = untouched
        self.total = len(self.faults) if total is None else total
        super().__init__(self.message())

    def __reduce__(self) -> tuple[object, ...]:
        return (_refused, (self.what, self.faults, self.untouched, self.total))

    def message(self) -> str:
        """The whole message, as the CLI prints it and Dagster shows it."""
        lines = [f"{self.what}." if not self.faults else f"{self.what}: {_count(self.total, 'fault')}."]
        lines += [f"  {fault}" for fault in self.faults[:SHOWN_AT_MOST]]
        if self.total > min(len(self.faults), SHOWN_AT_MOST):
            lines.append(f"  ... and {self.total - min(len(self.faults), SHOWN_AT_MOST)} more.")
        lines.append(self.untouched)
        return "\n".join(lines)


def _refused(what: str, faults: tuple[Fault, ...], untouched: str, total: int) -> Refused:
    return Refused(what, faults, untouched=untouched, total=total)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What people (or a file that is not there yet) still owe: counts, and who owes them. Never an error.

    `what` reads after the numbers: Waiting("pairs graded by grader-a", 212, 640) is "212 of 640 pairs graded by
    grader-a".
    """

    what: str
    done: int = 0
    of: int = 0
    items: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        head = f"{self.done} of {self.of} {self.what}" if self.of else self.what
        shown = ", ".join(self.items[:8])
        more = f" and {len(self.items) - 8} more" if len(self.items) > 8 else ""
        return f"{head} ({shown}{more})" if shown else head


class NotThere(Exception):
    """A file that the design names is not there yet: what is made from it waits (P2). Never an error."""

    def __init__(self, waiting: Waiting) -> None:
        self.waiting = waiting
        super().__init__(str(waiting))


@dataclass(frozen=True, slots=True)
class Notice:
    """A counted oddity that was accepted: `code` is stable, `text` is for people."""

    code: str
    count: int
    text: str

    def __str__(self) -> str:
        return f"{self.text} ({self.count})"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
