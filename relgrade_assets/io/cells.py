"""CSV that a spreadsheet can open without running it: cells that begin like a formula get a mark in front, and lose it
when they are read back (formats.md, P42). Characters that no such file can hold are written out.

No columns and no files here; what a cell means is the reader's or writer's business.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable

APOSTROPHE = "'"
"""Our mark: spreadsheets take what follows as text."""
BLANK = " "
"""Quepid's mark: it writes a blank before such a cell, and trims cells when it reads them."""
_RUN = "=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20"
"""What a cell that is run begins with: = + - @, their full-width forms, and what a spreadsheet skips before them."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters other than a tab or a line feed: a file with a NUL is text to no reader, ours neither, and a
carriage return ends the row.
"""
LONGEST = 32_000
"""Characters of a passage in a cell: one of more than 32,767 runs over into the rows below it in Excel."""


def legible(text: str) -> str:
    """The text with control characters written out, as prompts show them: `<U+0000>`. Lines end in a line feed."""
    return _CONTROL.sub(lambda found: f"<U+{ord(found[0]):04X}>", text.replace("\r\n", "\n"))


def short_enough(text: str, whole: str) -> str:
    """A passage that fits a cell: legible, and cut where it is too long, saying so and where it is `whole`."""
    text = legible(text)
    said = f" [cut here: {len(text)} characters, all of them in {whole}]"
    return text if len(text) <= LONGEST else text[: LONGEST - len(said)] + said


def marked(text: str, mark: str = APOSTROPHE) -> str:
    """The cell as it is written. `unmarked` gives the same bytes back, whatever they were: a cell that looks marked
    already gets one mark more.
    """
    return mark + text if re.match(f"{mark}*[{_RUN}]", text) else text


def unmarked(text: str, mark: str = APOSTROPHE) -> str:
    """The cell as it was before `marked`; one that was never marked stays as it is."""
    return text[1:] if re.match(f"{mark}+[{_RUN}]", text) else text


def csv_bytes(header: Iterable[str], rows: Iterable[Iterable[str]], *, mark: str = APOSTROPHE) -> bytes:
    """CSV in UTF-8 with LF line ends; every cell `legible` and `marked`."""
    lines = ([marked(legible(cell), mark) for cell in row] for row in rows)
    return csv_rows([marked(legible(cell), mark) for cell in header], lines)


def csv_rows(header: Iterable[str], rows: Iterable[Iterable[str]]) -> bytes:
    """The same of cells that stand as they are: numbers, and text that was `marked`."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue().encode()
