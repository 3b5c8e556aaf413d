"""Judgments as text for learning to rank (RankLib, Elasticsearch LTR): `<grade> qid:<n> # <chunk id>` (P25).

Queries stand in the header as `# qid:<n>: <text>`, with or without a weight behind `*`. Features, where a line has
some, are passed over.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from relgrade_assets.errors import Notice
from relgrade_assets.io.readers.faults import Faults, shown
from relgrade_assets.io.readers.imported import Raw, raw_frame, row
from relgrade_assets.io.text import read_text

_QUERY = re.compile(r"#[ \t]*qid:([0-9]+):[ \t]*(.*?)(?:\*[0-9]+(?:\.[0-9]+)?)?[ \t]*")
_LINE = re.compile(r"([^ \t]+)[ \t]+qid:([0-9]+)((?:[ \t]+[0-9]+:[^ \t]+)*)[ \t]*#[ \t]*([^ \t]+)(?:[ \t].*)?")
_EXPECTED = "<grade> qid:<n> # <chunk id>"


def read_ltr(path: Path, *, name: str, inside: Path | None = None) -> Raw:
    """The judgments, queries by their text in the header. Nobody is named as the grader.

    Raises Refused as `text` does, for lines of another form, a query number without a text or with two. Notices: those
    of `text`, blank_lines, features_passed_over.
    """
    text = read_text(path, name=name, inside=inside)
    faults = Faults(name)
    queries: dict[str, str] = {}
    rows: list[dict[str, Any]] = []
    blank = features = 0
    for line, given in enumerate(text.data.decode().removesuffix("\n").split("\n"), 1):
        if not given.strip():
            blank += 1
        elif given.startswith("#"):
            header = _QUERY.fullmatch(given)
            if header and queries.setdefault(header[1], header[2]) != header[2]:
                found = f"qid {header[1]} as {shown(header[2])}, which was {shown(queries[header[1]])}"
                faults.add(line, found, "one text a query number")
        elif found_ := _LINE.fullmatch(given):
            features += bool(found_[3])
            query = queries.get(found_[2])
            if not query:
                faults.add(line, f"qid {found_[2]} without a text", f"a line `# qid:{found_[2]}: text` before it")
            else:
                place = f"line {line}"
                rows.append(row(line, place, query=query, chunk_id=found_[4], rating=found_[1]))
        else:
            faults.add(line, shown(given), _EXPECTED)
    faults.refuse()
    counted = [
        ("blank_lines", blank, "blank lines were passed over"),
        ("features_passed_over", features, "lines carry features, which were passed over"),
    ]
    notices = (*text.notices, *(Notice(code, n, f"{name}: {said}") for code, n, said in counted if n))
    return Raw(raw_frame(rows, name, _EXPECTED), notices)
