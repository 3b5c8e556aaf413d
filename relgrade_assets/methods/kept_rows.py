"""Ranks of judged rows from the few rows of a run that matter: the fast path of `relgrade score`.

A run is looked through once, in slices that hold whole queries; of each only its queries, its judged rows and their
ranks are kept. Anything that is not plainly in order gives None, and the caller takes the slower reader, which knows
every oddity. Pure arrays; readers/sieve.py has the files, id_words.py the ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from relgrade_assets.methods.hits import Flags, Floats, Hits, Ints, by_two, column_of, ints, places
from relgrade_assets.methods.id_words import PAD, Ids, Words, ids_at, joined, numbered, pair_hashes, some_equal


@dataclass(frozen=True)
class KeptRun:
    """What was kept of one run: judged rows [query_id, rank, grade], the length of each query's ranking [query_id,
    retrieved], and how many rows there were, were tied, and belong to queries whose ranks begin at 0."""

    judged: pl.DataFrame
    lengths: pl.DataFrame
    rows: int
    tied: int
    from_zero: int


@dataclass(frozen=True)
class Judged:
    """Qrels, to be looked up by query and then by hash: `frame` [query_id, grade] has them in their order, `rows` its
    rows in blocks, one a query, and `blocks` where a query's begins and ends; hashes and ids stand as `rows`."""

    frame: pl.DataFrame
    rows: Ints
    blocks: Mapping[bytes, tuple[int, int]]
    queries: Ids
    chunks: Ids
    hashes: Words

    def pairs(self) -> pl.DataFrame:
        """[query_id, chunk_id, grade], in their order."""
        chunks = np.empty(len(self.rows), dtype=object)
        chunks[self.rows] = self.chunks.text().tolist()
        chunk_id = pl.Series("chunk_id", [chunk.decode() for chunk in chunks.tolist()], dtype=pl.String)
        return self.frame.select("query_id", chunk_id, "grade")

    def find(self, hashes: Words, queries: Ids, chunks: Ids, among: Ids) -> tuple[Ints, Ints] | None:
        """The rows whose pair is judged, and which row of `frame` each is; `among` has all their queries. Ids decide,
        not hashes. None where two judged pairs share a hash."""
        blocks = [self.blocks[query] for query in among.text().tolist() if query in self.blocks]
        if not blocks:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        asked = np.concatenate([np.arange(*block) for block in blocks])
        asked = asked[np.argsort(self.hashes[asked])]
        known = self.hashes[asked]
        if (known[1:] == known[:-1]).any():
            return None
        # Leading bits leave few rows to look for; the table is small enough to stay near the processor.
        shift = np.uint64(64 - min(22, (64 * len(known)).bit_length()))
        marks = np.zeros(1 << int(64 - shift), dtype=np.bool_)
        marks[(known >> shift).view(np.int64)] = True
        rows = np.flatnonzero(marks[(hashes >> shift).view(np.int64)])
        at = np.minimum(np.searchsorted(known, hashes[rows]), len(known) - 1)
        same = known[at] == hashes[rows]
        rows, which = rows[same], asked[at[same]]
        same = queries.take(rows).equal(self.queries.take(which)) & chunks.take(rows).equal(self.chunks.take(which))
        return rows[same], self.rows[which[same]]


@dataclass(frozen=True)
class Rows:
    """Rows of a run in the file's order: `given` is the rank column, none where the run has none."""

    queries: Ids
    chunks: Ids
    score: Floats
    given: Ints | None

    def __len__(self) -> int:
        return len(self.score)

    def take(self, rows: Ints) -> Rows:
        """Some rows."""
        given = None if self.given is None else self.given[rows]
        return Rows(self.queries.take(rows), self.chunks.take(rows), self.score[rows], given)


@dataclass(frozen=True)
class Sifted:
    """A slice's queries, the length of each one's ranking, its judged rows (row of the qrels; rank), and counts."""

    queries: Ids
    lengths: Ints
    judged: Ints
    rank: Ints
    tied: int
    from_zero: int
    low: float
    high: float


class OutOfOrder(Exception):
    """Rows whose scores rise within a query, or whose queries come and go."""


