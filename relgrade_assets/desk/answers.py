"""What the grading page asks for: rows of one's own sheet, how far one is, and one answer at a time (P18, P19, P24)."""

from __future__ import annotations

import json

import polars as pl
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from relgrade_assets.desk.sessions import Desk, Session
from relgrade_assets.errors import NotThere, Refused
from relgrade_assets.io import own_work
from relgrade_assets.io.database import Unusable
from relgrade_assets.io.own_work import NotNow
from relgrade_assets.io.study import Study

ROWS_AT_MOST = 50


def rows(desk: Desk, request: Request, body: bytes) -> Response:
    """Some rows of the sheet, with one's own answers: `?from=0&n=25`."""
    session = grading_session(desk, request)
    start, n = (_number(request.query_params.get(name, ""), least) for name, least in (("from", 0), ("n", 1)))
    study = study_for_grading(desk, session)
    standing = _standing(study, session)
    return JSONResponse({"of": standing.height, "rows": own_work.shown(standing, start, min(n, ROWS_AT_MOST))})


def marks(desk: Desk, request: Request, body: bytes) -> Response:
    """A character a row: done, kept for later, open; and progress in words."""
    session = grading_session(desk, request)
    standing = _standing(study_for_grading(desk, session), session)
    how_far = own_work.progress(standing)
    return JSONResponse(
        {"marks": own_work.marks(standing), "pace": how_far.pace or "", "left": how_far.left_in_words or ""}
    )


def answer(desk: Desk, request: Request, body: bytes) -> Response:
    """Keep one answer: {"row": a P19 row, "row_digest", "key"}. 200 means that it is in the ledger (P23)."""
    session = grading_session(desk, request)
    desk.require_own_page(request, session)
    given = read_object(body, ("row", "row_digest", "key"))
    row, row_digest, key = given["row"], given["row_digest"], given["key"]
    if not isinstance(row, dict) or not isinstance(row_digest, str) or not isinstance(key, str):
        raise NotNow("bad_row", "it is not of the form that the page sends")
    study = study_for_grading(desk, session)
    try:
        own_work.take(study, session.held.person, row, row_digest, key)
    except Refused as refused:
        raise NotNow("busy") from refused
    return JSONResponse({"kept": key})


def grading_session(desk: Desk, request: Request) -> Session:
    """The session of a grader or auditor, told to the log by its digest."""
    session = desk.session(request, request.path_params["experiment"], ("grader", "auditor"))
    request.scope["relgrade_session"] = session.token_digest
    return session


def study_for_grading(desk: Desk, session: Session) -> Study:
    """The study, or NotNow without a word on why: faults of a design name arms."""
    try:
        return desk.study(session)
    except (Refused, NotThere) as why:
        raise NotNow("not_ready") from why


def read_object(body: bytes, keys: tuple[str, ...]) -> dict[str, object]:
    """A JSON object with exactly these keys. Raises NotNow."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NotNow("bad_row", "it is no JSON") from error
    if not isinstance(given, dict) or set(given) != set(keys):
        raise NotNow("bad_row", f"it has other keys than {', '.join(keys)}")
    return given


def _standing(study: Study, session: Session) -> pl.DataFrame:
    try:
        sheet = own_work.own_sheet(study, session.held.person)
        return own_work.standing(study, session.held.person, sheet)
    except Unusable as gone:
        raise NotNow("busy") from gone
    except Refused as refused:
        raise NotNow("not_ready") from refused


def _number(text: str, least: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 7 or int(text) < least:
        raise NotNow("bad_row", "from and n are whole numbers")
    return int(text)
