"""Changes that review and owner's pages send, a row at a time: reviews, intents, causes, the spot-check."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from relgrade_assets.desk.answers import read_object
from relgrade_assets.desk.sessions import Desk, Session
from relgrade_assets.errors import NotThere, Refused
from relgrade_assets.io import intent_rows, owner_work
from relgrade_assets.io.links import Role
from relgrade_assets.io.own_work import NotNow
from relgrade_assets.io.study import Study


def review(desk: Desk, request: Request, body: bytes) -> Response:
    """The auditor's word on one intent (P17)."""
    session, given = _asked(desk, request, body, "auditor", ("query_id", "row_digest", "verdict", "note"))
    study = quiet_study(desk, session)
    try:
        intent_rows.review(study, given["query_id"], given["row_digest"], verdict=given["verdict"], note=given["note"])
    except Refused as refused:
        return refusal(refused)
    return JSONResponse({"saved": True, "text": "Kept."})


def intent(desk: Desk, request: Request, body: bytes) -> Response:
    """One intent by the study's owner, linted (P16)."""
    session, given = _asked(desk, request, body, "owner", ("query_id", "form", "intent", "lint_override"))
    try:
        findings = intent_rows.write(
            desk.study(session),
            given["query_id"],
            form=given["form"],
            intent=given["intent"],
            author=session.held.person,
            lint_override=given["lint_override"],
        )
    except (Refused, NotThere) as refused:
        return refusal(refused)
    if findings and not given["lint_override"].strip():
        text = "Not written yet. Make it one question, or say below why it is one."
        return JSONResponse({"saved": False, "text": text, "faults": findings})
    return JSONResponse({"saved": True, "text": "Written."})


def cause(desk: Desk, request: Request, body: bytes) -> Response:
    """The cause of one disagreement, named by the owner (P30)."""
    session, given = _asked(desk, request, body, "owner", ("query_id", "chunk_id", "cause", "note"))
    try:
        owner_work.name_cause(desk.study(session), given["query_id"], given["chunk_id"], given["cause"], given["note"])
    except (Refused, NotThere) as refused:
        return refusal(refused)
    return JSONResponse({"saved": True, "text": "Kept."})


def spot(desk: Desk, request: Request, body: bytes) -> Response:
    """The type of one query of the spot-check (P8)."""
    session, given = _asked(desk, request, body, "owner", ("query_id", "type_by_person"))
    try:
        owner_work.spot(desk.study(session), given["query_id"], given["type_by_person"])
    except (Refused, NotThere) as refused:
        return refusal(refused)
    return JSONResponse({"saved": True, "text": "Kept."})


def quiet_study(desk: Desk, session: Session) -> Study:
    """The study with a sample that can be shown; NotNow without a word on why, for those who may not know of arms."""
    try:
        study = desk.study(session)
        study.load("query_sample")
    except (Refused, NotThere) as why:
        raise NotNow("not_ready") from why
    return study


def refusal(refused: Refused | NotThere) -> Response:
    """A refusal as the page shows it."""
    if isinstance(refused, NotThere):
        return JSONResponse({"saved": False, "code": "waiting", "text": str(refused.waiting), "faults": []}, 409)
    faults = [str(fault) for fault in refused.faults[:20]]
    return JSONResponse({"saved": False, "code": "refused", "text": f"{refused.what}.", "faults": faults}, 409)


def _asked(
    desk: Desk, request: Request, body: bytes, role: Role, keys: tuple[str, ...]
) -> tuple[Session, dict[str, str]]:
    session = desk.session(request, request.path_params["experiment"], (role,))
    request.scope["relgrade_session"] = session.token_digest
    desk.require_own_page(request, session)
    given = read_object(body, keys)
    if not all(isinstance(v, str) and not any("\ud800" <= c <= "\udfff" for c in v) for v in given.values()):
        raise NotNow("bad_row", "every value is text")
    return session, {k: str(v) for k, v in given.items()}
