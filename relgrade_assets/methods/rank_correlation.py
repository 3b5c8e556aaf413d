"""Orders of arms: places, and how far two orders agree (Kendall's tau-b, tau-ap) (P40). Nothing of measures or keys."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

SAME = 1e-12
"""Means nearer than this are equal: they differ by rounding alone."""


def places(means: Mapping[str, float]) -> dict[str, int]:
    """Each arm's place: 1 and the number of arms that are better; equal arms share one."""
    return {arm: 1 + sum(x > y + SAME for x in means.values()) for arm, y in means.items()}


def tau_b(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Kendall's tau-b of two lists of scores of the same things (Kendall 1945); None where one of them is all ties."""
    same = tied_one = tied_other = 0
    n = len(one)
    for i in range(n):
        for j in range(i):
            a, b = _sign(one[i] - one[j]), _sign(other[i] - other[j])
            same += a * b
            tied_one += a == 0
            tied_other += b == 0
    pairs = n * (n - 1) // 2
    below = (pairs - tied_one) * (pairs - tied_other)
    return same / math.sqrt(below) if below else None


def tau_ap(found: Sequence[float], true: Sequence[float]) -> float | None:
    """tau-ap of the order by `found` against the order by `true` (Yilmaz, Aslam and Robertson 2008): mistakes near
    the top weigh more. None with fewer than two things.

    2 / (n - 1) sum(C(i) / (i - 1)) - 1 over places i = 2 .. n by `found`, C(i) the things above it that `true` has
    above it too. A pair that is tied in either counts half; things tied in `found` stand in the order given.
    """
    n = len(found)
    if n < 2:
        return None
    order = sorted(range(n), key=lambda i: -found[i])
    total = 0.0
    for place in range(1, n):
        right = 0.0
        for above in range(place):
            a, b = order[above], order[place]
            product = _sign(found[a] - found[b]) * _sign(true[a] - true[b])
            right += 0.5 if product == 0 else float(product > 0)
        total += right / place
    return 2 * total / (n - 1) - 1


def _sign(x: float) -> int:
    return 0 if abs(x) <= SAME else 1 if x > 0 else -1
