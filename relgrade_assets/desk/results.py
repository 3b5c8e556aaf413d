"""What a finished round came to, for the study's owner alone: the report of each round (P40, P41).

Whoever grades never sees these pages: they name arms, and what they found (P13).
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from relgrade_assets.desk.pages import owned, told
from relgrade_assets.desk.sessions import Desk, NoSuchPage
from relgrade_assets.errors import NotThere, Refused
from relgrade_assets.io.report.page import policy_of
from relgrade_assets.io.report.store import VERSIONS, stored_report

ROUND_DIGITS = 6


def report(desk: Desk, request: Request, body: bytes) -> Response:
    """The report of a round, the present one where none is named: `?round=1&version=public`."""
    session = owned(desk, request)
    asked = request.query_params.get("round", "")
    version = next((v for v in VERSIONS if v == request.query_params.get("version", "private")), None)
    if version is None or (asked and not (asked.isascii() and asked.isdigit() and len(asked) <= ROUND_DIGITS)):
        raise NoSuchPage
    try:
        page = stored_report(desk.study(session), version, int(asked) if asked else None)
    except (Refused, NotThere) as why:
        return told(session, why)
    return HTMLResponse(page, headers={"Content-Security-Policy": f"{policy_of(page)}; frame-ancestors 'none'"})
