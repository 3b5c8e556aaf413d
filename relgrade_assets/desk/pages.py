"""The pages: my work, grading, review, intents, disagreements, spot-check. Each reads, fills a template, and no more.

What a grader or the auditor is shown comes from `own_work` and `intent_rows` alone; the study's title, its faults and
its progress are for the owner, since they may name arms (P13).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from relgrade_assets.desk.answers import grading_session, study_for_grading
from relgrade_assets.desk.forms import quiet_study
from relgrade_assets.desk.sessions import Desk, NoSuchPage, Session
from relgrade_assets.errors import NotThere, Refused
from relgrade_assets.io import intent_rows, own_work, owner_work
from relgrade_assets.io.database import Unusable
from relgrade_assets.io.own_work import NotNow
from relgrade_assets.io.study import Study
from relgrade_assets.io.voiding import examine
from relgrade_assets.protocol.design import FORMS

ROWS_A_PAGE = 50
TEMPLATES = Environment(
    loader=PackageLoader("relgrade_assets.desk"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def enter(desk: Desk, request: Request, body: bytes) -> Response:
    """Open a link. A page, not a redirect: a strict cookie isn't sent on a redirect from another site."""
    token = request.path_params["token"]
    session = desk.enter(token, request.client.host if request.client else "")
    response = filled("entered.html", held=session.held)
    desk.give_cookie(response, session, token)
    return response


def work(desk: Desk, request: Request, body: bytes) -> Response:
    """My work: a card for each experiment that this browser holds a link to."""
    sessions = desk.sessions(request)
    if not sessions:
        return not_found()
    return filled("work.html", cards=[_card(desk, session) for session in sessions])


def grade(desk: Desk, request: Request, body: bytes) -> Response:
    """The grading page; opening it hands the sheet out."""
    session = grading_session(desk, request)
    study = study_for_grading(desk, session)
    try:
        own_work.hand_out(study, session.held.person)
        data = sheet_data(study, session.held.person) | {"closed": own_work.closed(study)}
    except (Refused, NotThere) as why:
        raise NotNow("busy" if isinstance(why, Unusable) else "not_ready") from why
    data |= {"csrf": session.csrf, "base": f"/e/{study.name}"}
    return filled("grade.html", data=data, held=session.held)


def sheet_data(study: Study, person: str) -> dict[str, Any]:
    """What a grading page needs beside its rows, on the desk and in a file: names, scale, rubric, whose reasons."""
    auditor = study.design.auditor
    lenient = person == auditor.name and auditor.kind == "human"
    return {
        "experiment": study.name,
        "person": person,
        "round": study.round,
        "scale": [g.model_dump() for g in study.design.scale.grades],
        "reason": "above_zero" if lenient else "all",
        "rubric": study.rubric,
    }


def review(desk: Desk, request: Request, body: bytes) -> Response:
    """The intents for the auditor to review (P17)."""
    session = _session(desk, request, "auditor")
    study = quiet_study(desk, session)
    try:
        rows = intent_rows.rows(study)
    except (Refused, NotThere) as why:
        raise NotNow("not_ready") from why
    return _by_page("review.html", rows, "verdict", request, session)


def intents(desk: Desk, request: Request, body: bytes) -> Response:
    """The intents for the owner to write (P16)."""
    session = _session(desk, request, "owner")
    try:
        rows = intent_rows.rows(desk.study(session))
    except (Refused, NotThere) as why:
        return told(session, why)
    return _by_page("intents.html", rows, "intent", request, session, forms=FORMS)


def disagreements(desk: Desk, request: Request, body: bytes) -> Response:
    """Where key and auditor differ, for the owner, after the gates have judged (P30)."""
    session = _session(desk, request, "owner")
    try:
        study = desk.study(session)
        rows = owner_work.disagreements(study)
    except (Refused, NotThere) as why:
        return told(session, why)
    labels = {g.grade: g.label for g in study.design.scale.grades}
    more = {"causes": owner_work.CAUSES, "labels": labels}
    return _by_page("disagreements.html", rows, "cause", request, session, **more)


