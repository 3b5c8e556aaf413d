"""Measures: only of a frozen key (P34), per query and arm (P37), then per arm (P38)."""

import polars as pl

from relgrade_assets.assets import show
from relgrade_assets.assets.build import Made, table
from relgrade_assets.io.freezing import first_reading, require_frozen
from relgrade_assets.io.study import Study
from relgrade_assets.methods import estimation
from relgrade_assets.methods import measures as methods


@table
def query_measures(study: Study, frozen_key: pl.DataFrame, runs: pl.DataFrame, query_sample: pl.DataFrame) -> Made:
    """Measure every arm on every kept query, and record the first reading (P34, P37)."""
    d = study.design
    key = require_frozen(study, frozen_key)
    kept = frozen_key["query_id"].unique().sort().to_list()
    frame = methods.evaluate(
        runs,
        frozen_key,
        d.measures,
        relevant_from=d.scale.relevant_from,
        gain=d.scale.gain,
        arms=[a.name for a in d.arms],
        query_ids=kept,
    )
    first_reading(study, key)
    headline = frame.filter(pl.col("measure") == d.headline).group_by("arm").agg(pl.col("value").mean()).sort("arm")
    absent = frame.filter(~pl.col("retrieved")).select("arm", "query_id").unique().height
    return Made(
        frame,
        {
            "queries": len(kept),
            "absent_from_a_run": absent,
            "plain_means": show.bars(dict(headline.iter_rows()), unit=d.headline, top=1),
        },
    )


@table
def arm_measures(study: Study, query_measures: pl.DataFrame, query_sample: pl.DataFrame) -> Made:
    """Estimate each arm's measures: plain, by stratum, and weighted by traffic, each with its interval (P38)."""
    d = study.design
    frame = estimation.arm_measures(
        query_measures,
        query_sample,
        kept=query_measures["query_id"].unique().sort().to_list(),
        names=d.measures,
        estimand=d.estimand,
        seed=d.seed,
        collapsed_ok=d.declared("collapsed_stratum"),
    )
    top = frame.filter((pl.col("measure") == d.headline) & (pl.col("scope") == "headline")).drop_nulls(
        ["value", "low", "high"]
    )
    rows = [(r["arm"], r["value"], r["low"], r["high"]) for r in top.to_dicts()]
    numbers = {f"{d.headline} {r['arm']}": r["value"] for r in top.to_dicts()}
    unjudged = {f"unjudged {a}": 1 - j for a, j in top.select("arm", "judged").iter_rows()}
    return Made(
        frame, {"headline": show.intervals(rows, unit=f"{d.headline} per {d.estimand}, 95%"), **numbers, **unjudged}
    )
