"""Which grades are compared with which (P30): the combined grade with the auditor's, and grader with grader. No
statistic is computed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import polars as pl

from relgrade_assets.methods.agreement import KEY_AUDITOR

PAIR = ["query_id", "chunk_id"]


def comparisons(
    combined: pl.DataFrame,
    grades: pl.DataFrame,
    audit_grades: pl.DataFrame,
    sample: pl.DataFrame,
    *,
    graders: Sequence[str],
) -> dict[str, pl.DataFrame]:
    """Name -> pairs [query_id, chunk_id, stratum, grade, audit_grade], each sorted by query and chunk.

    `combined` is the key's grade a pair; the auditor's are `audit_grade` in `key~auditor`. Two graders with no pair in
    common are left out.
    """
    strata = sample.select("query_id", "stratum")

    def joined(first: pl.DataFrame, second: pl.DataFrame) -> pl.DataFrame:
        other = second.select(*PAIR, audit_grade="grade")
        both = first.select(*PAIR, "grade").join(other, on=PAIR, how="inner").join(strata, on="query_id", how="left")
        return both.select(*PAIR, "stratum", "grade", "audit_grade").sort(PAIR)

    found = {KEY_AUDITOR: joined(combined, audit_grades)}
    for one, other in combinations(graders, 2):
        pairs = joined(grades.filter(pl.col("grader") == one), grades.filter(pl.col("grader") == other))
        if pairs.height:
            found[f"{one}~{other}"] = pairs
    return found


def audited(
    combined: pl.DataFrame, grades: pl.DataFrame, audit_grades: pl.DataFrame, *, graders: Sequence[str]
) -> pl.DataFrame:
    """Every audited pair with both grades and reasons, and its place in the order of the grader who is listed first.

    Columns query_id, chunk_id, grade, audit_grade, reason, audit_reason, position; sorted by query and chunk.
    """
    order = pl.col("grader").replace_strict(list(graders), list(range(len(graders))), return_dtype=pl.Int64)
    places = grades.sort(order).unique(PAIR, keep="first", maintain_order=True).select(*PAIR, "position")
    other = audit_grades.select(*PAIR, audit_grade="grade", audit_reason="reason")
    both = combined.select(*PAIR, "grade", "reason").join(other, on=PAIR, how="inner").join(places, on=PAIR, how="left")
    return both.select(*PAIR, "grade", "audit_grade", "reason", "audit_reason", "position").sort(PAIR)
