"""Running the graph from the command line: the one face that loads the definitions, and it does so only when a run is
asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relgrade_assets.errors import Refused
from relgrade_assets.io.home import Home
from relgrade_assets.io.progress import on_the_way
from relgrade_assets.io.study import Study, open_study

if TYPE_CHECKING:
    import dagster as dg

Told = Callable[[str], None]


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
    told: Told = lambda line: None,
) -> Outcome:
    """Register the experiment, observe its sources, and run a job of the graph (or only `tables`) in this process.

    Refused where the design can't be used. What happens in the graph is told in the outcome.
    """
    study = open_study(home, name)
    os.environ.setdefault("DAGSTER_HOME", str(home.top))
    os.environ["RELGRADE_HOME"] = str(home.top)
    os.chdir(home.top)  # the storage folders of dagster.yaml are relative to the top folder
    import dagster as dg

    from relgrade_assets.definitions import EXPERIMENT, defs, observations

    with dg.DagsterInstance.get() as instance:
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
            tags={"relgrade/reason": "relgrade run"},
            raise_on_error=False,
            asset_selection=[dg.AssetKey(t) for t in tables] or None,
        )
    return _outcome(result, study)


def _outcome(result: dg.ExecuteInProcessResult, study: Study) -> Outcome:
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
        elif kind == "STEP_FAILURE" and "check" not in str(event.step_key):
            told = data.user_failure_data.description if data.user_failure_data else data.error.to_string()
            refused[str(event.step_key)] = told
    return Outcome(tuple(made), waiting, refused, failed)


def require_tables(home: Home, name: str, *tables: str) -> Study:
    """A study whose `tables` are current, made first where they are not. Refused with what the graph said where they
    can't be.
    """
    study = open_study(home, name)
    if any(study.outdated(t) for t in tables):
        outcome = run(home, name, tables=sorted({*tables, *(b for t in tables for b in on_the_way(t))}))
        said = [f"{t}: {why}" for t, why in {**outcome.refused, **outcome.failed_checks, **outcome.waiting}.items()]
        study = open_study(home, name)
        if any(study.outdated(t) for t in tables):
            raise Refused(
                f"{', '.join(tables)} of {name} can't be made yet: {'; '.join(said) or 'see relgrade status'}"
            )
    return study
