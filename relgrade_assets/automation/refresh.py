"""Keeping keys up (P43): pool again what changed under a key, look at staleness every month, and open the next round
where the design says so. When, never what: the triggers are the table `staleness`'s.
"""

from collections.abc import Sequence

import dagster as dg

from relgrade_assets.assets.build import EXPERIMENT
from relgrade_assets.automation.asking import REASON, asked, each, sought
from relgrade_assets.automation.jobs import REPOOLED
from relgrade_assets.errors import Refused
from relgrade_assets.io.refreshing import Due, changed_under_key, due_now
from relgrade_assets.io.rounds import open_refresh as open_next
from relgrade_assets.resources.studies import Studies, failure

CAUSE, RERATE, AFFECTED = "relgrade/cause", "relgrade/rerate", "relgrade/affected"


@dg.op(description="Open the next round for what staleness found, carrying what is unchanged (P43, P44).")
def open_round(context: dg.OpExecutionContext, studies: Studies) -> None:
    """Open the next round; what comes next is started by the sensor that waits for people."""
    tags = context.run.tags
    study = studies.study(context.partition_key)
    try:
        number = open_next(
            study,
            cause=tags.get(CAUSE, "changed inputs"),
            by="the design's refresh.act_on",
            rerate=int(tags.get(RERATE, "0")),
            affected_alone=tags.get(AFFECTED) == "yes",
        )
    except Refused as refused:
        raise failure(refused) from None
    context.log.info(f"round {number} of {study.name} is open")


@dg.job(partitions_def=EXPERIMENT, executor_def=dg.in_process_executor)
def open_refresh() -> None:
    """Open the next round of an experiment whose key is stale. Grades that still hold are carried."""
    open_round()


@dg.sensor(job_name="repool", minimum_interval_seconds=15, default_status=dg.DefaultSensorStatus.RUNNING)
def inputs_under_key(context: dg.SensorEvaluationContext, studies: Studies) -> dg.SensorResult:
    """Where log, corpus, runs or design changed under a frozen key, make again what hangs on them up to the pools, and
    nothing else (P43).
    """
    found, cursor = sought(context, studies, lambda study: changed_under_key(study, REPOOLED), lambda c: c.digest)
    requests = [
        dg.RunRequest(
            run_key=key,
            partition_key=name,
            asset_selection=[dg.AssetKey(t) for t in change.tables],
            tags={REASON: change.reason},
        )
        for name, (change, key) in found.items()
    ]
    return asked(requests, cursor, otherwise="nothing changed under a key")


@dg.sensor(job_name="open_refresh", minimum_interval_seconds=15, default_status=dg.DefaultSensorStatus.RUNNING)
def stale_keys(context: dg.SensorEvaluationContext, studies: Studies) -> dg.SensorResult:
    """Where a trigger is due on which the design says to act, open the next round (P43)."""
    found, cursor = sought(context, studies, due_now, lambda due: due.digest)
    requests = [dg.RunRequest(run_key=k, partition_key=name, tags=_tags(due)) for name, (due, k) in found.items()]
    return asked(requests, cursor, otherwise="no trigger to act on is due")


def _tags(due: Due) -> dict[str, str]:
    cause = ", ".join(due.triggers)
    return {
        REASON: f"stale: {cause}",
        CAUSE: cause,
        RERATE: str(due.rerate),
        AFFECTED: "yes" if due.affected_alone else "no",
    }


@dg.schedule(
    job_name="repool",
    cron_schedule="0 5 1 * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="On the first of each month, look again how stale every frozen key is (P43).",
)
def monthly_staleness(
    context: dg.ScheduleEvaluationContext, studies: Studies
) -> Sequence[dg.RunRequest] | dg.SkipReason:
    """A run an experiment with a key: what is outdated on the way, and the table `staleness` in any case."""
    month = f"{context.scheduled_execution_time:%Y-%m}"
    requests = [
        dg.RunRequest(
            run_key=f"{name}:{month}",
            partition_key=name,
            asset_selection=[dg.AssetKey(t) for t in change.tables],
            tags={REASON: f"monthly, {month}"},
        )
        for name, change in each(
            context, studies, lambda study: changed_under_key(study, REPOOLED, anyway="staleness")
        ).items()
    ]
    return requests or dg.SkipReason("no experiment has a frozen key")


SCHEDULES = [monthly_staleness]
