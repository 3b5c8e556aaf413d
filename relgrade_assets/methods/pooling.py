"""The pool of each query: the union of all arms' top `depth` (P12), and who contributed what (P13).

`pools` says nothing of arms, not even how many; whatever knows arms stays in `contributions`, which no sheet reads.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from relgrade_assets.errors import Fault, Notice, Refused
from relgrade_assets.protocol.canonical import digest

SHALLOW, SHALLOW_MANY = 10, 20
MANY_ARMS, MANY_CHUNKS = 3, 100_000


@dataclass(frozen=True, slots=True)
class PoolReport:
    """Pool size against its maximum, a row a query (query_id, size, most), with P12's warnings. For those who run the
    study, not for graders."""

    sizes: pl.DataFrame
    notices: tuple[Notice, ...]


def contributions(runs: pl.DataFrame | pl.LazyFrame, depth: int) -> pl.DataFrame:
    """P13: runs (arm, query_id, chunk_id, rank from 1, score) cut to rank `depth`; sorted by query, chunk, arm. Of runs
    that are scanned, lazily, only what is kept is ever in memory.
    """
    cut = runs.lazy().filter(pl.col("rank") <= depth).select("query_id", "chunk_id", "arm", "rank", "score")
    return cut.collect(engine="streaming").sort("query_id", "chunk_id", "arm")


def pooled(contributions: pl.DataFrame) -> pl.DataFrame:
    """P12: the pairs query_id, chunk_id that some arm contributed, each once, sorted."""
    return contributions.select("query_id", "chunk_id").unique().sort("query_id", "chunk_id")


def pools(contributions: pl.DataFrame, corpus: pl.DataFrame) -> pl.DataFrame:
    """P12: one row a pooled chunk of a query, judged whole; sorted by query id then chunk id. `corpus` has chunk_id,
    header, text.

    Raises Refused: a pooled chunk that the corpus lacks, or has twice.
    """
    pairs = pooled(contributions)
    held = corpus.join(pairs.select("chunk_id").unique(), on="chunk_id", how="semi").sort("chunk_id")
    digests = held.select(
        "chunk_id",
        chunk_digest=pl.Series([chunk_digest(h, t) for h, t in held.select("header", "text").rows()], dtype=pl.String),
    )
    twice = digests.filter(pl.col("chunk_id").is_duplicated())["chunk_id"].unique().sort().to_list()
    if twice:
        raise Refused(
            "The corpus has chunk ids twice", [Fault(f"chunk {c!r}", "two chunks of this id", "one") for c in twice]
        )
    absent = pairs.join(digests, on="chunk_id", how="anti").group_by("chunk_id").agg(pl.len()).sort("chunk_id")
    if absent.height:
        faults = [
            Fault(
                f"chunk {c!r}",
                f"a run's result for {n} queries",
                "a chunk of the corpus",
                "Give the corpus that the arms searched.",
            )
            for c, n in absent.rows()
        ]
        raise Refused("Pooled chunks are not in the corpus", faults)
    return pairs.join(digests, on="chunk_id", how="left", maintain_order="left").select(
        "query_id", "chunk_id", "chunk_digest"
    )


def chunk_digest(header: str, text: str) -> str:
    """The digest by which a chunk's content is told from another's (P44)."""
    return digest([header, text])


def pool_report(contributions: pl.DataFrame, pools: pl.DataFrame, *, arms: int, depth: int, chunks: int) -> PoolReport:
    """P12: pool size against arms x depth a query; warns of a shallow depth and of a single arm (P45). `chunks` is the
    corpus's size."""
    sizes = (
        pools.group_by("query_id")
        .agg(size=pl.len().cast(pl.Int64))
        .sort("query_id")
        .with_columns(most=pl.lit(arms * depth, pl.Int64))
    )
    notices: list[Notice] = []
    many = arms > MANY_ARMS or chunks >= MANY_CHUNKS
    least = SHALLOW_MANY if many else SHALLOW
    if depth < least:
        why = f" with {arms} arms and {chunks} chunks" if many else ""
        notices.append(
            Notice(
                "shallow_depth",
                sizes.height,
                f"pools are {depth} deep, under {least}{why}: relevant chunks below that rank stay unjudged",
            )
        )
    found = contributions["arm"].n_unique()
    if arms == 1 or found == 1:
        notices.append(
            Notice("one_arm", sizes.height, "one arm alone fills the pools: what it misses can't be found by anyone")
        )
    return PoolReport(sizes=sizes, notices=tuple(notices))
