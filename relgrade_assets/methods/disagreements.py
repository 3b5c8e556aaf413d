"""The audited pairs on which key and auditor differ, each with its likely cause (P30).

A cause is named by a simple rule, as a place to begin reading; it decides nothing.
"""

from __future__ import annotations

import polars as pl

LATE = 2 / 3
"""A chunk is late in its query where its position is beyond this part of the grader's order."""
DISAGREEMENTS = (
    "round",
    "query_id",
    "chunk_id",
    "intent",
    "grade",
    "audit_grade",
    "reason",
    "audit_reason",
    "likely_cause",
)
"""Columns of schemas.Disagreements."""


def disagreements(pairs: pl.DataFrame, intents: pl.DataFrame, *, round: int) -> pl.DataFrame:
    """P30: the pairs with different grades, as schemas.Disagreements, sorted by query then chunk.

    `pairs` [query_id, chunk_id, grade, audit_grade, reason, audit_reason, position], every audited pair, `position`
    its place in the key grader's order within the query; `intents` [query_id, intent]. Pairs without one of the
    grades are no disagreement.

    likely_cause, the first that holds:
    `intent` - the grades are two or more apart, or at least two and more than half of the query's pairs differ;
    `drift` - the chunk is in the last third of the grader's order, at least three one-step differences are, and they
    are at least twice as frequent there as before;
    `boundary` - one step apart, and neither of those.
    """
    apart = (pl.col("grade") - pl.col("audit_grade")).abs()
    differs = pl.col("apart") > 0
    graded = pairs.drop_nulls(["grade", "audit_grade"]).with_columns(
        apart=apart, late=pl.col("position") > LATE * pl.col("position").max().over("query_id")
    )
    graded = graded.with_columns(
        intent_cause=(pl.col("apart") >= 2)
        | ((differs.sum().over("query_id") >= 2) & (differs.sum().over("query_id") * 2 > pl.len().over("query_id")))
    )
    one_step = graded.filter(~pl.col("intent_cause")).with_columns(off=differs)
    late, early = one_step.filter("late")["off"], one_step.filter(~pl.col("late"))["off"]
    drifted = int(late.sum()) >= 3 and int(late.sum()) * len(early) >= 2 * int(early.sum()) * len(late)
    cause = (
        pl.when("intent_cause")
        .then(pl.lit("intent"))
        .when(pl.col("late") & pl.lit(drifted))
        .then(pl.lit("drift"))
        .otherwise(pl.lit("boundary"))
    )
    return (
        graded.filter(differs)
        .join(intents.select("query_id", "intent"), on="query_id", how="left")
        .with_columns(round=pl.lit(round, dtype=pl.Int64), likely_cause=cause)
        .select(DISAGREEMENTS)
        .sort("query_id", "chunk_id")
    )
