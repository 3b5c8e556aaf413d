"""Other tools' judgments against a grader's sheet (P25): whose they are, which query is meant, which pairs are asked.

How each tool writes them is the readers' business, and what becomes of the rows is `returns`'. A pair that is not on
the sheet is passed over and counted; one whose id a spreadsheet has changed is refused, with the likely original.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import polars as pl

from relgrade_assets.errors import Fault, Notice, Refused
from relgrade_assets.io.cells import legible
from relgrade_assets.io.readers.faults import shown
from relgrade_assets.io.readers.imported import RAW, Raw, grade_rows, of_judge, parse_map
from relgrade_assets.io.readers.judgments import GradeRows
from relgrade_assets.io.readers.label_studio import read_label_studio
from relgrade_assets.io.readers.ltr import read_ltr
from relgrade_assets.io.readers.mangled import Known, looks_shortened
from relgrade_assets.io.readers.opensearch import read_opensearch, read_rre
from relgrade_assets.io.readers.quepid import read_book, read_ratings
from relgrade_assets.io.readers.spreadsheet import read_spreadsheet
from relgrade_assets.methods.normalise import normalised

Tool = Literal["quepid-book", "quepid-ratings", "label-studio", "spreadsheet", "opensearch", "ltr", "rre"]
TOOLS: tuple[Tool, ...] = get_args(Tool)
_WITHOUT_REASONS = ("quepid-ratings", "opensearch", "ltr", "rre")
_READERS: dict[str, Callable[..., Raw]] = {
    "quepid-ratings": read_ratings,
    "label-studio": read_label_studio,
    "spreadsheet": read_spreadsheet,
    "opensearch": read_opensearch,
    "ltr": read_ltr,
    "rre": read_rre,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a grader is asked: `queries` (query_id, query) of the sheet, and its `pairs` (query_id, chunk_id)."""

    queries: pl.DataFrame
    pairs: pl.DataFrame


def read_tool(
    path: Path,
    *,
    name: str,
    tool: Tool,
    asked: Asked,
    top_grade: int,
    reason_needed: Literal["all", "above_zero", "none"],
    judge: str | None = None,
    ratings: Sequence[str] = (),
    bound: Callable[[Sequence[str]], None] = lambda _: None,
) -> tuple[GradeRows, int]:
    """The rows of one judge for the pairs that are asked, and how many others were passed over. `bound` is called with
    the tokens of sheets that the file carries before anything is made of it.

    Raises Refused as the tool's reader does; where nothing fits what is asked; and where the file has no reasons and
    they are needed.
    """
    mapping = parse_map(ratings, top_grade=top_grade)
    whole = _read(path, name, tool, judge)
    bound(whole.sheets)
    raw = of_judge(whole, judge, name=name)
    bare = tool in _WITHOUT_REASONS or (tool == "quepid-book" and raw.frame["reason"].null_count() == raw.frame.height)
    if bare and reason_needed != "none":
        mend = "Declare 'imported_without_reasons' under deviations with a reason."
        raise Refused(
            f"{name} holds no reasons", [Fault(name, "grades without reasons", "a reason a grade (P19)", mend)]
        )
    frame, other_query = _with_ids(raw.frame, asked.queries)
    known, strange = _on_sheet(frame, asked.pairs)
    mangled = [] if not strange.height else _mangled(strange, asked, name)
    if not known.height and not mangled:
        raise _nothing_fits(raw.frame, asked, name)
    read = grade_rows(
        replace(raw, frame=known.select(list(RAW))),
        name=name,
        top_grade=top_grade,
        reason_needed=reason_needed,
        mapping=mapping or None,
    )
    unused = [r for r in mapping if r not in set(known["rating"].drop_nulls())]
    notices = read.notices
    if unused:
        text = f"{name}: mapped ratings stand nowhere in it: {', '.join(shown(r) for r in unused[:5])}"
        notices = (*notices, Notice("mapping_unused", len(unused), text))
    bad = (*mangled, *other_query)
    lines = [(line, raw_text, f"found {f.found}, expected {f.expected}") for line, raw_text, f in bad]
    passed = strange.height - len(mangled)
    return (
        GradeRows(read.good, (*read.bad, *(f for _, _, f in bad)), tuple(sorted((*read.bad_lines, *lines))), notices),
        passed,
    )


def _read(path: Path, name: str, tool: Tool, judge: str | None) -> Raw:
    return read_book(path, name=name, judge=judge) if tool == "quepid-book" else _READERS[tool](path, name=name)


