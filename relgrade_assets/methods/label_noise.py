"""What graders' errors add to the uncertainty of an arm's mean, from the audit's confusion table (P40, P27).

An interval over queries alone takes every grade for the truth. Here each grade of the key is drawn again from what
the auditor gave where the key had that grade, and the draw of queries is counted too. Intervals over queries alone are
intervals.py's, the weighted mean and its variance estimation.py's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from relgrade_assets.methods.agreement import query_tables
from relgrade_assets.methods.estimation import Estimand, Graded, headline_estimate, shares_of
from relgrade_assets.methods.intervals import student
from relgrade_assets.methods.measures import evaluate
from relgrade_assets.methods.resampling import draws, generator, quantile
from relgrade_assets.methods.trust import Ground, Row

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Estimated = tuple[float, float | None, float] | None
"""A headline, its variance and its degrees of freedom; or none."""
Found = tuple[float | None, float | None, float | None, str]
"""Value, low, high and note."""
RESAMPLES = 400
PAIRS_AT_ONCE = 300_000
"""Grades of resamples that are measured at a time."""


class Weights(NamedTuple):
    """How the headline weighs queries: the strata's traffic shares, and (stratum, m, pi) of every sampled query."""

    shares: dict[str, float]
    of_query: dict[str, tuple[str, float, float]]
    estimand: Estimand
    collapsed_ok: bool


def weights_of(sample: pl.DataFrame, estimand: Estimand, collapsed_ok: bool) -> Weights:
    """`Weights` from schemas.QuerySample."""
    rows = sample.select("query_id", "stratum", "count", "inclusion_probability").rows()
    of_query = {q: (s, float(count) if estimand == "searches" else 1.0, pi) for q, s, count, pi in rows}
    return Weights(shares_of(sample), of_query, estimand, collapsed_ok)


def label_noise(
    ground: Ground,
    audited: pl.DataFrame,
    headline: str,
    *,
    labels: Sequence[int],
    seed: str,
    weights: Weights | None = None,
    resamples: int = RESAMPLES,
) -> list[Row]:
    """Rows of schemas.PoolTrust: each arm's `headline` measure with intervals that also hold graders' errors.

    `audited` [query_id, a, b]: the key's and the auditor's grade of every audited pair. One resample draws the audited
    queries with replacement, counts their confusion table, gives every pair of the key with grade g a grade drawn from
    the table's row g (g itself where the row is empty), and measures all arms; a query left with nothing relevant has
    no value. `base` is the mean under the key as it is.

    `label_noise`: the plain mean over the key's queries, drawn with replacement; `value` is its mean over resamples,
    `low` and `high` their 2.5% and 97.5% points. `label_noise_weighted`, where there are `weights`: the headline of
    P38; the redrawn keys are multiple imputations of the true one, and Rubin's rules (1987) add the variance between
    them to the design's within, with Barnard and Rubin's degrees of freedom (1999).

    It assumes that errors on unaudited queries are like those on audited ones, and that the auditor is right; errors
    that run together within a query are drawn apart. Without two audited queries there is no interval.
    """
    arms = ground.arms
    base = _means_by_query(ground, ground.key.select("query_id", "chunk_id", "grade"), headline, 1)[0]
    queries = ground.key["query_id"].unique().sort().to_list()
    names, tables = query_tables(audited, labels)
    plain_base = [_mean(base[i]) for i in range(len(arms))]
    at_base = [weights and _estimate(base[i], queries, weights) for i in range(len(arms))]
    if len(names) < 2 or len(queries) < 2:
        why = "no interval: it needs at least two audited queries and two in the key"
        return _rows(arms, headline, plain_base, at_base, [(None, None, None, why)] * len(arms), None, len(queries))
    plain: list[Floats] = []
    imputed: list[list[Estimated]] = [[] for _ in arms]
    drawn = np.concatenate(list(draws(generator("label_noise", seed, "queries"), len(queries), resamples)))
    done = 0
    for block in _resampled(ground, tables, headline, labels, seed, resamples):
        plain.append(_averaged(block, drawn[done : done + len(block)]))
        done += len(block)
        if weights is not None:
            for i, each in enumerate(imputed):
                each += [_estimate(values, queries, weights) for values in block[:, i]]
    found = np.concatenate(plain)
    drawn_from = f"by the confusion table of {int(tables.sum())} audited pairs of {len(names)} queries"
    simple = [_percentiles(found[:, i], resamples, drawn_from) for i in range(len(arms))]
    pooled = None if weights is None else [_rubin(each, resamples, drawn_from, weights) for each in imputed]
    return _rows(arms, headline, plain_base, at_base, simple, pooled, len(queries))


