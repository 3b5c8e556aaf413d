"""What a finished study shows to its owner and to the world: the report made by the graph, kept, published and served,
and the way of a grade back to the log (P13, P33, P41, P46).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import desk_study
import jsonschema
import pytest
import tiny
from driving import AFTER_THE_GATES, BEFORE_THE_GATES, Told, command, copy, rewrite, run
from starlette.testclient import TestClient
from tiny import study_of

from relgrade_assets.assets import lineage
from relgrade_assets.assets.build import column_schema
from relgrade_assets.desk.app import make_app
from relgrade_assets.desk.sessions import Desk
from relgrade_assets.errors import NotThere, Refused
from relgrade_assets.io import events, tracing
from relgrade_assets.io.frames import read_table
from relgrade_assets.io.leaks import leak_check
from relgrade_assets.io.private_text import private_strings
from relgrade_assets.io.publication import manifest_schema
from relgrade_assets.io.report import page, store
from relgrade_assets.io.rounds import INPUTS
from relgrade_assets.io.study import Study
from relgrade_assets.schemas import TABLES

PRIVATE = tiny.DESIGN.replace('seed: "7"', 'seed: "7"\nprivate: true') + "audit: {at_least: 12}\n"
MADE_FROM = ("query_sample", "intents", "grades", "audit_grades", "contributions")


@pytest.fixture(scope="module")
def last_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Told]:
    """A private study, graded with some disagreements and published; what its last run told."""
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
    return top, told


@pytest.fixture(scope="module")
def finished(last_run: tuple[Path, Told]) -> Path:
    return last_run[0]


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
    query, chunk = read_table(study.path("frozen_key")).row(0)[:2]
    assert 'role="alert">VOID: round 1 of tiny is void' in served(top, "olga", "owner").get("/").text
    assert "VOID" not in served(top, "ann", "grader").get("/").text
    traced = served(top, "olga", "owner").get(f"/e/tiny/trace?query={query}&chunk={chunk}").text
    assert 'role="alert"' in traced and "VOID: round 1 of tiny is void" in traced


def test_what_is_published_as_text_has_one_form(finished: Path) -> None:
    """P42: UTF-8 without a byte-order mark, lines that end in a line feed, no tab; every file of formats.md, and in the
    manifest the sources' digests (P33).
    """
    folder = finished / ".relgrade" / "published" / "tiny"
    files = {p.name: p.read_bytes() for p in folder.iterdir()}
    listed = (
        (Path(__file__).parents[1] / "docs" / "reference" / "formats.md").read_text("utf-8").split("### Published")[1]
    )
    assert all(f"`{name}`" in listed for name in files)
    for name, data in files.items():
        if not name.endswith(".parquet"):
            text = data.decode("utf-8")
            assert "\r" not in text and not text.startswith("\ufeff"), name
            assert name == "report.html" or ("\t" not in text and (not text or text.endswith("\n"))), name
    manifest = json.loads(files["manifest.json"])
    study = study_of(finished)
    assert manifest["sources"] == {n: study.source_digest(n) for n in INPUTS}
    validator = jsonschema.Draft202012Validator(manifest_schema())
    assert list(validator.iter_errors(manifest)) == []


def materialised(told: Told) -> dict[str, Any]:
    """Each table that a run made, and its materialisation."""
    made = [e.event_specific_data.materialization for e in told.events if e.event_type_value == "ASSET_MATERIALIZATION"]
    return {m.asset_key.to_user_string(): m for m in made}


def test_the_assets_metadata_link_the_page_and_show_it_small(last_run: tuple[Path, Told]) -> None:
    """P40: every plot says its unit and n, and its interval or that there is none; shown inline by Dagster."""
    shown = materialised(last_run[1])["report"].metadata
    assert shown["page"].value == "http://127.0.0.1:8765/e/tiny/report?round=1"
    for name in ("headline", "differences", "unjudged_at_most", "pools_shared"):
        text = shown[name].value
        drawn = "data:image/svg+xml;base64," in text
        assert drawn is (name != "differences") and len(text) < 1_000, name  # every difference is the same here
        assert "12 queries" in text and ("95%" in text or "no interval" in text), name
    assert "| weighted_kappa |" in shown["gates"].value and "| old |" in shown["left_out_of_the_pool"].value


def test_dagster_leads_from_the_published_key_back_to_the_sources(last_run: tuple[Path, Told]) -> None:
    """P2: every materialisation's data version is its content's digest, and says the digest of each of its inputs,
    which is that input's own.
    """
    top, told = last_run
    study, made = study_of(top), materialised(told)
    todo, seen = ["published_key"], set()
    while todo:
        table = todo.pop()
        own = study.label(table)
        assert own is not None
        if table in made:
            shown = made[table]
            assert shown.tags["dagster/data_version"] == shown.metadata["digest"].value == own.digest
            assert shown.metadata["protocol"].value == study.protocol
            assert {r.data["input"]: r.data["digest"] for r in shown.metadata["made_from"].records} == own.inputs
        assert set(own.inputs) == set(TABLES[table].inputs)
        for name, digest in own.inputs.items():
            assert digest == study.digest_of(name), (table, name)
            if name in TABLES and name not in seen:
                todo.append(name)
                seen.add(name)
    assert {"queries", "runs", "intents", "sheets", "grades", "frozen_key"} <= seen


def test_columns_read_well_in_dagster() -> None:
    for table in TABLES:
        for column in column_schema(table).columns:
            rules = [*column.constraints.other, str(column.description)]
            assert column.description and not re.search(r"\]\(|_than|isin|str_|None", " ".join(rules)), (table, rules)
    said = {c.name: c.constraints.other for c in column_schema("staleness").columns}
    assert said["rerate"] == [">= 0", "<= 100"] and said["state"][0].startswith("due or open")


# the way back


def pair_of(top: Path) -> tuple[str, str]:
    return tiny.query_ids(top)["where is thing 4"], "c04"


def test_a_grade_is_followed_back_to_the_log(finished: Path) -> None:
    """P33: by hand: thing 4 is in c04, which both arms found, and stands in row 4 of the log."""
    query_id, chunk_id = pair_of(finished)
    found = tracing.trace_of(study_of(finished), query_id, chunk_id)
    rows = {link.name: link.rows for link in found.links}
    assert rows["key row"] == ({"query_id": query_id, "chunk_id": "c04", "grade": 2},)
    given = [(r["grader"], r["grade"], r["reason"], r["source"]) for r in rows["grade events"]]
    assert given == [
        ("ann", 2, "ann, round 1: chunk is about thing 4", "ann.jsonl"),
        ("bob", 1, "bob, round 1: chunk is about thing 4", "bob.jsonl"),
    ]
    assert [r["grader"] for r in rows["sheets"]] == ["ann", "bob"] and "text" not in rows["sheets"][0]
    assert [(r["arm"], r["rank"], r["score"]) for r in rows["found by"]] == [("new", 2, 8.0), ("old", 1, 9.0)]
    assert rows["sampled query"][0]["query"] == "where is thing 4" and len(rows["pool entry"]) == 1
    assert rows["log rows"] == ({"row": 4, "query": "where is thing 4", "count": 30},)
    assert [p.text for p in found.proofs if not p.holds] == [] and len(found.proofs) == 6
    digests = {link.stands_in: link.digest for link in found.links}
    study = study_of(finished)
    assert digests["key.jsonl"] == study.load("published_key").filter(file="key.jsonl")["sha256"][0]
    assert digests["contributions"] == study.digest_of("contributions")
    assert tracing.trace_of(study, "  Where is THING 4", chunk_id).query_id == query_id


def test_every_row_of_the_key_has_a_way_back(finished: Path) -> None:
    study = study_of(finished)
    for query_id, chunk_id, grade in study.load("frozen_key").sample(12, seed=1).iter_rows():
        found = tracing.trace_of(study, query_id, chunk_id)
        assert found.links[0].rows[0]["grade"] == grade and all(p.holds for p in found.proofs)
        assert all(link.rows for link in found.links)


def test_what_was_changed_on_the_way_is_told(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P33: a table rewritten with its label, a changed passage, a changed log."""
    top = copy(finished, tmp_path / "top")
    query_id, chunk_id = pair_of(top)
    rewrite(top, "contributions", lambda frame: frame.with_columns(rank=frame["rank"] + 1))
    folder = study_of(top).folder
    for name, was, now in (
        ("corpus.jsonl", "This is thing 4.", "This is thing 44."),
        ("log.csv", "thing 4,30", "thing 4,31"),
    ):
        text = (folder / name).read_text("utf-8")
        (folder / name).write_text(text.replace(was, now), encoding="utf-8")
    found = tracing.trace_of(study_of(top), query_id, chunk_id)
    assert [p.text for p in found.proofs if not p.holds] == [
        "the chunk in the corpus is still the one that was pooled",
        "every arm that found it has it in its run at that rank",
    ]
    log = found.links[-1]
    assert log.rows == () and log.note.startswith("rows 4 of a log that is no longer there as it was")
    assert found.proofs[-1].holds is None, "contributions are not those of the round"
    page = served(top, "olga", "owner").get(f"/e/tiny/trace?query={query_id}&chunk={chunk_id}").text
    code, said = command(top, monkeypatch, tmp_path / "dagster", "trace", "tiny", query_id, chunk_id)
    assert code == 1 and "Not everything on the way is proved" in said
    for text, word, at_desk in (
        ("the chunk in the corpus is still the one that was pooled", "NO ", "No"),
        ("every arm that found it has it in its run at that rank: sha256 of contributions: ", "not known", "Not known"),
    ):
        assert f"  {word}  {text}" in said and f"<li>{at_desk}: {text}" in page
    assert "<p>Not known.</p>" in page and "\n  not known\n" in said


