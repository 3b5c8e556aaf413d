"""P43 in a running `dagster dev`: a file is changed under a frozen key and runs appear, with nothing else rerun; a
change is taken back and made again; the server was off on the first of the month; where the design says so the next
round is opened and laid out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import tiny
from dagster_dev import runs, serving, was_off_since
from driving import copy, run, standing_files
from test_keeping_up import CHANGES, DESIGN, FROM_POOLS, edit
from tiny import grade_all, review_all, study_of

from relgrade_assets.automation.asking import REASON
from relgrade_assets.automation.jobs import REPOOLED

WAIT = 300
TWO_TICKS = 40
"""Seconds in which every sensor looks twice."""


@dataclass
class Watched:
    """A running server on `top`; every run that a test waited for is known."""

    top: Path
    address: str
    known: set[str] = field(default_factory=set)

    def next_run(self, job: str, what: str) -> dict[str, Any]:
        """The next run, once it has ended well; it must be one of `job`, where one is named."""
        began = time.time()
        while time.time() < began + WAIT:
            new = [r for r in runs(self.address) if r["runId"] not in self.known]
            if new and new[0]["status"] in ("SUCCESS", "FAILURE", "CANCELED"):
                self.known.add(new[0]["runId"])
                ran, made = new[0]["jobName"], sorted(new[0]["made"])
                print(f"{what}: {new[0]['tags'][REASON]}; {ran} after {time.time() - began:.0f} s: {made}")
                assert ran == (job or ran) and new[0]["status"] == "SUCCESS", what
                return new[0]
            time.sleep(1)
        raise AssertionError(f"{what}: no run of {job} in {WAIT} seconds")

    def nothing_else(self) -> None:
        time.sleep(TWO_TICKS)
        assert {r["runId"] for r in runs(self.address)} == self.known

    def states(self) -> dict[str, str]:
        return dict(study_of(self.top).load("staleness").select("trigger", "state").iter_rows())


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("live")
    tiny.write_experiment(top, design=DESIGN)
    run(top, "queries", "query_sample")
    review_all(top)
    run(top)
    grade_all(top, "ann")
    grade_all(top, "bob")
    assert run(top).ok
    return top


def stands(top: Path) -> list[dict[str, str]]:
    """Everything of the key: itself, its round's tables, what was published."""
    state = top / ".relgrade"
    return [standing_files(state / part) for part in ("keys", f"tables/{tiny.NAME}/rounds/1", "published")]


@pytest.fixture
def top(frozen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copied = copy(frozen, tmp_path / "top")
    monkeypatch.setenv("DAGSTER_HOME", str(copied))
    tiny.settings(copied)
    return copied


@pytest.mark.full
def test_changed_files_start_what_hangs_on_them_and_nothing_else(top: Path) -> None:
    """P43: every trigger, one after another; a change that is taken back and made again."""
    before = stands(top)
    with serving(top) as address:
        server = Watched(top, address)
        assert server.next_run("repool", "first look")["made"] == {"staleness"}
        for trigger, (change, tables) in CHANGES.items():
            old = {f: f.read_bytes() for f in study_of(top).folder.rglob("*") if f.is_file()}
            change(top)
            made = server.next_run("repool", trigger)
            assert made["made"] == set(tables), trigger
            assert made["tags"][REASON].startswith("changed under the key")
            assert server.states()[trigger] == "due", trigger
            if trigger == "corpus_growth":
                new = {f: f.read_bytes() for f in old}
                for files, what in ((old, "taken back"), (new, "made again")):
                    for file, data in files.items():
                        if file.read_bytes() != data:
                            file.write_bytes(data)
                    assert server.next_run("repool", f"{trigger}, {what}")["made"] == set(FROM_POOLS)
                assert server.states()[trigger] == "due"
        server.nothing_else()
    assert {t for t, state in server.states().items() if state == "due"} == {*CHANGES, "monthly_unjudged"}
    assert stands(top) == before


@pytest.mark.full
def test_the_first_of_a_month_is_looked_at_and_the_next_round_opened_where_the_design_says_so(top: Path) -> None:
    """P43: though the server was off on that day; a changed rubric and unjudged chunks open a round, which is laid out.
    The key and its round stand.
    """
    before = stands(top)
    for trigger in ("unjudged", "rubric"):
        CHANGES[trigger][0](top)
    with serving(top) as address:
        server = Watched(top, address)
        assert server.next_run("repool", "first look")["made"] == set(REPOOLED)
        server.nothing_else()
    now = datetime.now(UTC)
    first = now.replace(day=1, hour=5, minute=0, second=0, microsecond=0)
    first = first if first < now else (first - timedelta(days=1)).replace(day=1)
    was_off_since(top, first - timedelta(hours=1))
    with serving(top) as address:
        server = Watched(top, address, server.known)
        monthly = server.next_run("repool", "monthly_unjudged")
        assert monthly["made"] == {"staleness"} and monthly["tags"][REASON] == f"monthly, {first:%Y-%m}"
        assert server.states()["monthly_unjudged"] == "due"
        server.nothing_else()
        edit("experiment.yaml", "deviations:", "refresh: {act_on: [rubric, monthly_unjudged]}\ndeviations:")(top)
        assert server.next_run("repool", "the design's refresh")["made"] == {"staleness"}
        opened = server.next_run("open_refresh", "next round")
        assert opened["tags"][REASON] == "stale: rubric, monthly_unjudged"
        after = {ran["jobName"]: ran["made"] for ran in (server.next_run("", "after it") for _ in range(2))}
        assert after.keys() == {"repool", "everything"} and after["repool"] == {"staleness"}
        assert "sheets" in after["everything"] and "grades" not in after["everything"]
    opening = [e for e in study_of(top).log if e.kind == "opened"][-1]
    assert (opening.round, opening.body["cause"]) == (2, "rubric, monthly_unjudged")
    assert stands(top) == before
