"""Two runs of one partition at once, and answers that come in under a run's hands: one set of events, one key, the
tables of one run; the second waits, or is stopped with a word on why (P2, P23, P33, P34).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import driving
import polars as pl
import pytest
import tiny
from command_line import at, expect, nothing_changes
from dagster._core.test_utils import create_run_for_test
from sqlalchemy.exc import OperationalError

from relgrade_assets.assets import grading
from relgrade_assets.automation.asking import run_keys
from relgrade_assets.cli import run as cli
from relgrade_assets.errors import Refused
from relgrade_assets.io import events, freezing, turns
from relgrade_assets.io.atomic import locked
from relgrade_assets.io.study import Study
from relgrade_assets.resources.dead_runs import TAG, bury

AT_ONCE = {"turns": {"config": {"wait_seconds": 0.0}}}
HOLDER = """
import sys, time
from pathlib import Path
from relgrade_assets.io.atomic import locked, write_bytes
path = Path(sys.argv[1])
with locked(path):
    write_bytes(path.with_suffix(".run"), b"that run")
    print("held", flush=True)
    time.sleep(600)
"""


@contextmanager
def held(top: Path, path: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """Another process has the turn of the tiny study, or another lock."""
    path = path or tiny.home_of(top).state / "locks" / "turns" / f"{tiny.NAME}.lock"
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def kinds(top: Path) -> list[str]:
    return [e.kind for e in tiny.study_of(top).log]


def contents(top: Path) -> dict[str, str | None]:
    study = tiny.study_of(top)
    return {t: study.digest_of(t) for t in driving.MADE if t != "published_key"}


def test_a_turn_is_one_runs(tmp_path: Path) -> None:
    """Held by another process it is waited for, told, then refused naming the process; a killed one gives it back; a
    process of the same Dagster run shares it.
    """
    home, said = tiny.home_of(tmp_path), []
    with turns.turn(home, "tiny"), turns.turn(home, "tiny"):
        assert turns.taken(home, "tiny") and not turns.taken(home, "other")
    assert not turns.taken(home, "tiny")
    with held(tmp_path) as process:
        with (
            pytest.raises(Refused, match=f"another run of tiny, process {process.pid} .*Wait for it to end"),
            turns.turn(home, "tiny", run="this run", wait_seconds=1.5, tell=said.append),
        ):
            pass
        assert said == [f"tiny is being run by process {process.pid}; waiting for it to end"]
        with turns.turn(home, "tiny", run="that run", wait_seconds=0):
            pass
        assert turns.taken(home, "tiny")
        process.kill()
        process.wait()
        with turns.turn(home, "tiny", wait_seconds=10):
            pass
    assert not turns.taken(home, "tiny")


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    inner: Any = turns.turn.__wrapped__  # type: ignore[attr-defined]
    monkeypatch.setitem(inner.__kwdefaults__, "wait_seconds", 0.0)


@pytest.mark.usefixtures("no_waiting")
def test_the_second_run_is_stopped_by_a_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the command line and from the page."""
    top = at("frozen", tmp_path, dagster=True)
    with held(top) as process:
        with nothing_changes(top):
            said = expect(2, top, "run", "tiny").err
            assert f"process {process.pid}" in said and "This run changed nothing." in said
        before = contents(top)
        patient = driving.config
        monkeypatch.setattr(
            driving, "config", lambda top: {**patient(top), "resources": {**patient(top)["resources"], **AT_ONCE}}
        )
        told = driving.run(top)
        assert not told.made and set(told.refused.values()) == {said.strip()}
        assert contents(top) == before
    assert driving.run(top, "queries").made == ("queries",)


def test_sensors_ask_for_nothing_while_a_run_is_at_work() -> None:
    """P43: what is seen then is asked for once the run has ended, if it is still there, and what was asked before is
    not asked again.
    """
    one, two = tiny.AT, tiny.AT + timedelta(minutes=1)
    keys, cursor = run_keys({"a": "x"}, None, at=one)
    assert keys["a"].startswith("a:x:")
    during, cursor = run_keys({"a": "y", "b": "z"}, cursor, at=two, busy={"a", "b"})
    assert during == {}
    same, _ = run_keys({"a": "x"}, cursor, at=two)
    assert same == keys
    after, _ = run_keys({"a": "y", "b": "z"}, cursor, at=two)
    assert after == {n: f"{n}:{d}:{two.isoformat(timespec='microseconds')}" for n, d in (("a", "y"), ("b", "z"))}


def test_a_freeze_and_a_first_reading_are_logged_once_whoever_came_first(tmp_path: Path) -> None:
    """P33, P34, P36: two runs that both saw an unfrozen round; two that read other numbers."""
    top = at("graded", tmp_path)
    assert driving.run(top, *driving.BEFORE_THE_GATES, "frozen_key").ok
    study = tiny.study_of(top)
    frozen = study.log[-1]
    found = events.append(
        study.ledger,
        "tiny",
        "frozen",
        {k: frozen.body[k] for k in ("round", "key_digest", "files")},
        tiny.AT,
        once=lambda log: next((e for e in log if e.kind == "frozen"), None),
        more=lambda _: pytest.fail("the round is closed already"),
    )
    assert found == frozen
    key = str(frozen.body["key_digest"])
    for value in (1.0, 1.0, 2.0, 2.0):
        freezing.first_reading(study, key, pl.DataFrame({"value": [value]}))
    assert kinds(top)[-2:] == ["first_reading", "read_again"]
    body = {"round": 1, "key_digest": key, "measures_digest": "other"}
    with pytest.raises(Refused, match="Another run read the measures of round 1 of tiny first"):
        events.append(study.ledger, "tiny", "first_reading", body, tiny.AT, once=lambda log: None)


