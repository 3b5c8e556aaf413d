"""Measures of each (arm, query) from a ranking and qrels (P37), as a table; and plain means for foreign qrels.

The formulas are in formulas.py, the weighted means of a study in estimation.py, the names in measure_names.py. Polars,
numpy and errors only: the fast path imports it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import polars as pl

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.methods.formulas import judged_share, values
from relgrade_assets.methods.hits import Floats, Hits, column_of, judged_hits, pool_of
from relgrade_assets.methods.id_words import some_equal
from relgrade_assets.methods.measure_names import Gain, parse_all

__all__ = ["Hits", "evaluate", "judged_hits", "means", "parse_all", "score"]


def evaluate(
    ranking: pl.DataFrame,
    qrels: pl.DataFrame,
    names: Sequence[str],
    *,
    relevant_from: int,
    gain: Gain,
    arms: Sequence[str],
    query_ids: Sequence[str],
    top_grade: int | None = None,
) -> pl.DataFrame:
    """P37: every arm x query x measure, as schemas.QueryMeasures, sorted by arm, query id and measure.

    `ranking` [arm, query_id, chunk_id, rank] with ranks 1, 2, 3 ... in each (arm, query), as ranking.ranked makes it;
    rows of arms or queries that are not listed are left out. `qrels` [query_id, chunk_id, grade]; -1 is pooled
    without a grade: neither judged nor relevant. `relevant_from`, `gain` and `top_grade` are the scale's (P5), where a
    measure's name says nothing else; without `top_grade` it is the highest grade in `qrels` (ERR alone needs it).

    `value` is null where nothing relevant is in the qrels (P, RBP, ERR and Judged are still defined), else 0 where the
    query is absent from the run (`retrieved` false). `judged` is the share of what was retrieved within the measure's
    cut-off that has a grade; unjudged counts as not relevant. Nothing retrieved leaves nothing unjudged: the share is
    1. `measure` is the name as given.

    Raises Refused for an unknown measure, for a pair that stands twice in the qrels, and for a grade above ERR's top.
    """
    twice = _twice(qrels)
    if twice.height:
        listed = twice.head(20).rows()
        faults = [Fault(f"query {q!r}, chunk {c!r}", f"{n} grades", "one grade a pair") for q, c, n in listed]
        raise Refused("Some pairs stand more than once in the judgments", faults, total=twice.height)
    hits = judged_hits(ranking, qrels, arms, query_ids)
    return score(hits, qrels, names, relevant_from=relevant_from, gain=gain, top_grade=top_grade)


def score(
    hits: Hits,
    qrels: pl.DataFrame,
    names: Sequence[str],
    *,
    relevant_from: int,
    gain: Gain,
    top_grade: int | None = None,
) -> pl.DataFrame:
    """`evaluate`, from hits that are already found; `qrels` [query_id, grade], each pair once."""
    measures = parse_all(names)
    pool = pool_of(qrels, hits.queries)
    highest = int(pool.grade.max(initial=0))
    top = highest if top_grade is None else top_grade
    tops = [(name, m.max or top) for name, m in zip(names, measures, strict=True) if m.family == "ERR"]
    low = [Fault(f"measure {n!r}", f"the grade {highest}", f"grades up to {t}") for n, t in tops if highest > t]
    if low:
        raise Refused("Some grades are above the top that ERR is given", low)
    named = sorted(zip(names, measures, strict=True), key=lambda pair: pair[0])
    cells, width = len(hits.retrieved), len(named)
    value, judged = np.empty((cells, width)), np.empty((cells, width))
    for i, (_, measure) in enumerate(named):
        value[:, i] = values(hits, pool, measure, rel=relevant_from, gain=gain, top_grade=top)
        judged[:, i] = judged_share(hits, measure.cutoff, empty=1.0)
    arm = np.repeat(np.arange(len(hits.arms)), len(hits.queries) * width)
    query = np.tile(np.repeat(np.arange(len(hits.queries)), width), len(hits.arms))
    return pl.DataFrame(
        {
            "arm": pl.Series(hits.arms, dtype=pl.String).gather(column_of(arm)),
            "query_id": pl.Series(hits.queries, dtype=pl.String).gather(column_of(query)),
            "measure": pl.Series([name for name, _ in named], dtype=pl.String).gather(
                column_of(np.tile(np.arange(width), cells))
            ),
            "value": column_of(value.ravel()).fill_nan(None),
            "judged": column_of(judged.ravel()),
            "retrieved": column_of(np.repeat(hits.retrieved, width)) > 0,
        }
    )


def means(measured: pl.DataFrame, qrels: pl.DataFrame, *, relevant_from: int) -> pl.DataFrame:
    """Plain means of `evaluate`'s table for each arm and measure, sorted; for qrels that no study made.

    arm, measure, `all` (mean over every query, undefined as 0, as trec_eval -c has it), `queries`, `with_relevant`
    (mean over queries with something relevant to the measure; null without any), `queries_with_relevant`, `judged`
    (mean share, over the queries that the arm answers: one without a result shows nothing of the judgments). Each mean
    is an exact sum divided once.
    """
    names = measured["measure"].unique().sort().to_list()
    best = qrels.group_by("query_id").agg(best=pl.col("grade").max())
    rels = [1 if m.family in ("nDCG", "ERR") else m.rel or relevant_from for m in parse_all(names)]
    rel = pl.DataFrame({"measure": pl.Series(names, dtype=pl.String), "rel": pl.Series(rels, dtype=pl.Int64)})
    wide = measured.join(best, on="query_id", how="left").join(rel, on="measure").sort("arm", "measure", "query_id")
    value, judged = wide["value"].fill_null(0.0).to_numpy(), wide["judged"].to_numpy()
    some = (wide["best"] >= wide["rel"]).fill_null(False).to_numpy()
    answered = wide["retrieved"].to_numpy()
    of_arm = wide.group_by("arm", "measure", maintain_order=True).len().rows()
    rows, at = [], 0
    for arm, measure, n in of_arm:
        mine, at = slice(at, at + n), at + n
        relevant = value[mine][some[mine]]
        rows.append(
            (arm, measure, _mean(value[mine]), n, _mean(relevant), len(relevant), _mean(judged[mine][answered[mine]]))
        )
    schema: dict[str, type[pl.DataType]] = {
        "arm": pl.String,
        "measure": pl.String,
        "all": pl.Float64,
        "queries": pl.Int64,
        "with_relevant": pl.Float64,
        "queries_with_relevant": pl.Int64,
        "judged": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def _twice(qrels: pl.DataFrame) -> pl.DataFrame:
    """Pairs that stand more than once, and how often; hashes first, since there is seldom any."""
    hashes = qrels.select(pl.col("chunk_id").hash() ^ pl.col("query_id").hash(1)).to_series()
    if not some_equal(hashes.to_numpy()):
        return qrels.clear()
    return qrels.group_by("query_id", "chunk_id").len().filter(pl.col("len") > 1).sort("query_id", "chunk_id")


def _mean(numbers: Floats) -> float | None:
    return math.fsum(numbers.tolist()) / len(numbers) if len(numbers) else None
