"""Records row by row: the way that explains. Python's JSON and CSV readers, every value checked.

`records` decides when it is taken; the fast way never reads anything otherwise than this one.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from relgrade_assets.io.readers.faults import Faults, shown
from relgrade_assets.io.text import LINE_LIMIT

if TYPE_CHECKING:
    from relgrade_assets.io.readers.records import Column

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
ID = "an id: text, or a whole number"
TEXT = "text"
FLOAT = "a finite number with a decimal point"
INT = "a whole number"


class Whole(str):
    """A JSON integer, as written."""

    __slots__ = ()


class Fractional(str):
    """A JSON number with a point or an exponent, or NaN or Infinity, as written."""

    __slots__ = ()


class Pairs(list[tuple[str, Any]]):
    """A JSON object with its keys in order, doubled ones too."""


ABSENT = object()
DECODER = json.JSONDecoder(object_pairs_hook=Pairs, parse_int=Whole, parse_float=Fractional, parse_constant=Fractional)


@dataclass
class Slow:
    """Raw values of the wanted columns, a list a key, with the line of each row."""

    faults: Faults
    keys: Mapping[str, str]
    from_json: bool
    lines: list[int] = field(default_factory=list)
    values: dict[str, list[Any]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    absent: tuple[str, ...] = ()
    header_line: int = 1
    blank: int = 0


def objects(data: bytes, faults: Faults) -> Iterator[tuple[int, bytes, Pairs | None]]:
    """Each line's number, bytes and JSON object; None and a fault where it is none, no bytes where blank."""
    for line, raw in enumerate(data.removesuffix(b"\n").split(b"\n"), 1):
        if not raw.strip():
            yield line, b"", None
            continue
        try:
            value = DECODER.decode(raw.decode())
        except (ValueError, RecursionError) as error:
            why = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
            place = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
            faults.add(line, f"no JSON ({why}{place}): {shown(raw.decode()[:100])}", "one JSON object a line")
            yield line, raw, None
            continue
        if not isinstance(value, Pairs):
            faults.add(line, f"{described(value)}", "one JSON object a line")
            yield line, raw, None
            continue
        yield line, raw, value


def described(value: object) -> str:
    """A JSON value in words, as a message shows it."""
    if isinstance(value, Whole | Fractional):
        return f"the number {value[:40]}"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, str):
        return f"the text {shown(value)}"
    return "an object" if isinstance(value, Pairs) else "a list"


def jsonl(data: bytes, name: str, keys: Mapping[str, str]) -> Slow:
    """One object a line; keys that nobody wants are let be, a wanted key twice is a fault."""
    out = Slow(Faults(name), keys, True, values={key: [] for key in keys})
    seen: dict[str, None] = {}
    wanted = set(keys.values())
    for line, raw, pairs in objects(data, out.faults):
        if pairs is None:
            out.blank += not raw
            continue
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = [k for k in sorted(wanted) if sum(k == p for p, _ in pairs) > 1]
            for k in twice:
                out.faults.add(line, f"the key {k!r} twice", "each key once")
        seen.update(dict.fromkeys(found))
        out.lines.append(line)
        for key, source in keys.items():
            out.values[key].append(found.get(source, ABSENT))
    out.names = list(seen)
    out.absent = tuple(key for key, source in keys.items() if source not in seen)
    return out


def csv_rows(data: bytes, name: str, keys: Mapping[str, str]) -> Slow:
    """RFC 4180, header first; cells are text; as many a row as in the header. A row's line is where it begins."""
    out = Slow(Faults(name), keys, False, values={key: [] for key in keys})
    limit = csv.field_size_limit(LINE_LIMIT)
    rows = csv.reader(io.StringIO(data.decode(), newline="\n"), strict=True)
    header: list[str] | None = None
    at: dict[str, int] = {}
    begins = 1
    try:
        for row in rows:
            line, begins = begins, rows.line_num + 1
            if not row:
                out.blank += 1
            elif header is None:
                header, out.header_line, out.names = row, line, row
                at = {key: row.index(source) for key, source in keys.items() if source in row}
                for source in sorted({s for s in keys.values() if row.count(s) > 1}):
                    out.faults.add(line, f"the column {source!r} {row.count(source)} times", "each column once")
            elif len(row) != len(header):
                out.faults.add(
                    line,
                    f"{len(row)} cells",
                    f"{len(header)}, as in the header",
                    "Quote cells that hold commas or line ends.",
                )
            else:
                out.lines.append(line)
                for key, i in at.items():
                    out.values[key].append(row[i])
    except csv.Error as error:
        why = "a carriage return outside quotes" if "new-line" in str(error) else f"broken quoting ({error})"
        out.faults.add(begins, f"{why}, in the row that begins here", "CSV as in RFC 4180")
    finally:
        csv.field_size_limit(limit)
    out.absent = tuple(key for key in keys if key not in at)
    for key in out.absent:
        out.values[key] = [ABSENT] * len(out.lines)
    return out


def typed(slow: Slow, columns: Mapping[str, Column], faults: Faults) -> pl.DataFrame:
    """The typed frame; a fault for every value that is not of its column's kind."""
    from relgrade_assets.io.readers.records import TYPES

    series = [pl.Series("line", slow.lines, pl.Int64)]
    for key, c in columns.items():
        given = slow.values[key]
        if key in slow.absent:
            series.append(pl.Series(key, [None] * len(given), TYPES[c.kind]))
            continue
        values = [_value(v, c, slow.from_json, line, faults) for v, line in zip(given, slow.lines, strict=True)]
        series.append(pl.Series(key, values, TYPES[c.kind]))
    return pl.DataFrame(series)


