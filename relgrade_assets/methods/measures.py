"""Measures of each (arm, query) from a ranking and qrels (P37).

Definitions are trec_eval's (9.0.8 and 10.0 agree on all of these), with the ideal order taken from the key. No
averages here (estimation.py), no names (measure_names.py). Polars, numpy and errors only: the fast path imports it.
Sums run in rank order, one term after the other (numpy.bincount), so that the same input gives the same bits
everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.methods.measure_names import Gain, Measure, parse_all

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Hits:
    """All that measures need of a ranking: its rows that are in the qrels, and how long it is.

    A cell is one (arm, query): `arms` and `queries` are sorted by code point, and cell = arm index * len(queries) +
    query index. `cell`, `rank`, `grade` have one entry a pooled row that was retrieved, sorted by cell then rank;
    grade -1 is "pooled, no grade". `retrieved` has one entry a cell: how many chunks the arm returned.
    """

    arms: list[str]
    queries: list[str]
    cell: Ints
    rank: Ints
    grade: Ints
    retrieved: Ints


def evaluate(
    ranking: pl.DataFrame,
    qrels: pl.DataFrame,
    names: Sequence[str],
    *,
    relevant_from: int,
    gain: Gain,
    arms: Sequence[str],
    query_ids: Sequence[str],
) -> pl.DataFrame:
    """P37: every arm x query x measure, as schemas.QueryMeasures, sorted by arm, query id and measure.

    `ranking` [arm, query_id, chunk_id, rank] with ranks 1, 2, 3 ... in each (arm, query), as ranking.ranked makes it;
    rows of arms or queries that are not listed are left out. `qrels` [query_id, chunk_id, grade]; -1 is pooled
    without a grade: neither judged nor relevant. `relevant_from` and `gain` are the scale's (P5), where a measure's
    name says nothing else.

    `value` is null where nothing relevant is in the qrels (nDCG, Recall, RR, AP; P and Judged are still defined),
    else 0 where the query is absent from the run (`retrieved` false). `judged` is the share of what was retrieved
    within the measure's cut-off that has a grade; unjudged counts as not relevant. Nothing retrieved leaves nothing
    unjudged: the share is 1. `measure` is the name as given.

    Raises Refused for an unknown measure, and for a pair that stands twice in the qrels.
    """
    return score(judged_hits(ranking, qrels, arms, query_ids), qrels, names, relevant_from=relevant_from, gain=gain)


def judged_hits(ranking: pl.DataFrame, qrels: pl.DataFrame, arms: Sequence[str], query_ids: Sequence[str]) -> Hits:
    """The rows of `ranking` that are in `qrels`, and the length of each ranking; frames as in `evaluate`."""
    arm_list, query_list = sorted(set(arms)), sorted(set(query_ids))
    arm_code, query_code = _codes("arm", arm_list), _codes("query_id", query_list)
    cell = (pl.col("arm_code") * len(query_list) + pl.col("query_id_code")).alias("cell")
    counts = (
        ranking.lazy()
        .group_by("arm", "query_id")
        .agg(n=pl.len())
        .join(arm_code, on="arm")
        .join(query_code, on="query_id")
        .select(cell, "n")
        .collect()
    )
    hits = (
        ranking.lazy()
        .select("arm", "query_id", "chunk_id", "rank")
        .join(qrels.lazy(), on=["query_id", "chunk_id"])
        .join(arm_code, on="arm")
        .join(query_code, on="query_id")
        .select(cell, pl.col("rank").cast(pl.Int64), pl.col("grade").cast(pl.Int64))
        .sort("cell", "rank")
        .collect()
    )
    retrieved = np.zeros(len(arm_list) * len(query_list), dtype=np.int64)
    retrieved[counts["cell"].to_numpy()] = counts["n"].to_numpy()
    return Hits(arm_list, query_list, _ints(hits["cell"]), _ints(hits["rank"]), _ints(hits["grade"]), retrieved)


def score(hits: Hits, qrels: pl.DataFrame, names: Sequence[str], *, relevant_from: int, gain: Gain) -> pl.DataFrame:
    """`evaluate`, from hits that are already found."""
    measures = parse_all(names)
    twice = qrels.group_by("query_id", "chunk_id").len().filter(pl.col("len") > 1).sort("query_id", "chunk_id")
    if twice.height:
        listed = twice.head(20).rows()
        faults = [Fault(f"query {q!r}, chunk {c!r}", f"{n} grades", "one grade a pair") for q, c, n in listed]
        raise Refused("Some pairs stand more than once in the judgments", faults, total=twice.height)
    coded = (
        qrels.lazy()
        .join(_codes("query_id", hits.queries), on="query_id")
        .select("query_id_code", pl.col("grade").cast(pl.Int64))
        .sort("query_id_code", "grade", descending=[False, True])
        .collect()
    )
    pool = (_ints(coded["query_id_code"]), _ints(coded["grade"]))
    named = sorted(zip(names, measures, strict=True), key=lambda pair: pair[0])
    cells, width = len(hits.retrieved), len(named)
    values, judged = np.empty((cells, width)), np.empty((cells, width))
    for i, (_, measure) in enumerate(named):
        values[:, i] = _values(hits, pool, measure, measure.rel or relevant_from, measure.gain or gain)
        judged[:, i] = _judged_share(hits, measure.cutoff, empty=1.0)
    return pl.DataFrame(
        {
            "arm": pl.Series(hits.arms, dtype=pl.String).gather(
                np.repeat(np.arange(len(hits.arms)), len(hits.queries) * width)
            ),
            "query_id": pl.Series(hits.queries, dtype=pl.String).gather(
                np.tile(np.repeat(np.arange(len(hits.queries)), width), len(hits.arms))
            ),
            "measure": pl.Series([name for name, _ in named], dtype=pl.String).gather(np.tile(np.arange(width), cells)),
            "value": pl.Series(values.ravel(), dtype=pl.Float64).fill_nan(None),
            "judged": pl.Series(judged.ravel(), dtype=pl.Float64),
            "retrieved": np.repeat(hits.retrieved > 0, width),
        }
    )


def _values(hits: Hits, pool: tuple[Ints, Ints], measure: Measure, rel: int, gain: Gain) -> Floats:
    """One measure in every cell; NaN where undefined."""
    cells, n_queries = len(hits.retrieved), len(hits.queries)
    if measure.family == "Judged":
        return _judged_share(hits, measure.cutoff, empty=0.0)
    if measure.family == "nDCG":
        within = _within(hits, measure.cutoff) & (hits.grade > 0)
        gains, ideal = _gains(hits.grade[within], gain), _ideal(pool, n_queries, measure.cutoff, gain)
        return _share(_sums(hits.cell[within], gains * _discounts(hits.rank[within]), cells), _over_arms(ideal, cells))
    relevant = hits.grade >= rel
    found = relevant & _within(hits, measure.cutoff)
    of = _over_arms(np.bincount(pool[0][pool[1] >= rel], minlength=n_queries).astype(np.float64), cells)
    if measure.family == "P":
        return _sums(hits.cell[found], np.ones(int(found.sum())), cells) / float(measure.cutoff or 1)
    if measure.family == "Recall":
        return _share(_sums(hits.cell[found], np.ones(int(found.sum())), cells), of)
    if measure.family == "RR":
        first_cell, first = np.unique(hits.cell[found], return_index=True)
        return np.where(of > 0, _sums(first_cell, 1.0 / hits.rank[found][first], cells), np.nan)
    # AP: precision at each relevant chunk's rank, over all that is relevant (also with a cut-off, as trec_eval's
    # map_cut).
    cell, rank = hits.cell[found], hits.rank[found]
    seen = np.arange(1, len(cell) + 1) - np.searchsorted(cell, cell, side="left")
    return _share(_sums(cell, seen / rank, cells), of)


def _ideal(pool: tuple[Ints, Ints], n_queries: int, cutoff: int | None, gain: Gain) -> Floats:
    """DCG of each query's best order, from the qrels alone; `pool` is sorted by query, grade descending."""
    query, grade = pool[0][pool[1] > 0], pool[1][pool[1] > 0]
    rank = np.arange(1, len(query) + 1) - np.searchsorted(query, query, side="left")
    top = rank <= (cutoff or len(query))
    return _sums(query[top], _gains(grade[top], gain) * _discounts(rank[top]), n_queries)


