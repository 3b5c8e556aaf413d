"""Looking whether keys still stand (P35): while the page is open nobody has to ask for a grade that was changed after
measures were read.
"""

import json

import dagster as dg

from relgrade_assets.assets.build import RESTS_ON_A_KEY
from relgrade_assets.automation.asking import REASON, asked, at_work, each, run_keys
from relgrade_assets.io.standing import Standing
from relgrade_assets.io.study import Study
from relgrade_assets.io.voiding import examine
from relgrade_assets.resources.studies import Studies
from relgrade_assets.schemas import TABLES

ON_A_KEY = tuple(name for name, spec in TABLES.items() if spec.group in RESTS_ON_A_KEY)


@dg.sensor(job_name="recheck", minimum_interval_seconds=60, default_status=dg.DefaultSensorStatus.RUNNING)
def keys_that_fell(context: dg.SensorEvaluationContext, studies: Studies) -> dg.SensorResult:
    """Where a grade of the present round was changed after its measures were read, void the round, say so on every
    table of its key, and run the checks, which then fail (P35).
    """
    busy = at_work(studies)
    found = each(context, studies, _void)
    before = json.loads(context.cursor or "{}")
    seen = {name: f"{fell.round}:{fell.since}" for name, fell in found.items()}
    keys, cursor = run_keys(seen, context.cursor, at=studies.clock(), busy=busy)
    new = [name for name in keys if before.get(name, [""])[0] != seen[name]]
    return asked(
        [
            dg.RunRequest(run_key=keys[n], partition_key=n, tags={REASON: f"round {found[n].round} is void"})
            for n in new
        ],
        cursor,
        otherwise="every key that stood still stands",
        told=[
            dg.AssetObservation(table, partition=name, metadata={"standing": found[name].banner}, description="void")
            for name in new
            for table in ON_A_KEY
        ],
    )


def _void(study: Study) -> Standing | None:
    found = examine(study)
    return found if found is not None and found.status == "void" else None
