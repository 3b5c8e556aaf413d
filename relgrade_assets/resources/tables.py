"""The IO manager of the graph's tables: checks a frame against its schema before it is written, and that it is
current before it is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakValueDictionary

import dagster as dg
import pandera.errors
import polars as pl

from relgrade_assets.errors import Refused
from relgrade_assets.io.frames import Label
from relgrade_assets.resources.studies import Studies, failure
from relgrade_assets.schemas import TABLES

_fitting: WeakValueDictionary[str, pl.DataFrame] = WeakValueDictionary()
"""The frame that last fitted a table's schema."""


@dataclass(frozen=True)
class Rows:
    """A table's rows with the label of the study that made them: what its inputs were when it read them (P2)."""

    frame: pl.DataFrame
    label: Label


class TableStore(dg.ConfigurableIOManager):
    """Stores each table of each experiment (and round) as one Parquet file under the state folder."""

    studies: dg.ResourceDependency[Studies]

    def handle_output(self, context: dg.OutputContext, obj: Rows) -> None:
        """Write a table that fits its schema; anything else is a failure, and nothing is written."""
        table = context.asset_key.path[-1]
        cases = misfits(table, obj.frame)
        if cases is not None:
            raise dg.Failure(
                description=f"The table {table} does not fit its schema; nothing was written.",
                metadata={"failure_cases": as_table(cases), "failures": cases.height},
                allow_retries=False,
            )
        try:
            label = self.studies.study(context.partition_key).write(table, obj.frame, obj.label)
        except Refused as refused:
            raise failure(refused) from None
        context.add_output_metadata(
            {
                "dagster/partition_row_count": obj.frame.height,
                "digest": label.digest,
                "protocol": label.protocol,
                "made_from": made_from(label.inputs),
            }
        )

    def load_input(self, context: dg.InputContext) -> pl.DataFrame:
        """A table that is proved current; a missing or outdated one is a failure that names it."""
        table = context.asset_key.path[-1]
        try:
            return self.studies.study(context.partition_key).load(table)
        except Refused as refused:
            raise failure(refused) from None


def made_from(inputs: Mapping[str, str]) -> dg.TableMetadataValue:
    """What a table was made from as the UI's table: each input with the digest that it had (P2)."""
    return dg.MetadataValue.table(
        records=[dg.TableRecord({"input": name, "digest": sha}) for name, sha in sorted(inputs.items())],
        schema=dg.TableSchema([dg.TableColumn("input"), dg.TableColumn("digest")]),
    )


def misfits(table: str, frame: pl.DataFrame) -> pl.DataFrame | None:
    """What in a frame does not fit the table's schema, one row a failure; None where all fits. Eager, so that values
    are checked too.
    """
    if _fitting.get(table) is frame:  # the asset asks, and then the store of the very same frame
        return None
    try:
        TABLES[table].model.validate(frame, lazy=True)
    except pandera.errors.SchemaErrors as errors:
        return pl.DataFrame(errors.failure_cases)
    _fitting[table] = frame
    return None


def as_table(cases: pl.DataFrame, shown: int = 20) -> dg.TableMetadataValue:
    """Failure cases as the UI's table; which column and check, never the value (a value may be private text)."""
    rows = (
        cases.select("column", "check")
        .with_columns(pl.all().cast(pl.String))
        .group_by("column", "check", maintain_order=True)
        .len()
    )
    return dg.MetadataValue.table(
        records=[
            dg.TableRecord({"column": c or "", "check": k or "", "rows": n}) for c, k, n in rows.head(shown).iter_rows()
        ],
        schema=dg.TableSchema([dg.TableColumn("column"), dg.TableColumn("check"), dg.TableColumn("rows", "int")]),
    )
