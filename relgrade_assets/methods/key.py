"""The key: which graded pairs it holds, and its canonical bytes (P19, P32, P33).

Whether the key may be frozen is asked of gates.standing; writing it once is io's work.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import polars as pl

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.protocol.canonical import digest_bytes

PAIR = ["query_id", "chunk_id"]
FROZEN_KEY = {"query_id": pl.String, "chunk_id": pl.String, "grade": pl.Int64}
"""Columns of schemas.FrozenKey."""


@dataclass(frozen=True)
class Key:
    """A key and what it leaves out.

    `frame` is schemas.FrozenKey. `dropped` are the sampled queries with nothing relevant (P32), `emptied` the strata
    that keep none of their queries; both sorted. `unrateable` [query_id, chunk_id] are the pooled pairs that could
    not be rated, of kept and dropped queries, and `unrateable_share` their part of the pool (P19).
    """

    frame: pl.DataFrame
    dropped: tuple[str, ...]
    emptied: tuple[str, ...]
    unrateable: pl.DataFrame
    unrateable_share: float

    @property
    def kept(self) -> list[str]:
        """The key's queries, sorted by code point."""
        return self.frame["query_id"].unique().sort().to_list()


def build(combined: pl.DataFrame, pools: pl.DataFrame, sample: pl.DataFrame, *, relevant_from: int) -> Key:
    """P32: the key of the combined grades.

    `combined` [query_id, chunk_id, grade, unrateable] with a null grade exactly where unrateable; `pools` [query_id,
    chunk_id, ...]; `sample` [query_id, stratum, ...]. A query is kept where one of its grades is at least
    `relevant_from`.

    Raises Refused, with every fault, where a pooled pair has no grade, a grade is outside the pool or stands twice, a
    pooled query is not in the sample, or no query has anything relevant.
    """
    faults = _pair_faults(combined, pools, sample)
    if faults:
        raise Refused("The grades do not cover the pool, so there is no key", faults)
    relevant = combined.group_by("query_id").agg(kept=(pl.col("grade") >= relevant_from).any()).filter("kept")
    queries = sample.select("query_id", "stratum").with_columns(
        kept=pl.col("query_id").is_in(relevant["query_id"].implode())
    )
    if not queries["kept"].any():
        fault = Fault(
            f"{sample.height} queries",
            f"no grade of {relevant_from} or more",
            "at least one query with something relevant",
        )
        raise Refused("The key would be empty", [fault])
    strata = queries.group_by("stratum").agg(kept=pl.col("kept").any()).filter(~pl.col("kept"))
    unrateable = combined.filter("unrateable").select(PAIR).sort(PAIR)
    return Key(
        frame=combined.filter(~pl.col("unrateable"))
        .join(relevant.select("query_id"), on="query_id", how="semi")
        .select(pl.col(name).cast(dtype) for name, dtype in FROZEN_KEY.items())
        .sort(PAIR),
        dropped=tuple(queries.filter(~pl.col("kept"))["query_id"].sort().to_list()),
        emptied=tuple(strata["stratum"].sort().to_list()),
        unrateable=unrateable,
        unrateable_share=unrateable.height / pools.height,
    )


def canonical_bytes(frame: pl.DataFrame) -> bytes:
    """P33: `key.jsonl` of schemas.FrozenKey in any row order (formats.md, "Out").

    One object a line, keys query_id, chunk_id, grade, no blanks, UTF-8 with nothing escaped that JSON lets stand, a
    line feed after every line; sorted by query id then chunk id by code point, which is the order of UTF-8 bytes.
    Raises Refused where a pair stands twice.
    """
    twice = frame.group_by(PAIR).len().filter(pl.col("len") > 1).sort(PAIR)
    if twice.height:
        raise Refused(
            "A key holds each pair once", [Fault(_pair(q, c), f"{n} grades", "one") for q, c, n in twice.rows()]
        )
    lines = [
        json.dumps(
            {"query_id": q, "chunk_id": c, "grade": g}, ensure_ascii=False, separators=(",", ":"), allow_nan=False
        )
        for q, c, g in frame.select(*PAIR, "grade").sort(PAIR).rows()
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def key_digest(frame: pl.DataFrame) -> str:
    """P33: the key's identity, sha256 of its canonical bytes; what `sha256sum key.jsonl` prints."""
    return digest_bytes(canonical_bytes(frame))


def _pair_faults(combined: pl.DataFrame, pools: pl.DataFrame, sample: pl.DataFrame) -> list[Fault]:
    grade, unrateable = pl.col("grade"), pl.col("unrateable")
    missing = pools.join(combined, on=PAIR, how="anti").select(PAIR).sort(PAIR)
    extra = combined.join(pools, on=PAIR, how="anti").select(PAIR).sort(PAIR)
    twice = combined.group_by(PAIR).len().filter(pl.col("len") > 1).select(PAIR).sort(PAIR)
    bare = combined.filter(unrateable.is_null() | (grade.is_null() & ~unrateable)).select(PAIR).sort(PAIR)
    both = combined.filter(grade.is_not_null() & unrateable).select(PAIR).sort(PAIR)
    stray = pools.join(sample, on="query_id", how="anti").select("query_id").unique().sort("query_id")
    kinds = (
        (missing, "no answer", "a grade, or unrateable", "Ask the graders for what is missing."),
        (bare, "no grade, and not unrateable", "a grade, or unrateable", "Pairs put off must be graded first."),
        (both, "a grade, and unrateable", "one of them", ""),
        (twice, "more than one combined grade", "one", ""),
        (extra, "a grade outside the pool", "pairs of the pool alone", "The pool or the grades are of another state."),
    )
    faults = [
        Fault(_pair(q, c), found, expected, mend) for frame, found, expected, mend in kinds for q, c in frame.rows()
    ]
    return faults + [Fault(f"query {q!r}", "in the pool", "a sampled query") for (q,) in stray.rows()]


def _pair(query_id: str, chunk_id: str) -> str:
    return f"query {query_id!r}, chunk {chunk_id!r}"
