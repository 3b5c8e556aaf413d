"""Sensors: one that lists experiments and observes their sources, one that goes on when people are done. They decide
when, never what.
"""

import json

import dagster as dg

from relgrade_assets.assets.build import EXPERIMENT
from relgrade_assets.assets.sources import observations
from relgrade_assets.automation.asking import REASON, asked, sought
from relgrade_assets.automation.refresh import inputs_under_key, stale_keys
from relgrade_assets.automation.standing import keys_that_fell
from relgrade_assets.errors import Refused
from relgrade_assets.io.progress import complete_now
from relgrade_assets.resources.dead_runs import bury
from relgrade_assets.resources.studies import Studies


@dg.sensor(minimum_interval_seconds=15, default_status=dg.DefaultSensorStatus.RUNNING)
def experiment_folders(context: dg.SensorEvaluationContext, studies: Studies) -> dg.SensorResult:
    """List new experiment folders as partitions, and observe each source whose content changed (P2, P43). Runs of the
    command line that were killed are reported, lest they count as being at work.
    """
    bury(studies.home, context.instance)
    known = set(context.instance.get_dynamic_partitions(str(EXPERIMENT.name)))
    present = studies.home.names()
    seen: dict[str, str] = json.loads(context.cursor or "{}")
    events: list[dg.AssetObservation] = []
    unreadable: list[str] = []
    for name in present:
        try:
            for observation in observations(studies.study(name)):
                at = f"{name}/{observation.asset_key.to_user_string()}"
                version = observation.tags["dagster/data_version"]
                if seen.get(at) != version:
                    seen[at] = version
                    events.append(observation)
        except (Refused, dg.Failure):
            unreadable.append(name)
    new = [name for name in present if name not in known]
    gone = sorted(known - set(present))
    said = [f"no folder any more: {', '.join(gone)}"] * bool(gone) + [
        f"can't be read (relgrade check): {', '.join(unreadable)}"
    ] * bool(unreadable)
    return dg.SensorResult(
        dynamic_partitions_requests=[EXPERIMENT.build_add_request(new)] if new else [],
        asset_events=events,
        cursor=json.dumps(seen, sort_keys=True),
        skip_reason=None if new or events else dg.SkipReason("; ".join(said) or "nothing changed"),
    )


@dg.sensor(job_name="everything", minimum_interval_seconds=15, default_status=dg.DefaultSensorStatus.RUNNING)
def people_are_done(context: dg.SensorEvaluationContext, studies: Studies) -> dg.SensorResult:
    """Start what comes next when the last review or grade that an experiment waited for is in."""
    found, cursor = sought(context, studies, complete_now, lambda done: done.digest)
    requests = [
        dg.RunRequest(run_key=key, partition_key=name, tags={REASON: done.reason})
        for name, (done, key) in found.items()
    ]
    return asked(requests, cursor, otherwise="no experiment became complete")


SENSORS = [experiment_folders, people_are_done, inputs_under_key, stale_keys, keys_that_fell]
