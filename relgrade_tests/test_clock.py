"""A clock that jumps back by a day and ahead by a year, between any two steps of a study: what was recorded keeps the
order in which it came, nothing is lost or doubled, and what means a duration reads no wall clock.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from itertools import cycle
from pathlib import Path

import driving
import polars as pl
import pytest
import tiny
from command_line import expect

from relgrade_assets.automation.asking import run_keys
from relgrade_assets.io import events
from relgrade_assets.io.grading_run import Progress
from relgrade_assets.io.ledger import Ledger
from relgrade_assets.io.links import Links
from relgrade_assets.io.study import Study, open_study
from relgrade_assets.io.voiding import examine
from relgrade_assets.methods.pace import seconds_each
from relgrade_assets.resources import studies

PACKAGE = Path(__file__).resolve().parents[1] / "relgrade_assets"
DAY, YEAR = timedelta(days=1), timedelta(days=365)
JUMPS = (tiny.AT, tiny.AT - DAY, tiny.AT + YEAR, tiny.AT + YEAR - DAY, tiny.AT + DAY)
PAIR = {"query_id": "q1", "chunk_id": "c1", "unrateable": False, "judge_later": False, "corpus_cleanup": False}


@pytest.fixture
def jumping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock finds it elsewhere."""
    clock = partial(next, cycle(JUMPS))

    def config(top: Path) -> dict[str, object]:
        return {"resources": {"studies": {"config": {"top": str(top)}}}, "loggers": {"progress": {}}}

    def study_of(top: Path, *, name: str = tiny.NAME) -> Study:
        return open_study(tiny.home_of(top), name, clock=clock)

    monkeypatch.setattr(driving, "config", config)
    monkeypatch.setattr(studies, "utc_now", clock)
    monkeypatch.setattr(tiny, "study_of", study_of)


def test_only_one_place_reads_the_wall_clock() -> None:
    """Durations, time limits, waits and rates are counted by the clock that never jumps."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and (ast.unparse(node) in {"time.time", "time.time_ns"}):
                found.add(f"{path.stem}: {ast.unparse(node)}")
            if isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}:
                found.add(f"{path.stem}: {ast.unparse(node)}")
    assert found == {"study: datetime.now"}


def rows(grade: int) -> pl.DataFrame:
    row = {**PAIR, "reason": f"read as {grade}", "grade": grade, "row_digest": "d"}
    return pl.DataFrame([row], schema_overrides={"grade": pl.Int64})


def test_the_last_answer_and_review_count_whatever_the_clock_said(tmp_path: Path) -> None:
    """P23: revisions count, times don't; the chain of events holds (P36)."""
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    for n, at in enumerate(JUMPS):
        ledger.record_answers("tiny", 1, "ann", rows(n % 3), source="desk", at=at)
        review = pl.DataFrame(
            {"query_id": ["q1"], "row_digest": ["d"], "verdict": [("ok", "change")[n % 2]], "note": [""]}
        )
        ledger.record_reviews("tiny", "bob", review, at=at)
        ledger.record_issued("tiny", 1, "ann", f"sheet {n}", at=at)
        events.append(ledger, "tiny", "audit_locked", {"round": 1, "digest": f"d{n}"}, at)
        assert ledger.answers("tiny", 1, ["ann"])["grade"].to_list() == [n % 3]
        assert ledger.reviews("tiny")["verdict"].to_list() == [("ok", "change")[n % 2]]
        assert ledger.latest_issued("tiny", 1, "ann") == f"sheet {n}"
    log = events.read(ledger, "tiny")
    assert [e.body["digest"] for e in log] == [f"d{n}" for n in range(len(JUMPS))]
    assert [e.at for e in log] != sorted(e.at for e in log) and events.check_chain(log) == []
    assert ledger.record_answers("tiny", 1, "ann", rows(1), source="desk", at=JUMPS[1]).same == 1


