"""The query log as it was typed (P7): one row a search, or one row a distinct query with its count.

Normalising, counting and windows are `methods/`' work; nothing is merged or dropped here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import polars as pl

from relgrade_assets.errors import Fault, Notice, Refused
from relgrade_assets.io.readers import Read
from relgrade_assets.io.readers.faults import Faults, shown
from relgrade_assets.io.readers.ids import odd_id_notice, only_nfc_equal
from relgrade_assets.io.readers.records import Column, Kind, collect_records, format_of

KINDS: dict[str, Kind] = {
    "query": "text",
    "query_id": "id",
    "count": "int",
    "timestamp": "time",
    "results": "int",
    "clicks": "int",
    "type": "text",
}
FILLED = ("query", "query_id", "count")
TIME = (
    r"^([0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01]))"
    r"(?:[Tt ]((?:[01][0-9]|2[0-3]):[0-5][0-9])(?::([0-5][0-9])(?:[.,]([0-9]{1,9}))?)?)?"
    r" ?([Zz]|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)?$"
)
"""ISO 8601: a date, or date and time to the minute or finer, with or without an offset."""


def read_query_log(
    path: Path,
    *,
    name: str,
    format: Literal["csv", "jsonl", "parquet"] | None = None,
    columns: Mapping[str, str | None],
    inside: Path | None = None,
) -> Read:
    """The log as row (Int64, from 1), query, query_id, count (1 where none is named), timestamp, results, clicks, type.

    `columns` says which column of the file holds which of ours; null or absent where none does. query, query_id and
    type are String, count, results and clicks Int64, timestamp Datetime("us", "UTC"); what the log doesn't say is
    null. Times without an offset are taken as UTC, those finer than a microsecond are cut.

    Raises Refused for missing columns, empty queries, counts that are not whole and positive, times that are not ISO
    8601. Notices: byte_order_mark, crlf, blank_lines, times_without_offset, odd_ids, nfc_equal_ids.
    """
    unknown = sorted(set(columns) - set(KINDS))
    if unknown or columns.get("query") is None:
        found = f"a mapping of {', '.join(unknown)}" if unknown else "no column for query"
        expected = f"columns for {', '.join(KINDS)}; query must be named"
        raise Refused(f"{name} can't be read", [Fault("query_log.columns", found, expected)])
    wanted = {
        key: Column(source, KINDS[key], filled=key in FILLED) for key, source in columns.items() if source is not None
    }
    read = collect_records(path, name=name, format=format_of(name, format), columns=wanted, inside=inside)
    frame, notices = read.frame, list(read.notices)
    faults = read.faults
    empty = frame.filter(pl.col("query").str.strip_chars() == "")
    faults.rows(
        empty, lambda r: f"an empty query ({shown(r['query'])})", "what was typed", column=wanted["query"].source
    )
    for key, least in (("count", 1), ("results", 0), ("clicks", 0)):
        if key in wanted:
            low = frame.filter(pl.col(key) < least).select("line", pl.col(key).alias("low"))
            faults.rows(low, lambda r: str(r["low"]), f"a whole number from {least}", column=wanted[key].source)
    if "timestamp" in wanted:
        frame, without = _times(frame, faults, wanted["timestamp"].source)
        if without:
            notices.append(
                Notice("times_without_offset", without, f"{name}: times without an offset were taken as UTC")
            )
    faults.refuse()
    if "query_id" in wanted:
        notices += odd_id_notice(frame["query_id"], name) + only_nfc_equal(frame["query_id"], name)
    if "type" in wanted:
        frame = frame.with_columns(pl.when(pl.col("type").str.strip_chars() != "").then(pl.col("type")).alias("type"))
    absent = {
        "query_id": pl.lit(None, pl.String),
        "count": pl.lit(1, pl.Int64),
        "timestamp": pl.lit(None, pl.Datetime("us", "UTC")),
        "results": pl.lit(None, pl.Int64),
        "clicks": pl.lit(None, pl.Int64),
        "type": pl.lit(None, pl.String),
    }
    filled = [pl.col(key) if key in wanted else absent[key].alias(key) for key in KINDS]
    return Read(frame.select(pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("row"), *filled), tuple(notices))


def _times(frame: pl.DataFrame, faults: Faults, source: str) -> tuple[pl.DataFrame, int]:
    """The frame with its timestamps parsed, and how many gave no offset; a fault for each that is no ISO 8601 time."""
    text = pl.col("timestamp").str.strip_chars(" ")
    part = pl.col("parts").struct
    zone = part["5"].fill_null("").str.to_uppercase().str.replace("^Z?$", "+0000").str.replace(":", "", literal=True)
    whole = pl.concat_str(
        part["1"],
        pl.lit("T"),
        part["2"].fill_null("00:00"),
        pl.lit(":"),
        part["3"].fill_null("00"),
        pl.lit("."),
        part["4"].fill_null("").str.pad_end(6, "0").str.slice(0, 6),
        zone.str.pad_end(5, "0"),
    )
    parsed = (
        frame.with_columns(given=pl.when(text != "").then(text))
        .with_columns(parts=pl.col("given").str.extract_groups(TIME))
        .with_columns(bare=pl.col("given").is_not_null() & part["1"].is_not_null() & part["5"].is_null(), whole=whole)
        .with_columns(
            at=pl.col("whole").str.to_datetime("%Y-%m-%dT%H:%M:%S%.6f%z", time_unit="us", time_zone="UTC", strict=False)
        )
    )
    bad = parsed.filter(pl.col("given").is_not_null() & pl.col("at").is_null())
    mend = "Write 2024-05-31 or 2024-05-31T14:05:00Z."
    faults.rows(bad, lambda r: shown(r["given"]), "a time as in ISO 8601", mend, column=source)
    return parsed.with_columns(timestamp=pl.col("at")).select(frame.columns), int(parsed["bare"].sum())
