"""The key: frozen once every pooled pair is graded and every gate has a passed, current verdict (P29, P32-P34)."""

import polars as pl

from relgrade_assets.assets import show
from relgrade_assets.assets.build import Made, table
from relgrade_assets.errors import Refused
from relgrade_assets.io.freezing import freeze
from relgrade_assets.io.judging import unmet
from relgrade_assets.io.study import Study
from relgrade_assets.methods import grading
from relgrade_assets.methods import key as methods


@table
def frozen_key(
    study: Study,
    query_sample: pl.DataFrame,
    pools: pl.DataFrame,
    grades: pl.DataFrame,
    audit_grades: pl.DataFrame,
    verdicts: pl.DataFrame,
    intents: pl.DataFrame,
) -> Made:
    """Prove that all is graded and every verdict current, then freeze the key under its hash, once (P32-P34)."""
    d = study.design
    faults = unmet(study, verdicts)
    if faults:
        raise Refused(f"The key of {study.name} can't be frozen", faults, untouched="Nothing was frozen.")
    combined = grading.combine(grades, order=d.key_graders, rule=d.combine)
    key = methods.build(combined, pools, query_sample, relevant_from=d.scale.relevant_from)
    frozen = freeze(study, key, verdicts)
    counts = {str(g): n for g, n in key.frame.group_by("grade").len().sort("grade").iter_rows()}
    return Made(
        key.frame,
        {
            "key": frozen,
            "queries": key.frame["query_id"].n_unique(),
            "pairs": key.frame.height,
            "grades": show.bars(counts, unit="pairs"),
            "dropped_queries": len(key.dropped),
            "unrateable": key.unrateable.height,
        },
    )