def change_an_answer(top: Path) -> None:
    study = tiny.study_of(top)
    pair = study.load("sheets").row(0, named=True)
    row = {"query_id": pair["query_id"], "chunk_id": pair["chunk_id"], "reason": "read it again", "grade": 1}
    now = study.ledger.answers("tiny", 1, ["ann"]).filter(query_id=row["query_id"], chunk_id=row["chunk_id"])
    row["grade"] = (int(now["grade"][0]) + 1) % 3
    assert tiny.hand_in(top, "ann", [row]) == 1


def test_grades_made_while_an_answer_came_in_are_outdated_not_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: a table says what was read, not what lies there by the time it is written."""
    top = at("graded", tmp_path)

    def graded(study: Study, *rest: Any) -> Any:
        found = original(study, *rest)
        if tiny.NAME not in done:
            done.append(tiny.NAME)
            change_an_answer(top)
        return found

    original, done = grading.graded, []
    assert driving.run(top, *driving.BEFORE_THE_GATES[: driving.BEFORE_THE_GATES.index("grades")]).ok
    monkeypatch.setattr(grading, "graded", graded)
    assert driving.run(top, "grades").ok
    (fault,) = tiny.study_of(top).outdated("grades")
    assert fault.found.startswith("made from answers")
    assert driving.run(top, "grades").ok and tiny.study_of(top).outdated("grades") == []


def test_an_answer_that_comes_in_under_the_freeze_stops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P23, P29: the ledger took it, so the key is not made without it; the next run freezes what stands then."""
    top = at("graded", tmp_path)
    assert driving.run(top, *driving.BEFORE_THE_GATES).ok
    original = freezing.require_fresh_audit
    with monkeypatch.context() as during:
        during.setattr(freezing, "require_fresh_audit", lambda *a: (change_an_answer(top), original(*a)))
        told = driving.run(top, "frozen_key")
    assert "an answer that came in while the key was made" in told.refused["frozen_key"]
    assert driving.nothing_frozen(top)
    assert driving.run(top).ok and kinds(top).count("frozen") == 1


def test_killed_runs_of_the_command_line_are_reported_and_living_ones_are_not(tmp_path: Path) -> None:
    """Also those that hold no pool's place: they would count for ever among the runs that may be at work."""
    home = tiny.home_of(tmp_path)
    locks = home.state / "locks" / "runs"
    with dg.DagsterInstance.ephemeral() as instance:
        made = {
            name: create_run_for_test(instance, status=dg.DagsterRunStatus.STARTED, tags=tags).run_id
            for name, tags in {
                "killed": {TAG: "killed"},
                "living": {TAG: "living"},
                "of another home": {TAG: "elsewhere"},
                "of the page": {},
            }.items()
        }
        with locked(locks / "killed.lock"):
            pass
        with held(tmp_path, locks / "living.lock"):
            bury(home, instance)
        status = {name: instance.get_run_by_id(run_id).status.value for name, run_id in made.items()}  # type: ignore[union-attr]
    assert status == {"killed": "FAILURE", "living": "STARTED", "of another home": "STARTED", "of the page": "STARTED"}
    assert not (locks / "killed.lock").exists()


def test_dagster_starts_though_another_process_makes_its_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two first runs in a new home; what can't pass by itself is told at once."""
    said = ["table alembic_version already exists", "database is locked"]
    monkeypatch.setattr(cli.time, "sleep", lambda _: None)

    def get() -> str:
        if said:
            raise OperationalError("CREATE TABLE", {}, Exception(said.pop(0)))
        return "an instance"

    monkeypatch.setattr(dg.DagsterInstance, "get", get)
    assert cli._started() == "an instance"
    for last in ("disk I/O error", "database is locked"):
        said[:] = [last] * cli.STARTS
        with pytest.raises(OperationalError, match=last):
            cli._started()
        assert len(said) == (cli.STARTS - 1 if last.startswith("disk") else 0)


@pytest.mark.full
def test_a_command_and_a_run_of_the_page_at_once(tmp_path: Path) -> None:
    """Each in a process of its own: one key, one set of events, the tables that one run makes."""
    top = at("graded", tmp_path / "two", dagster=True)
    page = [sys.executable, "-m", "dagster", "asset", "materialize", "-m", "relgrade_assets.definitions"]
    asked = [*page, "--select", ",".join(driving.MADE), "--partition", tiny.NAME]
    at_home = {**os.environ, "DAGSTER_HOME": str(top), "RELGRADE_HOME": str(top)}
    with (
        driving.started(top, "run", tiny.NAME) as one,
        subprocess.Popen(asked, cwd=top, env=at_home, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as other,
    ):
        said = [p.communicate(timeout=300) for p in (one, other)]
    assert [p.returncode for p in (one, other)] == [0, 0], said
    assert kinds(top) == kinds(at("frozen", tmp_path / "one"))
    assert contents(top) == contents(tmp_path / "one")
    assert tiny.study_of(top).outdated("published_key") == []
