"""P35: a grade found changed after measures were read voids the round, in the next check, everywhere."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import driving
import polars as pl
import pytest
import tiny
from command_line import LEDGER, at, expect, nothing_changes, relgrade

from relgrade_assets.io.frames import read_table
from relgrade_assets.io.standing import standing_of
from relgrade_assets.io.voiding import examine

RUN = Path("data") / "experiments" / "tiny" / "runs" / "new.trec"
PUBLISHED = Path(".relgrade") / "published" / "tiny"
STATUS = Path(".relgrade") / "keys" / "tiny" / "round-1.status.json"


def change(top: Path, statement: str) -> None:
    """What the owner of the database file can do: its triggers taken away, a row changed."""
    with closing(sqlite3.connect(top / LEDGER)) as ledger:
        for table in ("answers", "events"):
            for how in ("update", "delete"):
                ledger.execute(f"DROP TRIGGER IF EXISTS {table}_no_{how}")
        ledger.execute(statement)
        ledger.commit()


def kinds(top: Path) -> list[str]:
    return [e.kind for e in tiny.study_of(top).log]


ONE = "(SELECT min(id) FROM answers WHERE grader = 'ann')"
RAISED, LOWERED = (f"UPDATE answers SET grade = (grade + {n}) % 3 WHERE id = {ONE}" for n in (1, 2))
TAMPERINGS = {
    "grade": RAISED,
    "auditor": RAISED.replace("'ann'", "'bob'"),
    "reason": f"UPDATE answers SET reason = 'other' WHERE id = {ONE}",
    "taken out": f"DELETE FROM answers WHERE id = {ONE}",
    "new revision": "INSERT INTO answers (experiment, round, grader, query_id, chunk_id, revision, reason, grade, "
    "unrateable, judge_later, corpus_cleanup, row_digest, source, answered_at) SELECT experiment, round, grader, "
    "query_id, chunk_id, 2, reason, 1, unrateable, judge_later, corpus_cleanup, row_digest, source, answered_at "
    f"FROM answers WHERE id = {ONE}",
    "time": f"UPDATE answers SET answered_at = '2025-01-01T00:00:00.000000Z' WHERE id = {ONE}",
}


@pytest.mark.parametrize("how", sorted(TAMPERINGS))
def test_any_change_of_an_answer_after_the_first_reading_voids(tmp_path: Path, how: str) -> None:
    """P35: logged once, with the key; what was put back doesn't undo it."""
    top = at("frozen", tmp_path)
    before = (top / LEDGER).read_bytes()
    with nothing_changes(top):
        assert getattr(examine(tiny.study_of(top)), "status", None) == "valid"
    change(top, TAMPERINGS[how])
    found = examine(tiny.study_of(top))
    assert found is not None and found.status == "void" and "the ledger" not in found.banner
    assert kinds(top)[-1] == "voided" and tiny.study_of(top).log[-1].body["key_digest"] == found.key
    assert examine(tiny.study_of(top)) == found
    assert kinds(top).count("voided") == 1
    for file in (STATUS, PUBLISHED / "status.json"):
        assert json.loads((top / file).read_bytes())["status"] == "void"
    assert before != (top / LEDGER).read_bytes()