def _rows(
    arms: Sequence[str],
    measure: str,
    plain_base: Sequence[float | None],
    at_base: Sequence[Estimated],
    simple: Sequence[Found],
    pooled: Sequence[Found] | None,
    n: int,
) -> list[Row]:
    rows: list[Row] = []
    for i, arm in enumerate(arms):
        rows.append(_row("label_noise", arm, measure, simple[i], plain_base[i], n))
        if pooled is not None:
            under = at_base[i]
            rows.append(_row("label_noise_weighted", arm, measure, pooled[i], under and under[0], n))
    return rows


def _percentiles(values: Floats, resamples: int, drawn_from: str) -> Found:
    kept = np.sort(values[~np.isnan(values)])
    low, high = (quantile(kept, at) if len(kept) > resamples / 2 else None for at in (0.025, 0.975))
    mean = math.fsum(kept.tolist()) / len(kept) if len(kept) else None
    note = (
        f"{len(kept)} resamples of queries and of grades, {drawn_from}; value: their mean; base: under the key as it is"
    )
    return mean, low, high, note


def _rubin(imputed: Sequence[Estimated], resamples: int, drawn_from: str, weights: Weights) -> Found:
    """The headline from estimates (value, variance, df) under redrawn keys; None stands for one that has none."""
    kept = [e for e in imputed if e is not None]
    m = len(kept)
    if m <= resamples / 2:
        return (
            None,
            None,
            None,
            f"no headline: a stratum has no query left in {resamples - m} of {resamples} redrawn keys",
        )
    mean = math.fsum(e[0] for e in kept) / m
    variances = [e[1] for e in kept if e[1] is not None]
    if len(variances) < m:
        return mean, None, None, "no interval: a stratum has one graded query"
    within = math.fsum(variances) / m
    between = (1 + 1 / m) * math.fsum((e[0] - mean) ** 2 for e in kept) / (m - 1)
    if within + between <= 0:
        return mean, None, None, "no interval: no spread between queries, and none between redrawn keys"
    missing = between / (within + between)
    whole = math.fsum(min(e[2], 1e6) for e in kept) / m
    seen = (whole + 1) / (whole + 3) * whole * (1 - missing)
    df = 1 / (missing**2 / (m - 1) + 1 / seen) if seen > 0 else m - 1.0
    interval = student(mean, within + between, df, "")
    note = (
        f"per {weights.estimand}; {m} redrawn keys, {drawn_from}, and Rubin's rules: {missing:.0%} of the variance is "
        f"graders' errors, t with {df:.1f} degrees of freedom; base: under the key as it is"
    )
    return mean, interval.low, interval.high, note


def _estimate(values: Floats, queries: Sequence[str], weights: Weights) -> Estimated:
    parts: dict[str, list[Graded]] = {name: [] for name in weights.shares}
    for query, value in zip(queries, values.tolist(), strict=True):
        if value == value:
            stratum, weight, pi = weights.of_query[query]
            parts[stratum].append(Graded(value, 1.0, weight, pi))
    return headline_estimate(parts, weights.shares, weights.collapsed_ok)


def _resampled(
    ground: Ground, tables: Ints, headline: str, labels: Sequence[int], seed: str, resamples: int
) -> Iterator[Floats]:
    """Blocks [resamples of the block, arm, query] of the measure under redrawn keys."""
    size, key = len(labels), ground.key.sort("query_id", "chunk_id").select("query_id", "chunk_id", "grade")
    place = {label: i for i, label in enumerate(labels)}
    grade = np.array([place[g] for g in key["grade"].to_list()], dtype=np.int64)
    flat = tables.reshape(len(tables), size * size).astype(np.float64)
    of_audit = draws(generator("label_noise", seed, "audited"), len(tables), resamples)
    counts = np.concatenate([block @ flat for block in of_audit]).reshape(-1, size, size)
    empty = counts.sum(axis=2) == 0
    counts[empty] = np.eye(size)[np.nonzero(empty)[1]]
    bits = generator("label_noise", seed, "grades")
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
        yield _means_by_query(ground, qrels, headline, len(block))


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
        top_grade=ground.top,
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


def _row(check: str, arm: str, measure: str, found: Found, base: float | None, n: int) -> Row:
    value, low, high, note = found
    return {
        "check": check, "subject": arm, "measure": measure, "value": value, "low": low, "high": high,
        "base": base, "n": n, "note": note,
    }  # fmt: skip
