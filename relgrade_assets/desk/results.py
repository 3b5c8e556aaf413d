"""What a finished round came to, for the study's owner alone: the report of each round (P40, P41), and where each grade
of its key comes from.

Whoever grades never sees these pages: they name arms, and what they found (P13).
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from relgrade_assets.desk.pages import filled, owned, told
from relgrade_assets.desk.sessions import Desk, NoSuchPage
from relgrade_assets.errors import NotThere, Refused
from relgrade_assets.io.report.page import policy_of
from relgrade_assets.io.report.store import VERSIONS, stored_report
from relgrade_assets.io.tracing import require_no_round_at_work, trace_of
from relgrade_assets.io.voiding import examine

ASKED_AT_MOST = 1_000
ROUND_DIGITS = 6


def report(desk: Desk, request: Request, body: bytes) -> Response:
    """The report of a round, the present one where none is named: `?round=1&version=public`."""
    session = owned(desk, request)
    asked = request.query_params.get("round", "")
    version = next((v for v in VERSIONS if v == request.query_params.get("version", "private")), None)
    if version is None or (asked and not (asked.isascii() and asked.isdigit() and len(asked) <= ROUND_DIGITS)):
        raise NoSuchPage
    try:
        study = desk.study(session)
        examine(study)
        page = stored_report(study, version, int(asked) if asked else None)
    except (Refused, NotThere) as why:
        return told(session, why)
    return HTMLResponse(page, headers={"Content-Security-Policy": f"{policy_of(page)}; frame-ancestors 'none'"})


def trace(desk: Desk, request: Request, body: bytes) -> Response:
    """One grade back to the log, once the present round's key is frozen: `?query=ID&chunk=ID` (P13)."""
    session = owned(desk, request)
    query, chunk = (request.query_params.get(name, "").strip() for name in ("query", "chunk"))
    if max(len(query), len(chunk)) > ASKED_AT_MOST:
        raise NoSuchPage
    shown: dict[str, Any] = {
        "held": session.held,
        "base": f"/e/{session.held.experiment}",
        "query": query,
        "chunk": chunk,
    }
    try:
        study = desk.study(session)
    except (Refused, NotThere) as why:
        return told(session, why)
    try:
        require_no_round_at_work(study, study.round)
    except Refused as why:  # nothing is wrong: it is too early
        return filled("problem.html", text=f"{why.what}.", faults=[str(f) for f in why.faults])
    try:
        found = trace_of(study, query, chunk) if query and chunk else None
    except Refused as why:
        return filled("trace.html", problem=f"{why.what}.", faults=[str(f) for f in why.faults], trace=None, **shown)
    return filled("trace.html", problem="", faults=[], trace=found, **shown)