def _with_ids(frame: pl.DataFrame, queries: pl.DataFrame) -> tuple[pl.DataFrame, list[tuple[int, str, Fault]]]:
    """Rows with the id of the query whose normalised text is theirs (P7), null where the sheet has none; and faults of
    rows whose id and text are of two queries, which are left out.

    Raises Refused where a text stands for several queries of the sheet.
    """
    texts = queries.select(found="query_id", text=_text())
    given = frame.with_columns(text=_text())
    by_text = given.filter(pl.col("query_id").is_null()).select("text")
    twice = texts.filter(pl.col("text").is_duplicated()).join(by_text, on="text", how="semi").sort("text", "found")
    if twice.height:
        faults = [
            Fault(f"the query {shown(text)}", f"the ids {', '.join(ids)}", "one query a text", "Give query ids.")
            for text, ids in twice.group_by("text", maintain_order=True).agg("found").rows()
        ]
        raise Refused("Queries can't be told apart by their text", faults)
    by_id = given.filter(pl.col("query_id").is_not_null()).join(
        queries.select("query_id", own=_text()), on="query_id", how="left", maintain_order="left"
    )
    other = by_id.filter((pl.col("text") != pl.col("own")).fill_null(False))
    faults_of = [
        (
            row["line"],
            f"{row['query_id']} {row['query']} {row['chunk_id']} {row['rating']}",
            Fault(
                row["place"],
                f"the query id {shown(row['query_id'])} beside the text {shown(row['query'])}",
                "the text of that query",
                "The rows may have been sorted apart.",
            ),
        )
        for row in other.to_dicts()
    ]
    unique = texts.unique("text", keep="none", maintain_order=True)
    matched = given.filter(pl.col("query_id").is_null()).join(unique, on="text", how="left", maintain_order="left")
    kept = by_id.join(other, on="line", how="anti", maintain_order="left").select(list(RAW))
    return pl.concat([kept, matched.with_columns(query_id="found").select(list(RAW))]).sort("line"), faults_of


def _text() -> pl.Expr:
    """P7's text of a query, as a file for the tool holds it."""
    return normalised(pl.col("query").map_elements(legible, return_dtype=pl.String))


def _on_sheet(frame: pl.DataFrame, pairs: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    on = ["query_id", "chunk_id"]
    known = frame.join(pairs.select(on), on=on, how="semi", maintain_order="left")
    return known, frame.join(known, on="line", how="anti", maintain_order="left")


def _mangled(strange: pl.DataFrame, asked: Asked, name: str) -> list[tuple[int, str, Fault]]:
    """Rows whose query or chunk id is none that is asked, and is what a spreadsheet makes of one that is."""
    queries = Known(asked.queries["query_id"])
    pools = {q: Known(ids) for q, ids in asked.pairs.group_by("query_id").agg("chunk_id").iter_rows()}
    chunks = Known(asked.pairs["chunk_id"])
    found = []
    for row in strange.to_dicts():
        meant = row["query_id"] and (
            row["query_id"] if row["query_id"] in queries.ids else queries.original(row["query_id"])
        )
        ids = pools.get(meant, chunks)
        for column, value, known in (("query_id", row["query_id"], queries), ("chunk_id", row["chunk_id"], ids)):
            if value is None or value in known.ids:
                continue
            original = known.original(value)
            if original is None and not looks_shortened(value):
                continue
            mend = f"It was likely {shown(original)}." if original else ""
            fault = Fault(
                f"{name}, {row['place']}, {column}",
                f"the id {shown(value)}, which a spreadsheet has changed",
                "an id as it was written out",
                f"{mend} Load the column as text, and fill in the sheet again.".strip(),
            )
            text = f"{row['query_id'] or row['query']} {row['chunk_id']} {row['rating']}"
            found.append((row["line"], text, fault))
            break
    return found


def _nothing_fits(frame: pl.DataFrame, asked: Asked, name: str) -> Refused:
    first = frame.row(0, named=True)
    query = first["query_id"] if first["query_id"] is not None else first["query"]
    one = asked.queries.row(0, named=True) if asked.queries.height else {"query_id": "", "query": ""}
    wanted = f"a pair on the sheet, such as query {shown(one['query_id'])} ({shown(one['query'])})"
    found = f"{frame.height} rows, none of a pair on the sheet; the first is {shown(query)} {shown(first['chunk_id'])}"
    return Refused(f"{name} can't be used", [Fault(name, found, wanted)])
