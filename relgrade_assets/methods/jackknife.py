"""95% interval of a coefficient with its ceiling at 1 (kappa, alpha, AC2), from leaving one query out at a time (P27).

Which counts the coefficient comes from is the caller's; intervals of means are intervals.py's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from relgrade_assets.methods.intervals import Interval

Floats = npt.NDArray[np.float64]
NAME = "Fisher-z jackknife over queries"
FEW = 30
"""Queries below which the 95% is said to be another."""
COVERED = (
    "On 10 queries the 95% interval of a kappa held the truth in 93-98% of simulated samples, and is wide; from 30 on "
    "it held it in 94-96%."
)
"""What docs/reference/statistics.md counts, where an interval rests on fewer than `FEW` queries."""
NO_WIDTH = "An interval of no width says that no query moves the number, not that it is certain."


def how_far(queries: int, intervals: Iterable[tuple[float | None, float | None]]) -> list[str]:
    """What is to be said beside 95% intervals that rest on so many queries."""
    widths = [high - low for low, high in intervals if low is not None and high is not None]
    few = queries < FEW and any(width > 0 for width in widths)
    return [COVERED] * few + [NO_WIDTH] * any(width == 0 for width in widths)


def fisher_z(value: float, without: Floats) -> Interval:
    """tanh(atanh(value) +- t(0.975, n - 1) se / (1 - value^2)), se the jackknife's (Efron and Stein 1981) over the n
    values `without` one query each (NaN where undefined).

    The scale is Fisher's (1915): a coefficient near 1 errs further downwards than upwards, which percentiles of
    resamples miss when queries are few. No interval where the value is 1 or -1, where leaving one query out leaves it
    undefined, or where no query moves it.
    """
    n = len(without)
    if n < 2:
        return Interval(None, None, "it needs at least two queries")
    if np.isnan(without).any():
        return Interval(None, None, "undefined without one of the queries")
    if not -1 < value < 1:
        return Interval(None, None, f"the value is {value:g}")
    each = without.tolist()
    mean = math.fsum(each) / n
    variance = (n - 1) / n * math.fsum((x - mean) ** 2 for x in each)
    if variance <= 1e-24:
        return Interval(None, None, "no query moves it")
    reach = float(stdtrit(n - 1, 0.975)) * math.sqrt(variance) / (1 - value * value)
    z = math.atanh(value)
    return Interval(math.tanh(z - reach), math.tanh(z + reach), NAME)
