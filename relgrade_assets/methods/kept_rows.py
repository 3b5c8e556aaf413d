"""Ranks of judged rows from the few rows of a run that matter: the fast path of `relgrade score`.

A run is looked through once. Of its rows only query starts, judged rows, tied rows and violations of the order are
kept, beside one hash a row that finds repeated chunks. Anything that is not plainly in order gives None, and the
caller takes the slower reader, which knows every oddity. Pure expressions and arrays; readers/sieve.py has the files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from relgrade_assets.methods.hits import Hits, Ints, codes, ints


@dataclass(frozen=True)
class KeptRun:
    """What was kept of one run: judged rows [query_id, chunk_id, rank, grade], the length of each query's ranking
    [query_id, retrieved], and how many rows there were, were tied, and belong to queries whose ranks begin at 0."""

    judged: pl.DataFrame
    lengths: pl.DataFrame
    rows: int
    tied: int
    from_zero: int


def pair_hash(query_id: str = "query_id", chunk_id: str = "chunk_id") -> pl.Expr:
    """UInt64 of a pair. Equal pairs have equal hashes; the other way round is checked where it counts."""
    return pl.col(chunk_id).hash() ^ pl.col(query_id).hash(1)


def kept_and_hashes(rows: pl.LazyFrame, judged: pl.Series) -> list[pl.LazyFrame]:
    """Two plans over one scan: the rows to keep, and every row's hash.

    `rows` [row, query_id, chunk_id, score, given (rank, or null), not_q0, odd] in the file's order; `judged` are the
    hashes of the qrels' pairs. `wrong` marks what `in_order` can't take.
    """
    same = (pl.col("query_id") == pl.col("query_id").shift()).fill_null(False)
    score, given = pl.col("score"), pl.col("given")
    marked = (
        rows.with_columns(hash=pair_hash(), same=same)
        .with_columns(
            hit=pl.col("hash").is_in(judged.implode()),
            tie=pl.col("same") & (score == score.shift()),
            wrong=pl.col("odd")
            | ~score.is_finite()
            | (pl.col("same") & ((score > score.shift()) | (given <= given.shift()).fill_null(False))),
        )
        .with_columns(next_tie=pl.col("tie").shift(-1).fill_null(False))
    )
    keep = ~pl.col("same") | pl.any_horizontal("hit", "tie", "next_tie", "wrong")
    few = ["row", "query_id", "chunk_id", "score", "given", "hash", "same", "hit", "tie", "next_tie", "wrong", "odd"]
    return [marked.filter(keep).select(few), marked.select("hash", "not_q0")]


def in_order(kept: pl.DataFrame, hashes: pl.Series, qrels: pl.DataFrame) -> KeptRun | None:
    """The run that was kept, where its queries stand in one block each, best score first, no chunk twice.

    None elsewhere, also where two pairs merely share a hash or all scores are equal. `qrels` [query_id, chunk_id,
    grade, hash].
    """
    starts = kept.filter(~pl.col("same")).select("query_id", "given", start="row")
    rows = hashes.len()
    if not rows or kept["wrong"].any() or starts["query_id"].n_unique() < starts.height or _repeats(hashes):
        return None
    if rows > 1 and kept.height == rows and kept["score"].n_unique() == 1:
        return None
    start = ints(starts["start"])
    lengths = starts.select("query_id", retrieved=pl.Series(np.diff(np.append(start, rows)), dtype=pl.Int64))
    hits = _judged_rows(kept, qrels)
    place = ints(hits["row"])
    moved = _re_ranked(kept)
    if moved is not None:
        place = ints(hits.join(moved, on="row", how="left", maintain_order="left")["to"].fill_null(hits["row"]))
    first = start[np.searchsorted(start, ints(hits["row"]), side="right") - 1]
    judged = hits.select("query_id", "chunk_id", "grade", rank=pl.Series(place - first + 1, dtype=pl.Int64))
    tied = int((kept["tie"] | kept["next_tie"]).sum())
    return KeptRun(judged, lengths, rows, tied, starts.filter(pl.col("given") == 0).height)


def out_of_order(frame: pl.DataFrame, qrels: pl.DataFrame) -> KeptRun | None:
    """The same for rows in any order: frame [query (Categorical), chunk_id, score, given, hash, hit, odd], all rows.

    A row's rank is the count of better scores in its query; no full sort. None where the rank column doesn't follow
    the scores, or has gaps: the slower reader says what that means.
    """
    rows = frame.height
    if not rows or frame["odd"].any() or not frame["score"].is_finite().all() or _repeats(frame["hash"]):
        return None
    if rows > 1 and frame["score"].min() == frame["score"].max():
        return None
    codes_seen, query = _dense(frame["query"].to_physical())
    counts = np.bincount(query)
    start = np.concatenate([[0], np.cumsum(counts)[:-1]])[query]
    rank = ints(frame.select(pl.col("score").rank("min", descending=True).over(pl.col("query").to_physical()))["score"])
    slot = start + rank - 1
    block = np.bincount(slot, minlength=rows)[slot]
    from_zero = _follows(frame["given"], rank, block, query)
    if from_zero is None:
        return None
    frame = frame.with_columns(row=pl.Series(slot), block=pl.Series(block), rank=pl.Series(rank))
    hits = _judged_rows(frame.filter("hit").with_columns(pl.col("query").cast(pl.String).alias("query_id")), qrels)
    tied = frame.filter(pl.col("block") > 1)
    ahead = (
        hits.filter(pl.col("block") > 1)
        .select("row", "chunk_id")
        .join(tied.select("row", other="chunk_id"), on="row")
        .filter(pl.col("other") > pl.col("chunk_id"))
        .group_by("row", "chunk_id")
        .agg(ahead=pl.len().cast(pl.Int64))
    )
    judged = hits.join(ahead, on=["row", "chunk_id"], how="left", maintain_order="left").select(
        "query_id", "chunk_id", "grade", rank=pl.col("rank") + pl.col("ahead").fill_null(0)
    )
    named = frame.select("query", code=pl.col("query").to_physical()).unique("code")
    lengths = (
        pl.DataFrame({"code": codes_seen, "retrieved": counts})
        .join(named.select("code", query_id=pl.col("query").cast(pl.String)), on="code")
        .select("query_id", "retrieved")
        .sort("query_id")
    )
    return KeptRun(judged, lengths, rows, tied.height, from_zero)


def hits_of(runs: Mapping[str, KeptRun], query_ids: Sequence[str]) -> Hits:
    """`Hits` of several arms' kept runs; arms by name."""
    arms, queries = sorted(runs), sorted(set(query_ids))
    code = codes("query_id", queries)
    retrieved = np.zeros(len(arms) * len(queries), dtype=np.int64)
    parts: list[pl.DataFrame] = []
    for i, arm in enumerate(arms):
        cell = (pl.col("query_id_code") + i * len(queries)).alias("cell")
        lengths = runs[arm].lengths.lazy().join(code, on="query_id").select(cell, "retrieved").collect()
        retrieved[ints(lengths["cell"])] = ints(lengths["retrieved"])
        picked = runs[arm].judged.lazy().join(code, on="query_id").select(cell, "rank", pl.col("grade").cast(pl.Int64))
        parts.append(picked.sort("cell", "rank").collect())
    empty = pl.DataFrame(schema={"cell": pl.Int64, "rank": pl.Int64, "grade": pl.Int64})
    hits = pl.concat([empty, *parts])
    return Hits(arms, queries, ints(hits["cell"]), ints(hits["rank"]), ints(hits["grade"]), retrieved)


