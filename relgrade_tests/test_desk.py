"""The desk without a browser (P24): who may see what, what a change needs, and that an answer is kept once (P18, P19,
P23, P35).
"""

from __future__ import annotations

import csv
import json
import logging
import re
import stat
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import desk_study
import polars as pl
import postgres
import pytest
import tiny
from starlette.testclient import TestClient
from steering import STEERING

from relgrade_assets.desk import results
from relgrade_assets.desk.app import HEADERS, make_app
from relgrade_assets.desk.pages import ROWS_A_PAGE
from relgrade_assets.desk.serve import require_safe
from relgrade_assets.desk.sessions import ASKED_A_SECOND, ASKED_AT_ONCE, TRIED_A_SECOND, TRIED_AT_ONCE, Buckets, Desk
from relgrade_assets.errors import Refused
from relgrade_assets.io import events, intent_rows, own_work
from relgrade_assets.io.cells import legible, short_enough, unmarked
from relgrade_assets.io.database import Unusable
from relgrade_assets.io.links import Links, Role, role_of
from relgrade_assets.io.readers.documents import csv_table
from relgrade_assets.io.returns import collect
from relgrade_assets.io.study import Study, utc_now
from relgrade_assets.io.tool_sheets import SHEET_TOOLS
from relgrade_assets.io.worksheets import write_sheets
from relgrade_assets.methods.pace import in_words, seconds_each

EVERY_PAGE = (
    "grade",
    "rows?from=0&n=5",
    "marks",
    "review",
    "intents",
    "disagreements",
    "spot-check",
    "report",
    "trace",
)
ALLOWED: dict[Role, set[str]] = {
    "grader": {"grade", "rows?from=0&n=5", "marks"},
    "auditor": {"grade", "rows?from=0&n=5", "marks", "review"},
    "owner": {"intents", "disagreements", "spot-check", "report", "trace"},
}
PEOPLE: dict[Role, str] = {"grader": "ann", "auditor": "bob", "owner": desk_study.OWNER}


class Person:
    """A client that has opened a link, as a browser would hold it."""

    def __init__(self, desk: Desk, person: str | None, role: Role = "grader") -> None:
        self.client = TestClient(make_app(desk), base_url="http://127.0.0.1", raise_server_exceptions=True)
        if person is not None:
            assert self.client.get(desk_study.link(desk, person, role)).status_code == 200

    def get(self, path: str) -> Any:
        return self.client.get(path if path.startswith("/") else f"/e/tiny/{path}")

    def csrf(self, page: str = "grade") -> str:
        return str(self.data(page)["csrf"])

    def data(self, page: str = "grade") -> dict[str, Any]:
        found = re.search(r'<script type="application/json" id="data">(.*?)</script>', self.get(page).text)
        assert found
        return json.loads(found[1])

    def rows(self, start: int = 0, n: int = 50) -> list[dict[str, Any]]:
        return self.get(f"rows?from={start}&n={n}").json()["rows"]

    def post(self, path: str, body: object, csrf: str, **headers: str) -> Any:
        sent = {"Content-Type": "application/json", "X-Relgrade-CSRF": csrf, **headers}
        return self.client.post(f"/e/tiny/{path}", content=json.dumps(body), headers=sent)

    def answer(self, row: dict[str, Any], grade: int | None, csrf: str, *, key: str = "k1", **more: Any) -> Any:
        p19 = {"query_id": row["query_id"], "chunk_id": row["chunk_id"], "reason": "says so", "grade": grade, **more}
        return self.post("answer", {"row": p19, "row_digest": row["row_digest"], "key": key}, csrf)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.full)])