@pytest.mark.usefixtures("jumping")
def test_a_study_under_a_jumping_clock_comes_to_the_same_key(tmp_path: Path) -> None:
    """The graph, `verify`, status, staleness, a revision and the void of a round: as with a clock that goes (P35,
    P36).
    """
    top = tmp_path
    tiny.write_experiment(top)
    assert driving.run(top, "queries", "query_sample").ok
    tiny.review_all(top)
    assert driving.run(top).ok
    tiny.grade_all(top, "ann", by=lambda q, c: 2 - tiny.truth(q, c))
    tiny.grade_all(top, "ann")
    tiny.grade_all(top, "bob")
    assert driving.run(top).ok
    study = tiny.study_of(top)
    log = study.log
    assert sorted(e.kind for e in log[:3]) == ["audit_locked", "intents_locked", "opened"]
    assert [e.kind for e in log[3:]] == ["frozen", "first_reading"]
    assert [e.at for e in log] != sorted(e.at for e in log), "the clock did jump"
    assert log[3].body["key_digest"] == KEY, "the key of the same answers by a clock that goes"
    assert driving.run(top, "staleness").ok
    assert set(tiny.study_of(top).load("staleness")["state"]) <= {"fine", "watch", "unknown"}
    expect(0, top, "verify", tiny.NAME)
    standing = examine(tiny.study_of(top))
    assert standing is not None and standing.status == "valid"
    expect(0, top, "revise", tiny.NAME, "--cause", "drift")
    assert tiny.study_of(top).round == 2


KEY = "fea6fe78c12febe798bdde2aa4b09390523609baf5ad74375a45e3a90851241d"


def test_links_under_a_jumping_clock(tmp_path: Path) -> None:
    """P24: one is over when the clock says so; one that was issued while the clock was a year ahead opens nothing once
    it is right again, rather than for a year.
    """
    links = Links(tiny.home_of(tmp_path))
    token = links.issue("tiny", "ann", "grader", at=tiny.AT, days=2)
    assert [bool(links.open(token, at=at)) for at in JUMPS] == [True, True, False, False, True]
    ahead = links.issue("tiny", "ann", "grader", at=tiny.AT + YEAR, days=2)
    assert links.open(ahead, at=tiny.AT + YEAR) and links.open(ahead, at=tiny.AT) is None
    longest = links.issue("tiny", "ann", "grader", at=tiny.AT, days=90)
    assert links.open(longest, at=tiny.AT) and links.open(longest, at=tiny.AT - timedelta(hours=23))
    links.revoke("tiny", "ann")
    assert not any(links.open(t, at=at) for t in (token, ahead, longest) for at in JUMPS)


def times() -> Iterator[datetime]:
    for n in range(30):
        yield tiny.AT + timedelta(seconds=10 * n) + (YEAR if n > 20 else timedelta(0))


def test_pace_and_estimates_survive_a_jump() -> None:
    """P24: a jump ahead is a pause, one back leaves a pace that is told."""
    assert seconds_each(list(times())) == 10.0
    back = seconds_each([at - YEAR - DAY for at in times()] + list(times()))
    assert back is not None and 0 < back <= 10.0
    told = Progress("ann", 5, 10, 0, 5, 0, 0, 60.0, tiny.AT - YEAR)
    assert told.per_minute == 5.0 and told.ends == tiny.AT - YEAR + timedelta(minutes=1)


def test_a_sensor_asks_once_under_a_jumping_clock() -> None:
    """P43: what is seen from tick to tick starts one run, and what comes again another one."""
    cursor, keys = None, set()
    for at in JUMPS:
        found, cursor = run_keys({"tiny": "x"}, cursor, at=at)
        keys.add(found["tiny"])
    assert len(keys) == 1
    for at in JUMPS[1:]:
        _, cursor = run_keys({}, cursor, at=at)
        found, cursor = run_keys({"tiny": "x"}, cursor, at=at)
        keys.add(found["tiny"])
    assert len(keys) == len(JUMPS)
