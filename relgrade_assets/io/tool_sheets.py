"""A grader's blind sheet in the form of another tool (P18, P25): a spreadsheet, Label Studio's tasks, Quepid's ratings.

The same rows in the same order as the sheet's own file, and nothing more but the sheet's token, where the form has a
place for it. Control characters are written out, since neither CSV nor Label Studio's database holds them all. Reading
the answers back is `imports`'.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args
from xml.sax.saxutils import quoteattr

import polars as pl

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io.cells import APOSTROPHE, BLANK, csv_bytes, legible, short_enough
from relgrade_assets.io.readers.faults import shown
from relgrade_assets.methods.normalise import normalised
from relgrade_assets.methods.sheets import BLIND
from relgrade_assets.protocol.scale import Scale

SheetTool = Literal["quepid", "label-studio", "spreadsheet"]
SHEET_TOOLS: tuple[SheetTool, ...] = get_args(SheetTool)
SHEET = "sheet.jsonl"
"""The sheet's own file, which holds every character."""
FILES = ("sheet.csv", "label-studio.json", "label-studio.xml", "quepid.csv")
"""Names of the files that are written here."""
Row = Mapping[str, str]


def tool_sheet(rows: Sequence[Row], tool: SheetTool, *, grader: str, scale: Scale, mark: str) -> dict[str, bytes]:
    """The files of one grader's sheet; `rows` are blind rows in sheet order, `mark` is the sheet's token.

    Raises Refused for ids that a CSV can't hold, and, for Quepid, which knows queries by their text alone, where two
    queries have one text.
    """
    makers: dict[str, Callable[[], dict[str, bytes]]] = {
        "spreadsheet": lambda: {"sheet.csv": _spreadsheet(rows, grader, mark)},
        "label-studio": lambda: {"label-studio.json": _tasks(rows, mark), "label-studio.xml": _labels(scale)},
        "quepid": lambda: {"quepid.csv": _quepid(rows)},
    }
    return makers[tool]()


def _spreadsheet(rows: Sequence[Row], grader: str, mark: str) -> bytes:
    refuse_ids(rows, "sheet.csv", APOSTROPHE, ("query_id", "chunk_id"))
    header = ("query_id", "query_text", "doc_id", "grade", "rater_id", "notes", "intent", "header", "text", "sheet")
    cells = ((r["query_id"], r["query"], r["chunk_id"], "", grader, "", r["intent"], *_passage(r), mark) for r in rows)
    return csv_bytes(header, cells)


def _passage(row: Row) -> tuple[str, str]:
    return short_enough(row["header"], SHEET), short_enough(row["text"], SHEET)


def _tasks(rows: Sequence[Row], mark: str) -> bytes:
    refuse_ids(rows, "label-studio.json", APOSTROPHE, ("query_id", "chunk_id"))
    tasks = [{"data": {**{column: legible(r[column]) for column in BLIND}, "sheet": mark}} for r in rows]
    return (json.dumps(tasks, ensure_ascii=False, indent=1) + "\n").encode()


def _labels(scale: Scale) -> bytes:
    """The labelling interface to paste into Label Studio; its controls' names are what the reader looks for."""
    grades = "".join(
        f"    <Choice value={quoteattr(str(g.grade))} hotkey={quoteattr(str(g.grade))} "
        f"hint={quoteattr(f'{g.label}: {g.cue}')}/>\n"
        for g in scale.grades
    )
    return (
        "<View>\n"
        '  <Header value="$query"/>\n'
        '  <Text name="intent" value="$intent"/>\n'
        '  <Header value="$header" size="5"/>\n'
        '  <Text name="text" value="$text"/>\n'
        '  <Choices name="grade" toName="text" choice="single-radio" showInline="true">\n'
        f"{grades}"
        "  </Choices>\n"
        '  <TextArea name="reason" toName="text" maxSubmissions="1" placeholder="reason, at most 15 words"/>\n'
        '  <Choices name="flags" toName="text" choice="multiple">\n'
        '    <Choice value="unrateable"/>\n'
        '    <Choice value="judge_later"/>\n'
        '    <Choice value="corpus_cleanup"/>\n'
        "  </Choices>\n"
        "</View>\n"
    ).encode()


def _quepid(rows: Sequence[Row]) -> bytes:
    refuse_ids(rows, "quepid.csv", BLANK, ("chunk_id",))
    queries = pl.DataFrame([{"query_id": r["query_id"], "query": legible(r["query"])} for r in rows]).unique()
    alike = queries.with_columns(text=normalised(pl.col("query"))).filter(pl.col("text").is_duplicated())
    if alike.height:
        faults = [
            Fault(f"query {i}", f"the text {shown(q)}, which another query has", "a text of its own")
            for i, q in alike.sort("query_id").select("query_id", "query").rows()
        ]
        raise Refused("Quepid can't tell these queries apart, so that quepid.csv was not written", faults)
    return csv_bytes(("query", "docid", "rating"), ((r["query"], r["chunk_id"], "") for r in rows), mark=BLANK)


def refuse_ids(rows: Sequence[Row], name: str, mark: str, columns: Sequence[str]) -> None:
    """Raises Refused for ids that don't come back from the file `name` as they went: control characters, and blanks
    around them where the tool trims its cells (`mark` a blank).
    """
    faults = []
    for column in columns:
        for value in sorted({r[column] for r in rows}):
            trimmed = mark == BLANK and value != value.strip()
            if trimmed or value != legible(value) or any(c in value for c in "\t\n"):
                found = "an id with blanks around it" if trimmed else "an id with a control character"
                mend = f"Use {SHEET}, which holds any id." if name in FILES else "Give it another where it comes from."
                faults.append(Fault(f"{column} {shown(value)}", found, "an id that comes back as it is", mend))
    if faults:
        raise Refused(f"{name} was not written", faults)
