"""Ids that a spreadsheet has changed: which known id one was, where it can be told (formats.md).

Nothing is mended: a changed id is refused, and the likely original is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

SCIENTIFIC = re.compile(r"-?[0-9](?:[.,]([0-9]+))?[eE]\+?([0-9]{1,2})")
DIGITS_KEPT = 15
"""Digits of a number that a spreadsheet keeps; those behind become 0."""


class Known:
    """Ids that are known, looked up by what a spreadsheet would make of them."""

    def __init__(self, ids: Iterable[str]) -> None:
        self.ids = frozenset(ids)
        numbers = [i for i in sorted(self.ids) if i.isascii() and i.isdigit()]
        self._numbers = numbers
        self._short: dict[str, list[str]] = {}
        for i in numbers:
            for form in {i.lstrip("0") or "0", i + ".0", _cut(i.lstrip("0"))} - {i}:
                self._short.setdefault(form, []).append(i)

    def original(self, given: str) -> str | None:
        """The one known id that a spreadsheet would show as `given`; None where there is none, or several."""
        found = self._short.get(given) or self._short.get(given.removesuffix(".0")) or []
        shape = SCIENTIFIC.fullmatch(given)
        if shape:
            digits = re.sub("[^0-9]", "", re.split("[eE]", given)[0])
            unit = int(shape[2]) - len(digits) + 1
            found = [i for i in self._numbers if unit >= 0 and abs(int(i) - int(digits) * 10**unit) * 2 <= 10**unit]
        return found[0] if len(found) == 1 else None


def looks_shortened(given: str) -> bool:
    """Whether an id is written as a spreadsheet shortens long numbers, such as 6.9E+12."""
    return SCIENTIFIC.fullmatch(given) is not None and "+" in given


def _cut(digits: str) -> str:
    return digits[:DIGITS_KEPT] + "0" * (len(digits) - DIGITS_KEPT) if len(digits) > DIGITS_KEPT else digits
