"""Records with named columns: JSON Lines, CSV and Parquet into one typed frame, with the line of each.

The fast way is Polars and is taken only where it can't differ from the slow one: anything odd goes to `slow_records`,
which explains. What a row means is the reader's business.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import polars as pl

from relgrade_assets.errors import Fault, Notice, Refused
from relgrade_assets.io.parquet import BROKEN, not_parquet, unspoken
from relgrade_assets.io.readers import slow_records
from relgrade_assets.io.readers.faults import Faults, shown
from relgrade_assets.io.text import read_bytes, read_text

Format = Literal["jsonl", "csv", "parquet"]
Kind = Literal["id", "text", "time", "float", "int"]
ENDINGS: dict[str, Format] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}
TYPES: dict[Kind, type[pl.DataType]] = {
    "id": pl.String,
    "text": pl.String,
    "time": pl.String,
    "float": pl.Float64,
    "int": pl.Int64,
}
MOST_PARQUET_ROWS = 500_000_000


@dataclass(frozen=True, slots=True)
class Column:
    """What a reader wants: the source's own name, its kind, and whether it must be there and be filled.

    An `id` is text or a whole number taken as its decimal text; a `time` is text, or Parquet's own type; a `float` is
    finite; an `int` is whole. Where not `filled`, an empty CSV
    cell or a JSON null is null (a `text` keeps its empty cell). Where not `needed`, an absent column is null.
    """

    source: str
    kind: Kind
    needed: bool = True
    filled: bool = True


@dataclass(frozen=True, slots=True)
class Records:
    """`frame` has `line` (Int64; in Parquet the row) and one column a key; `absent` are keys that no row has.

    `faults` holds what is wrong so far (null stands there): the reader adds its own and refuses all at once."""

    frame: pl.DataFrame
    notices: tuple[Notice, ...]
    faults: Faults
    absent: tuple[str, ...]


def format_of(name: str, given: str | None, otherwise: str | None = None) -> str:
    """The format that was given, or the name's ending says (.gz and .zst apart). Raises Refused where neither does."""
    if given is not None:
        return given
    path = Path(re.sub(r"\.(gz|zst)$", "", name, flags=re.IGNORECASE))
    found = ENDINGS.get(path.suffix.lower(), otherwise)
    if found is None:
        endings = ", ".join(ENDINGS)
        raise Refused(
            f"{name} can't be read",
            [Fault(name, f"the ending {path.suffix!r}", f"one of {endings}", "Or give its `format`.")],
        )
    return found


def read_records(
    path: Path, *, name: str, format: str, columns: Mapping[str, Column], inside: Path | None = None
) -> Records:
    """Reads `columns` (ours: theirs). Raises Refused for missing columns and bad values, and as `text` does."""
    read = collect_records(path, name=name, format=format, columns=columns, inside=inside)
    read.faults.refuse()
    return read


def collect_records(
    path: Path, *, name: str, format: str, columns: Mapping[str, Column], inside: Path | None = None
) -> Records:
    """Reads `columns` (ours: theirs). Raises Refused for missing columns, and as `text` does.

    Bad values are left in `faults`, for a reader that adds its own: it must refuse.
    """
    if format == "parquet":
        return _parquet(read_bytes(path, name=name, inside=inside), name, columns)
    text = read_text(path, name=name, inside=inside)
    fast = _fast_jsonl(text.data, columns) if format == "jsonl" else _fast_csv(text.data, columns)
    notices = list(text.notices)
    absent: tuple[str, ...]
    if fast is None:
        read = slow_records.jsonl if format == "jsonl" else slow_records.csv_rows
        slow = read(text.data, name, {key: c.source for key, c in columns.items()})
        faults = slow.faults
        unknown = [
            c.source
            for key, c in columns.items()
            if c.needed and key in slow.absent and (slow.names or not faults.total)
        ]
        for source in unknown:
            _missing(faults, source, slow.header_line, slow.names)
        if unknown:
            faults.refuse()
        frame = slow_records.typed(slow, columns, faults)
        absent = slow.absent
        if slow.blank:
            notices.append(Notice("blank_lines", slow.blank, f"{name}: blank lines were passed over"))
    else:
        frame, absent = fast
        faults = Faults(name)
    if not frame.height:
        faults.refuse()
        raise Refused(f"{name} can't be used", [Fault(name, "no row", "at least one")])
    return Records(frame, tuple(notices), faults, absent)


def _missing(faults: Faults, source: str, line: int, there: Sequence[str]) -> None:
    near = get_close_matches(source, there, 1, 0.5) or [n for n in there if n.lower() == source.lower()]
    listed = ", ".join(shown(n) for n in there[:20]) or "none"
    mend = f"Nearest: {near[0]!r}." if near else ""
    if len(there) == 1 and re.search("[;\t|]", there[0]):
        mend = "Separate cells by commas."
    faults.add(line, f"the columns {listed}", f"a column {source!r}", mend)


