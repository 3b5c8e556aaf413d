"""Model graders inside the graph and from the command line (P20-P23): run for what is missing, shown while they run,
stopped and resumed.
"""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import agents
import driving
import pytest
from agents import account, behave, check, fake, pace, prepare
from tiny import NAME, study_of

from relgrade_assets.assets import build
from relgrade_assets.definitions import defs
from relgrade_assets.io import attempts, progress
from relgrade_assets.io.freezing import _set_up
from relgrade_assets.io.ledger import Whose
from relgrade_assets.io.next_steps import Next, waited_for
from relgrade_assets.methods.prompt import TEMPLATE
from relgrade_assets.protocol.canonical import digest


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of 60 pairs with its sheets, to be copied."""
    top = tmp_path_factory.mktemp("prepared")
    prepare(top, fake(), queries=12, chunks=5)
    return top


@pytest.fixture
def top(prepared: Path, tmp_path: Path) -> Path:
    return driving.copy(prepared, tmp_path / "top")


def observed(told: driving.Told) -> list[dict[str, object]]:
    """The numbers that grades showed while it ran."""
    found = []
    for event in told.events:
        if event.event_type_value == "ASSET_OBSERVATION":
            seen = event.event_specific_data.asset_observation  # type: ignore[union-attr]
            if seen.asset_key.to_user_string() == "grades" and "per_minute" in seen.metadata:
                found.append({key: value.value for key, value in seen.metadata.items()})
    return found


def waits_for(top: Path) -> list[Next]:
    """Who is waited for by grades, as `run` and `status` say it."""
    study = study_of(top)
    (step,) = (s for s in progress.steps(study) if s.table == "grades")
    return waited_for(study, step)


def test_grades_are_made_by_the_designs_command_and_shown_while_it_runs(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P21: with counts, rate and estimated end as observations."""
    behave(monkeypatch, journal=tmp_path / "journal", delay=0.1)
    monkeypatch.setattr(build, "TELL_SECONDS", 0.2)
    told = driving.run(top)
    assert "grades" in told.made and "audit_grades" in told.waiting, told.text
    seen = observed(told)
    assert seen[-1]["graded"] == seen[-1]["of"] == 60 and seen[-1]["percent"] == 100.0
    assert len(seen) > 1 and any("estimated_end" in numbers for numbers in seen)
    check(study_of(top), tmp_path / "journal", kills=0, concurrency=0)
    study = study_of(top)
    assert study.outdated("grades") == [], "what was answered while it was made is in it"
    (run,) = _set_up(study, study.design.graders[0]).values()
    assert run == {  # P33: what the key's identity says of a model that we ran; its path may say who runs it
        "command": f"sha256 {digest(list(study.design.graders[0].run.command))}",  # type: ignore[union-attr]
        "model": None,
        "chunks_a_prompt": 5,
        "versions": run["versions"],  # type: ignore[index]
        "templates": [TEMPLATE],
    }
    assert len(run["versions"]) == 1 and _set_up(study, study.design.auditor) == {}  # type: ignore[index]
    again = driving.run(top, "grades")
    assert again.made == ("grades",) and observed(again) == []


def test_what_was_exhausted_is_waited_for_and_said(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P20: never red, never a grade; made again, it is asked again."""
    behave(monkeypatch, always="seven")
    pace(top, attempts=1, concurrency=12)
    told = driving.run(top, "grades")
    assert told.ok and not told.made
    owed = "0 of 60 pairs graded by ann, 60 exhausted: no reply of ann could be accepted"
    assert owed in told.waiting["grades"]
    last = "the last attempt that was not accepted: refused: line 1: a grade that is no whole number from 0 to 2"
    assert waits_for(top) == [Next("ann", f"{owed}; {last}", "relgrade grade tiny --grader ann")]
    behave(monkeypatch)
    assert driving.run(top, "grades").made == ("grades",)


def test_why_an_attempt_failed_is_told_without_what_it_was_asked(top: Path) -> None:
    """P13, P20, P41: an agent that prints its prompt, and its reply, before it crashes."""
    study = study_of(top)
    row = study.load("sheets").row(0, named=True)
    whose = Whose(NAME, 1, agents.WHO)
    prompt = attempts.Prompt("d", "n", row["query_id"], (row["chunk_id"],), TEMPLATE)
    attempts.record_prompt(study.ledger, whose, prompt, at=study.clock())
    reply = json.dumps({"query_id": row["query_id"], "chunk_id": "c", "reason": "It says so", "grade": 2})
    said = f"exit status 1: asked {row['query']}, meant {row['intent']} of | {row['text']}\n{reply}\nboom: no login"
    failed = attempts.Attempt(1, ("x",), "1", "m", study.clock(), 1.0, 1, "crashed", said, b"")
    attempts.record_attempt(study.ledger, whose, prompt, failed, at=study.clock())
    (ann,) = waits_for(top)
    told = ann.what.partition("; the last attempt that was not accepted: ")[2]
    assert told == "crashed: exit status 1: asked ..., meant ...? of | .... ... boom: no login"


def test_a_command_that_is_not_there_is_waited_for(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relgrade_assets.io.agent.shutil.which", lambda _: None)
    told = driving.run(top, "grades")
    assert told.ok and "no program" in told.waiting["grades"]


def test_graders_share_a_pool() -> None:
    pools = {name: defs.get_assets_def(name).op.pool for name in ("grades", "audit_grades", "sheets")}
    assert pools == {"grades": build.GRADERS, "audit_grades": build.GRADERS, "sheets": None}


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for a run's end, two minutes at most; all it said."""
    try:
        return "\n".join(process.communicate(timeout=120))
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    "sent",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGTERM, marks=pytest.mark.full),
        pytest.param(signal.SIGINT, marks=pytest.mark.full),
    ],
)
def test_a_run_that_is_ended_is_resumed_by_the_next(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: signal.Signals
) -> None:
    """P23: `relgrade run`, which is a Dagster run, ended in the midst of grading."""
    journal = tmp_path / "journal"
    behave(monkeypatch, journal=journal, delay=1.0)
    pace(top, concurrency=2)
    process = driving.started(top, "run", NAME, "--job", "regrade")
    try:
        agents.wait_for(lambda: account(study_of(top), journal).revisions > 8, 120)
        process.send_signal(sent)
        process.wait(60)
    finally:
        process.kill()
        process.communicate()
    kept = account(study_of(top), journal)
    assert 0 < kept.revisions < 60
    behave(monkeypatch, journal=journal)
    out = finish(driving.started(top, "run", NAME, "--job", "regrade"))
    assert "audit_grades waits" in out, out
    a = check(study_of(top), journal, kills=1, concurrency=2)
    assert a.answers.height == 60 and set(kept.answers.rows()) <= set(a.answers.rows())
