"""How a table of the graph becomes a Dagster asset: one decorator, so that every asset waits, refuses, versions and
reports in the same way.

No asset is defined here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
import polars as pl

from relgrade_assets.assets.columns import described, plainly, rules_of
from relgrade_assets.assets.lineage import column_lineage
from relgrade_assets.errors import NotThere, Refused, Waiting
from relgrade_assets.io.frames import content_digest, read_table
from relgrade_assets.io.frozen_inputs import changed_since
from relgrade_assets.io.grading_run import Progress, every
from relgrade_assets.io.progress import first_owed
from relgrade_assets.io.standing import standing_of
from relgrade_assets.io.study import Study
from relgrade_assets.resources.studies import Studies, failure
from relgrade_assets.resources.tables import Rows, as_table, misfits
from relgrade_assets.resources.turns import Turns
from relgrade_assets.schemas import TABLES

EXPERIMENT = dg.DynamicPartitionsDefinition(name="experiment")
"""The one partitioning of the whole chain: a partition is an experiment's folder."""

CODE_VERSION = "1"
GRADERS = "graders"
"""The pool of what runs model graders; its limit is Dagster's, each grader's own concurrency is the design's."""
TELL_SECONDS = 30.0
RESTS_ON_A_KEY = ("key", "measures", "publication")
"""Groups of tables that say how their key stands (P35)."""
SCHEMA = "schema"
"""Name of every table's schema check."""


@dataclass(frozen=True)
class Made:
    """A table's rows and what a person wants to see of them."""

    frame: pl.DataFrame
    metadata: dict[str, Any] = field(default_factory=dict)


Body = Callable[..., Made | Waiting]


def table(body: Body, *, pool: str | None = None) -> dg.AssetsDefinition:
    """The asset of the table that `body` is named after, with its schema check.

    `body(study, **tables)` takes the input tables that schemas.TABLES names and gives the rows, or says what it waits
    for. Waiting yields no output and an observation with the counts, so that downstream is skipped and nothing is red;
    a refusal is a failure that is never retried. Selected for its check alone, it looks at what is stored. A body that
    may take hours is in a `pool`, and is given `tell`, which shows its progress while it runs.
    """
    name = body.__name__
    spec = TABLES[name]
    out = dg.AssetOut(
        is_required=False,
        io_manager_key="tables",
        group_name=spec.group,
        description=_description(body, name),
        kinds={"polars"},
        code_version=CODE_VERSION,
        metadata={"dagster/column_schema": column_schema(name)},
    )
    check = dg.AssetCheckSpec(SCHEMA, asset=name, partitions_def=EXPERIMENT, description="The rows fit the schema.")

    @dg.multi_asset(
        name=name,
        outs={name: out},
        check_specs=[check],
        deps=list(spec.inputs),
        partitions_def=EXPERIMENT,
        pool=pool,
        can_subset=True,  # so that the check can run alone, and waiting need not answer it
    )
    def asset(context: dg.AssetExecutionContext, studies: Studies, turns: Turns):  # type: ignore[no-untyped-def]
        if dg.AssetKey(name) not in context.selected_asset_keys:
            yield stored_fits(studies.study(context.partition_key), name)
            return
        turns.take(studies.home, context.partition_key, context.run.run_id, context.log.info)
        study = studies.study(context.partition_key)

        def tell(progress: Progress) -> None:
            context.log.info(str(progress))
            numbers = progress.numbers()
            at = {"asset_key": name, "partition": context.partition_key}
            context.log_event(dg.AssetObservation(**at, metadata=numbers, description=str(progress)))

        outcome = attempt(body, study, **({"tell": every(TELL_SECONDS, tell)} if pool else {}))
        if isinstance(outcome, Waiting):
            context.log.info(f"{name} waits: {outcome}")
            context.log_event(_observed(name, context.partition_key, outcome))
            return
        result = fits(name, outcome.frame)
        if not result.passed:
            yield result
            raise dg.Failure(f"{result.description} Nothing was written.", allow_retries=False)
        notices = {f"notice: {n.code}": str(n) for n in study.notices}
        if spec.group in RESTS_ON_A_KEY and (standing := standing_of(study.log, study.round)) is not None:
            made = standing.banner or f"{standing.status} when this was made; the checks say how it stands now"
            notices = {"standing": made, **notices}
        label = study.label_for(name, outcome.frame)
        yield dg.MaterializeResult(
            asset_key=name,
            value=Rows(outcome.frame, label),
            data_version=dg.DataVersion(label.digest),
            metadata={"rows": outcome.frame.height, **outcome.metadata, **notices, **column_lineage(name)},
            check_results=[result],
        )

    return asset


def attempt(body: Body, study: Study, **more: Any) -> Made | Waiting:
    """Load what a body takes and run it, with what `more` it takes. Files and people still waited for, here or before,
    become waiting; refusals become failures.
    """
    name = body.__name__
    try:
        study.named(study.design.rubric)  # the protocol, which every table records, covers it (P2)
        study.require_protocol_of_round(name)
        closed = changed_since(study, name, files=False)
        if closed is not None:
            raise closed
        closed = changed_since(study, name)
        try:
            study.look_at(*TABLES[name].inputs)
            owed = first_owed(study, name)
            outcome = owed or body(study, **{i: study.load(i) for i in TABLES[name].inputs if i in TABLES}, **more)
        except (Refused, NotThere):
            if closed is not None:
                raise closed from None
            raise
        if closed is not None and not _as_before(study, name, outcome):
            raise closed
        return outcome
    except NotThere as missing:
        return missing.waiting
    except Refused as refused:
        raise failure(refused) from None


def _as_before(study: Study, name: str, outcome: Made | Waiting) -> bool:
    """Whether a table comes out as it is stored."""
    label = study.label(name)
    return isinstance(outcome, Made) and label is not None and content_digest(outcome.frame) == label.digest


def fits(name: str, frame: pl.DataFrame) -> dg.AssetCheckResult:
    """The schema check's result on a frame."""
    cases = misfits(name, frame)
    if cases is None:
        return dg.AssetCheckResult(check_name=SCHEMA, asset_key=name, passed=True, metadata={"rows": frame.height})
    return dg.AssetCheckResult(
        check_name=SCHEMA,
        asset_key=name,
        passed=False,
        description=f"{cases.height} values of {name} don't fit its schema.",
        metadata={"failures": cases.height, "failure_cases": as_table(cases)},
    )


def stored_fits(study: Study, name: str) -> dg.AssetCheckResult:
    """The schema check's result on what is stored; a missing or altered file fails it."""
    try:
        return fits(name, read_table(study.path(name)))
    except Refused as refused:
        return dg.AssetCheckResult(check_name=SCHEMA, asset_key=name, passed=False, description=refused.message())


def _observed(name: str, experiment: str, waiting: Waiting) -> dg.AssetObservation:
    return dg.AssetObservation(
        asset_key=name,
        partition=experiment,
        metadata=waiting_metadata(waiting),
        description=f"waits: {waiting}",
    )


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
                description=plainly(described(c)),
                constraints=dg.TableColumnConstraints(nullable=bool(c.nullable), other=rules_of(c)),
            )
            for c in columns
        ]
    )


def _description(body: Body, name: str) -> str:
    return f"{(body.__doc__ or '').strip()}\n\n{(TABLES[name].model.__doc__ or '').strip()}"
