"""Intents as written (P16) and the auditor's reviews of them (P17), from files. Locks and the lint are elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import polars as pl

from relgrade_assets.errors import Notice
from relgrade_assets.io.cells import unmarked
from relgrade_assets.io.readers import Read
from relgrade_assets.io.readers.faults import Faults, shown
from relgrade_assets.io.readers.records import Column, collect_records, format_of

FORMS = ("where", "how", "why", "which", "usage")
VERDICTS = ("ok", "change")
Besides = Callable[[Mapping[str, str | None]], list[tuple[str, str, str, str]]]
"""Column, found, expected and mend of whatever else is wrong with a row."""
BREAKS = "[\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]"


def read_intents(
    path: Path,
    *,
    name: str,
    format: Literal["csv", "jsonl"] | None = None,
    inside: Path | None = None,
    besides: Besides | None = None,
) -> Read:
    """The intents as query_id, query, form, intent, author, lint_override (String), in the file's order.

    query and lint_override (the author's reason for overriding the lint) are null where the file has none. Raises
    Refused for a query twice, a form that is none, and an intent or author that is blank or of several lines; then, so
    that all is told at once, for what `besides` finds on the other rows: what the lock would refuse.
    Notices: those of `text`, blank_lines.
    """
    columns = {
        "query_id": Column("query_id", "id"),
        "query": Column("query", "text", needed=False, filled=False),
        "form": Column("form", "text"),
        "intent": Column("intent", "text"),
        "author": Column("author", "text"),
        "lint_override": Column("lint_override", "text", needed=False, filled=False),
    }
    read = collect_records(path, name=name, format=format_of(name, format), columns=columns, inside=inside)
    faults = read.faults
    frame = read.frame
    wrong = frame.filter(~pl.col("form").is_in(FORMS))
    faults.rows(wrong, lambda r: f"the form {shown(r['form'])}", f"one of {', '.join(FORMS)}", column="form")
    _one_line(frame, "intent", "the one question that the query asks, on one line (P16)", faults)
    _one_line(frame, "author", "who wrote it, on one line", faults)
    _once(frame, faults)
    if faults.total and besides is not None:
        _besides(frame, besides, faults)
    faults.refuse()
    return Read(
        frame.select(_null_if_blank(c) if c in ("query", "lint_override") else pl.col(c) for c in columns), read.notices
    )


def read_reviews(
    path: Path, *, name: str, format: Literal["csv", "jsonl"] | None = None, inside: Path | None = None
) -> Read:
    """Reviews as query_id, intent (as it was reviewed), verdict (`ok` or `change`) and note (null where none).

    Rows without a verdict are not reviewed: passed over and counted. Raises Refused for a query twice and any other
    verdict. Notices: those of `text`, blank_lines, rows_not_reviewed.
    """
    columns = {
        "query_id": Column("query_id", "id"),
        "intent": Column("intent", "text"),
        "verdict": Column("verdict", "text", filled=False),
        "note": Column("note", "text", needed=False, filled=False),
    }
    read = collect_records(path, name=name, format=format_of(name, format), columns=columns, inside=inside)
    faults = read.faults
    frame = _unmarked(read.frame) if format_of(name, format) == "csv" else read.frame
    frame = frame.with_columns(_null_if_blank("verdict"), _null_if_blank("note"))
    wrong = frame.filter(~pl.col("verdict").is_in(VERDICTS))
    faults.rows(
        wrong,
        lambda r: f"the verdict {shown(r['verdict'])}",
        f"{' or '.join(VERDICTS)}, or nothing yet",
        column="verdict",
    )
    _one_line(frame, "intent", "the intent as it was reviewed, on one line", faults)
    _once(frame, faults)
    faults.refuse()
    notices = list(read.notices)
    open_rows = frame["verdict"].null_count()
    if open_rows:
        notices.append(Notice("rows_not_reviewed", open_rows, f"{name}: rows have no verdict yet"))
    return Read(frame.drop_nulls("verdict").select(*columns), tuple(notices))


def _unmarked(frame: pl.DataFrame) -> pl.DataFrame:
    """A review sheet's cells as they were before a spreadsheet was kept from running them."""
    cells = {c: [None if v is None else unmarked(v) for v in frame[c]] for c in ("query_id", "intent", "note")}
    return frame.with_columns(pl.Series(c, values, pl.String) for c, values in cells.items())


def _null_if_blank(column: str) -> pl.Expr:
    return pl.when(pl.col(column).str.strip_chars() != "").then(pl.col(column)).alias(column)


def _one_line(frame: pl.DataFrame, column: str, expected: str, faults: Faults) -> None:
    blank = frame.filter(pl.col(column).str.strip_chars() == "")
    faults.rows(blank, lambda r: "nothing", expected, column=column)
    broken = frame.filter(pl.col(column).str.contains(BREAKS))
    faults.rows(broken, lambda r: f"several lines ({shown(r[column])})", expected, column=column)


def _besides(frame: pl.DataFrame, besides: Besides, faults: Faults) -> None:
    texts = [_null_if_blank(c) for c in ("query", "lint_override")]
    for row in frame.with_columns(texts).to_dicts():
        if row["intent"].strip() and not re.search(BREAKS, row["intent"]):
            for column, found, expected, mend in besides(row):
                faults.add(row["line"], found, expected, mend, column=column or "intent")


def _once(frame: pl.DataFrame, faults: Faults) -> None:
    first = pl.col("line").min().over("query_id")
    again = frame.with_columns(first=first).filter(pl.col("line") > pl.col("first"))
    faults.rows(
        again,
        lambda r: f"the query {shown(r['query_id'])} again (first on {faults.unit} {r['first']})",
        "each query once",
        column="query_id",
    )
