"""Runs of the command line that were killed. Nothing else would end them: no worker of Dagster's stands for them, and
what they held would stay taken, their places in Dagster's pools and among the runs that may be at work at once.

Each run holds a lock while it lives; one whose lock is free is dead.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from relgrade_assets.io.atomic import is_locked, locked
from relgrade_assets.io.home import Home

TAG = "relgrade/process"
"""Names the lock that a run of the command line holds."""
_UNFINISHED = (dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED)


@contextmanager
def alive(home: Home, instance: dg.DagsterInstance) -> Iterator[dict[str, str]]:
    """Give back what dead runs hold, then hold a lock for a run of this process; the tag that the run must have."""
    bury(home, instance)
    name = secrets.token_hex(8)
    path = _lock(home, name)
    with locked(path):
        yield {TAG: name}
        path.unlink(missing_ok=True)


def bury(home: Home, instance: dg.DagsterInstance) -> None:
    """Report the dead runs of this home as failed, and give back what they and ended runs hold."""
    for run in instance.get_runs(dg.RunsFilter(statuses=list(_UNFINISHED))):
        path = _lock(home, run.tags.get(TAG, ""))
        if TAG in run.tags and path.is_file() and not is_locked(path):
            instance.report_run_failed(run, "The process of this run was killed.")
            path.unlink(missing_ok=True)
    storage = instance.event_log_storage
    if not storage.supports_global_concurrency_limits:
        return
    for pool in sorted(storage.get_concurrency_keys()):
        info = storage.get_concurrency_info(pool)
        for run_id in sorted({*info.active_run_ids, *info.pending_run_ids}):
            holder = instance.get_run_by_id(run_id)
            if holder is None or holder.is_finished:
                storage.free_concurrency_slots_for_run(run_id)


def _lock(home: Home, name: str) -> Path:
    return home.state / "locks" / "runs" / f"{name}.lock"