def test_a_void_round_says_so_everywhere(tmp_path: Path) -> None:
    """P35: status, score of the folder, the key file and the store, manifest, export, checks, run; and nothing more is
    made of its key.
    """
    top = at("frozen", tmp_path, dagster=True)
    change(top, RAISED)
    said = expect(1, top, "status", "tiny").out
    assert "VOID: round 1 of tiny is void since" in said
    assert json.loads(relgrade(top, "status", "tiny", "--json").out)["standing"]["status"] == "void"
    assert b"VOID: round 1 of tiny" in (top / PUBLISHED / "report.html").read_bytes()
    for whole in ("tiny", top / PUBLISHED):
        assert "VOID: round 1 of tiny" in expect(1, top, "verify", whole).out
    query, chunk = read_table(tiny.study_of(top).path("frozen_key")).row(0)[:2]
    assert "VOID: round 1 of tiny" in relgrade(top, "trace", "tiny", query, chunk).out
    store = top / ".relgrade" / "keys" / "tiny" / "round-1"
    for key in (top / PUBLISHED, top / PUBLISHED / "key.jsonl", store, store / "key.jsonl"):
        assert "the key is void: grades were found changed" in expect(0, top, "score", key, top / RUN).err
    manifest = json.loads((top / PUBLISHED / "manifest.json").read_bytes())
    assert manifest["status"]["status"] == "void"
    assert "VOID" in expect(2, top, "export", "tiny", "--format", "ltr", "--out", top / "x").err
    assert not (top / "x").exists()
    told = driving.run(top, of="recheck")
    for table, check in (("frozen_key", "freeze_gate"), ("query_measures", "measured_key_stands")):
        assert "VOID" in told.failed_checks[f"{table}: {check}"]
    assert "VOID" in told.failed_checks["published_key: published_key_stands"]
    for table in ("frozen_key", "query_measures", "pool_trust", "published_key"):
        assert table in driving.run(top, table).refused
    assert "VOID" in relgrade(top, "run", "tiny").said


def test_grades_put_back_leave_the_round_void(tmp_path: Path) -> None:
    """P35: every table is current again, and still nothing is made of the key, by hand neither; the log keeps why."""
    top = at("frozen", tmp_path)
    change(top, RAISED)
    assert getattr(examine(tiny.study_of(top)), "status", None) == "void"
    change(top, LOWERED)
    study = tiny.study_of(top)
    assert study.outdated("published_key") == []
    for table in ("frozen_key", "query_measures", "published_key"):
        told = driving.run(top, table)
        assert "VOID" in told.refused.get(table, ""), told
    assert "VOID" in expect(2, top, "export", "tiny", "--format", "ltr", "--out", top / "x").err
    assert not (top / "x").exists()
    assert kinds(top).count("voided") == 1


def test_before_the_first_reading_nothing_is_void(tmp_path: Path) -> None:
    """P35 speaks of grades changed after measures were read; before, the key is refused since it was made of others."""
    top = at("graded", tmp_path)
    for table in ("grades", "audit_grades", "agreement", "verdicts", "frozen_key"):
        assert driving.run(top, table).ok
    change(top, RAISED)
    assert getattr(examine(tiny.study_of(top)), "status", None) == "valid"
    assert "made from answers" in driving.run(top, "query_measures").text
    assert "voided" not in kinds(top)


def test_an_older_round_is_voided_too_and_a_newer_one_is_not(tmp_path: Path) -> None:
    """P35: rounds are apart; `relgrade revise` remakes the status of the older one (superseded)."""
    top = at("frozen", tmp_path)
    expect(0, top, "revise", "tiny", "--cause", "drift")
    for file in (STATUS, PUBLISHED / "status.json"):
        assert json.loads((top / file).read_bytes())["status"] == "superseded"
    assert "SUPERSEDED: round 2 was opened" in relgrade(top, "status", "tiny").out
    assert "the key is superseded" in expect(0, top, "score", top / PUBLISHED, top / RUN).err
    change(top, RAISED)
    assert examine(tiny.study_of(top)) is None, "round 2 has no key"
    log = tiny.study_of(top).log
    assert getattr(standing_of(log, 1), "status", None) == "void"
    for file in (STATUS, PUBLISHED / "status.json"):
        assert json.loads((top / file).read_bytes())["status"] == "void"


