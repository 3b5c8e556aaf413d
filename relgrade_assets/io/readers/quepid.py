"""Quepid's CSVs (P25): a book, wide, with a column a judge (`book_{id}_judgements.csv`), and ratings of a case.

Queries are known there by their text. Quepid writes a blank before a cell that a spreadsheet would run, and averages
as 2.0; the rest is `imported`'s.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from relgrade_assets.errors import Fault, Notice, Refused
from relgrade_assets.io.cells import BLANK, unmarked
from relgrade_assets.io.readers.documents import columns_needed, csv_table
from relgrade_assets.io.readers.faults import Faults, shown
from relgrade_assets.io.readers.imported import Raw, raw_frame, row

REASON = "explanation"
_PAIR = ("query", "docid")


def read_book(path: Path, *, name: str, judge: str | None = None, inside: Path | None = None) -> Raw:
    """A book: `query,docid,<judge>...`, a blank cell is no judgment, an `explanation` is the reason of the file's one
    judge. With `judge` only that column is a judge's; without, every other one is.

    Raises Refused for two judges of one name, a judge without a name, a `judge` who is not there. Notices: those of
    `text`, judges_without_judgment, explanations_of_nobody.
    """
    table = csv_table(path, name=name, inside=inside)
    columns_needed(table, _PAIR, name=name, tool="Quepid")
    judges = [n for n in table.names if n not in (*_PAIR, REASON)]
    names = [unmarked(n, BLANK) for n in judges]
    if not judges or any(not n.strip() for n in names):
        found = "a judge column without a name" if judges else "no judge column"
        raise Refused(
            f"{name} can't be used",
            [Fault(f"{name}, line 1", found, "a column a judge, after query and docid", "Name it or take it out.")],
        )
    if judge is not None and judge not in names:
        listed = ", ".join(shown(n) for n in names[:20])
        raise Refused(f"{name} has no judge {judge!r}", [Fault("--judge", shown(judge), f"one of: {listed}")])
    notices = list(table.notices)
    whose = REASON in table.names and (len(judges) == 1)
    if REASON in table.names and not whose:
        n = sum(bool(cell.strip()) for cell in table.columns[REASON])
        text = (
            f"{name}: explanations were passed over, since the file doesn't say whose of {len(judges)} judges they are"
        )
        notices += [Notice("explanations_of_nobody", n, text)] if n else []
    rows: list[dict[str, Any]] = []
    empty: list[str] = []
    for column, who in zip(judges, names, strict=True):
        if judge is not None and who != judge:
            continue
        cells = table.columns[column]
        if not any(cell.strip() for cell in cells):
            empty.append(who)
        for i, at in enumerate(table.lines):
            reason = table.columns[REASON][i].strip() if whose else ""
            rows.append(
                row(
                    at,
                    f"line {at}, {who}",
                    grader=who,
                    query=table.columns["query"][i],
                    chunk_id=_id(table.columns["docid"][i]),
                    rating=cells[i].strip() or None,
                    reason=unmarked(reason, BLANK) or None,
                )
            )
    if empty:
        listed = ", ".join(shown(n) for n in empty[:5])
        notices.append(Notice("judges_without_judgment", len(empty), f"{name}: judge columns hold nothing: {listed}"))
    _ids_there(rows, name)
    return Raw(raw_frame(rows, name, "rows of query, docid and grades"), tuple(notices), whole_floats=True)


def read_ratings(path: Path, *, name: str, inside: Path | None = None) -> Raw:
    """Ratings of a case: `query,docid,rating`, a blank rating is none. Nobody is named as the grader, and there are no
    reasons. Raises Refused as `documents` does.
    """
    table = csv_table(path, name=name, inside=inside)
    columns_needed(table, (*_PAIR, "rating"), name=name, tool="Quepid")
    rows = [
        row(
            line,
            f"line {line}",
            query=query,
            chunk_id=_id(chunk),
            rating=rating.strip() or None,
        )
        for line, query, chunk, rating in zip(
            table.lines, table.columns["query"], table.columns["docid"], table.columns["rating"], strict=True
        )
    ]
    _ids_there(rows, name)
    return Raw(raw_frame(rows, name, "rows of query, docid and rating"), table.notices, whole_floats=True)


def _id(cell: str) -> str:
    return unmarked(cell, BLANK)


def _ids_there(rows: list[dict[str, Any]], name: str) -> None:
    faults = Faults(name)
    for given in rows:
        for key, column in (("query", "query"), ("chunk_id", "docid")):
            if not str(given[key]).strip():
                faults.add(given["line"], "nothing", "a query's text" if key == "query" else "an id", column=column)
    faults.refuse()