def judged_of(qrels: pl.DataFrame) -> Judged | None:
    """`qrels` [query_id, chunk_id, grade], each pair once; None where there is none, or an id is empty or long."""
    queries, chunks = column_ids(qrels["query_id"]), column_ids(qrels["chunk_id"])
    if not qrels.height or queries is None or chunks is None:
        return None
    return judged_rows(qrels.select("query_id", "grade"), queries, chunks)


def judged_rows(frame: pl.DataFrame, queries: Ids, chunks: Ids) -> Judged:
    """`judged_of`, where the ids of `frame` [query_id, grade] are at hand."""
    rows = np.arange(frame.height)
    first = np.flatnonzero(~queries.like_before())
    names = queries.take(first).text().tolist()
    if len(set(names)) < len(names):
        number, _ = numbered(queries)
        rows = np.argsort(number, kind="stable")
        queries, chunks = queries.take(rows), chunks.take(rows)
        first = np.flatnonzero(~queries.like_before())
        names = queries.take(first).text().tolist()
    ends = np.append(first[1:], len(rows)).tolist()
    blocks = dict(zip(names, zip(first.tolist(), ends, strict=True), strict=True))
    return Judged(frame, rows, blocks, queries, chunks, pair_hashes(queries, chunks))


def sift(rows: Rows, judged: Judged) -> Sifted | None:
    """What a slice of whole queries, each in one block, has of judged rows; ties by chunk id, descending.

    Raises OutOfOrder. None where a score is not finite, a chunk stands twice or ranks disagree with scores.
    """
    n, score = len(rows), rows.score
    same = rows.queries.like_before()
    first = np.flatnonzero(~same)
    tie = same.copy()
    tie[1:] &= score[1:] == score[:-1]
    queries = rows.queries.take(first)
    if (same[1:] & (score[1:] > score[:-1])).any() or some_equal(pair_hashes(queries, queries)):
        raise OutOfOrder
    hashes = pair_hashes(rows.queries, rows.chunks)
    if not np.isfinite(score).all() or some_equal(hashes) or not _ranks_follow(rows.given, same, tie):
        return None
    hits = judged.find(hashes, rows.queries, rows.chunks, queries)
    if hits is None:
        return None
    found, which = hits
    place, tied = _re_ranked(rows.chunks, tie, found)
    rank = place - first[np.searchsorted(first, found, side="right") - 1] + 1
    zero = 0 if rows.given is None else _queries_of(np.flatnonzero(rows.given == 0), first)
    lengths = np.diff(np.append(first, n))
    return Sifted(queries, lengths, which, rank, tied, zero, float(score.min()), float(score.max()))


def _queries_of(rows: Ints, first: Ints) -> int:
    """How many queries, which begin at `first`, have one of the rows, which are sorted."""
    query = np.searchsorted(first, rows, side="right")
    return int(np.count_nonzero(query[1:] != query[:-1])) + min(len(query), 1)


def kept(parts: Sequence[Sifted], judged: Judged) -> KeptRun | None:
    """The run that was sifted in slices; None where all scores are equal. Raises OutOfOrder where a query stands in
    two blocks."""
    queries = joined([part.queries for part in parts]).text()
    lengths = np.concatenate([part.lengths for part in parts])
    names = pl.Series("query_id", [name.decode() for name in queries.tolist()], dtype=pl.String)
    if names.n_unique() < len(names):
        raise OutOfOrder
    rows = int(lengths.sum())
    if rows > 1 and min(part.low for part in parts) == max(part.high for part in parts):
        return None
    which = column_of(np.concatenate([part.judged for part in parts]))
    ranks = column_of(np.concatenate([part.rank for part in parts]), "rank")
    frame = judged.frame[which].with_columns(ranks)
    tied, zero = sum(part.tied for part in parts), sum(part.from_zero for part in parts)
    return KeptRun(frame, pl.DataFrame([names, column_of(lengths, "retrieved")]), rows, tied, zero)


