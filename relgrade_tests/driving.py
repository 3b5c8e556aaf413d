"""Driving the graph in tests as people do: the whole job, single assets by hand, several partitions one after another
as a backfill launches them, and the command line; and what each of them told.

The tiny experiment is `tiny`'s.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest
from dagster._core.execution.backfill import PartitionBackfill
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceLoadTarget
from dagster._daemon.backfill import execute_backfill_iteration
from tiny import AT, NAME, home_of, study_of
from typer.testing import CliRunner

from relgrade_assets.cli.app import app
from relgrade_assets.definitions import EXPERIMENT, defs
from relgrade_assets.io.frames import Label, content_digest, write_table
from relgrade_assets.schemas import TABLES


def _from(start: str) -> tuple[str, ...]:
    found = {start}
    for table, spec in TABLES.items():
        if set(spec.inputs) & found:
            found.add(table)
    return tuple(t for t in TABLES if t in found)


AFTER_THE_GATES = _from("frozen_key")
MADE = tuple(t for t, spec in TABLES.items() if spec.group != "refresh")
"""What `everything` makes: a round's tables and what they come from."""
BEFORE_THE_GATES = tuple(t for t in MADE if t not in AFTER_THE_GATES)
SETTINGS = """\
storage:
  custom:
    {module: relgrade_assets.resources.dagster_storage, class: KeptSqliteStorage, config: {base_dir: storage}}
telemetry: {enabled: false}
nux: {enabled: false}
"""


@dataclass(frozen=True)
class Told:
    """What a run did and said: by table what was made, waits or was refused; checks that failed; steps not run."""

    ok: bool
    made: tuple[str, ...]
    waiting: dict[str, str]
    refused: dict[str, str]
    failed_checks: dict[str, str]
    skipped: tuple[str, ...]
    events: Sequence[dg.DagsterEvent]

    @property
    def text(self) -> str:
        """Every reason that was given."""
        return "\n".join([*self.waiting.values(), *self.refused.values(), *self.failed_checks.values()])


@cache
def job(name: str) -> dg.JobDefinition:
    """A job of the graph; the unnamed one is what materialising single assets launches."""
    return defs.resolve_job_def(name) if name else defs.resolve_implicit_global_asset_job_def()


@cache
def _one_instance() -> dg.DagsterInstance:
    instance = dg.DagsterInstance.ephemeral()
    atexit.register(instance.dispose)
    return instance


def instance_for(top: Path) -> dg.DagsterInstance:
    """A Dagster instance that tests share: it remembers that the checks of other folders' experiments passed, which
    must not count.
    """
    instance = _one_instance()
    instance.add_dynamic_partitions(str(EXPERIMENT.name), home_of(top).names())
    return instance


def config(top: Path) -> dict[str, Any]:
    """A run's configuration: whose studies, and at what time."""
    return {
        "resources": {"studies": {"config": {"top": str(top), "at": AT.isoformat()}}},
        "loggers": {"progress": {"config": {}}},
    }


def run(
    top: Path,
    *tables: str,
    name: str = NAME,
    of: str = "everything",
    checks: bool = True,
    instance: dg.DagsterInstance | None = None,
    tags: dict[str, str] | None = None,
) -> Told:
    """Run a job for one experiment; with `tables`, materialise those alone (without their checks where `checks` is
    false, as the UI lets one choose).
    """
    chosen = job("" if tables else of)
    if tables:
        keys = {dg.AssetKey(t) for t in tables}
        chosen = chosen.get_subset(asset_selection=keys, asset_check_selection=None if checks else set())
    result = chosen.execute_in_process(
        run_config=config(top),
        instance=instance or instance_for(top),
        partition_key=name,
        tags=tags,
        raise_on_error=False,
    )
    return told(result)


def backfill(top: Path, *tables: str, names: Sequence[str]) -> dict[str, Told]:
    """The runs that a backfill of several experiments launches, one after another."""
    return {n: run(top, *tables, name=n, tags={"dagster/backfill": "hand"}) for n in names}


class _Here(WorkspaceLoadTarget):
    """The definitions in this process."""

    def create_origins(self) -> list[InProcessCodeLocationOrigin]:
        target = LoadableTargetOrigin(module_name="relgrade_assets.definitions", executable_path=sys.executable)
        return [InProcessCodeLocationOrigin(loadable_target_origin=target, location_name="relgrade")]


