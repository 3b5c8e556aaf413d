"""Collecting a file's faults, so that one refusal lists them all in the file's order.

The shape of a fault is `errors`' business; what counts as one is each reader's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import polars as pl

from relgrade_assets.errors import SHOWN_AT_MOST, Fault, Refused

SHOWN_CHARACTERS = 80


def shown(value: object) -> str:
    """A value as a message shows it: quoted where text, control characters escaped, cut to 80 characters."""
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."


class Faults:
    """The faults of one file. At most 20 of a kind are kept; all are counted."""

    def __init__(self, name: str, unit: str = "line") -> None:
        """`name` is the path as messages show it; `unit` is `line`, or `row` where a file has no lines."""
        self.name = name
        self.unit = unit
        self.total = 0
        self._of_kind: Counter[tuple[str, str]] = Counter()
        self._kept: list[tuple[int, int, Fault]] = []

    def where(self, line: int, column: str = "") -> str:
        """`runs/a.run, line 3, score`; without the line where it is 0."""
        return ", ".join(filter(None, [self.name, f"{self.unit} {line}" if line else "", column]))

    def add(self, line: int, found: str, expected: str, mend: str = "", *, column: str = "") -> None:
        """One fault on a line."""
        self.total += 1
        self._of_kind[expected, column] += 1
        if self._of_kind[expected, column] <= SHOWN_AT_MOST:
            self._kept.append((line, len(self._kept), Fault(self.where(line, column), found, expected, mend)))

    def rows(
        self,
        bad: pl.DataFrame,
        found: Callable[[dict[str, Any]], str],
        expected: str,
        mend: str | Callable[[dict[str, Any]], str] = "",
        *,
        column: str = "",
    ) -> None:
        """One fault a row of `bad`, which has a column `line`; `found` and `mend` are given the row."""
        self.total += bad.height
        for row in bad.sort("line", maintain_order=True).head(SHOWN_AT_MOST).iter_rows(named=True):
            fault = Fault(self.where(row["line"], column), found(row), expected, mend(row) if callable(mend) else mend)
            self._kept.append((row["line"], len(self._kept), fault))

    def kept(self) -> list[Fault]:
        """The kept faults in the file's order."""
        return [fault for _, _, fault in sorted(self._kept, key=lambda f: f[:2])]

    def clear(self) -> None:
        """Forgets every fault."""
        self.total = 0
        self._of_kind.clear()
        self._kept.clear()

    def refuse(self) -> None:
        """Raises Refused with every fault so far, in the file's order; does nothing where there is none."""
        if self.total:
            raise Refused(f"{self.name} can't be used", self.kept()[:SHOWN_AT_MOST], total=self.total)