def test_a_query_or_chunk_that_is_not_there_is_refused_with_what_is_near(finished: Path) -> None:
    study = study_of(finished)
    query_id, _ = pair_of(finished)
    with pytest.raises(Refused, match=rf"(?s)no query of the sample.*Near it: {query_id}"):
        tracing.trace_of(study, query_id[:-1], "c04")
    with pytest.raises(Refused, match=r"(?s)'c044': found a chunk that was not pooled.*Near it: c04"):
        tracing.trace_of(study, query_id, "c044")


def test_a_trace_waits_for_the_freeze(finished: Path, tmp_path: Path) -> None:
    """P13: it says which arm found what; so not before the first key, nor while a later round is graded."""
    from relgrade_assets.io.rounds import open_next_round

    tiny.write_experiment(tmp_path / "fresh")
    with pytest.raises(Refused, match=r"(?s)would unblind its graders.*round 1: found no frozen key"):
        tracing.trace_of(study_of(tmp_path / "fresh"), "q", "c")
    top = copy(finished, tmp_path / "top")
    owner = served(top, "olga", "owner")
    query_id, chunk_id = pair_of(top)
    asked = f"/e/tiny/trace?query={query_id}&chunk={chunk_id}"
    shown = owner.get(asked)
    assert shown.status_code == 200 and "Found by" not in shown.text
    assert "found by" in shown.text and '<td dir="auto">8.0</td>' in shown.text
    assert "Yes: the row stands in the frozen key." in shown.text
    assert "There is nothing to trace" in owner.get(f"/e/tiny/trace?query={query_id}&chunk=%3Cb%3E").text
    assert owner.get("/e/tiny/trace").status_code == 200
    nothing = owner.get("/e/tiny/nowhere")
    for person, role in (("ann", "grader"), ("bob", "auditor")):
        answer = served(top, person, role).get(asked)
        assert (answer.status_code, answer.text) == (404, nothing.text)
    open_next_round(study_of(top), cause="boundary", what="neighbours", by="dora")
    with pytest.raises(Refused, match="round 2: found a round that is being graded"):
        tracing.trace_of(study_of(top), query_id, chunk_id, round=1)
    answer = owner.get(asked)
    assert answer.status_code == 200 and "would unblind" in answer.text and "8.0" not in answer.text