def _gains(grade: Ints, gain: Gain) -> Floats:
    return grade.astype(np.float64) if gain == "linear" else np.ldexp(1.0, grade.astype(np.int32)) - 1.0


def _discounts(rank: Ints) -> Floats:
    """1 / log2(rank + 1), with one log2 a distinct rank from the standard library (numpy's varies with the
    processor)."""
    distinct, place = np.unique(rank, return_inverse=True)
    return np.array([1.0 / math.log2(r + 1) for r in distinct.tolist()], dtype=np.float64)[place]


def _judged_share(hits: Hits, cutoff: int | None, *, empty: float) -> Floats:
    """Share with a grade of what was retrieved within the cut-off; `empty` where nothing was."""
    graded = _within(hits, cutoff) & (hits.grade >= 0)
    looked_at = hits.retrieved if cutoff is None else np.minimum(hits.retrieved, cutoff)
    counts = np.bincount(hits.cell[graded], minlength=len(looked_at)).astype(np.float64)
    return np.where(looked_at > 0, _share(counts, looked_at.astype(np.float64)), empty)


def _within(hits: Hits, cutoff: int | None) -> npt.NDArray[np.bool_]:
    return np.ones(len(hits.rank), dtype=np.bool_) if cutoff is None else hits.rank <= cutoff


def _sums(cell: Ints, terms: Floats, cells: int) -> Floats:
    return np.bincount(cell, weights=terms, minlength=cells).astype(np.float64)


def _share(part: Floats, whole: Floats) -> Floats:
    share: Floats = np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
    return share


def _over_arms(per_query: Floats, cells: int) -> Floats:
    return np.tile(per_query, cells // max(len(per_query), 1))


def _codes(column: str, values: Sequence[str]) -> pl.LazyFrame:
    codes: dict[str, Any] = {column: pl.Series(values, dtype=pl.String), f"{column}_code": np.arange(len(values))}
    return pl.LazyFrame(codes, schema={column: pl.String, f"{column}_code": pl.Int64})


def _ints(series: pl.Series) -> Ints:
    return series.cast(pl.Int64).to_numpy()
