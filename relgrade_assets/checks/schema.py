"""One schema check a table, from one factory: the stored table still fits its pandera model."""

import dagster as dg

from relgrade_assets.assets.build import EXPERIMENT
from relgrade_assets.errors import Refused
from relgrade_assets.io.frames import read_table
from relgrade_assets.resources.studies import Studies
from relgrade_assets.resources.tables import as_table, misfits
from relgrade_assets.schemas import TABLES


def schema_check(table: str) -> dg.AssetChecksDefinition:
    """The check that what is stored of `table` fits its schema and was not changed after it was written."""

    @dg.asset_check(
        asset=table, name="schema", partitions_def=EXPERIMENT, description="The stored rows fit the table's schema."
    )
    def schema(context: dg.AssetCheckExecutionContext, studies: Studies) -> dg.AssetCheckResult:
        try:
            frame = read_table(studies.study(context.partition_key).path(table))
        except Refused as refused:
            return dg.AssetCheckResult(passed=False, description=refused.message())
        cases = misfits(table, frame)
        if cases is None:
            return dg.AssetCheckResult(passed=True, metadata={"rows": frame.height})
        return dg.AssetCheckResult(
            passed=False,
            description=f"{cases.height} values don't fit",
            metadata={"failures": cases.height, "failure_cases": as_table(cases)},
        )

    return schema


SCHEMA_CHECKS = [schema_check(table) for table in TABLES]
