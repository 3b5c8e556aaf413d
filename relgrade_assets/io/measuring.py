"""Measures of a study's frozen key: how the design's choices reach the methods (P37-P39).

The assets make tables of these, and `relgrade verify` makes them again to compare. The numbers are methods'.
"""

from __future__ import annotations

import polars as pl

from relgrade_assets.methods import arm_tests, estimation, measures
from relgrade_assets.protocol.design import Design


def query_measures_of(design: Design, key: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """The QueryMeasures table: every arm on every query of the key (P37)."""
    return measures.evaluate(
        runs,
        key,
        design.measures,
        relevant_from=design.scale.relevant_from,
        gain=design.scale.gain,
        arms=[a.name for a in design.arms],
        query_ids=key["query_id"].unique().sort().to_list(),
        top_grade=design.scale.top,
    )


def arm_measures_of(design: Design, query_measures: pl.DataFrame, sample: pl.DataFrame) -> pl.DataFrame:
    """The ArmMeasures table: plain, by stratum, and weighted by traffic (P38)."""
    return estimation.arm_measures(
        query_measures,
        sample,
        kept=query_measures["query_id"].unique().sort().to_list(),
        names=design.measures,
        estimand=design.estimand,
        seed=design.seed,
        collapsed_ok=design.declared("collapsed_stratum"),
    )


def arm_comparisons_of(design: Design, query_measures: pl.DataFrame, sample: pl.DataFrame) -> pl.DataFrame:
    """The ArmComparisons table: every two arms on every measure (P39)."""
    return arm_tests.arm_comparisons(
        query_measures,
        sample,
        names=design.measures,
        estimand=design.estimand,
        seed=design.seed,
        collapsed_ok=design.declared("collapsed_stratum"),
        margins={} if design.equivalence_margin is None else {design.headline: design.equivalence_margin},
    )
