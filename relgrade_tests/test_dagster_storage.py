"""Dagster's SQLite storage with its files kept open: Dagster's own files and answers, closed when they should be."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import dagster as dg
import pytest

from relgrade_assets.resources.dagster_storage import KEPT, KeptEvents, KeptRuns

SETTINGS = """
storage:
  custom:
    module: relgrade_assets.resources.dagster_storage
    class: KeptSqliteStorage
    config: {{base_dir: {0}}}
telemetry: {{enabled: false}}
"""
PLAIN = """
storage: {{sqlite: {{base_dir: {0}}}}}
telemetry: {{enabled: false}}
"""


@dg.asset
def one() -> dg.MaterializeResult[None]:
    return dg.MaterializeResult(metadata={"n": 1})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text(SETTINGS.format(tmp_path / "state"))
    yield tmp_path


def opened(folder: Path, *, gone: bool = False) -> list[str]:
    """Databases under the folder that this process holds open, or those of them that were deleted."""
    held = []
    for handle in Path("/proc/self/fd").iterdir():
        try:
            held.append(os.readlink(handle))
        except FileNotFoundError:
            continue
    end = ".db (deleted)" if gone else ".db"
    return sorted({name for name in held if name.startswith(str(folder)) and name.endswith(end)})


def materialised(instance: dg.DagsterInstance) -> int:
    records = instance.fetch_materializations(dg.AssetKey("one"), limit=100).records
    return len([r for r in records if r.asset_materialization and r.asset_materialization.metadata["n"].value == 1])


def test_dagsters_own_storage_reads_what_was_kept_and_the_other_way_round(home: Path) -> None:
    """The same files: one may be put for the other in dagster.yaml at any time."""
    for settings, before in ((SETTINGS, 0), (PLAIN, 1), (SETTINGS, 2)):
        (home / "dagster.yaml").write_text(settings.format(home / "state"))
        with dg.DagsterInstance.get() as instance:
            assert isinstance(instance.event_log_storage, KeptEvents) == (settings is SETTINGS)
            assert isinstance(instance.run_storage, KeptRuns) == (settings is SETTINGS)
            assert materialised(instance) == before
            ran = dg.materialize([one], instance=instance)
            assert ran.success and materialised(instance) == before + 1
            stored = [e.dagster_event.event_type_value for e in instance.all_logs(ran.run_id) if e.dagster_event]
            assert stored[-1] == "PIPELINE_SUCCESS" and "ASSET_MATERIALIZATION" in stored
            assert instance.get_runs_count() == before + 1


proc = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no /proc")


@proc
def test_files_are_kept_open_a_few_at_a_time_and_closed_in_the_end(home: Path) -> None:
    with dg.DagsterInstance.get() as instance:
        for _ in range(KEPT + 2):
            dg.materialize([one], instance=instance)
        assert 2 <= len(opened(home)) <= KEPT + 1
    assert opened(home) == []
    instance = dg.DagsterInstance.get()
    assert materialised(instance) == KEPT + 2 and opened(home)
    del instance
    gc.collect()
    assert opened(home) == []


@proc
def test_a_wiped_storage_starts_anew(home: Path) -> None:
    """And holds no file that is gone."""
    with dg.DagsterInstance.get() as instance:
        dg.materialize([one], instance=instance)
        instance.wipe()
        assert materialised(instance) == 0 and instance.get_runs_count() == 0
        assert opened(home, gone=True) == []
        assert dg.materialize([one], instance=instance).success and materialised(instance) == 1


def test_nobody_waits_for_a_connection_to_the_runs(home: Path) -> None:
    """The page's server asks from many threads at once, each within another's transaction."""
    with dg.DagsterInstance.get() as instance, ExitStack() as held:
        runs = instance.run_storage
        assert isinstance(runs, KeptRuns)
        connections = [held.enter_context(runs.connect()) for _ in range(40)]
        assert {c.exec_driver_sql("PRAGMA synchronous").scalar() for c in connections} == {1}
        assert len({id(c.connection.dbapi_connection) for c in connections}) == 40
        assert len({id(c.engine) for c in connections}) == 1


def test_many_threads_and_two_instances_write_at_once(home: Path) -> None:
    """As the page's server and a run do."""
    with dg.DagsterInstance.get() as first, dg.DagsterInstance.get() as second:

        def work(n: int) -> bool:
            instance = (first, second)[n % 2]
            instance.report_runless_asset_event(dg.AssetMaterialization("one", metadata={"n": 1}))
            return materialised(instance) > 0

        with ThreadPoolExecutor(6) as pool:
            assert all(pool.map(work, range(24)))
        assert materialised(first) == materialised(second) == 24
