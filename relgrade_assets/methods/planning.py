"""What a design can tell before anything is spent: errors, bands, sizes, smallest differences, effort (P11).

From counts and assumptions to numbers and to schemas.Plan. Nothing that was measured comes in; estimates from measures
are estimation.py's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl
from scipy.special import nctdtr, stdtrit

Z = 1.959963984540054
"""97.5% point of the normal distribution."""
RATE, SPREAD, A_MINUTE = 0.7, 0.2, 2.0
"""Assumed where nothing is known: the rate that a measure will have, the standard deviation of per-query differences
between two arms (nDCG@10 of pairs of TREC DL 2019 runs: 0.11 to 0.25), and judgments a minute.
"""
COARSE = 0.10
"""One query moves a plain mean by this much or more: a warning (P11)."""
PLAN: dict[str, pl.DataType | type[pl.DataType]] = {
    "scope": pl.String,
    "queries": pl.Int64,
    "rate": pl.Float64,
    "standard_error": pl.Float64,
    "band": pl.Float64,
    "resolution": pl.Float64,
    "coarse": pl.Boolean,
    "band_wanted": pl.Float64,
    "queries_wanted": pl.Int64,
    "spread": pl.Float64,
    "smallest_difference": pl.Float64,
    "pairs_pooled": pl.Int64,
    "hours_pooled": pl.Float64,
    "pairs_exhaustive": pl.Int64,
    "hours_exhaustive": pl.Float64,
    "pairs_another_arm": pl.Int64,
    "pairs_deeper": pl.Int64,
}
"""Columns of schemas.Plan."""


class Effort(NamedTuple):
    """What judging depends on: arms, depth of the pool, chunks in the corpus (None where unknown), judgments a
    minute.
    """

    arms: int
    depth: int
    chunks: int | None
    a_minute: float = A_MINUTE


def standard_error(rate: float, queries: int) -> float:
    """sqrt(p (1 - p) / n): the largest that a mean of n values in [0, 1] with this mean can have."""
    return math.sqrt(rate * (1 - rate) / queries)


def band(rate: float, queries: int) -> float:
    """Half the width of the 95% band at an assumed rate."""
    return Z * standard_error(rate, queries)


def size_for(rate: float, wanted: float) -> int:
    """The fewest queries whose band is no wider than `wanted` on each side: half the band, four times the queries."""
    return max(1, math.ceil(rate * (1 - rate) * (Z / wanted) ** 2 - 1e-9))


def power(difference: float, spread: float, queries: int, *, alpha: float = 0.05) -> float:
    """Chance that a two-sided paired t test at `alpha` finds a mean difference, from the noncentral t distribution
    (Cohen 1988, 2.2). `spread` is the standard deviation of per-query differences.
    """
    df = queries - 1
    at = float(stdtrit(df, 1 - alpha / 2))
    off = difference / spread * math.sqrt(queries)
    # scipy gives NaN where a tail has underflowed. T < 0 needs the numerator below 0, P(Z < -7) = 1e-12, so the wrong
    # side is left out there; past 37 so is what stays below `at`, at every df that gave NaN.
    wrong_side = 0.0 if off > 7 else float(nctdtr(df, off, -at))
    missed = float(nctdtr(df, off, at))
    return 1 - (0.0 if math.isnan(missed) and off > 37 else missed) + wrong_side


def smallest_difference(spread: float, queries: int, *, alpha: float = 0.05, chance: float = 0.8) -> float | None:
    """The mean paired difference that is found with a chance of 80%; None with fewer than two queries."""
    if queries < 2 or spread <= 0:
        return None
    low, high = 0.0, spread
    while power(high, spread, queries, alpha=alpha) < chance:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if power(middle, spread, queries, alpha=alpha) < chance else (low, middle)
    return high


def size_for_difference(difference: float, spread: float, *, alpha: float = 0.05, chance: float = 0.8) -> int:
    """The fewest queries with which a mean paired difference is found with a chance of 80%."""
    high = 2
    while power(difference, spread, high, alpha=alpha) < chance:
        high *= 2
    low = max(2, high // 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if power(difference, spread, middle, alpha=alpha) < chance else (low, middle)
    return high


def plan(
    strata: Mapping[str, int],
    shares: Mapping[str, float],
    effort: Effort,
    *,
    rate: float = RATE,
    wanted: float | None = None,
    spread: float = SPREAD,
) -> pl.DataFrame:
    """P11: a row for each stratum, for all queries together, and for the headline weighted by traffic, as schemas.Plan.

    `strata`: queries sampled in each; `shares`: traffic shares. `rate` is what a measure is assumed to be, `wanted` the
    band asked for (half of the present one where None), `spread` the standard deviation of per-query differences. The
    headline has a row where every stratum has a share and a query; its error is sqrt(sum(share^2 p (1 - p) / n)), its
    numbers of queries are in proportion to the present
    strata. Pairs pooled are at most arms x depth x queries: arms that find the same chunks make them fewer.
    """
    rows = [_row(name, n, rate, band(rate, n), wanted, spread, effort) for name, n in strata.items() if n]
    total = sum(strata.values())
    if total:
        rows.append(_row("all", total, rate, band(rate, total), wanted, spread, effort))
    if total and all(strata.values()) and strata.keys() <= shares.keys():
        squares = math.fsum(shares[name] ** 2 / n for name, n in strata.items())
        wide = Z * math.sqrt(rate * (1 - rate) * squares)
        rows.append(_row("headline", total, rate, wide, wanted, spread * math.sqrt(squares * total), effort))
    return pl.DataFrame(rows, schema=PLAN, orient="row")


def plan_notes(frame: pl.DataFrame) -> list[str]:
    """What a person should read off a plan, in sentences."""
    said = []
    for row in frame.to_dicts():
        if row["scope"] == "headline":
            continue
        if row["coarse"]:
            step = f"one query moves a mean by {row['resolution']:.2f}"
            said.append(f"{row['scope']}: {row['queries']} queries are coarse: {step}")
    return said


def _row(
    scope: str, n: int, rate: float, wide: float, wanted: float | None, spread: float, effort: Effort
) -> Sequence[object]:
    aim = wide / 2 if wanted is None else wanted
    pooled = effort.arms * effort.depth * n
    exhaustive = None if effort.chunks is None else effort.chunks * n

    def hours(pairs: int | None) -> float | None:
        return None if pairs is None else pairs / effort.a_minute / 60

    return (
        scope, n, rate, wide / Z, wide, 1 / n, n * COARSE <= 1 + 1e-9, aim, math.ceil(n * (wide / aim) ** 2 - 1e-9),
        spread, smallest_difference(spread, n), pooled, hours(pooled), exhaustive, hours(exhaustive),
        effort.depth * n, effort.arms * n,
    )  # fmt: skip
