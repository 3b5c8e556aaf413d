"""Runs of the command line that were killed: their places in Dagster's pools, which nothing else gives back.

Without Dagster's daemon a place that a killed run held stays taken, and the next run would wait for it for ever. Each
run holds a lock while it lives; one whose lock is free is dead.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from relgrade_assets.errors import Refused
from relgrade_assets.io.atomic import locked
from relgrade_assets.io.home import Home

if TYPE_CHECKING:
    import dagster as dg

TAG = "relgrade/process"
"""Names the lock that a run of the command line holds."""


@contextmanager
def alive(home: Home, instance: dg.DagsterInstance) -> Iterator[dict[str, str]]:
    """Give back what dead runs hold, then hold a lock for a run of this process; the tag that the run must have."""
    folder = home.state / "locks" / "runs"
    _bury(instance, folder)
    name = secrets.token_hex(8)
    path = folder / f"{name}.lock"
    with locked(path):
        yield {TAG: name}
        path.unlink(missing_ok=True)


def _bury(instance: dg.DagsterInstance, folder: Path) -> None:
    storage = instance.event_log_storage
    if not storage.supports_global_concurrency_limits:
        return
    for pool in sorted(storage.get_concurrency_keys()):
        info = storage.get_concurrency_info(pool)
        for run_id in sorted({*info.active_run_ids, *info.pending_run_ids}):
            run = instance.get_run_by_id(run_id)
            if run is not None and not run.is_finished:
                path = folder / f"{run.tags.get(TAG, '')}.lock"
                if TAG not in run.tags or not _is_dead(path):
                    continue
                instance.report_run_failed(run, "The process of this run was killed.")
                path.unlink(missing_ok=True)
            storage.free_concurrency_slots_for_run(run_id)


def _is_dead(path: Path) -> bool:
    try:
        with locked(path):
            return True
    except Refused:
        return False