def test_trace_on_the_command_line(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query_id, chunk_id = pair_of(finished)
    code, said = command(finished, monkeypatch, tmp_path / "dagster", "trace", "tiny", query_id, chunk_id, "--json")
    told = json.loads(said.splitlines()[0])
    assert code == 0 and told["query_id"] == query_id and all(p["holds"] for p in told["proofs"])
    code, said = command(finished, monkeypatch, tmp_path / "dagster", "trace", "tiny", query_id, chunk_id)
    assert code == 0 and "found by (contributions" in said and "yes  the row stands in the frozen key" in said


def test_column_lineage_names_columns_that_are_there() -> None:
    """Against the schemas; a table comes from its own inputs alone."""
    wrong = []
    for table, columns in lineage.COLUMNS.items():
        own = TABLES[table].model.to_schema().columns
        wrong += [f"{table}.{c}" for c in columns if c not in own]
        for source in (s for sources in columns.values() for s in sources):
            at, _, name = source.partition(".")
            if at not in TABLES[table].inputs or name not in TABLES[at].model.to_schema().columns:
                wrong.append(f"{table} from {source}")
    assert wrong == []
    kept = lineage.column_lineage("frozen_key")["dagster/column_lineage"]
    assert {d.asset_key.path[-1] for d in kept.deps_by_column["grade"]} == {"grades"}
    assert lineage.column_lineage("plan") == {}
