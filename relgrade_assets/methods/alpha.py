"""Agreement of any number of graders, with holes: Krippendorff's alpha and Gwet's AC2 (P27).

From ratings to counts a query, and from counts to the two coefficients; never through all pairs of ratings. Kappas of
two graders are agreement.py's, intervals agreement_intervals.py's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from relgrade_assets.errors import Fault, Refused

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Level = Literal["nominal", "ordinal", "interval"]
LEVELS: tuple[Level, ...] = ("nominal", "ordinal", "interval")
EXACT_UP_TO = 2**26
"""Largest common multiple by which shares of units are kept whole; sums of a million pairs then stay below 2^53."""


@dataclass(frozen=True, slots=True)
class Tallies:
    """What both coefficients need, summed a query: arrays whose first axis is the query, in order of `queries`.

    A unit is a (query, chunk). `coincidences` [q, k, k]: ordered pairs of grades within a unit, each unit's weighing
    1 / (m - 1) for its m grades (Krippendorff 2004, 11.3). `shared` [q, k, k]: the same weighing 1 / (m (m - 1)).
    `chosen` [q, k]: the part of a unit's graders who gave k. `several` and `any` [q]: units with two grades or more,
    and with one or more. The first three are multiples of 1 / `scale`, held as whole numbers of it, so that every sum
    over queries is exact. `ratings` [q]: grades given.
    """

    queries: list[str]
    scale: int
    coincidences: Floats
    shared: Floats
    chosen: Floats
    several: Floats
    any: Floats
    ratings: Floats

    def rows(self) -> Floats:
        """Everything that is summed over queries, a row a query: [q, 2 k k + k + 2]."""
        n, k = self.chosen.shape
        flat = [self.coincidences.reshape(n, k * k), self.shared.reshape(n, k * k), self.chosen]
        return np.concatenate([*flat, self.several[:, np.newaxis], self.any[:, np.newaxis]], axis=1)


def tallies(ratings: pl.DataFrame, labels: Sequence[int]) -> Tallies:
    """Ratings [query_id, chunk_id, grader, grade] counted; a null grade is a hole. `labels` is the whole scale.

    Raises Refused for a grade off the scale, and for a grader with two grades for one pair.
    """
    given = ratings.select("query_id", "chunk_id", "grader", "grade").drop_nulls("grade")
    _refuse(given, labels)
    units = given.select(pl.struct("query_id", "chunk_id").rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
    queries = given["query_id"].unique().sort().to_list()
    of_query = given.select(pl.col("query_id").rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
    size, n_units = len(labels), int(units.max()) + 1 if len(units) else 0
    grade = given["grade"].cast(pl.Int64).replace_strict(list(labels), list(range(size)), return_dtype=pl.Int64)
    counts = np.bincount(units * size + grade.to_numpy(), minlength=n_units * size).reshape(n_units, size)
    query = np.zeros(n_units, dtype=np.int64)
    query[units] = of_query
    return counted(counts.astype(np.int64), query, queries)


def counted(counts: Counts, query: Counts, queries: list[str]) -> Tallies:
    """Tallies of units given as grades [unit, k] with the index of each one's query in `queries`."""
    n, k = len(queries), counts.shape[1]
    m = counts.sum(axis=1)
    scale = reduce(math.lcm, (int(x * (x - 1)) for x in np.unique(m) if x > 1), 1)
    scale = reduce(math.lcm, (int(x) for x in np.unique(m) if x > 0), scale)
    if scale > EXACT_UP_TO:
        scale = 1  # then sums are right to rounding, in the order of the units
    with_two, one = m > 1, np.maximum(m, 1)
    by_pair = np.where(with_two, scale / np.maximum(m - 1, 1), 0.0)
    by_unit = np.where(with_two, scale / np.maximum(m * (m - 1), 1), 0.0)
    coincidences, shared = np.zeros((n, k, k)), np.zeros((n, k, k))
    for c in range(k):
        for d in range(c, k):
            together = counts[:, c] * (counts[:, d] - (c == d))
            coincidences[:, c, d] = coincidences[:, d, c] = _by_query(query, together * by_pair, n)
            shared[:, c, d] = shared[:, d, c] = _by_query(query, together * by_unit, n)
    chosen = np.stack([_by_query(query, counts[:, c] * (scale / one), n) for c in range(k)], axis=1)
    several, rated = _by_query(query, with_two * 1.0, n), _by_query(query, (m > 0) * 1.0, n)
    return Tallies(queries, scale, coincidences, shared, chosen, several, rated, _by_query(query, m * 1.0, n))


