"""The sheet as one HTML file that works without a server and gives P19 rows back (P24, P25)."""

from __future__ import annotations

import base64
import hashlib

from relgrade_assets.desk.app import asset
from relgrade_assets.desk.pages import TEMPLATES, sheet_data
from relgrade_assets.io import own_work
from relgrade_assets.io.binding import token
from relgrade_assets.io.study import Study


def page(study: Study, person: str) -> bytes:
    """The file. Its rows are P18's and nothing else; only its own script and style may run, by their digests."""
    sheet = own_work.own_sheet(study, person)
    keep = ["query_id", "chunk_id", "query", "intent", "header", "text"]
    rows = [{"i": i, **row, "answer": None} for i, row in enumerate(sheet.rows.select(keep).to_dicts())]
    mark = token(study, study.round, person, sheet.digest)
    data = {**sheet_data(study, person), "sheet": sheet.digest[:16], "token": mark, "rows": rows}
    style = asset("desk.css").decode()
    script = asset("text.js").decode() + asset("grade.js").decode()
    html = TEMPLATES.get_template("offline.html").render(
        data=data,
        style=style,
        script=script,
        style_hash=_digest(style),
        script_hash=_digest(script),
        person=person,
        experiment=study.name,
    )
    return html.encode()


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
