"""A grading run that is terminated from Dagster's UI (P20-P23): ended at once, nothing accepted lost, resumed by
materialising again. One running `dagster dev`, asked by the mutations that the UI's buttons send.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import agents
import polars as pl
import pytest
import tiny
from agents import account, behave, check, fake, prepare
from dagster_dev import ask, runs, serving
from tiny import NAME, study_of

WAIT = 240
CONCURRENCY = 2
WHERE = "{ repositoriesOrError { ... on RepositoryConnection { nodes { name location { name } } } } }"
ADD = """mutation { addDynamicPartition(
  partitionsDefName: "experiment", partitionKey: "%s",
  repositorySelector: {repositoryName: "%s", repositoryLocationName: "%s"}) { __typename } }"""
LAUNCH = """mutation { launchRun(executionParams: {
  selector: {jobName: "regrade", repositoryName: "%s", repositoryLocationName: "%s"}, runConfigData: {},
  executionMetadata: {tags: [{key: "dagster/partition", value: "%s"}]}
}) { __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
TERMINATE = """mutation { terminateRuns(runIds: ["%s"], terminatePolicy: SAFE_TERMINATE) {
  ... on TerminateRunsResult { terminateRunResults {
    __typename ... on TerminateRunSuccess { run { id canTerminate } } ... on TerminateRunFailure { message } } } } }"""


def launch(address: str) -> str:
    """Launch `regrade` for the tiny study as the UI does; the run's id."""
    (found,) = ask(address, WHERE)["repositoriesOrError"]["nodes"]
    here = (found["name"], found["location"]["name"])
    ask(address, ADD % (NAME, *here))
    launched = ask(address, LAUNCH % (*here, NAME))["launchRun"]
    assert launched["__typename"] == "LaunchRunSuccess", launched
    return str(launched["run"]["runId"])


def run_of(address: str, run_id: str) -> dict[str, Any]:
    return next(r for r in runs(address) if r["runId"] == run_id)


def ended(address: str, run_id: str) -> str:
    """The run's status, once it has ended."""
    agents.wait_for(lambda: run_of(address, run_id)["status"] in ("SUCCESS", "FAILURE", "CANCELED"), WAIT)
    return str(run_of(address, run_id)["status"])


def running(mark: str) -> list[str]:
    """Command lines of this machine that hold `mark`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if mark in line:
            found.append(line)
    return found


@pytest.mark.full
def test_terminated_from_the_ui_and_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P21, P23: the graders and what they started are gone, the run is CANCELED, what was accepted stands, and the next
    run grades the rest, each pair once.
    """
    top, journal, mark = tmp_path / "top", tmp_path / "journal", f"left-by-{tmp_path.name}-{time.time_ns()}"
    leaves = f"{sys.executable} -c 'import time; time.sleep(600)' {mark} & exec \"$@\""
    prepare(top, ["sh", "-c", leaves, mark, *fake()], queries=12, chunks=5, concurrency=CONCURRENCY, timeout_seconds=60)
    behave(monkeypatch, journal=journal, sleep=2)
    tiny.settings(top)
    study = study_of(top)
    with serving(top) as address:
        first = launch(address)
        agents.wait_for(lambda: account(study, journal).revisions >= 10, WAIT)
        assert running(mark), "graders are at work"
        (told,) = ask(address, TERMINATE % first)["terminateRuns"]["terminateRunResults"]
        assert told["__typename"] == "TerminateRunSuccess", told
        began = time.monotonic()
        assert ended(address, first) == "CANCELED"
        agents.wait_for(lambda: not running(mark), 10)
        took = time.monotonic() - began
        kept = account(study, journal)
        assert 10 <= kept.answers.height < 60
        time.sleep(5)
        still = account(study, journal)
        assert len(still.journal) == len(kept.journal) and still.answers.equals(kept.answers), "nothing goes on"
        assert {r["runId"] for r in runs(address)} == {first}, "nothing starts it again by itself"
        behave(monkeypatch, journal=journal)
        assert ended(address, launch(address)) == "SUCCESS"
    a = check(study, journal, kills=1, concurrency=CONCURRENCY)
    assert a.answers.height == 60 and set(kept.answers.rows()) <= set(a.answers.rows())
    stopped = a.attempts.filter(pl.col("outcome") == "interrupted")
    assert stopped.height <= CONCURRENCY
    print(
        f"\nterminated after {kept.answers.height} of 60 answers: ended, and nothing left, in {took:.1f} s; "
        f"{stopped.height} prompts interrupted, {a.lost.height} asked again; the next run graded the rest"
    )
