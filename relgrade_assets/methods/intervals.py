"""95% intervals of a mean: BCa over resampled queries, and Student's t on a given variance (P38, statistics.md).

Which variance belongs to which estimate is estimation.py's. Sums over resamples are exact (see `whole_numbers`), so the
ends do not depend on the order in which a processor adds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from relgrade_assets.methods.resampling import draws, generator, quantile

Floats = npt.NDArray[np.float64]

RESAMPLES = 9_999
NORMAL = NormalDist()


class Interval(NamedTuple):
    """The ends, and how they were made; or no ends, and why."""

    low: float | None
    high: float | None
    how: str


def bca(
    values: Sequence[Sequence[float]], *, seed: str, part: str, resamples: int = RESAMPLES, expanded: bool = False
) -> list[Interval]:
    """BCa intervals of the means of several equally long columns, all from the same resamples of whole queries.

    Bias-corrected and accelerated bootstrap (Efron 1987; Efron and Tibshirani 1993, 14.3), acceleration by the
    jackknife, as scipy.stats.bootstrap(method="BCa") has it. `part` names the draws within the seed. `expanded` asks
    for Student's quantile times sqrt(n / (n - 1)) where BCa has the normal's, since a resample's spread is too
    small by that much (Hesterberg 2015, 4.3).
    """
    n = len(values[0]) if values else 0
    if n < 2:
        return [Interval(None, None, f"no interval: {n} {'query' if n == 1 else 'queries'}")] * len(values)
    scaled = [whole_numbers(column) for column in values]
    columns = np.stack([whole for whole, _ in scaled], axis=1)
    blocks = [block @ columns for block in draws(generator("bca", seed, part), n, resamples)]
    sums = np.sort(np.concatenate(blocks), axis=0)
    return [_bca_of(columns[:, i], sums[:, i], scale, expanded) for i, (_, scale) in enumerate(scaled)]


def _bca_of(whole: Floats, sums: Floats, scale: int, expanded: bool) -> Interval:
    """One column: `whole` are its values times 2^scale, `sums` the sorted sums of its resamples in the same unit."""
    n, total = len(whole), float(whole.sum())
    if whole.min() == whole.max():
        return Interval(None, None, f"no interval: all {n} queries have the same value")
    below = float(np.searchsorted(sums, total, "left") + np.searchsorted(sums, total, "right")) / (2 * len(sums))
    if not 0 < below < 1:
        return Interval(None, None, "no interval: every resample lies on one side of the mean")
    away = [math.ldexp(x - total / n, -scale) for x in whole.tolist()]
    acceleration = math.fsum(x**3 for x in away) / (6 * math.fsum(x**2 for x in away) ** 1.5)
    bias = NORMAL.inv_cdf(below)
    reach = float(stdtrit(n - 1, 0.975)) * math.sqrt(n / (n - 1)) if expanded else NORMAL.inv_cdf(0.975)
    ends = []
    for side in (-reach, reach):
        z = bias + side
        ends.append(math.ldexp(quantile(sums, NORMAL.cdf(bias + z / (1 - acceleration * z))), -scale) / n)
    how = "expanded BCa" if expanded else "BCa"
    return Interval(ends[0], ends[1], f"{how} bootstrap over {n} queries, {len(sums):,} resamples")


def bca_or_t(values: Sequence[Sequence[float]], *, seed: str, part: str, resamples: int = RESAMPLES) -> list[Interval]:
    """For differences in -1..1: at each end the farther of expanded BCa's and Student's t's.

    BCa follows skew and Student's t heavy tails and ties, and each misses where the other holds; what the two together
    cover is in docs/reference/statistics.md.
    """
    found = []
    for column, resampled in zip(
        values, bca(values, seed=seed, part=part, resamples=resamples, expanded=True), strict=True
    ):
        n = len(column)
        if resampled.low is None or resampled.high is None:
            found.append(resampled)
            continue
        mean = math.fsum(column) / n
        variance = math.fsum((x - mean) ** 2 for x in column) / (n - 1) / n
        low, high, _ = student(mean, variance, n - 1.0, "", least=-1.0)
        ends = (min(resampled.low, low or 0.0), max(resampled.high, high or 0.0))
        found.append(Interval(*ends, f"{resampled.how}, or Student's t where wider"))
    return found


def whole_numbers(values: Sequence[float]) -> tuple[Floats, int]:
    """The values times 2^scale as whole numbers, and scale; every sum of n of them is exact in float64 (below 2^52)."""
    top = max((abs(v) for v in values), default=0.0)
    scale = 51 - math.frexp(top)[1] - len(values).bit_length()
    return np.array([round(math.ldexp(v, scale)) for v in values], dtype=np.float64), scale


def student(value: float, variance: float, df: float, how: str, *, least: float = 0.0) -> Interval:
    """value +- t(0.975, df) * sqrt(variance), cut to `least`..1 where it runs out of it: every measure lies within
    0..1, and a difference of two within -1..1.
    """
    reach = float(stdtrit(df, 0.975)) * math.sqrt(variance)
    low, high = value - reach, value + reach
    cut = f"; cut to {least:g}..1" if low < least or high > 1 else ""
    return Interval(max(low, least), min(high, 1.0), how + cut)