def daemon_backfill(top: Path, tables: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """The daemon's own backfill of `tables`, its iterations and runs in this process; the status of each
    experiment's run.
    """
    folder = top / "backfill"
    folder.mkdir()
    settings = {
        "telemetry": {"enabled": False},
        "run_launcher": {
            "module": "dagster._core.launcher.sync_in_memory_run_launcher",
            "class": "SyncInMemoryRunLauncher",
        },
        "run_coordinator": {"module": "dagster._core.run_coordinator", "class": "DefaultRunCoordinator"},
    }
    with (
        dg.DagsterInstance.local_temp(str(folder), overrides=settings) as instance,
        WorkspaceProcessContext(instance, _Here()) as workspace,
    ):
        instance.add_dynamic_partitions(str(EXPERIMENT.name), list(names))
        request = PartitionBackfill.from_asset_partitions(
            backfill_id="hand",
            asset_graph=workspace.create_request_context().asset_graph,
            partition_names=list(names),
            asset_selection=[dg.AssetKey(t) for t in tables],
            backfill_timestamp=AT.timestamp(),
            tags={},
            dynamic_partitions_store=instance,
            all_partitions=False,
            title=None,
            description=None,
            run_config=config(top),
        )
        instance.add_backfill(request)
        for _ in range(5):
            faults = [f for f in execute_backfill_iteration(workspace, logging.getLogger("backfill")) if f]
            assert not faults, faults[0].to_string()
        return {run.tags["dagster/partition"]: run.status.value for run in instance.get_runs()}


def told(result: dg.ExecuteInProcessResult) -> Told:
    """What a finished run did and said."""
    made: list[str] = []
    waiting: dict[str, str] = {}
    refused: dict[str, str] = {}
    failed: dict[str, str] = {}
    skipped: list[str] = []
    for event in result.all_events:
        data: Any = event.event_specific_data
        match event.event_type_value:
            case "ASSET_MATERIALIZATION":
                made.append(data.materialization.asset_key.to_user_string())
            case "ASSET_OBSERVATION" if "waiting" in data.asset_observation.metadata:
                seen = data.asset_observation
                waiting[seen.asset_key.to_user_string()] = str(seen.metadata["waiting"].value)
            case "ASSET_CHECK_EVALUATION" if not data.passed:
                failed[f"{data.asset_key.to_user_string()}: {data.check_name}"] = data.description or ""
            case "STEP_FAILURE":
                why = data.user_failure_data.description if data.user_failure_data else data.error.to_string()
                refused[str(event.step_key)] = why
            case "STEP_SKIPPED":
                skipped.append(str(event.step_key))
            case _:
                pass
    return Told(result.success, tuple(made), waiting, refused, failed, tuple(skipped), result.all_events)


def command(top: Path, monkeypatch: pytest.MonkeyPatch, settings: Path, *words: str) -> tuple[int, str]:
    """`relgrade --home TOP WORDS` in this process: its exit code, and all it printed. Dagster's own state goes to the
    folder `settings`.
    """
    settings.mkdir(exist_ok=True)
    (settings / "dagster.yaml").write_text(SETTINGS, encoding="utf-8")
    monkeypatch.setenv("DAGSTER_HOME", str(settings))
    monkeypatch.setenv("RELGRADE_HOME", str(top))
    monkeypatch.chdir(top)
    result = CliRunner().invoke(app, ["--home", str(top), *words])
    return result.exit_code, f"{result.output}\n{result.exception or ''}"


def relgrade(top: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`relgrade WORDS` in a process of its own, in the folder `top`, with Dagster's settings as they ship."""
    checkout = Path(__file__).resolve().parents[1]
    (top / "dagster.yaml").write_bytes((checkout / "dagster.yaml").read_bytes())
    return subprocess.run(
        [sys.executable, "-m", "relgrade_assets.cli.main", *words],
        cwd=top,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=False,
    )


def copy(prepared: Path, top: Path) -> Path:
    """A prepared top folder, copied for a test of its own."""
    shutil.copytree(prepared, top, dirs_exist_ok=True)
    return top


def rewrite(top: Path, table: str, change: Callable[[pl.DataFrame], pl.DataFrame], *, name: str = NAME) -> None:
    """What somebody with a Parquet writer and this source can do: the stored table changed, and its label with it, so
    that the file is consistent in itself.
    """
    path = study_of(top, name=name).path(table)
    frame = change(pl.read_parquet(path))
    label = study_of(top, name=name).label(table)
    assert label is not None
    write_table(path, frame, Label(label.table, label.round, label.protocol, label.inputs, content_digest(frame)))


def nothing_frozen(top: Path, *, name: str = NAME, round_: int = 1) -> bool:
    """No key folder, no frozen or first_reading event, no measures, nothing published."""
    study = study_of(top, name=name)
    return not (
        study.keys.exists(name, round_)
        or any(e.kind in ("frozen", "first_reading") and e.round == round_ for e in study.log)
        or any(study.path(t, round_).exists() for t in AFTER_THE_GATES)
        or (study.home.published / name).exists()
    )


RESTATED = {"manifest.json", "status.json", "events.jsonl", "croissant.json", "report.html"}
"""Published files that are remade when the log says something new of the key; SHA256SUMS there too."""


def standing_files(folder: Path) -> dict[str, str]:
    """`files_of` a folder but for those that say how a key stands, which change with the log (P35)."""
    apart = RESTATED | ({"SHA256SUMS"} if folder.name == "published" else set())
    return {n: d for n, d in files_of(folder).items() if Path(n).name not in apart and not n.endswith(".status.json")}


def files_of(folder: Path) -> dict[str, str]:
    """Every file under a folder and its sha256."""
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def started(top: Path, *words: str) -> subprocess.Popen[str]:
    """`relgrade WORDS` in a process of its own that goes on while the test does; its output is piped."""
    checkout = Path(__file__).resolve().parents[1]
    (top / "dagster.yaml").write_bytes((checkout / "dagster.yaml").read_bytes())
    return subprocess.Popen(
        [sys.executable, "-m", "relgrade_assets.cli.main", *words],
        cwd=top,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