def test_first_reading_is_recorded_once_with_what_was_read(tmp_path: Path) -> None:
    """P34: which numbers were read first; other numbers of the same key are a line of their own."""
    top = at("frozen", tmp_path)
    assert kinds(top)[-2:] == ["frozen", "first_reading"]
    first = tiny.study_of(top).log[-1]
    assert first.body["measures_digest"] == tiny.study_of(top).digest_of("query_measures")
    assert driving.run(top, "query_measures").ok
    assert kinds(top)[-1] == "first_reading"
    run = top / RUN
    ranks = run.read_text("utf-8").replace(" 1 9 new", " 1 3.5 new", 1)
    run.write_text(ranks, encoding="utf-8")
    for table in ("runs", "contributions", "pools"):
        assert driving.run(top, table).ok
    again = driving.run(top, "query_measures")
    assert again.ok or "made from" in again.text


def corrections(top: Path, *rows: tuple[str, str, int]) -> Path:
    path = top / "corrections.jsonl"
    lines = [json.dumps({"query_id": q, "chunk_id": c, "grade": g}) for q, c, g in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_a_corrected_key_is_post_hoc_and_changes_nothing_else(tmp_path: Path) -> None:
    """P35: made apart, marked wherever it is shown; key, measures, ledger and the round's standing stay."""
    top = at("frozen", tmp_path)
    study = tiny.study_of(top)
    query, chunk, _ = study.load("frozen_key").filter(pl.col("grade") == 2).row(0)
    path = corrections(top, (query, chunk, 0))
    before = {t: study.digest_of(t) for t in ("frozen_key", "query_measures", "published_key")}
    told = expect(0, top, "correct", "tiny", path, "--why", "read again", "--by", "dora").out
    assert told.startswith("POST-HOC: this is a corrected key of round 1 of tiny") and told.count("POST-HOC  nDCG") == 2
    (folder,) = (top / ".relgrade" / "post-hoc" / "tiny").iterdir()
    assert json.loads((folder / "status.json").read_bytes())["status"] == "post_hoc"
    assert "the key is post_hoc" in expect(0, top, "score", folder, top / RUN).err
    (line,) = (folder / "corrections.jsonl").read_text("utf-8").splitlines()
    assert json.loads(line) == {"query_id": query, "chunk_id": chunk, "is": 0, "was": 2}
    event = tiny.study_of(top).log[-1]
    assert (event.kind, event.body["changed"], event.body["by"]) == ("corrected", 1, "dora")
    assert {t: tiny.study_of(top).digest_of(t) for t in before} == before
    assert getattr(examine(tiny.study_of(top)), "status", None) == "valid"
    scored = pl.read_parquet(folder / "query_measures.parquet").filter(pl.col("query_id") == query)
    frozen = study.load("query_measures").filter(pl.col("query_id") == query)
    assert not scored.equals(frozen)
    expect(0, top, "correct", "tiny", path, "--why", "read again", "--by", "dora")
    assert kinds(top).count("corrected") == 1
    expect(0, top, "verify", "tiny")


def test_what_can_not_be_corrected_is_refused_whole(tmp_path: Path) -> None:
    """P35: every fault at once, nothing made; before measures were read there is nothing to correct."""
    top = at("frozen", tmp_path / "frozen")
    rows = tiny.study_of(top).load("frozen_key").rows()
    (q, c, g), (q2, c2, _) = rows[0], rows[1]
    path = corrections(top, (q, c, g), (q, "c99", 1), (q2, c2, 7), (q2, c2, 7))
    with nothing_changes(top):
        said = expect(2, top, "correct", "tiny", path, "--why", "x").err
    for words in ("which it has", "not in the pool", "one of 0, 1, 2", "each pair once"):
        assert words in said
    assert "A correction has a reason" in expect(2, top, "correct", "tiny", path, "--why", " ").err
    driving.rewrite(top, "pools", lambda f: f.reverse())
    said = expect(2, top, "correct", "tiny", path, "--why", "x").err
    assert "pools: found content digest" in said and "as it was measured" in said
    early = at("graded", tmp_path / "graded")
    assert "has nothing to correct" in expect(2, early, "correct", "tiny", path, "--why", "x").err
