"""The one ranking that every measure reads (statistics.md): score descending, then chunk id descending by UTF-8 bytes.

Nothing else belongs here. Polars and errors only: the fast path imports it.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from relgrade_assets.errors import Fault, Refused


def ranked(results: pl.DataFrame, by: Sequence[str] = ("arm",)) -> pl.DataFrame:
    """`results` [*by, query_id, chunk_id, score, ...] sorted, with `rank` Int64 from 1 within each (*by, query_id).

    The order is trec_eval's, so numbers compare: Polars compares strings by their UTF-8 bytes, and 0.0 ties with -0.0.
    Raises Refused where a score is null, NaN or infinite, since such a row has no place in any order.
    """
    score = pl.col("score").cast(pl.Float64)
    placeless = results.filter(score.is_null() | score.is_nan() | score.is_infinite())
    if placeless.height:
        faults = [
            Fault(
                f"query {row['query_id']!r}, chunk {row['chunk_id']!r}", f"the score {row['score']}", "a finite number"
            )
            for row in placeless.head(20).to_dicts()
        ]
        raise Refused("Some results can't be ranked", faults, total=placeless.height)
    group = [*by, "query_id"]
    ordered = results.sort([*group, "score", "chunk_id"], descending=[False] * len(group) + [True, True])
    place = pl.int_range(1, pl.len() + 1, dtype=pl.Int64)
    return ordered.with_columns(rank=place.over(group) if ordered.height else pl.lit(None, dtype=pl.Int64))
