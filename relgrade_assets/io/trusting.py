"""Trying a study's key: gathers what the methods of trust need from the design and the tables (P40, P31). Computes
nothing itself.
"""

from __future__ import annotations

import polars as pl

from relgrade_assets.io.study import Study
from relgrade_assets.methods import grading
from relgrade_assets.methods.arm_bias import arm_bias
from relgrade_assets.methods.label_noise import label_noise, weights_of
from relgrade_assets.methods.trust import PAIR, Ground, as_table, pool_trust


def trust_of(
    study: Study,
    key: pl.DataFrame,
    runs: pl.DataFrame,
    contributions: pl.DataFrame,
    query_measures: pl.DataFrame,
    grades: pl.DataFrame,
    audit_grades: pl.DataFrame,
    sample: pl.DataFrame,
) -> pl.DataFrame:
    """The PoolTrust table of a frozen key; the other tables are the study's own."""
    d = study.design
    ground = Ground(
        key=key,
        runs=runs.join(key, on="query_id", how="semi"),
        contributions=contributions.join(key, on="query_id", how="semi"),
        names=d.measures,
        relevant_from=d.scale.relevant_from,
        gain=d.scale.gain,
        top=d.scale.top,
    )
    combined = grading.combine(grades, order=d.key_graders, rule=d.combine)
    audited = combined.select(*PAIR, a="grade").join(audit_grades.select(*PAIR, b="grade"), on=PAIR)
    return as_table(
        [
            *pool_trust(ground, query_measures, audit_grades, d.headline),
            *label_noise(
                ground,
                audited,
                d.headline,
                labels=d.scale.labels,
                seed=d.seed,
                weights=weights_of(sample, d.estimand, d.declared("collapsed_stratum")),
            ),
            *arm_bias(
                grades,
                audit_grades,
                contributions,
                grader_families={g.name: g.family for g in d.graders},
                arm_families={a.name: a.family for a in d.arms},
                seed=d.seed,
            ),
        ]
    )