def _value(value: Any, c: Column, from_json: bool, line: int, faults: Faults) -> str | float | int | None:
    """The value as its kind says, or None with a fault added."""
    if value is ABSENT or value is None:
        if c.needed and (c.filled or value is ABSENT):
            found = "no such key" if value is ABSENT else "null"
            faults.add(line, found, {"id": ID, "float": FLOAT, "int": INT}.get(c.kind, TEXT), column=c.source)
        elif c.filled and value is None:
            faults.add(line, "null", "a value, or no such key", column=c.source)
        return None
    text_like = type(value) is str
    if c.kind in ("float", "int"):
        return _number(value, c, from_json, line, faults)
    if c.kind == "id" and (type(value) is Whole or (text_like and value.strip())):
        return _encodable(str(value), c, line, faults)
    if c.kind in ("text", "time") and text_like:
        return _encodable(value, c, line, faults)
    if c.kind == "id" and text_like and not c.filled:
        return None
    found = "an empty id" if text_like and not value.strip() else described(value)
    faults.add(line, found, ID if c.kind == "id" else TEXT, column=c.source)
    return None


def _encodable(value: str, c: Column, line: int, faults: Faults) -> str | None:
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        faults.add(line, f"half of a surrogate pair in {ascii(value)[:60]}", "whole characters", column=c.source)
        return None
    return value


def _number(value: Any, c: Column, from_json: bool, line: int, faults: Faults) -> float | int | None:
    numeric = isinstance(value, Whole | Fractional)
    text = value.strip(" \t") if isinstance(value, str) and not from_json else value
    if not from_json and text == "" and not c.filled:
        return None
    if c.kind == "int":
        if (numeric if from_json else True) and isinstance(text, str) and WHOLE.fullmatch(text):
            return int(text)
        faults.add(line, found_number(value), INT, column=c.source)
        return None
    if (
        (numeric if from_json else True)
        and isinstance(text, str)
        and NUMBER.fullmatch(text)
        and math.isfinite(float(text))
    ):
        return float(text)
    faults.add(line, found_number(value), FLOAT, comma_mend(value), column=c.source)
    return None


def found_number(value: object) -> str:
    """What stood where a number should: empty, text or another value."""
    return "an empty cell" if value == "" and type(value) is str else described(value)


def comma_mend(value: object) -> str:
    """How to write a number with a decimal comma."""
    return (
        f"Write {value.replace(',', '.')}."
        if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]+,[0-9]+", value)
        else ""
    )


def typed_parquet(
    frame: pl.DataFrame, columns: Mapping[str, Column], absent: tuple[str, ...], faults: Faults
) -> pl.DataFrame:
    """Parquet's own types, checked against each column's kind."""
    from relgrade_assets.io.readers.records import TYPES

    out = [pl.int_range(1, frame.height + 1, dtype=pl.Int64, eager=True).alias("line")]
    for key, c in columns.items():
        if key in absent:
            out.append(pl.Series(key, [None] * frame.height, TYPES[c.kind]))
            continue
        given = frame[c.source]
        cast = _cast(given, c)
        if cast is None:
            words = {
                "id": "text or whole numbers",
                "float": "numbers",
                "int": "whole numbers",
                "time": "times or text",
            }.get(c.kind, "text")
            faults.add(0, f"a column of {given.dtype}", words, column=c.source)
            continue
        bad = given.is_not_null() & cast.is_null()
        if c.filled:
            bad = bad | given.is_null()
        if c.kind == "id":
            bad = bad | (cast.str.strip_chars() == "").fill_null(False)
        if c.kind == "float":
            bad = bad | (~cast.is_finite()).fill_null(False)
        wrong = pl.DataFrame([out[0], given.alias("given")]).filter(bad)
        expected = {"id": ID, "float": FLOAT, "int": INT}.get(c.kind, TEXT)
        faults.rows(wrong, lambda r: "null" if r["given"] is None else shown(r["given"]), expected, column=c.source)
        out.append(cast.alias(key))
    if len(out) <= len(columns):
        faults.refuse()
    return pl.DataFrame(out)


def _cast(given: pl.Series, c: Column) -> pl.Series | None:
    """The column in its kind's type, null where a value doesn't fit; None where the whole column doesn't."""
    kind, dtype = c.kind, given.dtype
    texts = isinstance(dtype, pl.String | pl.Categorical | pl.Enum)
    if kind == "time" and isinstance(dtype, pl.Datetime | pl.Date):
        zone = "Z" if isinstance(dtype, pl.Datetime) and dtype.time_zone else ""
        at = given.cast(pl.Datetime("us", "UTC" if zone else None))
        return at.dt.strftime(f"%Y-%m-%dT%H:%M:%S%.6f{zone}")
    if kind in ("id", "text", "time"):
        return given.cast(pl.String) if texts or (kind == "id" and dtype.is_integer()) or dtype == pl.Null else None
    if not dtype.is_numeric() and dtype != pl.Null:
        return None
    if kind == "float":
        return given.cast(pl.Float64)
    if dtype.is_float():
        given = given.to_frame("x").select(pl.when(pl.col("x") == pl.col("x").round(0)).then(pl.col("x"))).to_series()
    elif dtype.is_decimal():
        return None
    return given.cast(pl.Int64, strict=False)
