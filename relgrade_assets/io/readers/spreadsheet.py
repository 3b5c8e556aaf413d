"""A spreadsheet saved as CSV (P25): `query_id,query_text,doc_id,grade,rater_id,notes`, other columns let be.

`notes` is the reason, `sheet` the token of the sheet as it was written out. A grade cell may say `unrateable` or
`later`; an empty one is no grade yet. What a spreadsheet does to ids is told by `mangled`, against ids that are known.
"""

from __future__ import annotations

from pathlib import Path

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io.cells import unmarked
from relgrade_assets.io.readers.documents import columns_needed, csv_table
from relgrade_assets.io.readers.faults import Faults
from relgrade_assets.io.readers.imported import Raw, raw_frame, row

COLUMNS = ("query_id", "query_text", "doc_id", "grade", "rater_id", "notes")
WORDS = {"unrateable": "unrateable", "later": "judge_later"}


def read_spreadsheet(path: Path, *, name: str, inside: Path | None = None) -> Raw:
    """The rows; needs doc_id, grade, and query_id or query_text. Raises Refused as `documents` does, and for a row
    without an id.
    """
    table = csv_table(path, name=name, inside=inside)
    columns_needed(table, ("doc_id", "grade"), name=name, tool="the sheet")
    if not {"query_id", "query_text"} & set(table.names):
        found = "neither query_id nor query_text among the columns"
        raise Refused(f"{name} can't be used", [Fault(f"{name}, line 1", found, "one of them")])
    blank = [""] * len(table.lines)
    cells = {c: [unmarked(cell) for cell in table.columns.get(c, blank)] for c in COLUMNS}
    faults = Faults(name)
    rows = []
    for i, line in enumerate(table.lines):
        given = {c: cells[c][i] for c in COLUMNS}
        word = WORDS.get(given["grade"].strip().lower())
        if not given["doc_id"].strip():
            faults.add(line, "nothing", "an id", column="doc_id")
        if not given["query_id"].strip() and not given["query_text"].strip():
            faults.add(line, "nothing", "a query id or the query's text", column="query_id")
        rows.append(
            row(
                line,
                f"line {line}",
                grader=given["rater_id"].strip() or None,
                query_id=given["query_id"] if given["query_id"].strip() else None,
                query=given["query_text"] if given["query_text"].strip() else None,
                chunk_id=given["doc_id"],
                rating=None if word else given["grade"].strip() or None,
                reason=given["notes"] if given["notes"].strip() else None,
                **({word: True} if word else {}),
            )
        )
    faults.refuse()
    tokens = dict.fromkeys(cell.strip() for cell in table.columns.get("sheet", ()) if cell.strip())
    return Raw(raw_frame(rows, name, "rows of doc_id and grade"), table.notices, sheets=tuple(tokens))
