"""The blind rows of each grader, and of the auditor (P18): query, intent, chunk, in an order by hash.

No column of arms, ranks or scores comes in, so none can leave. Writing sheets to files and prompts is `io/`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.methods.ordering import in_grader_order
from relgrade_assets.methods.pooling import chunk_digest
from relgrade_assets.protocol.canonical import digest, digest_bytes

BLIND = ("query_id", "chunk_id", "query", "intent", "header", "text")
"""P18: all that a grader is shown besides the rubric."""

COLUMNS = ("round", "grader", "position", *BLIND, "row_digest")


def rubric_digest(rubric: str) -> str:
    """sha256 of the rubric's UTF-8 text, line ends and a byte-order mark apart, as in the protocol digest."""
    return digest_bytes(rubric.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").encode())


def build(
    pools: pl.DataFrame,
    intents: pl.DataFrame,
    queries_sample: pl.DataFrame,
    corpus: pl.DataFrame,
    *,
    graders: Sequence[str],
    takes: Mapping[str, frozenset[str]],
    seed: str,
    round: int,
    rubric: str,
    without: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """P14, P18: the Sheets table, by grader as listed, query id and position. Serves the auditor too, with pools cut to
    the audit sample.

    `takes` names each grader's queries; `corpus` has chunk_id, header, text. A row's digest covers all that its grader
    sees and the rubric. `without` [grader, query_id, chunk_id] is not asked for again (P44); places in the order are
    counted over what is.

    Raises Refused: a grader without an entry in `takes`; a pooled query without an intent of this round or outside the
    sample; a chunk that is missing from the corpus, or whose text is not the one that was pooled.
    """
    unknown = [
        Fault(f"grader {g!r}", "no list of queries", "the queries this grader takes") for g in graders if g not in takes
    ]
    if unknown:
        raise Refused("Sheets can't be built", unknown)
    seen = contents(pools, intents, queries_sample, corpus, round=round)
    rubric_sha = rubric_digest(rubric)
    seen = seen.with_columns(
        row_digest=pl.Series(
            [
                row_digest(q, i, h, t, rubric_sha)
                for q, i, h, t in seen.select("query", "intent", "header", "text").rows()
            ],
            dtype=pl.String,
        )
    )
    parts = []
    for grader in graders:
        own = seen.filter(pl.col("query_id").is_in(sorted(takes[grader])))
        if without is not None:
            own = own.join(without.filter(pl.col("grader") == grader), on=["query_id", "chunk_id"], how="anti")
        order = in_grader_order(own, seed=seed, round=round, grader=grader)
        rows = order.join(own, on=["query_id", "chunk_id"], how="left", validate="1:1", maintain_order="left")
        parts.append(rows.with_columns(round=pl.lit(round, pl.Int64), grader=pl.lit(grader, pl.String)).select(COLUMNS))
    return pl.concat(parts)


def contents(
    pools: pl.DataFrame, intents: pl.DataFrame, queries_sample: pl.DataFrame, corpus: pl.DataFrame, *, round: int
) -> pl.DataFrame:
    """P18: what there is to see of each pooled pair: columns BLIND. Raises Refused as `build` does."""
    asked = queries_sample.select("query_id", "query").join(
        intents.filter(pl.col("round") == round).select("query_id", "intent"), on="query_id", how="inner"
    )
    _refuse_bare(pools, asked, round)
    texts = corpus.join(pools.select("chunk_id").unique(), on="chunk_id", how="semi").select(
        "chunk_id", "header", "text"
    )
    _refuse_changed(pools, texts)
    return (
        pools.select("query_id", "chunk_id")
        .join(asked, on="query_id", how="inner")
        .join(texts, on="chunk_id", how="inner", validate="m:1")
        .select(BLIND)
    )


def row_digest(query: str, intent: str, header: str, text: str, rubric_sha: str) -> str:
    """What an answer holds for: the digest of everything its grader saw (P18)."""
    return digest([query, intent, header, text, rubric_sha])


def blind_rows(sheet: pl.DataFrame) -> list[dict[str, str]]:
    """P18: one grader's rows as query_id, chunk_id, query, intent, header, text, in sheet order, and nothing else.

    Raises ValueError where `sheet` holds rows of several graders.
    """
    if sheet["grader"].n_unique() > 1:
        raise ValueError("blind_rows takes one grader's sheet")
    return sheet.sort("query_id", "position").select(BLIND).to_dicts()


def _refuse_bare(pools: pl.DataFrame, asked: pl.DataFrame, round: int) -> None:
    bare = pools.select("query_id").unique().join(asked, on="query_id", how="anti").sort("query_id")
    if bare.height:
        faults = [
            Fault(
                f"query {i}", f"a pool, and no intent locked for round {round}", "a sampled query with a locked intent"
            )
            for i in bare["query_id"]
        ]
        raise Refused("Grading can't begin: pooled queries have no locked intent", faults)


def _refuse_changed(pools: pl.DataFrame, texts: pl.DataFrame) -> None:
    now = {c: chunk_digest(h, t) for c, h, t in texts.rows()}
    faults = [
        Fault(
            f"chunk {c!r}",
            f"digest {now[c][:12]}" if c in now else "no such chunk in the corpus",
            f"digest {then[:12]}, as pooled",
            "Make the pools again.",
        )
        for c, then in pools.select("chunk_id", "chunk_digest").unique().sort("chunk_id", "chunk_digest").rows()
        if now.get(c) != then
    ]
    if faults:
        raise Refused("The corpus is not the one that was pooled", faults)