def spot_check(desk: Desk, request: Request, body: bytes) -> Response:
    """The queries' types for a person to check (P8)."""
    session = _session(desk, request, "owner")
    try:
        study = desk.study(session)
        rows, types = owner_work.spot_check(study), owner_work.types(study)
    except (Refused, NotThere) as why:
        return told(session, why)
    return _by_page("spot_check.html", rows, "type_by_person", request, session, types=types)


def not_found() -> Response:
    """The same for a page that isn't there and for one that is not for whoever asks."""
    return filled("not_found.html", status=404)


def problem(desk: Desk, request: Request, text: str, status: int) -> Response:
    """A page that says why there is nothing to do now."""
    return filled("problem.html", status=status, text=text, faults=[])


def owned(desk: Desk, request: Request) -> Session:
    """The owner's session. Raises NoSuchPage for anybody else."""
    return _session(desk, request, "owner")


def told(session: Session, why: Refused | NotThere) -> Response:
    """A page that says to the owner why there is nothing to show."""
    if isinstance(why, NotThere):
        return filled("problem.html", text=f"Waiting: {why.waiting}.", faults=[])
    if isinstance(why, Unusable):
        return filled("problem.html", status=503, text=own_work.TEXTS["away"], faults=[f"{why.what}."])
    return filled("problem.html", status=409, text=f"{why.what}.", faults=[str(f) for f in why.faults[:20]])


def _card(desk: Desk, session: Session) -> dict[str, Any]:
    held = session.held
    card: dict[str, Any] = {
        "held": held,
        "base": f"/e/{held.experiment}",
        "problem": "",
        "progress": None,
        "closed": False,
        "standing": "",
        "intents": None,
    }
    try:
        study = study_for_grading(desk, session)
        if held.role == "auditor":
            card["intents"] = _reviewed(study)
        if held.role == "owner":
            stands = examine(study)
            card["standing"] = stands.banner if stands else ""
        else:
            sheet = own_work.own_sheet(study, held.person)
            card["progress"] = own_work.progress(own_work.standing(study, held.person, sheet))
            card["closed"] = own_work.closed(study)
    except NotNow as not_now:
        card["problem"] = not_now.on_page
    except (Refused, NotThere) as why:
        card["problem"] = own_work.TEXTS["away" if isinstance(why, Unusable) else "not_ready"]
    return card


def _reviewed(study: Study) -> tuple[int, int] | None:
    try:
        rows = intent_rows.rows(study)
    except (Refused, NotThere):
        return None
    return sum(1 for r in rows if r["verdict"]), len(rows)


def _session(desk: Desk, request: Request, role: Any) -> Session:
    session = desk.session(request, request.path_params["experiment"], (role,))
    request.scope["relgrade_session"] = session.token_digest
    return session


def _by_page(
    template: str, rows: Sequence[Mapping[str, Any]], done: str, request: Request, session: Session, **more: Any
) -> HTMLResponse:
    """A page of rows, `?page=1` and on, or with `?open` the page of the first row whose column `done` is empty; a
    browser takes minutes for thousands of forms at once.
    """
    held = session.held
    pages = max(1, -(-len(rows) // ROWS_A_PAGE))
    given = request.query_params.get("page", "1")
    if not given.isascii() or not given.isdigit() or not 1 <= int(given[:7]) <= pages:
        raise NoSuchPage
    number = int(given[:7])
    if "open" in request.query_params:
        number = next((i // ROWS_A_PAGE for i, r in enumerate(rows) if not r[done]), 0) + 1
    first = (number - 1) * ROWS_A_PAGE
    return filled(
        template,
        rows=rows[first : first + ROWS_A_PAGE],
        first=first,
        of=len(rows),
        done=sum(1 for r in rows if r[done]),
        page=number,
        pages=pages,
        held=held,
        data={"csrf": session.csrf, "base": f"/e/{held.experiment}"},
        **more,
    )


def filled(template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A page from a template and its values."""
    return HTMLResponse(TEMPLATES.get_template(template).render(**values), status)
