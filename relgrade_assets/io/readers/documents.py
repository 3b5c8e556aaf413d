"""Whole files in memory: one CSV table with all its columns, one JSON document. For other tools' exports, whose shape
isn't known before they are opened.

What a cell or a key means is the reader's business; nothing is converted here.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relgrade_assets.errors import Fault, Notice, Refused
from relgrade_assets.io.readers import slow_records
from relgrade_assets.io.readers.faults import Faults, shown
from relgrade_assets.io.readers.slow_records import Fractional, Whole
from relgrade_assets.io.text import read_text


@dataclass(frozen=True, slots=True)
class Table:
    """A CSV file: `columns` by name, each a list of cells as they stand; `lines` is where each row begins."""

    names: tuple[str, ...]
    lines: list[int]
    columns: dict[str, list[str]]
    notices: tuple[Notice, ...]


def csv_table(path: Path, *, name: str, inside: Path | None = None) -> Table:
    """Every column of a CSV file with a header. Raises Refused as `text` does, for broken quoting, rows of another
    length than the header's, a column name that stands twice, a file without a row.
    """
    text = read_text(path, name=name, inside=inside)
    header = _header(text.data)
    slow = slow_records.csv_rows(text.data, name, {n: n for n in header})
    slow.faults.refuse()
    if not slow.lines:
        raise Refused(f"{name} can't be used", [Fault(name, "no row", "at least one under the header")])
    notices = list(text.notices)
    if slow.blank:
        notices.append(Notice("blank_lines", slow.blank, f"{name}: blank lines were passed over"))
    return Table(tuple(header), slow.lines, slow.values, tuple(notices))


def _header(data: bytes) -> list[str]:
    """The first row that is not blank; empty where there is none or it is broken, which `csv_rows` then tells."""
    try:
        return next((row for row in csv.reader(io.StringIO(data.decode(), newline="\n"), strict=True) if row), [])
    except csv.Error:
        return []


class _Twice(ValueError):
    """A key that stands twice in one object."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
        raise _Twice(f"the key {shown(twice)} twice in one object")
    return found


def json_document(path: Path, *, name: str, inside: Path | None = None) -> tuple[Any, tuple[Notice, ...]]:
    """The JSON value; numbers stay as they are written (`Whole`, `Fractional`). Raises Refused as `text` does, and for
    text that is no JSON, a key twice in one object, or half of a surrogate pair.
    """
    text = read_text(path, name=name, inside=inside)
    try:
        value = json.loads(
            text.data,
            object_pairs_hook=_once,
            parse_int=Whole,
            parse_float=Fractional,
            parse_constant=Fractional,
        )
    except json.JSONDecodeError as error:
        found = f"no JSON ({error.msg} at character {error.colno})"
        raise Refused(
            f"{name} can't be read", [Fault(f"{name}, line {error.lineno}", found, "one JSON value")]
        ) from None
    except _Twice as error:
        raise Refused(f"{name} can't be read", [Fault(name, str(error), "each key once")]) from None
    except RecursionError:
        found = "no JSON (nested too deeply)"
        raise Refused(f"{name} can't be read", [Fault(name, found, "one JSON value")]) from None
    halved = _halved(value) if b"\\u" in text.data else None
    if halved is not None:
        found = f"half of a surrogate pair in {ascii(halved)[:60]}"
        raise Refused(f"{name} can't be read", [Fault(name, found, "whole characters")])
    return value, text.notices


def _halved(value: Any) -> str | None:
    """The first text, key or value, that is no Unicode; None where there is none."""
    left = [value]
    while left:
        some = left.pop()
        if isinstance(some, str) and not some.isascii() and any("\ud800" <= c <= "\udfff" for c in some):
            return some
        if isinstance(some, dict):
            left += [*some.values(), *some]
        elif isinstance(some, list):
            left += some
    return None


def columns_needed(table: Table, needed: tuple[str, ...], *, name: str, tool: str) -> None:
    """Raises Refused where the header lacks one of the columns."""
    faults = Faults(name)
    for column in needed:
        if column not in table.names:
            listed = ", ".join(shown(n) for n in table.names[:20])
            faults.add(1, f"the columns {listed}", f"a column {column!r}, as {tool} writes it")
    faults.refuse()
