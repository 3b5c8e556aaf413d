"""Queries: from the log to the sample, and the spot-check of their types. Each body reads, calls a method and says
what there is to see.
"""

import polars as pl

from relgrade_assets.assets import show
from relgrade_assets.assets.build import Made, table
from relgrade_assets.io.study import Study
from relgrade_assets.io.worksheets import filled_in, labelled
from relgrade_assets.methods import planning, sampling, strata
from relgrade_assets.methods import queries as methods


@table
def queries(study: Study) -> Made:
    """Normalise and count the log, and cut it into strata (P7, P8)."""
    d = study.design
    distinct = methods.distinct(study.query_log(), secret=study.secret, window_days=d.query_log.window_days)
    tiered = methods.with_tiers(
        distinct,
        head_traffic=d.strata.head_traffic,
        head_at_most=d.strata.head_at_most,
        torso_to_rank=d.strata.torso_to_rank,
    )
    frame = strata.assign(tiered, d, labelled(study))
    summary = methods.summary(frame)
    searches = dict(frame.group_by("stratum").agg(pl.col("count").sum()).sort("stratum").iter_rows())
    return Made(
        frame,
        {
            "searches": summary.searches,
            "distinct_queries": summary.distinct,
            "traffic_of_top_200": summary.top_share,
            "searches_by_stratum": show.bars(searches, unit="searches"),
        },
    )


@table
def query_sample(study: Study, queries: pl.DataFrame) -> Made:
    """Draw the sample of each stratum without replacement (P10); its shares and size are checked (P9)."""
    frame = sampling.draw(queries, study.design)
    sampled = dict(frame.group_by("stratum").len().sort("stratum").iter_rows())
    short = sampling.shortfalls(frame, study.design)
    return Made(
        frame,
        {
            "sampled": frame.height,
            "sampled_by_stratum": show.bars(sampled, unit="queries"),
            "shortfalls": "; ".join(map(str, short)) or "none",
        },
    )


@table
def spot_check(study: Study, queries: pl.DataFrame) -> Made:
    """Draw the rows on which a person checks the queries' types, and where they were filled in, say how far the types
    agree (P8).
    """
    frame = strata.spot_check(queries, study.design, filled_in(study))
    sizes = dict(queries.group_by("stratum").len().iter_rows())
    return Made(frame, {"agreement": str(strata.spot_check_agreement(frame, sizes))})


@table
def plan(study: Study, query_sample: pl.DataFrame) -> Made:
    """Say what the sample can tell before anything is spent: errors, bands, smallest differences, effort (P11)."""
    d = study.design
    effort = planning.Effort(len(d.arms), d.depth, study.corpus.height)
    sizes = {p.name: query_sample.filter(pl.col("stratum") == p.name).height for p in d.strata.parts}
    shares = dict(query_sample.select("stratum", "stratum_share").unique().sort("stratum").iter_rows())
    frame = planning.plan(sizes, shares, effort)
    bands = dict(frame.select("scope", "band").iter_rows())
    whole = frame.filter(pl.col("scope") == "all").row(0, named=True)
    return Made(
        frame,
        {
            "bands": show.bars(bands, unit=f"half of the 95% band at a rate of {planning.RATE:g}"),
            "smallest_difference": whole["smallest_difference"] or 0.0,
            "hours_pooled_at_most": whole["hours_pooled"],
            "hours_exhaustive": whole["hours_exhaustive"],
            "warnings": "; ".join(planning.plan_notes(frame)) or "none",
        },
    )