def alphas(sums: Floats, k: int, scale: int, *, level: Level, labels: Sequence[int]) -> Floats:
    """Krippendorff's alpha of each row of summed tallies (Tallies.rows): NaN where all pairable grades are one label.

    alpha = 1 - (n - 1) sum(o_ck d_ck) / sum(n_c n_k d_ck) over c < k, with n_c the margins of the coincidences o.
    d is 1, the squared distance of the labels, or for `ordinal` (sum of n_g for g from c to k, less the mean of n_c
    and n_k) squared (Krippendorff 2004, 11.3; Hayes and Krippendorff 2007).
    """
    together = sums[:, : k * k].reshape(-1, k, k) / scale
    margins = _added([together[:, :, c] for c in range(k)])  # [rows, k], in one fixed order of addition
    n = _added([margins[:, c] for c in range(k)])
    below = np.concatenate([np.zeros((len(sums), 1)), np.cumsum(margins, axis=1)], axis=1)
    observed: Floats = np.zeros(len(sums))
    expected: Floats = np.zeros(len(sums))
    for c in range(k):
        for d in range(c + 1, k):
            apart: Floats = np.ones(len(sums))
            if level == "ordinal":
                apart = below[:, d + 1] - below[:, c] - (margins[:, c] + margins[:, d]) / 2
            elif level == "interval":
                apart = apart * float(labels[d] - labels[c])
            observed = observed + together[:, c, d] * apart * apart
            expected = expected + margins[:, c] * margins[:, d] * apart * apart
    share: Floats = np.divide((n - 1) * observed, expected, out=np.full(len(sums), np.nan), where=expected > 0)
    return np.subtract(1.0, share)


def ac2s(sums: Floats, k: int, scale: int, *, labels: Sequence[int], weighted: bool = True) -> Floats:
    """Gwet's AC2 of each row of summed tallies, with quadratic weights 1 - (c - d)^2 / (top - bottom)^2; AC1 with
    `weighted` false. NaN where no unit has two grades.

    Agreement is the mean over units with two grades or more, chance T / (k (k - 1)) sum(p (1 - p)) with p the mean
    over units of the part of graders who gave c, and T the sum of all weights (Gwet 2014, 5.3.3 and 5.4).
    """
    reach = float(labels[-1] - labels[0]) or 1.0
    shared = sums[:, k * k : 2 * k * k].reshape(-1, k, k) / scale
    chosen, several, rated = sums[:, 2 * k * k : -2] / scale, sums[:, -2], sums[:, -1]
    agreed: Floats = np.zeros(len(sums))
    chance: Floats = np.zeros(len(sums))
    total = 0.0
    part = np.divide(chosen, rated[:, np.newaxis], out=np.zeros_like(chosen), where=rated[:, np.newaxis] > 0)
    for c in range(k):
        chance += part[:, c] * (1 - part[:, c])
        for d in range(k):
            weight = 1 - (float(labels[c] - labels[d]) / reach) ** 2 if weighted else float(c == d)
            total += weight
            agreed += weight * shared[:, c, d]
    agreed = np.divide(agreed, several, out=np.full(len(sums), np.nan), where=several > 0)
    chance *= total / (k * (k - 1)) if k > 1 else 0.0
    found: Floats = np.divide(agreed - chance, 1 - chance, out=np.full(len(sums), np.nan), where=chance < 1)
    return found


def alpha(ratings: pl.DataFrame, labels: Sequence[int], *, level: Level = "ordinal") -> float | None:
    """Krippendorff's alpha of ratings [query_id, chunk_id, grader, grade] with holes; None where undefined.

    Raises Refused as `tallies` does.
    """
    found = tallies(ratings, labels)
    value = float(alphas(_total(found), len(labels), found.scale, level=level, labels=labels)[0])
    return None if math.isnan(value) else value


def alpha_of_counts(counts: Counts, labels: Sequence[int], *, level: Level = "ordinal") -> float | None:
    """Krippendorff's alpha of two graders without holes, from counts [a, b] (agreement.pair_counts); None where
    undefined.
    """
    k = len(labels)
    row = np.zeros((1, 2 * k * k + k + 2))
    row[0, : k * k] = (counts + counts.T).ravel()
    value = float(alphas(row, k, 1, level=level, labels=labels)[0])
    return None if math.isnan(value) else value


def ac2(ratings: pl.DataFrame, labels: Sequence[int], *, weighted: bool = True) -> float | None:
    """Gwet's AC2 (AC1 with `weighted` false) of ratings as in `alpha`; None where undefined."""
    found = tallies(ratings, labels)
    value = float(ac2s(_total(found), len(labels), found.scale, labels=labels, weighted=weighted)[0])
    return None if math.isnan(value) else value


def _total(found: Tallies) -> Floats:
    total: Floats = found.rows().sum(axis=0, keepdims=True)
    return total


def _added(parts: Sequence[Floats]) -> Floats:
    total = np.zeros_like(parts[0])
    for part in parts:
        total = total + part
    return total


def _by_query(query: Counts, values: Floats | Counts, n: int) -> Floats:
    return np.bincount(query, weights=values, minlength=n).astype(np.float64)


def _refuse(given: pl.DataFrame, labels: Sequence[int]) -> None:
    off = given.filter(~pl.col("grade").is_in(list(labels))).sort("query_id", "chunk_id", "grader")
    expected = f"one of {', '.join(map(str, labels))}"
    faults = [
        Fault(f"query {r['query_id']!r}, chunk {r['chunk_id']!r}, {r['grader']}", f"the grade {r['grade']}", expected)
        for r in off.head(20).to_dicts()
    ]
    if faults:
        raise Refused("Some grades are off the scale", faults, total=off.height)
    key = ["query_id", "chunk_id", "grader"]
    if given.select(pl.struct(key).n_unique()).item() == given.height:
        return
    twice = given.group_by(key).len().filter(pl.col("len") > 1).sort(key)
    faults = [
        Fault(f"query {q!r}, chunk {c!r}, {g}", f"{n} grades", "one a pair and grader")
        for q, c, g, n in twice.head(20).rows()
    ]
    raise Refused("Some pairs were graded twice by one grader", faults, total=twice.height)
