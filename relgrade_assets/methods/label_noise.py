"""What graders' errors add to the uncertainty of an arm's mean, from the audit's confusion table (P40, P27).

An interval over queries alone takes every grade for the truth. Here each grade of the key is drawn again from what
the auditor gave where the key had that grade, and the queries are drawn again too. Intervals over queries alone are
intervals.py's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from relgrade_assets.methods.agreement import query_tables
from relgrade_assets.methods.measures import evaluate
from relgrade_assets.methods.resampling import draws, generator, quantile
from relgrade_assets.methods.trust import Ground, Row

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
RESAMPLES = 400
PAIRS_AT_ONCE = 300_000
"""Grades of resamples that are measured at a time."""


def label_noise(
    ground: Ground,
    audited: pl.DataFrame,
    headline: str,
    *,
    labels: Sequence[int],
    seed: str,
    resamples: int = RESAMPLES,
) -> list[Row]:
    """Rows of schemas.PoolTrust: each arm's plain mean of `headline` with an interval that also holds graders' errors.

    `audited` [query_id, a, b]: the key's and the auditor's grade of every audited pair. One resample draws the audited
    queries with replacement, counts their confusion table, gives every pair of the key with grade g a grade drawn from
    the table's row g (g itself where the row is empty), measures all arms, and averages over the key's queries drawn
    with replacement; a query left with nothing relevant has no value. `value` is the mean over resamples, `low` and
    `high` their 2.5% and 97.5% points, `base` the mean under the key as it is.

    It assumes that errors on unaudited queries are like those on audited ones, and that the auditor is right; errors
    that run together within a query are drawn apart. Without two audited queries there is no interval.
    """
    arms = ground.arms
    base = _means_by_query(ground, ground.key.select("query_id", "chunk_id", "grade"), headline, 1)
    queries = ground.key["query_id"].unique().sort().to_list()
    names, tables = query_tables(audited, labels)
    if len(names) < 2 or len(queries) < 2:
        why = "no interval: it needs at least two audited queries and two in the key"
        return [
            _row(arm, headline, None, None, None, _mean(base[0, i]), len(queries), why) for i, arm in enumerate(arms)
        ]
    found = np.concatenate(list(_resampled(ground, tables, headline, labels, seed, resamples)))
    rows: list[Row] = []
    for i, arm in enumerate(arms):
        values = np.sort(found[:, i][~np.isnan(found[:, i])])
        note = (
            f"{len(values)} resamples of queries and of grades, by the confusion table of {int(tables.sum())} audited "
            f"pairs of {len(names)} queries; value: their mean; base: under the key as it is"
        )
        enough = len(values) > resamples / 2
        low, high = (quantile(values, at) if enough else None for at in (0.025, 0.975))
        mean = math.fsum(values.tolist()) / len(values) if len(values) else None
        rows.append(_row(arm, headline, mean, low, high, _mean(base[0, i]), len(queries), note))
    return rows


def _resampled(
    ground: Ground, tables: Ints, headline: str, labels: Sequence[int], seed: str, resamples: int
) -> Iterator[Floats]:
    """Blocks [resamples of the block, arms] of means."""
    size, key = len(labels), ground.key.sort("query_id", "chunk_id").select("query_id", "chunk_id", "grade")
    place = {label: i for i, label in enumerate(labels)}
    grade = np.array([place[g] for g in key["grade"].to_list()], dtype=np.int64)
    flat = tables.reshape(len(tables), size * size).astype(np.float64)
    of_audit = draws(generator("label_noise", seed, "audited"), len(tables), resamples)
    counts = np.concatenate([block @ flat for block in of_audit]).reshape(-1, size, size)
    empty = counts.sum(axis=2) == 0
    counts[empty] = np.eye(size)[np.nonzero(empty)[1]]
    bits = generator("label_noise", seed, "grades")
    n_queries = key["query_id"].n_unique()
    weights = np.concatenate(list(draws(generator("label_noise", seed, "queries"), n_queries, resamples)))
    at_once = max(1, PAIRS_AT_ONCE // max(1, key.height))
    for start in range(0, resamples, at_once):
        block = counts[start : start + at_once]
        below = block.cumsum(axis=2)
        drawn = (np.asarray(bits.random_raw(len(block) * len(grade)), dtype=np.uint64) >> np.uint64(11)).reshape(
            len(block), len(grade)
        )
        at = drawn.astype(np.float64) * 2.0**-53 * below[:, grade, -1]
        given = (at[:, :, np.newaxis] >= below[:, grade, :-1]).sum(axis=2)
        qrels = pl.concat([key] * len(block)).with_columns(
            grade=np.array(labels, dtype=np.int64)[given].ravel(),
            query_id=pl.Series(np.repeat(np.arange(len(block)), len(grade))).cast(pl.String).str.zfill(6)
            + pl.Series(pl.concat([key["query_id"]] * len(block))),
        )
        yield _averaged(_means_by_query(ground, qrels, headline, len(block)), weights[start : start + at_once])


def _means_by_query(ground: Ground, qrels: pl.DataFrame, headline: str, copies: int) -> Floats:
    """The measure [copy, arm, query], NaN where undefined; `qrels` holds the queries of each copy under its number, or
    as they are where there is one alone.
    """
    ids = qrels["query_id"].unique().sort().to_list()
    runs = ground.runs.join(ground.key, on="query_id", how="semi").join(
        ground.key.select("query_id", "chunk_id"), on=["query_id", "chunk_id"], how="semi"
    )
    if ids and ids[0] not in set(ground.key["query_id"].to_list()):
        numbers = pl.DataFrame({"copy": [f"{i:06}" for i in range(copies)]})
        runs = runs.join(numbers, how="cross").with_columns(query_id=pl.col("copy") + pl.col("query_id"))
    out = evaluate(
        runs.select("arm", "query_id", "chunk_id", "rank"),
        qrels,
        [headline],
        relevant_from=ground.relevant_from,
        gain=ground.gain,
        arms=ground.arms,
        query_ids=ids,
    )
    values = out.sort("arm", "query_id")["value"].fill_null(float("nan")).to_numpy()
    return values.reshape(len(ground.arms), copies, -1).transpose(1, 0, 2)


def _averaged(values: Floats, weights: Floats) -> Floats:
    """[copy, arm]: means of [copy, arm, query], weighted by how often the copy drew each query."""
    out = np.full(values.shape[:2], np.nan)
    for b in range(values.shape[0]):
        for i in range(values.shape[1]):
            kept = [(w, v) for w, v in zip(weights[b].tolist(), values[b, i].tolist(), strict=True) if w and v == v]
            if kept:
                out[b, i] = math.fsum(w * v for w, v in kept) / math.fsum(w for w, _ in kept)
    return out


def _mean(values: Floats) -> float | None:
    kept = [v for v in values.tolist() if v == v]
    return math.fsum(kept) / len(kept) if kept else None


def _row(
    arm: str,
    measure: str,
    value: float | None,
    low: float | None,
    high: float | None,
    base: float | None,
    n: int,
    note: str,
) -> Row:
    return {
        "check": "label_noise", "subject": arm, "measure": measure, "value": value, "low": low, "high": high,
        "base": base, "n": n, "note": note,
    }  # fmt: skip
