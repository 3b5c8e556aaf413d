"""Arm against arm: paired differences, how sure they are, and on which queries they rest (P39).

From measures of queries to schemas.ArmComparisons. The test is sign_flips.py's, the intervals are intervals.py's and
estimation.py's; how far the pool can be trusted is trust.py's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import polars as pl

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.methods.estimation import Estimand, Graded, shares_of, weighted_rows
from relgrade_assets.methods.intervals import RESAMPLES, Interval, bca_or_t
from relgrade_assets.methods.sign_flips import DRAWS, holm, sign_flips

MOVED = 5
"""Queries that moved most, named for each comparison."""
ARM_COMPARISONS: dict[str, pl.DataType | type[pl.DataType]] = {
    "measure": pl.String,
    "arm": pl.String,
    "other": pl.String,
    "n": pl.Int64,
    "wins": pl.Int64,
    "ties": pl.Int64,
    "losses": pl.Int64,
    "difference": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "interval": pl.String,
    "weighted": pl.Float64,
    "weighted_low": pl.Float64,
    "weighted_high": pl.Float64,
    "weighted_interval": pl.String,
    "estimand": pl.String,
    "p": pl.Float64,
    "p_holm": pl.Float64,
    "test": pl.String,
    "margin": pl.Float64,
    "equivalence": pl.String,
    "moved": pl.List(pl.String),
    "moved_by": pl.List(pl.Float64),
}
"""Columns of schemas.ArmComparisons."""
PAIRED = {name: kind for name, kind in ARM_COMPARISONS.items() if not name.startswith(("weighted", "estimand"))}
"""Columns of `paired`: what needs no sample."""


class Pair(NamedTuple):
    """One measure of two arms on the queries on which it is defined, in order of query id."""

    measure: str
    arm: str
    other: str
    queries: tuple[str, ...]
    differences: tuple[float, ...]


def arm_comparisons(
    query_measures: pl.DataFrame,
    sample: pl.DataFrame,
    *,
    names: Sequence[str],
    estimand: Estimand,
    seed: str,
    collapsed_ok: bool,
    margins: Mapping[str, float] | None = None,
    draws: int = DRAWS,
    resamples: int = RESAMPLES,
) -> pl.DataFrame:
    """P39: every measure of every two arms, as schemas.ArmComparisons, sorted by measure, arm and other.

    `query_measures` as schemas.QueryMeasures over the key's queries, `sample` as schemas.QuerySample. A difference is
    `arm` less `other` on one query; `difference` is its plain mean with a paired interval (intervals.bca_or_t),
    `weighted` the headline of the differences (P38) with Student's. The test is the plain mean's, by sign flips;
    `p_holm` holds over all pairs of arms within a measure. `margins` are what would not matter of a measure, in its
    units, declared beforehand: `equivalent` where the whole 95% interval lies within it, `beyond` where it lies wholly
    past it, `not_shown` else. A query on which the measure is undefined is left out.

    Raises Refused where an arm lacks a query that another has, or a query is not in the sample.
    """
    pairs = _pairs(query_measures, names)
    strata = shares_of(sample)
    weights = {
        q: (s, float(count) if estimand == "searches" else 1.0, pi)
        for q, s, count, pi in sample.select("query_id", "stratum", "count", "inclusion_probability").rows()
    }
    _sampled(pairs, weights)
    rows: list[tuple[object, ...]] = []
    for pair in pairs:
        weighted, interval = _weighted(pair, weights, strata, collapsed_ok)
        rows.append((pair.measure, pair.arm, pair.other, weighted, *interval, estimand))
    place = ["measure", "arm", "other"]
    schema = {c: ARM_COMPARISONS[c] for c in (*place, *(c for c in ARM_COMPARISONS if c not in PAIRED))}
    headlines = pl.DataFrame(rows, schema=schema, orient="row")
    plain = _paired(pairs, names, seed, margins or {}, draws, resamples)
    return plain.join(headlines, on=place).select(*ARM_COMPARISONS).sort(place)


def paired(
    query_measures: pl.DataFrame,
    *,
    names: Sequence[str],
    seed: str,
    margins: Mapping[str, float] | None = None,
    draws: int = DRAWS,
    resamples: int = RESAMPLES,
) -> pl.DataFrame:
    """`arm_comparisons` without a sample: the same columns but the weighted ones, for queries that no study drew."""
    return _paired(_pairs(query_measures, names), names, seed, margins or {}, draws, resamples)


def _paired(
    pairs: Sequence[Pair],
    names: Sequence[str],
    seed: str,
    margins: Mapping[str, float],
    draws: int,
    resamples: int,
) -> pl.DataFrame:
    intervals, tests = _by_queries(pairs, seed, draws, resamples)
    corrected: dict[int, float] = {}
    for name in names:
        places = [i for i, pair in enumerate(pairs) if pair.measure == name]
        corrected |= dict(zip(places, holm([tests[i][0] for i in places]), strict=True))
    rows: list[tuple[object, ...]] = []
    for i, pair in enumerate(pairs):
        margin = margins.get(pair.measure)
        n, values = len(pair.differences), pair.differences
        mean = math.fsum(values) / n if n else None
        low, high, how = intervals[i]
        wins, losses = sum(x > 0 for x in values), sum(x < 0 for x in values)
        moved = sorted(
            ((q, x) for q, x in zip(pair.queries, values, strict=True) if x), key=lambda m: (-abs(m[1]), m[0])
        )[:MOVED]
        rows.append(
            (
                pair.measure, pair.arm, pair.other, n, wins, n - wins - losses, losses,
                mean, low, high, how, tests[i][0], corrected[i], tests[i][1], margin, _equivalence(low, high, margin),
                [q for q, _ in moved], [x for _, x in moved],
            )
        )  # fmt: skip
    return pl.DataFrame(rows, schema=PAIRED, orient="row").sort("measure", "arm", "other")


def _pairs(query_measures: pl.DataFrame, names: Sequence[str]) -> list[Pair]:
    faults: list[Fault] = []
    pairs: list[Pair] = []
    arms = query_measures["arm"].unique().sort().to_list()
    for name in sorted(names):
        held = query_measures.filter(pl.col("measure") == name).sort("arm", "query_id")
        each = {arm: dict(held.filter(pl.col("arm") == arm).select("query_id", "value").rows()) for arm in arms}
        everywhere = sorted({q for values in each.values() for q in values})
        for arm, values in each.items():
            lacking = [q for q in everywhere if q not in values]
            if lacking:
                faults.append(Fault(f"{arm}, {name}", f"nothing on {len(lacking)} queries", "one row a query"))
        if faults:
            continue
        for arm, other in combinations(arms, 2):
            both = [
                (q, each[arm][q] - each[other][q])
                for q in everywhere
                if each[arm][q] is not None and each[other][q] is not None
            ]
            pairs.append(Pair(name, arm, other, tuple(q for q, _ in both), tuple(x for _, x in both)))
    if faults:
        raise Refused("The arms can't be paired", faults)
    return pairs


def _sampled(pairs: Sequence[Pair], weights: dict[str, tuple[str, float, float]]) -> None:
    unknown = sorted({q for pair in pairs for q in pair.queries if q not in weights})
    if unknown:
        faults = [Fault(f"query {q!r}", "measured and not in the sample", "a sampled query") for q in unknown]
        raise Refused("Some measured queries have no weight", faults)


def _by_queries(
    pairs: Sequence[Pair], seed: str, draws: int, resamples: int
) -> tuple[dict[int, Interval], dict[int, tuple[float, str]]]:
    """Intervals and tests by place in `pairs`; comparisons over the same queries share their draws."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for i, pair in enumerate(pairs):
        groups.setdefault(pair.queries, []).append(i)
    intervals: dict[int, Interval] = {}
    tests: dict[int, tuple[float, str]] = {}
    for places in groups.values():
        columns = [pairs[i].differences for i in places]
        found = bca_or_t(columns, seed=seed, part="paired", resamples=resamples)
        intervals |= dict(zip(places, found, strict=True))
        tests |= dict(zip(places, sign_flips(columns, seed=seed, draws=draws), strict=True))
    return intervals, tests


def _weighted(
    pair: Pair, weights: dict[str, tuple[str, float, float]], strata: dict[str, float], collapsed_ok: bool
) -> tuple[float | None, Interval]:
    parts: dict[str, list[Graded]] = {name: [] for name in strata}
    for query, x in zip(pair.queries, pair.differences, strict=True):
        stratum, weight, pi = weights[query]
        parts[stratum].append(Graded(x, 1.0, weight, pi))
    flat = [g for name in strata for g in parts[name]]
    _, value, interval, _, _ = weighted_rows(parts, strata, collapsed_ok, flat, least=-1.0)[-1]
    return value, interval


def _equivalence(low: float | None, high: float | None, margin: float | None) -> str | None:
    if margin is None:
        return None
    if low is None or high is None:
        return "not_shown"
    if -margin < low and high < margin:
        return "equivalent"
    return "beyond" if low > margin or high < -margin else "not_shown"
