"""Running the graph from the command line: the one face that loads the definitions, and it does so only when a run is
asked for.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from relgrade_assets.cli.app import INTERRUPTED, stop, warn
from relgrade_assets.errors import Fault, NotThere, Refused, Waiting
from relgrade_assets.io.atomic import write_bytes
from relgrade_assets.io.home import HOME, Home
from relgrade_assets.io.study import Study, open_study
from relgrade_assets.io.turns import turn
from relgrade_assets.schemas import TABLES, on_the_way

if TYPE_CHECKING:
    import dagster as dg

_OUTSIDE_ROUNDS = ("repool",)
"""Jobs that make nothing of a round: they run though the protocol was changed since, to tell what that means (P43)."""
STARTS = 20
"""How often Dagster's storage is asked for while another process makes it, every half second."""
SETTINGS = ("dagster.yaml", "workspace.yaml")
_DAGSTER = "DAGSTER_HOME"
_SKIPPED_CHECK = "emitted no result in step"
"""What Dagster logs of a gate whose table waits: nothing was made, so that there was nothing to check."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did: tables made, what waits and for what, what was refused and why, checks that failed."""

    made: tuple[str, ...]
    waiting: dict[str, str]
    refused: dict[str, str]
    failed_checks: dict[str, str]

    @property
    def ok(self) -> bool:
        """True where nothing was refused and no check failed; people may still be at work."""
        return not self.refused and not self.failed_checks


def run(
    home: Home,
    name: str,
    *,
    job: str = "everything",
    at: str = "",
    tables: Sequence[str] = (),
) -> Outcome:
    """Register the experiment, observe its sources, and run a job of the graph (or only `tables`) in this process.

    Refused where the design can't be used, or was changed since the round's first grade (P2), and where another run of
    the experiment is at work and does not end soon. What happens in the graph is told in the outcome.
    """
    per_round = any(TABLES[t].per_round for t in tables) if tables else job not in _OUTSIDE_ROUNDS

    def usable() -> Study:
        study = open_study(home, name)
        with suppress(NotThere):  # a rubric that is not there yet: every table says that it waits for it
            if per_round:
                study.require_protocol_of_round()
        return study

    usable()  # before anything is written, were it a lock
    with turn(home, name, tell=warn), _inside(home):
        study = usable()  # as the run before left it
        import dagster as dg

        from relgrade_assets.definitions import EXPERIMENT, defs, observations
        from relgrade_assets.resources.dead_runs import alive

        _quiet()
        with _instance() as instance, alive(home, instance) as tag:
            if name not in instance.get_dynamic_partitions(str(EXPERIMENT.name)):
                instance.add_dynamic_partitions(str(EXPERIMENT.name), [name])
            for observation in observations(study):
                instance.report_runless_asset_event(observation)
            result = defs.resolve_job_def(job).execute_in_process(
                run_config={
                    "resources": {"studies": {"config": {"top": str(home.top), "at": at}}},
                    "loggers": {"progress": {"config": {}}},
                },
                instance=instance,
                partition_key=name,
                tags={"relgrade/reason": "relgrade run", **tag},
                raise_on_error=False,
                asset_selection=[dg.AssetKey(t) for t in tables] or None,
            )
    return _outcome(result)


@contextmanager
def _instance() -> Iterator[dg.DagsterInstance]:
    """Dagster's instance as its settings say. Refused where they, or its storage, can't be used."""
    from sqlalchemy.exc import SQLAlchemyError

    where = Path(os.environ[_DAGSTER]) / SETTINGS[0]
    mend = "Move it away: the next run writes the one that ships."
    try:
        instance = _started()
    except Exception as error:
        said = shorten(str(error) or type(error).__name__, 160, placeholder=" ...")
        raise Refused("Dagster can't start", [Fault(str(where), said, "settings that Dagster takes", mend)]) from error
    try:
        with instance:
            yield instance
    except SQLAlchemyError as error:
        said = str(error).splitlines()[0]
        raise Refused(
            "Dagster can't keep its records",
            [Fault(str(where), said, "a storage that can be written", "Mend it and run again.")],
            untouched="Tables that were made stand, and nothing is made twice.",
        ) from error


