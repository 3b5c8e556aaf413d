"""The paired randomisation test: sign flips of per-query differences, for many comparisons at once (P39).

From differences to p-values; which differences, and what follows from a p-value, is arm_tests.py's. The draws are a
matrix of bits and the sums one matrix product, in whole numbers, so that ties are ties on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from relgrade_assets.methods.intervals import whole_numbers
from relgrade_assets.methods.resampling import generator

Floats = npt.NDArray[np.float64]

DRAWS = 100_000
AT_ONCE = 4_000_000
"""Signs that are held in memory at a time, 32 MB of them: a product of small blocks spends its time on starting."""
_OF_BYTE = np.unpackbits(np.arange(256, dtype=np.uint8)[:, np.newaxis], axis=1).astype(np.float64)
"""The eight signs of every byte, the highest first."""


class Test(NamedTuple):
    """A two-sided p-value, and how it was found."""

    p: float
    how: str


def sign_flips(differences: Sequence[Sequence[float]], *, seed: str, draws: int = DRAWS) -> list[Test]:
    """The paired randomisation test of each column's mean difference against none, two-sided (Fisher 1935).

    Where a column's differences apart from zero have fewer than `draws` sign patterns, all of them are gone through
    and p is the share whose sum lies at least as far from 0; else `draws` patterns are drawn and
    p = (b + 1) / (draws + 1) (Phipson and Smyth 2010). All drawn columns, which must be equally long, share their
    patterns. A column without a difference has p = 1. Values are rounded to a grid of 2^-51 of their total reach, and
    sums within that rounding of one another count as equal.
    """
    found: dict[int, Test] = {}
    drawn: list[int] = []
    for i, column in enumerate(differences):
        apart = [x for x in column if x != 0]
        if not apart:
            found[i] = Test(1.0, "no query differs")
        elif 2 ** len(apart) <= draws:
            found[i] = _exact(apart)
        else:
            drawn.append(i)
    if drawn:
        whole = np.stack([whole_numbers(differences[i])[0] for i in drawn], axis=1)
        total, slack = whole.sum(axis=0), float(len(whole))
        far = np.zeros(len(drawn), dtype=np.int64)
        for bits in _patterns(generator("sign_flips", seed), len(whole), draws):
            sums = bits @ whole
            far += (np.abs(2 * sums - total) >= np.abs(total) - slack).sum(axis=0)
        for i, b in zip(drawn, far.tolist(), strict=True):
            found[i] = Test((b + 1) / (draws + 1), f"{draws:,} sign flips")
    return [found[i] for i in range(len(differences))]


def holm(ps: Sequence[float]) -> list[float]:
    """P-values made good for their number, step by step from the least (Holm 1979)."""
    adjusted = [1.0] * len(ps)
    highest = 0.0
    for step, i in enumerate(sorted(range(len(ps)), key=lambda j: (ps[j], j))):
        highest = max(highest, min(1.0, (len(ps) - step) * ps[i]))
        adjusted[i] = highest
    return adjusted


def _exact(apart: Sequence[float]) -> Test:
    whole, _ = whole_numbers(apart)
    n, total = len(apart), float(whole.sum())
    sums = np.zeros(1)
    for x in whole.tolist():
        sums = np.concatenate([sums, sums + x])
    far = int((np.abs(2 * sums - total) >= abs(total) - n).sum())
    return Test(far / 2**n, f"exact: all {2**n:,} sign flips of {n} queries that differ")


def _patterns(bits: np.random.PCG64, queries: int, draws: int) -> Iterator[Floats]:
    """Blocks [draws of the block, queries] of 0 and 1."""
    words = -(-queries // 64)
    rows_at_once = max(1, AT_ONCE // (64 * words))
    for start in range(0, draws, rows_at_once):
        rows = min(rows_at_once, draws - start)
        raw = np.asarray(bits.random_raw(rows * words), dtype="<u8").view(np.uint8).reshape(rows, words * 8)
        yield _OF_BYTE[raw].reshape(rows, words * 64)[:, :queries]
