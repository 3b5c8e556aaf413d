"""The order in which a grader meets a query's chunks (P14): by hash, so that it can be rebuilt from the recorded seed.

Only order belongs here; what a row shows is `sheets.py`'s.
"""

from __future__ import annotations

import polars as pl

from relgrade_assets.protocol.canonical import hash_key


def in_grader_order(pairs: pl.DataFrame, *, seed: str, round: int, grader: str) -> pl.DataFrame:
    """P14: `pairs` (query_id, chunk_id) with `position` from 1 a query, sorted by query id then position.

    The key is sha256 of the canonical JSON array ["order", seed, round, grader, query_id, chunk_id], compared as hex:
    neither rank nor arm nor the order of `pairs` has a say.
    """
    keys = [hash_key("order", seed, str(round), grader, q, c) for q, c in pairs.select("query_id", "chunk_id").rows()]
    return (
        pairs.select("query_id", "chunk_id")
        .with_columns(key=pl.Series(keys, dtype=pl.String))
        .sort("query_id", "key")
        .select("query_id", "chunk_id", position=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("query_id"))
    )