def top(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The study with its sheets made. On PostgreSQL too, in the full count; `test_desk_kill` has both in the small."""
    ledger = postgres.fresh(request.getfixturevalue("postgres_url")) if request.param == "postgresql" else None
    return desk_study.copy("sheets", tmp_path, ledger=ledger)


@pytest.fixture
def desk(top: Path) -> Desk:
    return Desk(tiny.home_of(top), url="http://127.0.0.1:8765")


def kept(top: Path, who: str = "ann") -> pl.DataFrame:
    study = tiny.study_of(top)
    return study.ledger.answers("tiny", 1, [who])


# who may see what


@pytest.mark.parametrize("role", ["grader", "auditor", "owner"])
def test_each_role_has_its_pages_and_is_told_of_no_other(role: Role, tmp_path: Path) -> None:
    desk = Desk(tiny.home_of(desk_study.copy("verdicts", tmp_path)), url="http://127.0.0.1")
    person = Person(desk, PEOPLE[role], role)
    nothing = person.get("/e/tiny/no-such-page")
    for page in EVERY_PAGE:
        found = person.get(page)
        if page in ALLOWED[role]:
            assert found.status_code == 200, page
        else:
            assert (found.status_code, found.text) == (404, nothing.text), page
    assert person.get("/e/other/grade").text == nothing.text


def test_without_a_link_there_is_nothing(desk: Desk) -> None:
    stranger = Person(desk, None)
    for path in ("/", *(f"/e/tiny/{p}" for p in EVERY_PAGE), "/in/x.y", "/e/tiny/answer", "/static/app.py", "/docs"):
        assert stranger.get(path).status_code == 404, path
    for path in ("answer", "review/row", "intents/row", "disagreements/row", "spot-check/row"):
        assert stranger.post(path, {}, "x").status_code == 404, path


def test_a_posted_change_of_another_role_is_told_of_nothing(desk: Desk) -> None:
    ann = Person(desk, "ann")
    csrf = ann.csrf()
    for path in ("review/row", "intents/row", "disagreements/row", "spot-check/row"):
        assert ann.post(path, {}, csrf).status_code == 404, path
    olga = Person(desk, desk_study.OWNER, "owner")
    assert olga.post("answer", {}, olga.csrf("intents")).status_code == 404


@pytest.mark.parametrize("of", [0, 1, ROWS_A_PAGE, ROWS_A_PAGE + 1, 4_000])
def test_rows_come_by_the_page(of: int, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row on one page, in order; `?open` is the page of the first open one; beyond the last is nothing."""
    one = intent_rows.rows(tiny.study_of(desk.home.top))[0]
    opened = of * 2 // 3
    rows = [
        {**one, "query_id": f"q{i:05}", "query": f"query {i}.", "verdict": None if i == opened else "ok"}
        for i in range(of)
    ]
    monkeypatch.setattr(intent_rows, "rows", lambda study: rows)
    bob = Person(desk, "bob", "auditor")
    pages = max(1, -(-of // ROWS_A_PAGE))
    found = []
    for n in {1, 2, opened // ROWS_A_PAGE + 1, pages} & {*range(1, pages + 1)}:
        text = bob.get(f"review?page={n}").text
        found = re.findall(r"query (\d+)\.", text)
        first = (n - 1) * ROWS_A_PAGE
        assert [int(i) for i in found] == list(range(first, min(first + ROWS_A_PAGE, of)))
        assert f"{max(of - 1, 0)}</span> of {of} done" in text
        assert (f"?page={n + 1}" in text) == (n < pages) and (f"?page={n - 1}" in text) == (n > 1)
    assert bob.get("review").text == bob.get("review?page=1").text
    assert bob.get("review?open").text == bob.get(f"review?page={opened // ROWS_A_PAGE + 1}").text
    for wrong in ("0", "-1", "x", "1e3", "\u0663", str(pages + 1), "9" * 40):
        assert bob.get(f"review?page={wrong}").status_code == 404, wrong


def test_graders_see_their_own_answers_alone(desk: Desk, top: Path) -> None:
    ann, dan = Person(desk, "ann"), Person(desk, "dan")
    row = ann.rows()[0]
    assert ann.answer(row, 1, ann.csrf()).status_code == 200
    assert [r["answer"] is None for r in ann.rows()].count(False) == 1
    assert all(r["answer"] is None for r in dan.rows())
    assert "d" in ann.get("marks").json()["marks"] and "d" not in dan.get("marks").json()["marks"]
    assert kept(top, "dan").is_empty()


def test_disagreements_wait_for_the_gates_and_show_graders_as_a_and_b(desk: Desk, tmp_path: Path) -> None:
    """P30: for the owner, after the gates; both reasons; no grader's name."""
    before = Person(desk, desk_study.OWNER, "owner").get("disagreements")
    assert "after the gates have judged" in before.text and "Waiting" in before.text
    late = desk_study.copy("verdicts", tmp_path / "late")
    olga = Person(Desk(tiny.home_of(late), url="http://127.0.0.1"), desk_study.OWNER, "owner")
    page = olga.get("disagreements").text
    assert page.count('<form class="row"') > 5
    own_reasons = re.sub(r"(ann|dan|bob), round 1: ", "", page)  # as these graders of tiny's wrote them
    assert not re.search(r"\b(ann|dan|bob)\b", own_reasons)
    table = tiny.study_of(late).load("disagreements").sort("query_id", "chunk_id")
    as_shown = [int(g) for g in re.findall(r"<h3>A: (\d),", page)]
    is_key = [a == key for a, key in zip(as_shown, table["grade"], strict=True)]
    assert 0 < sum(is_key) < len(is_key), "A is not always the same side"
    pair = re.search(r'name="query_id" value="(\w+)">\s*<input type="hidden" name="chunk_id" value="(\w+)"', page)
    assert pair
    body = {"query_id": pair[1], "chunk_id": pair[2], "cause": "boundary", "note": "say it in the rubric"}
    csrf = olga.csrf("disagreements")
    assert olga.post("disagreements/row", body, csrf).json()["saved"]
    assert 'value="boundary" required checked' in olga.get("disagreements").text
    for wrong in ({**body, "cause": "them"}, {**body, "chunk_id": "c99"}):
        assert olga.post("disagreements/row", wrong, csrf).status_code == 409


# links


def test_who_may_hold_which_role(top: Path) -> None:
    """P30: an owner is neither grader nor auditor; graders and auditor are those whom the design names."""
    design = tiny.study_of(top).design
    assert (role_of(design, "ann", None), role_of(design, "bob", None)) == ("grader", "auditor")
    assert role_of(design, "olga", "owner") == "owner"
    wrong: list[tuple[str, Role | None]] = [
        ("ann", "owner"), ("bob", "owner"), ("bob", "grader"), ("olga", "grader"), ("olga", None), ("../x", "owner"),
    ]  # fmt: skip
    for person, role in wrong:
        with pytest.raises(Refused):
            role_of(design, person, role)


def test_a_link_is_signed_expires_and_is_revoked(top: Path) -> None:
    home = tiny.home_of(top)
    now = utc_now()
    links = Links(home)
    assert stat.S_IMODE((home.state / "desk" / "key").stat().st_mode) == 0o600
    token = links.issue("tiny", "ann", "grader", at=now, days=2)
    found = Links(home).open(token, at=now)
    assert found and (found.experiment, found.person, found.role) == ("tiny", "ann", "grader")
    assert links.open(token, at=now + timedelta(days=2, seconds=1)) is None
    payload, _, signature = token.partition(".")
    other = links.issue("tiny", "dan", "grader", at=now, days=2)
    for forged in (f"{other.partition('.')[0]}.{signature}", payload, f"{payload}.", "", ".", "x" * 5000, "é.é"):
        assert links.open(forged, at=now) is None, forged
    links.revoke("tiny", "ann")
    assert links.open(token, at=now) is None and links.open(other, at=now)
    assert links.open(links.issue("tiny", "ann", "grader", at=now, days=2), at=now)
    for days in (0, 91):
        with pytest.raises(Refused):
            links.issue("tiny", "ann", "grader", at=now, days=days)


def test_links_by_the_command_line(
    desk: Desk, top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from relgrade_assets.cli.main import main

    def relgrade(*arguments: str) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", ["relgrade", "--home", str(top), *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, "".join(capsys.readouterr())

    code, said = relgrade("desk-link", "tiny", "--person", "ann", "--url", "http://127.0.0.1")
    assert code == 0 and said.startswith("http://127.0.0.1/in/")
    stranger = Person(desk, None)
    assert stranger.get(said.strip().removeprefix("http://127.0.0.1")).status_code == 200
    assert stranger.get("grade").status_code == 200
    code, said = relgrade("desk-link", "tiny", "--person", "ann", "--revoke")
    assert code == 0 and stranger.get("grade").status_code == 404
    for wrong in (("--person", "zoe"), ("--person", "ann", "--role", "owner"), ("--person", "ann", "--days", "0")):
        code, said = relgrade("desk-link", "tiny", *wrong)
        assert code == 2 and "Traceback" not in said, wrong
    code, said = relgrade("desk", "--host", "0.0.0.0")  # noqa: S104 - refused before it listens
    assert code == 2 and "in the clear" in said


def test_sessions_end_with_their_link(desk: Desk) -> None:
    ann = Person(desk, "ann")
    assert ann.get("grade").status_code == 200
    desk.links.revoke("tiny", "ann")
    assert ann.get("grade").status_code == 404 and ann.get("/").status_code == 404
    dan = Person(desk, "dan")
    desk.clock = lambda: utc_now() + timedelta(days=3)
    assert dan.get("grade").status_code == 404


def test_a_person_whom_the_design_names_no_more_has_no_session(desk: Desk, top: Path) -> None:
    dan = Person(desk, "dan")
    path = top / "data" / "experiments" / "tiny" / "experiment.yaml"
    path.write_text(path.read_text().replace("name: dan,", "name: eve,"))
    assert dan.get("grade").status_code == 404


@pytest.mark.parametrize(("url", "secure"), [("http://127.0.0.1:8765", False), ("https://desk.example.org", True)])
def test_cookies_are_strict_and_secure_behind_tls(top: Path, url: str, secure: bool) -> None:
    desk = Desk(tiny.home_of(top), url=url)
    client = TestClient(make_app(desk), base_url=url)
    given = client.get(desk_study.link(desk, "ann")).headers["set-cookie"]
    assert "HttpOnly" in given and "SameSite=strict" in given and "Path=/" in given
    assert ("Secure" in given, given.startswith("__Host-")) == (secure, secure)
    assert ("strict-transport-security" in client.get("/").headers) == secure
    assert client.get("/").status_code == 200


def test_other_host_names_are_refused(desk: Desk) -> None:
    """A name that an attacker lets point here must not reach the desk."""
    client = TestClient(make_app(desk), base_url="http://evil.example")
    assert client.get("/").status_code == 400


def test_in_the_clear_only_on_this_machine() -> None:
    everywhere = "0.0.0.0"  # noqa: S104 - to be refused
    good = [("127.0.0.1", "http://127.0.0.1:1"), ("::1", "http://[::1]:1"), (everywhere, "https://desk.example")]
    for host, url in good:
        require_safe(host, url)
    bad = [(everywhere, "http://127.0.0.1"), ("127.0.0.1", "http://desk.example"), ("::1", "ftp://x")]
    for host, url in [*bad, ("::1", "https://x/y"), ("::1", "https://")]:
        with pytest.raises(Refused):
            require_safe(host, url)


# what every answer carries, and what a change needs


def test_every_answer_has_the_headers(desk: Desk) -> None:
    ann = Person(desk, "ann")
    for path in ("/", "/e/tiny/grade", "/e/tiny/marks", "/nothing", "/e/tiny/review", desk_study.link(desk, "ann")):
        given = ann.get(path).headers
        for name, value in HEADERS.items():
            assert given[name] == value, (path, name)
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy and "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert ann.get("/static/desk.css").headers["content-security-policy"] == policy


def test_pages_hold_no_inline_script_style_or_handler(tmp_path: Path) -> None:
    desk = Desk(tiny.home_of(desk_study.copy("verdicts", tmp_path)), url="http://127.0.0.1")
    for role, pages in ALLOWED.items():
        person = Person(desk, PEOPLE[role], role)
        for page in ("/", *pages):
            text = person.get(page).text
            for tag in re.findall(r"<script[^>]*>", text):
                assert "src=" in tag or 'type="application/json"' in tag, (page, tag)
            assert "<style" not in text and not re.search(r"<[^>]+\s(style|on\w+)=", text), page
            assert not re.search(r"(?:src|href)=\"(?:https?:)?//", text), page


def test_a_change_needs_the_pages_secret_our_origin_and_json(desk: Desk, top: Path) -> None:
    ann, dan = Person(desk, "ann"), Person(desk, "dan")
    csrf, row = ann.csrf(), ann.rows()[0]
    p19 = {"query_id": row["query_id"], "chunk_id": row["chunk_id"], "reason": "says so", "grade": 1}
    body = {"row": p19, "row_digest": row["row_digest"], "key": "k"}
    assert ann.post("answer", body, "").status_code == 403
    assert ann.post("answer", body, dan.csrf()).status_code == 403
    assert ann.post("answer", body, csrf, Origin="http://evil.example").status_code == 403
    assert ann.client.post("/e/tiny/answer", data=body, headers={"X-Relgrade-CSRF": csrf}).status_code == 403
    assert ann.get("answer").status_code == 404
    assert kept(top).is_empty()
    assert ann.post("answer", body, csrf, Origin="http://127.0.0.1").status_code == 200
    assert ann.post("answer", "x" * 70_000, csrf).status_code == 413


def test_buckets_against_a_clock() -> None:
    now = [0.0]
    buckets = Buckets(2.0, 3, lambda: now[0])
    assert [buckets.take("a") for _ in range(4)] == [True, True, True, False] and buckets.take("b")
    now[0] = 0.5
    assert [buckets.take("a") for _ in range(2)] == [True, False]


def test_who_asks_too_often_waits(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one moment: how fast this machine answers has no say."""
    for name, rate, burst in (("_asked", ASKED_A_SECOND, ASKED_AT_ONCE), ("_tried", TRIED_A_SECOND, TRIED_AT_ONCE)):
        monkeypatch.setattr(desk, name, Buckets(rate, burst, lambda: 0.0))
    stranger, ann, dan = Person(desk, None), Person(desk, "ann"), Person(desk, "dan")
    codes = [stranger.get(f"/in/x{n}.y").status_code for n in range(TRIED_AT_ONCE + 2)]
    assert codes[:TRIED_AT_ONCE] == [404] * TRIED_AT_ONCE and 429 in codes[TRIED_AT_ONCE:]
    assert Person(desk, "ann"), "a good link opens all the same"
    codes = [ann.get("rows?from=x&n=1").status_code for _ in range(ASKED_AT_ONCE * 3)]
    assert codes[0] == 409 and 429 in codes
    assert dan.get("marks").status_code == 200


# answers


def test_an_answer_is_kept_through_the_door_of_files(desk: Desk, top: Path) -> None:
    """P19, P23: 200 means that it is in the ledger, for the row that was shown."""
    ann = Person(desk, "ann")
    csrf, rows = ann.csrf(), ann.rows()
    assert ann.answer(rows[0], 2, csrf, key="a", corpus_cleanup=True).status_code == 200
    assert ann.answer(rows[1], None, csrf, key="b", unrateable=True).status_code == 200
    later = {"reason": None, "judge_later": True}
    assert ann.answer(rows[2], None, csrf, key="c", **later).status_code == 200
    found = {r["chunk_id"]: r for r in kept(top).filter(pl.col("query_id") == rows[0]["query_id"]).to_dicts()}
    first = found[rows[0]["chunk_id"]]
    assert (first["grade"], first["reason"], first["corpus_cleanup"]) == (2, "says so", True)
    assert first["row_digest"] == rows[0]["row_digest"]
    assert found[rows[1]["chunk_id"]]["unrateable"] and found[rows[2]["chunk_id"]]["judge_later"]
    assert ann.get("marks").json()["marks"].startswith("ddl.")
    assert events.opening(tiny.study_of(top).log, 1) is not None


def test_what_is_no_answer_is_refused_with_words(desk: Desk, top: Path) -> None:
    """P19: grade on the scale, a reason of at most 15 words, a pair of one's own sheet."""
    ann = Person(desk, "ann")
    csrf, row = ann.csrf(), ann.rows()[0]
    for grade, more in (
        (3, {}), (-1, {}), (1.5, {}), ("1", {}), (True, {}), (None, {}), (1, {"reason": None}), (1, {"reason": " "}),
        (1, {"reason": "w " * 16}), (1, {"reason": "a\nb"}), (1, {"unrateable": True}), (1, {"judge_later": True}),
        (1, {"query_id": "q0"}), (1, {"chunk_id": "c99"}), (1, {"more": 1}), (1, {"reason": "\ud800"}),
    ):  # fmt: skip
        answer = ann.answer(row, grade, csrf, **more)  # type: ignore[arg-type]
        assert (answer.status_code, answer.json()["code"]) == (409, "bad_row"), (grade, more)
        assert answer.json()["faults"], (grade, more)
    for body in ([], {}, {"row": [], "row_digest": "", "key": "k"}, {"row": {}, "row_digest": 1, "key": "k"}):
        assert ann.post("answer", body, csrf).status_code == 409
    assert ann.answer(row, 1, csrf, key="").status_code == 409
    assert kept(top).is_empty()


def test_a_human_auditors_0_needs_no_reason_and_a_graders_does(desk: Desk, top: Path) -> None:
    """P19."""
    ann, bob = Person(desk, "ann"), Person(desk, "bob", "auditor")
    assert ann.answer(ann.rows()[0], 0, ann.csrf(), reason=None).status_code == 409
    assert bob.answer(bob.rows()[0], 1, bob.csrf(), reason=None).status_code == 409
    assert bob.answer(bob.rows()[0], 0, bob.csrf(), reason=None).status_code == 200
    assert (ann.data()["reason"], bob.data()["reason"]) == ("all", "above_zero")
    assert kept(top, "bob")["grade"].to_list() == [0]


def test_an_answer_sent_again_changes_nothing(desk: Desk, top: Path) -> None:
    """P23: also after the person answered otherwise, and by a server that was started anew."""
    ann = Person(desk, "ann")
    csrf, row = ann.csrf(), ann.rows()[0]
    assert ann.answer(row, 1, csrf, key="first").status_code == 200
    assert ann.answer(row, 1, csrf, key="first").status_code == 200
    assert ann.answer(row, 2, csrf, key="second").status_code == 200
    again = Person(Desk(tiny.home_of(top), url="http://127.0.0.1"), "ann")
    assert again.answer(row, 1, again.csrf(), key="first").status_code == 200
    assert kept(top)["grade"].to_list() == [2]
    revisions = tiny.study_of(top).ledger.read(
        lambda c: c.exec_driver_sql("SELECT grade, source FROM answers ORDER BY id").fetchall()
    )
    assert [tuple(r) for r in revisions] == [(1, "desk first"), (2, "desk second")]


def test_a_sheet_made_anew_is_refused_until_it_is_opened_again(desk: Desk, top: Path) -> None:
    """An answer holds for the bytes that were shown."""
    ann = Person(desk, "ann")
    csrf, rows = ann.csrf(), ann.rows()
    stale = {**rows[0], "row_digest": "0" * 64}
    assert ann.answer(stale, 1, csrf).json()["code"] == "remade"
    study = tiny.study_of(top)
    study.ledger.record_issued("tiny", 1, "ann", "f" * 64, at=tiny.AT)
    refused = ann.answer(rows[0], 1, csrf)
    assert (refused.status_code, refused.json()["code"]) == (409, "remade") and "Reload" in refused.json()["text"]
    assert kept(top).is_empty()
    assert ann.get("grade").status_code == 200 and ann.answer(rows[0], 1, csrf).status_code == 200


def test_before_the_sheet_is_opened_no_answer_is_taken(desk: Desk, top: Path) -> None:
    ann, other = Person(desk, "ann"), Person(desk, "dan")
    row = ann.rows()[0]
    assert ann.answer(row, 1, desk.links.bound_to(next(iter(ann.client.cookies.values())), "csrf")).status_code == 409
    assert other.get("marks").status_code == 200 and kept(top).is_empty()


FROZEN = ("frozen", {"round": 1, "key_digest": "d"})
FAILED = ("gate_failed", {"round": 1, "grades_digest": "g", "audit_grades_digest": "a", "gates": []})


@pytest.mark.parametrize(("kind", "event"), [FROZEN, FAILED])
def test_a_closed_round_takes_no_answer(kind: str, event: dict[str, Any], desk: Desk, top: Path) -> None:
    """P30, P35: the page is told that it is over; told to wait, it would send the answer again and again."""
    ann = Person(desk, "ann")
    csrf, rows = ann.csrf(), ann.rows()
    assert ann.answer(rows[0], 1, csrf, key="before").status_code == 200
    assert "closed" not in ann.get("/").text and ann.data()["closed"] is False
    study = tiny.study_of(top)
    events.append(study.ledger, "tiny", kind, event, tiny.AT)
    for row, key in ((rows[0], "x"), (rows[1], "y")):
        refused = ann.answer(row, 2, csrf, key=key)
        assert (refused.status_code, refused.json()["code"]) == (409, "closed")
    assert ann.answer(rows[0], 1, csrf, key="before").status_code == 200, "what was kept is still told so"
    assert "This round is closed" in ann.get("/").text and ann.data()["closed"] is True
    assert kept(top)["grade"].to_list() == [1]


def test_a_ledger_that_goes_away_is_waited_for(desk: Desk, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P23: the page is told to try again, not that it is over, wherever in an answer's way the database is gone."""
    ann = Person(desk, "ann")
    csrf, rows = ann.csrf(), ann.rows()

    def gone(*args: object) -> None:
        raise Unusable("The ledger can't be used: the connection was cut")

    for broken in ("require_protocol_of_round", "outdated"):
        with monkeypatch.context() as patch:
            patch.setattr(Study, broken, gone)
            refused = ann.answer(rows[0], 1, csrf)
            assert (refused.status_code, refused.json()["code"]) == (503, "busy"), broken
            assert ann.get("marks").status_code == 503 and ann.get("grade").status_code == 503
            for page in ("/", "grade"):
                text = ann.get(page).text
                assert "reach its records" in text and "waits in your browser" not in text, page
    with monkeypatch.context() as patch:
        patch.setattr(results, "examine", gone)
        told = Person(desk, desk_study.OWNER, "owner").get("report")
        assert told.status_code == 503 and "try again in a minute" in told.text and "was cut" in told.text
    assert ann.answer(rows[0], 1, csrf).status_code == 200 and kept(top).height == 1


def test_a_changed_protocol_stops_grading_without_a_word_on_arms(desk: Desk, top: Path) -> None:
    """P2, P13: messages about designs and tables name arms."""
    ann = Person(desk, "ann")
    csrf, rows = ann.csrf(), ann.rows()
    assert ann.answer(rows[0], 1, csrf).status_code == 200
    path = top / "data" / "experiments" / "tiny" / "rubric.md"
    path.write_text("# Another rubric\n")
    refused = ann.answer(rows[1], 1, csrf, key="k2")
    assert (refused.status_code, refused.json()["code"]) == (409, "changed")
    broken = top / "data" / "experiments" / "tiny" / "experiment.yaml"
    broken.write_text(broken.read_text() + "arms: zyxlexical\n")
    for page in ("grade", "marks", "/"):
        assert "zyx" not in ann.get(page).text


def test_runs_that_went_missing_are_not_named_to_graders(desk: Desk, top: Path) -> None:
    """P13."""
    ann = Person(desk, "ann")
    (top / "data" / "experiments" / "tiny" / "runs" / "old.trec").unlink()
    page = ann.get("grade")
    assert page.status_code == 409 and "Tell the study" in page.text
    assert "old.trec" not in page.text and "runs" not in page.text and "runs" not in ann.get("/").text


# intents, review, spot-check


def test_the_owner_writes_intents_through_the_lint(tmp_path: Path) -> None:
    """P16: a line with two readings needs its author's reason; after the first sheet intents stand."""
    top = desk_study.copy("sample", tmp_path)
    desk = Desk(tiny.home_of(top), url="http://127.0.0.1")
    olga = Person(desk, desk_study.OWNER, "owner")
    csrf = olga.csrf("intents")
    query = sorted(tiny.query_ids(top).values())[0]
    body = {"query_id": query, "form": "how", "intent": "How is it made or kept?", "lint_override": ""}
    refused = olga.post("intents/row", body, csrf).json()
    assert not refused["saved"] and "'or'" in refused["faults"][0]
    body["lint_override"] = "one question, said in two words"
    assert olga.post("intents/row", body, csrf).json()["saved"]
    body |= {"intent": 'Where is "=1+1", <b>it</b>?', "lint_override": ""}
    assert olga.post("intents/row", body, csrf).json()["saved"]
    assert "&lt;b&gt;it&lt;/b&gt;" in olga.get("intents").text
    for wrong in ({"form": "when"}, {"intent": ""}, {"intent": "a\nb"}, {"intent": "x" * 301}, {"query_id": "q0"}):
        assert olga.post("intents/row", {**body, **wrong}, csrf).status_code == 409, wrong
    from relgrade_assets.io.readers.intents import read_intents

    frame = read_intents(top / "data/experiments/tiny/intents.csv", name="intents.csv").frame
    mine = frame.filter(pl.col("query_id") == query).to_dicts()[0]
    assert (frame.height, mine["author"], mine["intent"]) == (12, "olga", body["intent"])
    tiny.study_of(top).ledger.record_issued("tiny", 1, "ann", "d", at=tiny.AT)
    assert "have gone out" in olga.post("intents/row", body, csrf).json()["text"]


def test_the_auditor_reviews_row_by_row_before_any_audit_sheet(tmp_path: Path) -> None:
    """P17: tied to the row as shown; refused once a sheet was opened."""
    top = desk_study.copy("sample", tmp_path)
    bob = Person(Desk(tiny.home_of(top), url="http://127.0.0.1"), "bob", "auditor")
    page, csrf = bob.get("review").text, bob.csrf("review")
    pairs = re.findall(r'name="query_id" value="(\w+)">\s*<input type="hidden" name="row_digest" value="(\w+)"', page)
    assert len(pairs) == 12
    row = {"query_id": pairs[0][0], "row_digest": pairs[0][1], "verdict": "change", "note": "two\nreadings"}
    assert bob.post("review/row", row, csrf).json()["saved"]
    assert bob.post("review/row", {**row, "row_digest": "0"}, csrf).status_code == 409
    assert bob.post("review/row", {**row, "verdict": "maybe"}, csrf).status_code == 409
    held = tiny.study_of(top).ledger.reviews("tiny")
    assert held.select("reviewer", "verdict", "note").rows() == [("bob", "change", "two readings")]
    assert "1</span> of 12" in bob.get("review").text
    tiny.study_of(top).ledger.record_issued("tiny", 1, "bob", "d", at=tiny.AT)
    assert bob.post("review/row", row, csrf).json()["saved"], "the same again changes nothing"
    assert bob.post("review/row", {**row, "verdict": "ok"}, csrf).status_code == 409


def test_the_owner_checks_types_of_queries(tmp_path: Path) -> None:
    """P8: into the sheet that `relgrade spot-check` writes."""
    from relgrade_assets.io.study import open_study
    from relgrade_assets.io.worksheets import filled_in

    top = desk_study.copy("sample", tmp_path)
    (top / "data/experiments/tiny/spot-check.csv").write_text(
        "query_id,query,type,type_by_person\nq1,where,lookup,\nq2,why <i>,error,\nq3,'=1+1,error,\n"
    )
    olga = Person(Desk(tiny.home_of(top), url="http://127.0.0.1"), desk_study.OWNER, "owner")
    csrf = olga.csrf("spot-check")
    assert "why &lt;i&gt;" in olga.get("spot-check").text
    assert olga.post("spot-check/row", {"query_id": "q2", "type_by_person": "lookup"}, csrf).json()["saved"]
    assert olga.post("spot-check/row", {"query_id": "q2", "type_by_person": "nonsense"}, csrf).status_code == 409
    assert olga.post("spot-check/row", {"query_id": "q9", "type_by_person": "error"}, csrf).status_code == 409
    found = filled_in(open_study(tiny.home_of(top), "tiny"))
    assert found is not None and found.rows() == [("q1", None), ("q2", "lookup"), ("q3", None)]
    assert "<bdi>=1+1</bdi>" in olga.get("spot-check").text, "the mark is the file's, not the query's"
    assert "\nq3,'=1+1,error,\n" in (top / "data/experiments/tiny/spot-check.csv").read_text()


# logs and hostile text


def test_logs_hold_no_text_person_or_token(
    desk: Desk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    ann = Person(desk, "ann")
    csrf, row = ann.csrf(), ann.rows()[0]
    ann.answer(row, 1, csrf, reason="a secret reason")
    ann.answer(row, 7, csrf, reason="a secret reason")
    ann.get("/in/forged.token")

    def fails(*_: object) -> None:
        raise RuntimeError(f"broke on {row['text']} of {row['query']}")

    monkeypatch.setattr(own_work, "shown", fails)
    broken = ann.get("rows?from=0&n=5")
    assert broken.status_code == 500 and "This is" not in broken.text and row["query"] not in broken.text
    logged = "\n".join(r.getMessage() for r in caplog.records if not r.name.startswith(("httpx", "asyncio")))
    assert "RuntimeError at" in logged and "POST /e/{experiment}/answer 200" in logged
    token = next(iter(ann.client.cookies.values()))
    for text in ("thing", "secret", "ann", row["query_id"], row["chunk_id"], token, csrf, "forged", "Traceback"):
        assert text not in logged, text


BREAKING = [
    '</script><script>alert(1)</script>', '<img src=x onerror=alert(1)>', "&lt;b&gt;", "{{ 7 * 7 }}", "{% raw %}",
    "<!--", "]]>",
]  # fmt: skip


def test_hostile_passages_leave_as_data_alone(tmp_path: Path) -> None:
    """P22: the thirty passages that steer, one a chunk, and texts that try to break out of HTML, JSON or the template:
    at the desk, in the file without a server and on worksheets of every form they come back as they were, or as a
    spreadsheet can hold them; and the answers to each are taken from that spreadsheet and from P19 rows.
    """
    from relgrade_assets.cli.run import run

    top = desk_study.copy("sample", tmp_path)
    tiny.review_all(top)
    headers = [BREAKING[n % len(BREAKING)] + text[:1000] for n, text in enumerate(STEERING)]
    corpus = [
        {"chunk_id": chunk, "header": header, "text": text}
        for chunk, header, text in zip(tiny.CHUNKS, headers, STEERING, strict=True)
    ]
    folder = top / "data" / "experiments" / "tiny"
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in corpus))
    (folder / "rubric.md").write_text("# R\n\n</script><script>alert(2)</script>\n")
    for arm in ("old", "new"):  # so that every chunk is in a pool
        lines = [line.split(" ") for line in (folder / "runs" / f"{arm}.trec").read_text().splitlines()]
        query = {i: tiny.number(q) for q, i in tiny.query_ids().items()}
        moved = [[q, z, tiny.CHUNKS[(tiny.number(c) - 1 + query[q]) % 30], *rest] for q, z, c, *rest in lines]
        (folder / "runs" / f"{arm}.trec").write_text("".join(" ".join(line) + "\n" for line in moved))
    tables = ["queries", "query_sample", "intents", "runs", "contributions", "pools", "audit_selection"]
    tables += ["audit_sample", "sheets"]
    assert run(tiny.home_of(top), "tiny", tables=tables).ok
    ann = Person(Desk(tiny.home_of(top), url="http://127.0.0.1"), "ann")
    page = ann.get("grade").text
    assert "<script>alert" not in page and ann.data()["rubric"].endswith("</script><script>alert(2)</script>\n")
    texts = {c["chunk_id"]: (c["header"], c["text"]) for c in corpus}
    for start in range(0, 96, 48):
        answer = ann.get(f"rows?from={start}&n=48")
        assert answer.headers["content-type"] == "application/json"
        for row in answer.json()["rows"]:
            assert (row["header"], row["text"]) == texts[row["chunk_id"]]
    from relgrade_assets.desk.offline import page as offline

    whole = offline(tiny.study_of(top), "ann").decode()
    assert "<script>alert" not in whole and whole.count("</script>") == 2
    for tool in SHEET_TOOLS:
        write_sheets(tiny.study_of(top), "ann", top / "out" / tool, tool=tool)
    rows = [json.loads(line) for line in (top / "out/quepid/sheet.jsonl").read_bytes().split(b"\n")[:-1]]
    parts = sorted((top / "out/quepid/queries").rglob("*.jsonl"))
    assert [json.loads(line) for p in parts for line in p.read_bytes().split(b"\n")[:-1]] == rows and len(rows) == 96
    tasks = json.loads((top / "out/label-studio/label-studio.json").read_bytes())
    cells = csv_table(top / "out/spreadsheet/sheet.csv", name="sheet.csv").columns
    for n, (row, task) in enumerate(zip(rows, tasks, strict=True)):
        assert (row["header"], row["text"]) == texts[row["chunk_id"]]
        for column in ("header", "text"):
            assert task["data"][column] == legible(row[column])
            assert unmarked(cells[column][n]) == short_enough(row[column], "sheet.jsonl")
    assert {row["text"] for row in rows} == set(STEERING), "every one of them was on the sheet"
    assert _graded_in(top, top / "out/spreadsheet/sheet.csv") == (96, 0, 0, 0)
    hand_in = top / "answers.jsonl"
    hand_in.write_text("".join(json.dumps(tiny.answer(row, lambda q, c: 1)) + "\n" for row in rows))
    taken = collect(tiny.study_of(top), "ann", hand_in, name="answers.jsonl")
    assert (taken.new, taken.changed, taken.same, taken.rows_refused) == (0, 96, 0, 0)


def _graded_in(top: Path, sheet: Path) -> tuple[int, int, int, int]:
    """Fill in a spreadsheet as Python's csv reads and writes it, and collect it: rows new, changed, same, refused."""
    with sheet.open(newline="") as file:
        header, *rows = csv.reader(file)
    at = {name: header.index(name) for name in ("grade", "notes")}
    for row in rows:
        row[at["grade"]], row[at["notes"]] = "2", "says so"
    with sheet.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    taken = collect(tiny.study_of(top), "ann", sheet, name="sheet.csv", form="spreadsheet")
    return taken.new, taken.changed, taken.same, taken.rows_refused


# pace


def test_pace_against_hand_and_breaks() -> None:
    at = [tiny.AT + timedelta(seconds=s) for s in (0, 20, 40, 60, 80, 4000, 4020)]
    assert seconds_each(at) == 20.0 and seconds_each(at[:5]) is None and seconds_each([]) is None
    said = [in_words(s) for s in (20, 60, 3599, 3600, 12_000)]
    assert said == ["under a minute", "1 min", "1 h", "1 h", "3 h 20 min"]


def test_my_work_tells_how_far_one_is(desk: Desk) -> None:
    ann = Person(desk, "ann")
    csrf = ann.csrf()
    seconds = iter(range(0, 10_000, 30))
    now = utc_now()
    desk.clock = lambda: now + timedelta(seconds=next(seconds))
    for n, row in enumerate(ann.rows()[:12]):
        assert ann.answer(row, 1, csrf, key=str(n)).status_code == 200
    page = " ".join(ann.get("/").text.split())
    assert "<dd>96</dd>" in page and "<dd>12</dd>" in page and "<dd>84</dd>" in page and "an hour" in page
