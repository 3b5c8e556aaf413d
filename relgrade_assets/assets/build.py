"""How a table of the graph becomes a Dagster asset: one decorator, so that every asset waits, refuses, versions and
reports in the same way.

No asset is defined here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
import polars as pl

from relgrade_assets.errors import Refused, Waiting
from relgrade_assets.io.frames import content_digest
from relgrade_assets.io.study import NotThere, Study
from relgrade_assets.resources.studies import Studies, failure
from relgrade_assets.schemas import SOURCES, TABLES

EXPERIMENT = dg.DynamicPartitionsDefinition(name="experiment")
"""The one partitioning of the whole chain: a partition is an experiment's folder."""

CODE_VERSION = "1"


@dataclass(frozen=True)
class Made:
    """A table's rows and what a person wants to see of them."""

    frame: pl.DataFrame
    metadata: dict[str, Any] = field(default_factory=dict)


Body = Callable[..., Made | Waiting]


def table(body: Body) -> dg.AssetsDefinition:
    """The asset of the table that `body` is named after.

    `body(study, **tables)` takes the input tables that schemas.TABLES names and gives the rows, or says what it waits
    for. Waiting yields no output
    and an observation with the counts, so that downstream is skipped and nothing is red; a refusal is a failure that
    is never retried.
    """
    name = body.__name__
    spec = TABLES[name]

    @dg.asset(
        name=name,
        partitions_def=EXPERIMENT,
        group_name=spec.group,
        ins={i: dg.AssetIn() for i in spec.inputs if i in TABLES},
        deps=[i for i in spec.inputs if i in SOURCES],
        description=_description(body, name),
        kinds={"polars"},
        code_version=CODE_VERSION,
        output_required=False,
        io_manager_key="tables",
        metadata={"dagster/column_schema": column_schema(name)},
    )
    def asset(context: dg.AssetExecutionContext, studies: Studies, **tables: pl.DataFrame):  # type: ignore[no-untyped-def]
        study = studies.study(context.partition_key)
        outcome = attempt(body, study, tables)
        if isinstance(outcome, Waiting):
            context.log.info(f"{name} waits: {outcome}")
            context.log_event(
                dg.AssetObservation(
                    asset_key=context.asset_key,
                    partition=context.partition_key,
                    metadata=waiting_metadata(outcome),
                    description=f"waits: {outcome}",
                )
            )
            return
        notices = {f"notice: {n.code}": str(n) for n in study.notices}
        yield dg.MaterializeResult(
            value=outcome.frame,
            data_version=dg.DataVersion(content_digest(outcome.frame)),
            metadata={"rows": outcome.frame.height, **outcome.metadata, **notices},
        )

    return asset


def attempt(body: Body, study: Study, tables: dict[str, pl.DataFrame]) -> Made | Waiting:
    """Run a body; files that are not there yet become waiting, refusals become failures."""
    try:
        return body(study, **tables)
    except NotThere as missing:
        return missing.waiting
    except Refused as refused:
        raise failure(refused) from None


def waiting_metadata(waiting: Waiting) -> dict[str, Any]:
    """What an observation says of waiting."""
    shares = (
        {"done": waiting.done, "of": waiting.of, "percent": round(100 * waiting.done / waiting.of, 1)}
        if waiting.of
        else {}
    )
    return {"waiting": str(waiting), **shares}


def column_schema(name: str) -> dg.TableSchema:
    """The pandera model's columns as the UI shows them."""
    columns = TABLES[name].model.to_schema().columns.values()
    return dg.TableSchema(
        [
            dg.TableColumn(
                str(c.name),
                str(c.dtype).removeprefix("DataType(").removesuffix(")"),
                description=c.description,
                constraints=dg.TableColumnConstraints(
                    nullable=bool(c.nullable), other=[str(check.error) for check in c.checks if check.error]
                ),
            )
            for c in columns
        ]
    )


def _description(body: Body, name: str) -> str:
    return f"{(body.__doc__ or '').strip()}\n\n{(TABLES[name].model.__doc__ or '').strip()}"
