"""The gates as asset checks, for people to see: P9's two, agreement (P28) and freeze (P29, P33).

What they show is decided by the same pure functions that `frozen_key` and all after it ask in code; a check never
changes what is frozen.
"""

from collections.abc import Callable

import dagster as dg
import polars as pl

from relgrade_assets.assets.build import EXPERIMENT
from relgrade_assets.errors import Refused
from relgrade_assets.io.freezing import require_frozen
from relgrade_assets.io.judging import unmet
from relgrade_assets.io.study import Study
from relgrade_assets.io.voiding import examine, require_standing
from relgrade_assets.methods import sampling
from relgrade_assets.resources.studies import Studies

Judge = Callable[[Study], dg.AssetCheckResult]


def gate(asset: str, name: str, description: str, judge: Judge) -> dg.AssetChecksDefinition:
    """A blocking check on `asset` that says what `judge` finds; a refusal is a failed check that says why."""

    @dg.asset_check(asset=asset, name=name, partitions_def=EXPERIMENT, blocking=True, description=description)
    def check(context: dg.AssetCheckExecutionContext, studies: Studies) -> dg.AssetCheckResult:
        try:
            return judge(studies.study(context.partition_key))
        except Refused as refused:
            return dg.AssetCheckResult(passed=False, description=refused.message())

    return check


def _shares(study: Study) -> dg.AssetCheckResult:
    found = sampling.shares_close(study.load("queries"), study.design)
    return dg.AssetCheckResult(passed=found.passed, description=found.text, metadata={"sum": found.value})


def _size(study: Study) -> dg.AssetCheckResult:
    found = sampling.set_size(study.load("query_sample"), study.design)
    return dg.AssetCheckResult(
        passed=found.passed, description=found.text, metadata={"size": found.value, "expected": found.expected}
    )


def _agreement(study: Study) -> dg.AssetCheckResult:
    verdicts = study.load("verdicts")
    faults = unmet(study, verdicts)
    numbers = {row["gate"]: row["value"] for row in verdicts.drop_nulls("value").to_dicts()}
    said = "\n".join(str(fault) for fault in faults) or "every gate passed on the present grades"
    return dg.AssetCheckResult(passed=not faults, description=said, metadata=numbers)


def _standing(study: Study) -> dg.AssetCheckResult:
    found = examine(study)
    if found is None:
        return dg.AssetCheckResult(passed=True, description="no key of this round is frozen")
    said = found.banner or found.why
    return dg.AssetCheckResult(passed=found.decides, description=said, metadata={"standing": found.status})


def _freeze(study: Study) -> dg.AssetCheckResult:
    require_standing(study)
    frame: pl.DataFrame = study.load("frozen_key")
    key = require_frozen(study, frame)
    return dg.AssetCheckResult(
        passed=True, description="the stored key is the frozen one", metadata={"key": key, "pairs": frame.height}
    )


_STANDS = "P35: no grade was found changed since measures were read."
GATE_CHECKS = [
    gate("query_sample", "traffic_shares_close", "P9: the strata's traffic shares sum to 1 within 1e-9.", _shares),
    gate("query_sample", "set_size", "P9: the set's size is the sum of min(target, stratum's size).", _size),
    gate("verdicts", "agreement_gate", "P28: every gate passed, on the grades that are present.", _agreement),
    gate("frozen_key", "freeze_gate", "P29, P33, P35: the table is the key that was frozen, and stands.", _freeze),
    gate("query_measures", "measured_key_stands", _STANDS, _standing),
    gate("published_key", "published_key_stands", _STANDS, _standing),
]
