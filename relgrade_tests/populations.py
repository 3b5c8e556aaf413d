"""Named populations of queries with known truth, on which intervals and tests are tried: builders and counts of
coverage, no expectations.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

GRADERS = {
    "careful": {"mix": (0.6, 0.25, 0.15), "spread": 3.0, "errors": (2.0, 18.0)},
    "uneven": {"mix": (0.6, 0.25, 0.15), "spread": 3.0, "errors": (0.3, 2.7)},
    "few relevant": {"mix": (0.85, 0.10, 0.05), "spread": 2.1, "errors": (2.0, 18.0)},
}
"""Two graders on a scale 0-2: the grades' mix over all queries, how alike queries are (Dirichlet), and the share of
chunks of a query that the second grades one step off (Beta).
"""


def confusion_tables(name: str, queries: int, *, each: int = 15, seed: int = 5) -> Counts:
    """[queries, 3, 3]: confusion tables of a population's queries, 15 chunks in each."""
    rng = np.random.default_rng(seed)
    about = GRADERS[name]
    mixes = rng.dirichlet(np.array(about["mix"]) * about["spread"], queries)
    errors = rng.beta(*about["errors"], queries)
    first = (rng.random((queries, each))[:, :, np.newaxis] > mixes.cumsum(axis=1)[:, np.newaxis, :2]).sum(axis=2)
    step = np.where(rng.random((queries, each)) < errors[:, np.newaxis], rng.choice([-1, 1], (queries, each)), 0)
    second = np.clip(first + step, 0, 2)
    flat = (np.arange(queries)[:, np.newaxis] * 3 + first) * 3 + second
    return np.bincount(flat.ravel(), minlength=queries * 9).reshape(queries, 3, 3)


PAIRS = ("smooth", "lumpy", "skewed", "sparse", "one-sided")
"""Names of `measure_pairs`."""


def measure_pairs(name: str, queries: int, *, seed: int = 6) -> Floats:
    """[queries, 2]: a measure of two arms on a population's queries, in [0, 1].

    `smooth`: nDCG-like, arms that share a query's difficulty. `lumpy`: RR-like, of few values, with many ties.
    `skewed`: Recall-like, most queries at 1 and a long tail down to 0. `sparse`: arms that differ on a quarter of the
    queries, six times in ten for the better. `one-sided`: the second arm gains on a fifth, and never loses.
    """
    rng = np.random.default_rng(seed)
    if name in ("sparse", "one-sided"):
        one, by, moved = rng.beta(2, 2, queries), rng.beta(2, 2, queries), rng.random(queries)
        up = (moved < 0.15) if name == "sparse" else (moved < 0.2)
        down = (moved > 0.9) if name == "sparse" else np.zeros(queries, dtype=bool)
        return np.stack([one, np.where(up, one + (1 - one) * by, np.where(down, one * (1 - by), one))], axis=1)
    easy = rng.normal(0, 1, queries)
    one, two = (easy + rng.normal(shift, 0.8, queries) for shift in (0.0, 0.25))
    if name == "smooth":
        return np.stack([1 / (1 + np.exp(-one)), 1 / (1 + np.exp(-two))], axis=1)
    if name == "lumpy":
        return np.stack([1.0 / np.clip(np.ceil(2.5 - x), 1, 4) for x in (one, two)], axis=1)
    return np.stack([np.clip(1 + (x - 0.3) / 3, 0, 1) for x in (one, two)], axis=1)


class Log(NamedTuple):
    """A query log: searches of each distinct query, a measure of one arm on it, and its stratum (0, 1, 2)."""

    count: Counts
    value: Floats
    stratum: Counts


def query_log(name: str, *, seed: int = 11) -> Log:
    """A named log of distinct queries in three strata by rank; the measure rises with the count, with noise.

    `level`: 12,000 queries whose counts stay below 50, the sampling weights' cap. `steep`: 20,000, the commonest with
    50,000 searches and the others in inverse proportion to their rank, so that a few queries hold most of the head.
    `small`: 600 likewise from 2,000 on, of which a sample takes a large part.
    """
    rng = np.random.default_rng(seed)
    if name == "level":
        count, parts = np.maximum(1, (49 * np.arange(1, 12_001) ** -0.35).astype(np.int64)), (600, 3_400, 8_000)
    elif name == "steep":
        count, parts = np.maximum(1, 50_000 // np.arange(1, 20_001)), (500, 4_500, 15_000)
    else:
        count, parts = np.maximum(1, 2_000 // np.arange(1, 601)), (60, 180, 360)
    value = np.clip(0.35 + 0.07 * np.log(count) + rng.normal(0, 0.25, len(count)), 0, 1)
    return Log(count, value, np.repeat([0, 1, 2], parts))
