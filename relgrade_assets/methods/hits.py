"""What measures need of rankings: the rows that are in the qrels, and how long each ranking is.

Built here from whole rankings, and in kept_rows.py from a run that was read in one pass. No measure here. Polars and
numpy only: the fast path imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Hits:
    """All that measures need of rankings: their rows that are in the qrels, and how long they are.

    A cell is one (arm, query): `arms` and `queries` are sorted by code point, and cell = arm index * len(queries) +
    query index. `cell`, `rank`, `grade` have one entry a pooled row that was retrieved, sorted by cell then rank;
    grade -1 is "pooled, no grade". `retrieved` has one entry a cell: how many chunks the arm returned.
    """

    arms: list[str]
    queries: list[str]
    cell: Ints
    rank: Ints
    grade: Ints
    retrieved: Ints

    def down_to(self, depth: int) -> Hits:
        """The same of rankings that were cut after `depth` chunks."""
        top = self.rank <= depth
        short = np.minimum(self.retrieved, depth)
        return Hits(self.arms, self.queries, self.cell[top], self.rank[top], self.grade[top], short)


@dataclass(frozen=True)
class Pool:
    """The qrels as arrays, sorted by query then grade descending: `query` indexes Hits.queries; -1 is no grade."""

    query: Ints
    grade: Ints
    queries: int

    def count(self, low: int, below: int | None = None) -> Floats:
        """For each query, its rows with a grade of at least `low`, and less than `below`."""
        wanted = (self.grade >= low) if below is None else (self.grade >= low) & (self.grade < below)
        return np.bincount(self.query[wanted], minlength=self.queries).astype(np.float64)


def judged_hits(ranking: pl.DataFrame, qrels: pl.DataFrame, arms: Sequence[str], query_ids: Sequence[str]) -> Hits:
    """The rows of `ranking` that are in `qrels`, and the length of each ranking; frames as in measures.evaluate."""
    arm_list, query_list = sorted(set(arms)), sorted(set(query_ids))
    arm, query = places(ranking["arm"], arm_list), places(ranking["query_id"], query_list)
    cell = np.where((arm >= 0) & (query >= 0), arm * len(query_list) + query, -1)
    retrieved = np.bincount(cell[cell >= 0], minlength=len(arm_list) * len(query_list))
    found = (
        ranking.select("query_id", "chunk_id", "rank", column_of(cell, "cell"))
        .filter(pl.col("cell") >= 0)
        .join(qrels.select("query_id", "chunk_id", "grade"), on=["query_id", "chunk_id"])
    )
    cell, rank, grade = (ints(found[column]) for column in ("cell", "rank", "grade"))
    order = by_two(cell, rank)
    return Hits(arm_list, query_list, cell[order], rank[order], grade[order], retrieved)


def pool_of(qrels: pl.DataFrame, queries: Sequence[str]) -> Pool:
    """The qrels [query_id, chunk_id, grade] of `queries`, which are sorted."""
    query, grade = places(qrels["query_id"], queries), ints(qrels["grade"])
    if (query < 0).any():
        query, grade = query[query >= 0], grade[query >= 0]
    order = by_two(query, int(grade.max(initial=0)) - grade)
    return Pool(query[order], grade[order], len(queries))


def places(ids: pl.Series, values: Sequence[str]) -> Ints:
    """For each id its place in `values`, which are distinct; -1 where it is none of them. Ids that stand in blocks are
    looked up once a block."""
    number = {value: place for place, value in enumerate(values)}
    blocks = ids.rle().struct.unnest()
    found = [number.get(value, -1) for value in blocks["value"].to_list()]
    return np.repeat(np.array(found, dtype=np.int64), ints(blocks["len"]))


def by_two(first: Ints, second: Ints) -> Ints:
    """The order by two columns, neither below 0: one number of both, nearly in order already, sorts many times as fast
    as two."""
    return np.argsort(first * (int(second.max(initial=0)) + 1) + second, kind="stable")


def ints(series: pl.Series) -> Ints:
    """A column of whole numbers as an array."""
    return series.cast(pl.Int64).to_numpy()


def column_of(numbers: Ints | Floats, name: str = "") -> pl.Series:
    """An array of numbers as a column, from its bytes: Polars' own way loads numpy.ma, which takes 30 ms."""
    dtype = pl.Float64 if numbers.dtype == np.float64 else pl.Int64
    if not len(numbers):
        return pl.Series(name, [], dtype=dtype)
    whole = pl.Series(name, [numbers.tobytes()], dtype=pl.Binary)
    return whole.bin.reinterpret(dtype=pl.Array(dtype, len(numbers)), endianness=sys.byteorder).explode()
