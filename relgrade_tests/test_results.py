"""What a finished study shows to its owner and to the world: the report made by the graph, kept, published and served
(P13, P41, P46).
"""

from __future__ import annotations

import re
from pathlib import Path

import desk_study
import pytest
import tiny
from driving import AFTER_THE_GATES, BEFORE_THE_GATES, copy, run
from starlette.testclient import TestClient
from tiny import study_of

from relgrade_assets.desk.app import make_app
from relgrade_assets.desk.sessions import Desk
from relgrade_assets.errors import NotThere, Refused
from relgrade_assets.io import events
from relgrade_assets.io.leaks import leak_check
from relgrade_assets.io.publishing import private_strings
from relgrade_assets.io.report import page, store
from relgrade_assets.io.study import Study

PRIVATE = tiny.DESIGN.replace('seed: "7"', 'seed: "7"\nprivate: true') + "audit: {at_least: 12}\n"
MADE_FROM = ("query_sample", "intents", "grades", "audit_grades", "contributions")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private study, graded with some disagreements and published."""
    top = tmp_path_factory.mktemp("finished")
    tiny.write_experiment(top, design=PRIVATE)
    tiny.settings(top)
    assert run(top, "queries", "query_sample").ok
    tiny.review_all(top)
    assert run(top, *BEFORE_THE_GATES).ok
    tiny.grade_all(top, "ann")
    tiny.grade_all(top, "bob", by=lambda q, c: 1 if (q, c) == ("where is thing 4", "c04") else tiny.truth(q, c))
    assert run(top, of="regrade").ok
    told = run(top, *AFTER_THE_GATES, "revisions")
    assert told.ok and "report" in told.made and "published_key" in told.made, told.text
    return top


def private_of(study: Study) -> list[str]:
    texts = private_strings(study, {t: study.load(t) for t in MADE_FROM})
    return sorted({*texts, study.secret})


def reports(top: Path) -> tuple[bytes, bytes]:
    study = study_of(top)
    return store.stored_report(study, "public"), store.stored_report(study, "private")


def test_the_public_report_leaks_nothing_and_the_private_one_has_the_words(finished: Path) -> None:
    """P41: looked through like every other file that is published, for people's names too."""
    public, private = reports(finished)
    study = study_of(finished)
    planted = private_of(study)
    shown = public.replace(page.plotly().encode(), b"").decode()
    assert len(planted) > 80
    assert leak_check({"report.html": public}, planted) == []
    assert not [p for p in (*planted, "ann", "bob", "cleo") if re.search(rf"(?<!\w){re.escape(p)}(?!\w)", shown)]
    text = private.decode()
    assert "where is thing 4" in text and "chunk is about thing 4" in text and "Where is thing 4 written?" in text
    assert "bob" in text and "auditor-1" in shown


def test_the_published_report_is_the_public_one_and_in_the_manifest(finished: Path) -> None:
    """P42."""
    study = study_of(finished)
    data = (study.home.published / study.name / "report.html").read_bytes()
    assert data == reports(finished)[0]
    listed = dict(study.load("published_key").select("file", "bytes").iter_rows())
    assert listed["report.html"] == len(data)


def test_what_a_key_cannot_tell_and_bad_habits_are_said(finished: Path) -> None:
    """P45, P46."""
    text = reports(finished)[0].decode()
    for said in (
        "queries that nobody typed",
        "Latency and cost",
        "No query is sure to have two graders",
        "unjudged chunk",
    ):
        assert said in text


def test_made_again_it_is_the_same_bytes(finished: Path, tmp_path: Path) -> None:
    top = copy(finished, tmp_path / "top")
    before = reports(top)
    assert run(top, "report").ok
    assert reports(top) == before


def test_a_private_string_stops_the_report_and_the_old_one_stands(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P41: by whichever way it came into what the page is made from."""
    top = copy(finished, tmp_path / "top")
    before = reports(top)
    monkeypatch.setattr("relgrade_assets.io.report.findings._habits", lambda *given: [tiny.QUERIES[3].upper()])
    told = run(top, "report")
    assert not told.ok and "Private text would stand in the public report" in told.text
    assert "report.html: found a private string of 16 characters" in told.text
    assert tiny.QUERIES[3] not in told.text.lower()
    assert reports(top) == before


def test_a_changed_report_is_refused_by_name(finished: Path, tmp_path: Path) -> None:
    study = study_of(copy(finished, tmp_path / "top"))
    path = store.report_path(study, "public")
    path.write_bytes(path.read_bytes().replace(b"passed", b"failed"))
    with pytest.raises(Refused, match="another file than was made"):
        store.stored_report(study, "public")
    path.unlink()
    with pytest.raises(Refused, match="no such file"):
        store.stored_report(study, "public")
    with pytest.raises(NotThere, match="round 2"):
        store.stored_report(study, "private", 2)


def served(top: Path, person: str, role: str) -> TestClient:
    desk = Desk(tiny.home_of(top), url="http://127.0.0.1")
    client = TestClient(make_app(desk), base_url="http://127.0.0.1")
    assert client.get(desk_study.link(desk, person, role)).status_code == 200
    return client


def test_the_desk_shows_it_to_the_owner_alone(finished: Path, tmp_path: Path) -> None:
    """P13: graders and auditor get what a page that isn't there gives; so does anybody without a link."""
    top = copy(finished, tmp_path / "top")
    owner = served(top, "olga", "owner")
    shown = owner.get("/e/tiny/report")
    assert shown.status_code == 200 and shown.content == reports(top)[1]
    assert owner.get("/e/tiny/report?round=1&version=public").content == reports(top)[0]
    policy = shown.headers["content-security-policy"]
    assert page.policy_of(shown.content) in policy and "frame-ancestors 'none'" in policy
    assert owner.get("/").text.count("/e/tiny/report") == 1
    assert "no report of round 2" in owner.get("/e/tiny/report?round=2").text
    nothing = owner.get("/e/tiny/nowhere")
    for asked in ("report?round=x", "report?version=other", "report?round=9999999", "report?round=-1"):
        answer = owner.get(f"/e/tiny/{asked}")
        assert (answer.status_code, answer.text) == (404, nothing.text), asked
    for person, role in (("ann", "grader"), ("bob", "auditor")):
        answer = served(top, person, role).get("/e/tiny/report")
        assert (answer.status_code, answer.text) == (404, nothing.text)


def test_a_void_round_says_so_on_a_report_that_was_made_before(finished: Path, tmp_path: Path) -> None:
    """P35: the desk shows the page as it was made, with the banner of how the key stands now."""
    top = copy(finished, tmp_path / "top")
    study = study_of(top)
    body = {"round": 1, "key_digest": "x", "why": "the grade of q / c was changed"}
    events.append(study.ledger, study.name, "voided", body, tiny.AT)
    shown = served(top, "olga", "owner").get("/e/tiny/report?version=public").text
    assert 'role="alert"' in shown and "VOID: round 1 of tiny is void" in shown and "was changed" in shown


def test_the_assets_metadata_link_the_page(finished: Path, tmp_path: Path) -> None:
    told = run(copy(finished, tmp_path / "top"), "report")
    (made,) = [e for e in told.events if e.event_type_value == "ASSET_MATERIALIZATION"]
    link = made.event_specific_data.materialization.metadata["page"].value
    assert link == "http://127.0.0.1:8765/e/tiny/report?round=1"
