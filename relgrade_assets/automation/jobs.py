"""The jobs that people start: whole chain, parts of it, and the checks alone (the UI can't execute one partitioned
check).
"""

from typing import Any

import dagster as dg

REPOOLED = ("queries", "query_sample", "runs", "contributions", "pools", "staleness")
"""What is made again when log, corpus or runs change under a key (P43): nothing of a round, so that the key stands."""
_MADE = dg.AssetSelection.all() - dg.AssetSelection.groups("sources", "refresh")


def _job(name: str, selection: dg.AssetSelection, description: str) -> Any:
    return dg.define_asset_job(name, selection=selection, description=description, executor_def=dg.in_process_executor)


JOBS = [
    _job(
        "everything",
        _MADE,
        "Materialise the whole chain of an experiment; what waits for people is skipped, a failed gate stops it.",
    ),
    _job(
        "regrade",
        dg.AssetSelection.assets("grades", "grader_checks", "audit_grades", "agreement", "disagreements", "verdicts"),
        "Take the answers again and judge the gates.",
    ),
    _job(  # revisions is there for its partitions: Dagster finds none in a job of checks alone
        "recheck",
        (dg.AssetSelection.all_asset_checks() - dg.AssetSelection.checks_for_assets("staleness"))
        | dg.AssetSelection.assets("revisions"),
        "Run every check of an experiment again.",
    ),
    _job(
        "repool",
        dg.AssetSelection.assets(*REPOOLED),
        "Sample, pool and look at staleness again, up to where graders would come in. Touches no key.",
    ),
    _job(
        "publish",
        dg.AssetSelection.assets(
            "frozen_key",
            "query_measures",
            "arm_measures",
            "arm_comparisons",
            "pool_trust",
            "revisions",
            "report",
            "published_key",
        ),
        "Freeze, measure and publish, where every gate holds.",
    ),
]