def _started() -> dg.DagsterInstance:
    """Dagster's instance; tried again where another process makes the same storage at this moment."""
    import dagster as dg
    from sqlalchemy.exc import OperationalError

    tried = 0
    while True:
        try:
            return dg.DagsterInstance.get()
        except OperationalError as error:
            tried += 1
            if tried == STARTS or not any(said in str(error) for said in ("already exists", "locked")):
                raise
            time.sleep(0.5)


def write_settings(home: Home) -> None:
    """Put Dagster's settings into the top folder where it has none, so that its state stays there and nothing is sent
    anywhere.
    """
    for name in SETTINGS:
        if not (home.top / name).exists():
            write_bytes(home.top / name, (resources.files("relgrade_assets") / "templates" / name).read_bytes())


@contextmanager
def _inside(home: Home) -> Iterator[None]:
    """The top folder as the current one and Dagster's state in it (unless the environment says otherwise), until the
    run ends: the storage folders of dagster.yaml are relative.
    """
    before = {key: os.environ.get(key) for key in (_DAGSTER, HOME)}
    if before[_DAGSTER] is None:
        write_settings(home)
    os.environ.update({_DAGSTER: before[_DAGSTER] or str(home.top), HOME: str(home.top)})
    try:
        with chdir(home.top):
            yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


def _quiet() -> None:
    """Keep that one warning of Dagster's off the terminal; every other stays."""
    logger = logging.getLogger("dagster._core.execution.plan.active")
    if not any(isinstance(f, _WithoutSkippedChecks) for f in logger.filters):
        logger.addFilter(_WithoutSkippedChecks())


class _WithoutSkippedChecks(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return _SKIPPED_CHECK not in record.getMessage()


def _outcome(result: dg.ExecuteInProcessResult) -> Outcome:
    made: list[str] = []
    waiting: dict[str, str] = {}
    refused: dict[str, str] = {}
    failed: dict[str, str] = {}
    for event in result.all_events:
        data: Any = event.event_specific_data
        kind = event.event_type_value
        if kind == "ASSET_MATERIALIZATION":
            made.append(data.materialization.asset_key.to_user_string())
        elif kind == "ASSET_OBSERVATION" and "waiting" in data.asset_observation.metadata:
            waiting[data.asset_observation.asset_key.to_user_string()] = str(
                data.asset_observation.metadata["waiting"].value
            )
        elif kind == "ASSET_CHECK_EVALUATION" and not data.passed:
            failed[f"{data.asset_key.to_user_string()}: {data.check_name}"] = data.description or "failed"
        elif kind == "STEP_FAILURE" and event.step_key in TABLES:
            refused[str(event.step_key)] = _told(data)
        elif kind == "STEP_FAILURE" and not any(str(event.step_key) == k.replace(": ", "_") for k in failed):
            failed[str(event.step_key)] = _told(data)
    return Outcome(tuple(made), waiting, refused, failed)


def _told(data: Any) -> str:
    """Why a step failed, in words: the refusal, or of an error that nobody foresaw its message without the stack."""
    if data.user_failure_data is not None and data.user_failure_data.description:
        return str(data.user_failure_data.description)
    error = data.error
    while error.cause is not None:
        error = error.cause
    if error.cls_name == "DagsterExecutionInterruptedError":
        warn("Interrupted. What was made before stands; run it again.")
        stop(INTERRUPTED)
    return (
        f"{error.message.strip()}\n"
        "This error was not foreseen. The run's page in Dagster has all of it; what was made before stands."
    )


def require_tables(home: Home, name: str, *tables: str) -> Study:
    """A study whose `tables` are current, made first where they are not. Refused with what the graph said where they
    can't be; NotThere where people or files are still waited for.
    """
    study = open_study(home, name)
    if not any(study.outdated(t) for t in tables):
        return study
    outcome = run(home, name, tables=sorted({*tables, *(b for t in tables for b in on_the_way(t))}))
    study = open_study(home, name)
    if not any(study.outdated(t) for t in tables):
        return study
    wanted = ", ".join(tables)
    for table, why in {**outcome.refused, **outcome.failed_checks}.items():
        raise Refused(f"{wanted} of {name} can't be made, since {table} is refused", untouched=why)
    for table, why in outcome.waiting.items():
        raise NotThere(Waiting(f"{wanted} of {name} can't be made yet, since {table} waits: {why}"))
    raise Refused(f"{wanted} of {name} can't be made; `relgrade status {name}` says how it stands")