def rank_order(rows: Rows) -> tuple[Ints, Ints] | None:
    """An order of the rows with each query in one block, by its ranks, and where the blocks begin; where there are no
    ranks, by its scores. None where a query's ranks are not 0, 1, 2 ... or 1, 2, 3 ..., each once."""
    number, _ = numbered(rows.queries)
    counts = np.bincount(number)
    start = np.cumsum(counts) - counts
    if rows.given is None:
        return np.lexsort((-rows.score, number)), start
    low = np.full(len(counts), np.iinfo(np.int64).max)
    np.minimum.at(low, number, rows.given)
    if low.min() < 0 or low.max() > 1 or (rows.given - low[number] >= counts[number]).any():
        return None
    order = np.full(len(rows), -1)
    order[(start - low)[number] + rows.given] = np.arange(len(rows))
    return None if (order < 0).any() else (order, start)


def all_rows(parts: Sequence[Rows]) -> Rows:
    """The rows of several parts, one after the other; all have ranks, or none."""
    given = [part.given for part in parts if part.given is not None]
    return Rows(
        joined([part.queries for part in parts]),
        joined([part.chunks for part in parts]),
        np.concatenate([part.score for part in parts]),
        np.concatenate(given) if given else None,
    )


def hits_of(runs: Mapping[str, KeptRun], query_ids: Sequence[str]) -> Hits:
    """`Hits` of several arms' kept runs; arms by name."""
    arms, queries = sorted(runs), sorted(set(query_ids))
    retrieved = np.zeros(len(arms) * len(queries), dtype=np.int64)
    parts = [np.empty((3, 0), dtype=np.int64)]
    for i, arm in enumerate(arms):
        lengths, judged = runs[arm].lengths, runs[arm].judged
        query = places(lengths["query_id"], queries)
        retrieved[i * len(queries) + query[query >= 0]] = ints(lengths["retrieved"])[query >= 0]
        query, rank, grade = places(judged["query_id"], queries), ints(judged["rank"]), ints(judged["grade"])
        if (query < 0).any():
            query, rank, grade = (numbers[query >= 0] for numbers in (query, rank, grade))
        order = by_two(query, rank)
        parts.append(np.stack([i * len(queries) + query[order], rank[order], grade[order]]))
    cell, rank, grade = np.concatenate(parts, axis=1)
    return Hits(arms, queries, cell, rank, grade, retrieved)


def column_ids(column: pl.Series, *, plain: bool = False) -> Ids | None:
    """A column of ids; None where one is null, empty or long, or (`plain`) begins with # or a blank or holds anything
    but printable ASCII."""
    if column.null_count():
        return None
    length = ints(column.str.len_bytes())
    if not length.all():
        return None
    text = bytes(PAD) + column.str.join("").cast(pl.Binary).item() + bytes(PAD)
    data = np.frombuffer(text, dtype=np.uint8)
    start = np.cumsum(length, dtype=np.int64)
    start += PAD
    start -= length
    if plain:
        if ((data[PAD:-PAD] - np.uint8(32)) > 94).any():
            return None
        if b" " in text or b"#" in text:
            first = data[start]
            if ((first == ord(" ")) | (first == ord("#"))).any():
                return None
    return ids_at(data, start, length)


def _ranks_follow(given: Ints | None, same: Flags, tie: Flags) -> bool:
    """Whether the rank column, sorted within a query, never puts a lower score before a higher one. Within tied scores
    any order will do."""
    if given is None or not (same[1:] & (given[1:] <= given[:-1])).any():
        return True
    block = np.flatnonzero(~tie)
    highest, lowest = np.maximum.reduceat(given, block), np.minimum.reduceat(given, block)
    return not (same[block][1:] & (lowest[1:] <= highest[:-1])).any()


def _re_ranked(chunks: Ids, tie: Flags, found: Ints) -> tuple[Ints, int]:
    """The rows where `found` belong once equal scores stand in descending order of chunk ids; and how many rows tie."""
    tied = tie.copy()
    tied[:-1] |= tie[1:]
    count = int(np.count_nonzero(tied))
    if not tied[found].any():
        return found, count
    block = np.cumsum(~tie) - 1
    wanted = np.zeros(int(block[-1]) + 1, dtype=np.bool_)
    wanted[block[found[tied[found]]]] = True
    rows = np.flatnonzero(tied & wanted[block])
    order = np.lexsort([*chunks.take(rows).descending()[::-1], block[rows]])
    place = np.arange(len(tie))
    place[rows[order]] = rows
    return place[found], count