def _fast_jsonl(data: bytes, columns: Mapping[str, Column]) -> tuple[pl.DataFrame, tuple[str, ...]] | None:
    """One Polars pass; None unless every line holds each wanted key once, plainly typed."""
    if b"\r" in data or re.search(rb"\\u[dD][89a-fA-F]|\n[ \t]*\n|^[ \t]*\n", data):
        return None
    value = {
        "id": r'(?:"|(?:0|-?[1-9][0-9]{0,17})[ ,}])',
        "text": '"',
        "time": '"',
        "float": "-?[0-9]",
        "int": "-?[0-9]{1,18}[ ,}]",
    }
    lines = pl.scan_lines(data, name="raw")
    raw = pl.col("raw")
    checks: list[pl.Expr] = []
    for key, c in columns.items():
        if not re.fullmatch(r"[A-Za-z0-9_ .-]+", c.source):
            return None
        quoted = f'"{re.escape(c.source)}" *: *'
        checks.append(raw.str.count_matches(f'"{re.escape(c.source)}"\\s*:').max().alias(f"{key}+"))
        checks.append(raw.str.contains(quoted + value[c.kind]).sum().alias(key))
    found = lines.select(pl.len().alias("#"), *checks).collect().row(0, named=True)
    wanted = {c.source: TYPES[c.kind] for key, c in columns.items() if found[f"{key}+"]}
    for key, c in columns.items():
        if found[f"{key}+"] == 0 and not c.needed:
            continue
        if found[f"{key}+"] != 1 or found[key] != found["#"]:
            return None
    try:
        frame = pl.read_ndjson(io.BytesIO(data), schema=dict(wanted))
    except pl.exceptions.PolarsError:
        return None
    absent = tuple(key for key, c in columns.items() if c.source not in wanted)
    out = frame.select(
        pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("line"),
        *[
            pl.lit(None, TYPES[c.kind]).alias(key) if key in absent else pl.col(c.source).alias(key)
            for key, c in columns.items()
        ],
    )
    return _plain(out, columns, absent, found["#"])


def _fast_csv(data: bytes, columns: Mapping[str, Column]) -> tuple[pl.DataFrame, tuple[str, ...]] | None:
    """Where no cell is quoted and every line has as many commas as the header; None elsewhere."""
    if b'"' in data or b"\r" in data:
        return None
    header = data.split(b"\n", 1)[0].decode().split(",")
    if len(header) < 2 or len(set(header)) < len(header):
        return None
    absent = tuple(key for key, c in columns.items() if c.source not in header)
    if any(columns[key].needed for key in absent):
        return None
    lines = pl.scan_lines(data, name="raw", row_index_name="line", row_index_offset=1).slice(1)
    cells = pl.col("raw").str.splitn(",", len(header)).struct.rename_fields([f"c{i}" for i in range(len(header))])
    even = lines.select((pl.col("raw").str.count_matches(",", literal=True) == len(header) - 1).all()).collect().item()
    if not even:
        return None
    picked = []
    for key, c in columns.items():
        if key in absent:
            picked.append(pl.lit(None, TYPES[c.kind]).alias(key))
            continue
        cell = pl.col(f"c{header.index(c.source)}")
        if c.kind in ("float", "int"):
            cell = cell.str.strip_chars(" \t").cast(TYPES[c.kind], strict=False)
        picked.append(cell.alias(key))
    out = (
        lines.select(pl.col("line").cast(pl.Int64), cells.alias("cells"))
        .unnest("cells")
        .select("line", *picked)
        .collect()
    )
    return _plain(out, columns, absent, out.height)


def _plain(
    frame: pl.DataFrame, columns: Mapping[str, Column], absent: tuple[str, ...], height: int
) -> tuple[pl.DataFrame, tuple[str, ...]] | None:
    """The frame, if nothing in it needs the slow way: no null, no empty id, no number that is not finite."""
    checks: list[pl.Expr] = []
    for key, c in columns.items():
        if key in absent:
            continue
        checks.append(pl.col(key).is_null().any().alias(f"{key}0"))
        if c.kind == "id":
            checks.append((pl.col(key).str.strip_chars() == "").any().alias(f"{key}1"))
        if c.kind == "float":
            checks.append((~pl.col(key).is_finite()).any().alias(f"{key}2"))
    fine = frame.height == height and not (checks and any(frame.select(checks).row(0)))
    return (frame, absent) if fine else None


def _parquet(data: bytes, name: str, columns: Mapping[str, Column]) -> Records:
    try:
        scan = pl.scan_parquet(io.BytesIO(data))
        with unspoken(name):
            schema = scan.collect_schema()
            rows = scan.select(pl.len()).collect().item()
        faults = Faults(name, "row")
        absent = tuple(key for key, c in columns.items() if c.source not in schema)
        for key in absent:
            if columns[key].needed:
                _missing(faults, columns[key].source, 0, schema.names())
        if rows > MOST_PARQUET_ROWS:
            faults.add(0, f"{rows} rows", f"at most {MOST_PARQUET_ROWS}")
        faults.refuse()
        wanted = list(dict.fromkeys(c.source for key, c in columns.items() if key not in absent))
        with unspoken(name):
            frame = scan.select(wanted).collect()
        if frame.height != rows:
            raise pl.exceptions.ComputeError(f"{frame.height} rows where its end says {rows}")
    except BROKEN as error:
        raise not_parquet(name, str(error).splitlines()[0]) from None
    out = slow_records.typed_parquet(frame, columns, absent, faults)
    if not out.height:
        raise Refused(f"{name} can't be used", [Fault(name, "no row", "at least one")])
    return Records(out, (), faults, absent)
