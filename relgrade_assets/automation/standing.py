"""Looking whether keys still stand (P35): while the page is open nobody has to ask for a grade that was changed after
measures were read.
"""

import json

import dagster as dg

from relgrade_assets.assets.build import RESTS_ON_A_KEY
from relgrade_assets.automation.asking import REASON, asked, sought
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
    found, cursor = sought(context, studies, _void, lambda fell: f"{fell.round}:{fell.since}")
    before, now = json.loads(context.cursor or "{}"), json.loads(cursor)
    new = {name: fell for name, (fell, _) in found.items() if before.get(name) != now[name]}
    return asked(
        [
            dg.RunRequest(run_key=found[name][1], partition_key=name, tags={REASON: f"round {fell.round} is void"})
            for name, fell in new.items()
        ],
        cursor,
        otherwise="every key that stood still stands",
        told=[
            dg.AssetObservation(table, partition=name, metadata={"standing": fell.banner}, description="void")
            for name, fell in new.items()
            for table in ON_A_KEY
        ],
    )


def _void(study: Study) -> Standing | None:
    found = examine(study)
    return found if found is not None and found.status == "void" else None
