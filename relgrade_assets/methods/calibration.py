"""What several people try the rubric on before they grade (P26): queries outside the sample, with chunks of all kinds.

Only the choice of items belongs here; sheets, answers and the log are `io/calibration.py`'s.
"""

from __future__ import annotations

import polars as pl

from relgrade_assets.methods.normalise import normalised
from relgrade_assets.protocol.canonical import hash_key

QUERIES, NEAR, FAR = 6, 3, 2
"""Queries that are drawn, and for each the chunks with most of its words and those by hash alone."""


def outside(queries: pl.DataFrame, sample: pl.DataFrame) -> pl.DataFrame:
    """The log's queries (`queries`: query_id, query) that are not sampled."""
    return queries.join(sample.select("query_id"), on="query_id", how="anti", maintain_order="left")


def draft(queries: pl.DataFrame, sample: pl.DataFrame, corpus: pl.DataFrame, *, seed: str) -> pl.DataFrame:
    """Items to calibrate on: query, chunk_id; at most QUERIES queries outside the sample, by hash, each with the NEAR
    chunks that hold most of its words and FAR others by hash. No arm has a say (P13). Empty where every query is
    sampled.
    """
    left = outside(queries, sample).select("query_id", "query")
    picked = _by_hash(left, "query_id", "query", seed).head(QUERIES)
    words = corpus.select("chunk_id", text=normalised(pl.col("header") + " " + pl.col("text")))
    parts = []
    for query_id, query, asked in picked.with_columns(asked=normalised(pl.col("query"))).rows():
        held = pl.sum_horizontal(pl.col("text").str.contains(w, literal=True) for w in sorted(set(asked.split())))
        ranked = _by_hash(words.select("chunk_id", held=held), "chunk_id", query_id, seed)
        near = ranked.sort("held", descending=True, maintain_order=True).head(NEAR)
        far = ranked.join(near, on="chunk_id", how="anti", maintain_order="left").head(FAR)
        parts.append(pl.concat([near, far]).select(pl.lit(query).alias("query"), "chunk_id"))
    return pl.concat(parts) if parts else pl.DataFrame(schema={"query": pl.String, "chunk_id": pl.String})


def _by_hash(frame: pl.DataFrame, column: str, of: str, seed: str) -> pl.DataFrame:
    keys = [hash_key("calibration", seed, of, value) for value in frame[column]]
    return frame.with_columns(key=pl.Series(keys, dtype=pl.String)).sort("key", column).drop("key")
