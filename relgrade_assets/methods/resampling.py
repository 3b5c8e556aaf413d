"""Resampling whole queries, with a seed: which queries each resample draws, and how often.

Only the draws and the read-off of interval ends belong here; what is summed over them is the caller's (agreement.py,
estimation.py). The bits come from PCG64's raw stream and integer steps, which numpy keeps stable across versions.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from relgrade_assets.protocol.canonical import hash_key

Floats = npt.NDArray[np.float64]

AT_ONCE = 50_000
"""Draws that are held in memory at a time: few enough to stay near the processor."""


def generator(purpose: str, seed: str, *parts: str) -> np.random.PCG64:
    """A stream of bits for one purpose; equal for equal texts (P10's hash key, as an integer)."""
    return np.random.PCG64(int(hash_key(purpose, seed, *parts), 16))


def draws(bits: np.random.PCG64, queries: int, resamples: int) -> Iterator[Floats]:
    """How often each resample drew each query: blocks [resamples of the block, queries] whose rows sum to `queries`.

    A draw is floor(u * queries / 2^32) for 32 raw bits u; its bias is below queries / 2^32.
    """
    block = max(1, AT_ONCE // max(queries, 1))
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        raw = np.asarray(bits.random_raw(rows * queries), dtype=np.uint64)
        raw >>= np.uint64(32)
        raw *= np.uint64(queries)
        raw >>= np.uint64(32)
        drawn = raw.view(np.int64).reshape(rows, queries)
        drawn += np.arange(rows, dtype=np.int64)[:, np.newaxis] * queries
        yield np.bincount(drawn.ravel(), minlength=rows * queries).reshape(rows, queries).astype(np.float64)


def quantile(ordered: Floats, at: float) -> float:
    """The linearly interpolated quantile of sorted values (Hyndman and Fan 1996, type 7; numpy's default)."""
    place = at * (len(ordered) - 1)
    below = min(int(place), len(ordered) - 1)
    above = min(below + 1, len(ordered) - 1)
    low, high = float(ordered[below]), float(ordered[above])
    return low + (high - low) * (place - below)
