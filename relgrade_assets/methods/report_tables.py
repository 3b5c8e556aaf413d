"""Tables that stand behind the report's plots and are nowhere else: confusion with intervals, unjudged by rank, what
arms' pools share, queries side by side, the queries that moved, the plan of a next study (P27, P39, P40, P11).

From tables of the graph to small ones of ids and numbers; no text of a query, chunk or reason comes in or goes out.
What the report says and draws is io/report's.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import polars as pl

from relgrade_assets.methods import planning
from relgrade_assets.methods.agreement import query_tables
from relgrade_assets.methods.resampling import draws, generator, quantile
from relgrade_assets.methods.strata import wilson

PAIR = ["query_id", "chunk_id"]
RESAMPLES = 2_000
DEEPEST = 20
"""Ranks that unjudged shares are given for at most."""


def confusion(audited: pl.DataFrame, *, labels: Sequence[int], seed: str, resamples: int = RESAMPLES) -> pl.DataFrame:
    """P27: grade, audit_grade, pairs, share, low, high, of: a row a cell of key against auditor.

    `audited` [query_id, a, b]: the key's and the auditor's grade of each audited pair. `share` is the part of the pairs
    with that grade in the key (`of`) that the auditor gave the other; its 95% interval is percentiles over resamples of
    whole queries, null with fewer than two queries or where nothing has the grade.
    """
    queries, tables = query_tables(audited, labels)
    size = len(labels)
    flat = tables.reshape(len(queries), size * size).astype(np.float64)
    bits = generator("confusion", seed)
    many = len(queries) > 1
    drawn = np.concatenate([block @ flat for block in draws(bits, len(queries), resamples)]) if many else flat[:0]
    rows: list[tuple[int, int, int, float | None, float | None, float | None, int]] = []
    for i, grade in enumerate(labels):
        of = drawn[:, i * size : (i + 1) * size].sum(axis=1)
        total = int(tables[:, i].sum())
        for j, other in enumerate(labels):
            count = int(tables[:, i, j].sum())
            shares = np.sort(drawn[of > 0, i * size + j] / of[of > 0])
            ends = (quantile(shares, 0.025), quantile(shares, 0.975)) if len(shares) and total else (None, None)
            rows.append((grade, other, count, count / total if total else None, *ends, total))
    schema = {
        "grade": pl.Int64, "audit_grade": pl.Int64, "pairs": pl.Int64, "share": pl.Float64, "low": pl.Float64,
        "high": pl.Float64, "of": pl.Int64,
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row")


def unjudged_by_rank(runs: pl.DataFrame, key: pl.DataFrame, *, deepest: int = DEEPEST) -> pl.DataFrame:
    """P40: arm, rank, unjudged (share of that rank's results that the key has no grade for), low, high, n.

    `runs` as schemas.Runs, `key` [query_id, chunk_id]. Over the key's queries that have a result at the rank; `low` and
    `high` are Wilson's 95% interval (Wilson 1927), which takes queries for independent draws.
    """
    seen = runs.filter(pl.col("rank") <= deepest).join(key, on="query_id", how="semi")
    marked = seen.join(key.select(PAIR).with_columns(judged=pl.lit(True)), on=PAIR, how="left")
    counted = marked.group_by("arm", "rank").agg(n=pl.len(), open=pl.col("judged").is_null().sum()).sort("arm", "rank")
    rows = [
        (arm, rank, missing / n, *wilson(missing, n), n)
        for arm, rank, n, missing in counted.select("arm", "rank", "n", "open").iter_rows()
    ]
    schema = {
        "arm": pl.String, "rank": pl.Int64, "unjudged": pl.Float64, "low": pl.Float64, "high": pl.Float64,
        "n": pl.Int64,
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row")


def overlap(contributions: pl.DataFrame, key: pl.DataFrame, *, relevant_from: int) -> pl.DataFrame:
    """P40: arms (sorted, joined by " & "), of (how many), chunks, relevant: a row for each set of arms that alone found
    some chunk of the pool, the largest first.

    `contributions` as schemas.Contributions; `key` [query_id, chunk_id, grade]. Every pooled pair counts once, under
    all the arms that found it; `relevant` are those with a grade of at least `relevant_from`.
    """
    found = contributions.group_by(PAIR).agg(pl.col("arm").unique().sort())
    relevant = key.filter(pl.col("grade") >= relevant_from).select(*PAIR, good=pl.lit(1))
    return (
        found.join(relevant, on=PAIR, how="left")
        .with_columns(arms=pl.col("arm").list.join(" & "), of=pl.col("arm").list.len().cast(pl.Int64))
        .group_by("arms", "of")
        .agg(chunks=pl.len().cast(pl.Int64), relevant=pl.col("good").fill_null(0).sum().cast(pl.Int64))
        .sort("chunks", "of", "arms", descending=[True, False, False])
    )


def side_by_side(query_measures: pl.DataFrame, sample: pl.DataFrame, measure: str) -> pl.DataFrame:
    """P39: query_id, stratum, and a column an arm with its value of `measure`, by query id; null where undefined.

    `query_measures` as schemas.QueryMeasures, `sample` [query_id, stratum].
    """
    held = query_measures.filter(pl.col("measure") == measure)
    arms = held["arm"].unique().sort().to_list()
    wide = held.sort("query_id", "arm").pivot("arm", index="query_id", values="value")
    return (
        wide.join(sample.select("query_id", "stratum"), on="query_id", how="left")
        .select("query_id", "stratum", *arms)
        .sort("query_id")
    )


def movers(comparisons: pl.DataFrame, measure: str) -> pl.DataFrame:
    """P39: arm, other, query_id, by: the queries that moved most between every two arms, as schemas.ArmComparisons
    names them.
    """
    held = comparisons.filter(pl.col("measure") == measure).select("arm", "other", query_id="moved", by="moved_by")
    return held.explode("query_id", "by").drop_nulls("query_id")


def next_study(
    query_measures: pl.DataFrame, sample: pl.DataFrame, measure: str, effort: planning.Effort
) -> pl.DataFrame:
    """P11: the plan of a next study of the same strata, as schemas.Plan, with what this one measured in place of what
    was assumed: the mean of `measure` over arms as the rate, and the widest spread of two arms' differences.
    """
    rate = query_measures.filter(pl.col("measure") == measure)["value"].drop_nulls().mean()
    spread = measured_spread(query_measures, measure) or planning.SPREAD
    strata = dict(sample.group_by("stratum").len().sort("stratum").iter_rows())
    shares = dict(sample.select("stratum", "stratum_share").unique().sort("stratum").iter_rows())
    held = min(max(float(rate if isinstance(rate, float) else planning.RATE), 0.01), 0.99)
    return planning.plan(strata, shares, effort, rate=held, spread=spread)


def curve(rate: float, spread: float, queries: int) -> pl.DataFrame:
    """P11: queries, band, smallest_difference: how both shrink from five queries to ten times `queries` (1,000 at
    least), with a row at `queries` itself.
    """
    most = max(1_000, 10 * queries)
    steps = {max(2, queries), 5, 10, 15, 20, 30, 40, 50, 75, *(most * k // 40 for k in range(2, 41))}
    rows = [(n, planning.band(rate, n), planning.smallest_difference(spread, n)) for n in sorted(steps)]
    schema = {"queries": pl.Int64, "band": pl.Float64, "smallest_difference": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def measured_spread(query_measures: pl.DataFrame, measure: str) -> float | None:
    """The widest standard deviation of per-query differences of two arms; None where there are not two of either."""
    wide = side_by_side(query_measures, query_measures.select("query_id", stratum=pl.lit("")).unique(), measure)
    columns = [wide.drop_nulls()[name].to_list() for name in wide.columns[2:]]
    if len(columns) < 2 or len(columns[0]) < 2:
        return None
    each = [statistics.stdev(x - y for x, y in zip(a, b, strict=True)) for a, b in combinations(columns, 2)]
    return max(each) if max(each) > 0 else None
