"""P43 in a running `dagster dev`: a file is changed under a frozen key and runs appear, with nothing else rerun; where
the design says so the next round is opened and laid out. One server for all triggers.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import tiny
from dagster_dev import runs, serving
from driving import run
from test_keeping_up import CHANGES, DESIGN, REASON, edit
from test_rounds import files_of
from tiny import grade_all, review_all, study_of

WAIT = 300


def finished(address: str, known: set[str], *, job: str) -> dict[str, Any]:
    """The first run of `job` that is not known and has ended."""
    deadline = time.time() + WAIT
    while time.time() < deadline:
        new = [r for r in runs(address) if r["runId"] not in known and r["jobName"] == job]
        if new and new[0]["status"] in ("SUCCESS", "FAILURE", "CANCELED"):
            return new[0]
        time.sleep(2)
    raise AssertionError(f"no run of {job} in {WAIT} seconds")


@pytest.mark.full
def test_changed_files_start_what_hangs_on_them_and_nothing_else(tmp_path: Path) -> None:
    """P43: every trigger, one after another."""
    top = tmp_path
    tiny.write_experiment(top, design=DESIGN)
    run(top, "queries", "query_sample")
    review_all(top)
    run(top)
    grade_all(top, "ann")
    grade_all(top, "bob")
    assert run(top).ok
    tiny.settings(top)
    published = files_of(top / ".relgrade" / "published")
    key = files_of(top / ".relgrade" / "keys")
    first_round = files_of(top / ".relgrade" / "tables" / tiny.NAME / "rounds" / "1")
    with serving(top) as address:
        known: set[str] = set()
        first = finished(address, known, job="repool")
        assert first["status"] == "SUCCESS" and first["made"] == {"staleness"}
        known.add(first["runId"])
        for trigger, (change, tables) in CHANGES.items():
            change(top)
            began = time.time()
            made = finished(address, known, job="repool")
            print(f"{trigger}: {made['tags'][REASON]}; made {sorted(made['made'])} in {time.time() - began:.0f} s")
            assert made["status"] == "SUCCESS" and made["made"] == set(tables), trigger
            assert made["tags"][REASON].startswith("changed under the key")
            known.add(made["runId"])
            states = dict(study_of(top).load("staleness").select("trigger", "state").iter_rows())
            assert states[trigger] == "due", (trigger, states)
        time.sleep(40)  # two ticks of every sensor
        assert {r["runId"] for r in runs(address)} == known, "nothing else ran"
        assert files_of(top / ".relgrade" / "published") == published
        edit("experiment.yaml", "deviations:", "refresh: {act_on: [new_arm]}\ndeviations:")(top)
        opened = finished(address, known, job="open_refresh")
        assert opened["status"] == "SUCCESS" and opened["tags"][REASON].startswith("stale: new_arm")
        laid_out = finished(address, known, job="everything")
        assert laid_out["status"] == "SUCCESS" and "sheets" in laid_out["made"] and "grades" not in laid_out["made"]
    opening = [e for e in study_of(top).log if e.kind == "opened"][-1]
    assert (opening.round, opening.body["cause"]) == (2, "new_arm")
    assert files_of(top / ".relgrade" / "keys") == key
    assert files_of(top / ".relgrade" / "tables" / tiny.NAME / "rounds" / "1") == first_round
    assert files_of(top / ".relgrade" / "published") == published