def _dense(codes_given: pl.Series) -> tuple[pl.Series, Ints]:
    """The distinct codes, ascending, and for each row the place of its own among them."""
    seen = codes_given.unique().sort()
    places = np.zeros(int(seen[-1]) + 1, dtype=np.int64)
    places[ints(seen)] = np.arange(seen.len())
    return seen, places[ints(codes_given)]


def _repeats(hashes: pl.Series) -> bool:
    values = np.sort(hashes.to_numpy())
    return bool((values[1:] == values[:-1]).any())


def _judged_rows(kept: pl.DataFrame, qrels: pl.DataFrame) -> pl.DataFrame:
    """Kept rows whose pair, not only its hash, is in the qrels; with the grade."""
    ours = qrels.lazy().select("hash", "grade", _query="query_id", _chunk="chunk_id")
    exact = (pl.col("query_id") == pl.col("_query")) & (pl.col("chunk_id") == pl.col("_chunk"))
    hits = kept.lazy().filter("hit").join(ours, on="hash", maintain_order="left").filter(exact)
    return hits.drop("_query", "_chunk").collect()


def _re_ranked(kept: pl.DataFrame) -> pl.DataFrame | None:
    """For rows in a block of equal scores, the row [row] where each belongs [to]: chunk id descending."""
    tied = kept.filter(pl.col("tie") | pl.col("next_tie")).select("row", "chunk_id", block=(~pl.col("tie")).cum_sum())
    if not tied.height:
        return None
    ordered = tied.sort("block", "chunk_id", descending=[False, True])
    return pl.DataFrame({"row": ordered["row"], "to": tied["row"]})


def _follows(given: pl.Series, rank: Ints, block: Ints, query: Ints) -> int | None:
    """Whether the rank column follows the scores: how many queries begin at 0, or None where it doesn't."""
    if given.null_count() == given.len():
        return 0
    if given.null_count():
        return None
    ranks = ints(given)
    from_zero = np.zeros(int(query.max()) + 1, dtype=np.int64)
    from_zero[query[ranks == 0]] = 1
    ranks = ranks + from_zero[query]
    return int(from_zero.sum()) if ((ranks >= rank) & (ranks < rank + block)).all() else None
