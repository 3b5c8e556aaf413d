"""A study small enough to work out by hand, for the tests of methods: builders, no expectations."""

import polars as pl

from relgrade_assets.protocol.design import Design

TIERS = ("head", "torso", "tail")


def design_of(
    *,
    seed: str = "20240501",
    targets: dict[str, int] | None = None,
    shares: dict[str, float] | None = None,
    strata: dict[str, object] | None = None,
) -> Design:
    """A valid design, by tier unless `strata` says otherwise; 2 head, 2 torso and 2 tail queries unless told."""
    targets = targets or dict.fromkeys(TIERS, 2)
    parts = [{"name": t, "target": targets[t], "tiers": [t], **({"share": shares[t]} if shares else {})} for t in TIERS]
    return Design.model_validate(
        {
            "relgrade": 1,
            "name": "by-hand",
            "title": "By hand",
            "seed": seed,
            "scale": "0-2",
            "query_log": {"file": "log.csv", "columns": {"query": "query", "type": "type"}},
            "strata": strata or {"by": "tier", "parts": parts},
            "corpus": {"path": "corpus.jsonl"},
            "arms": [
                {"name": "bm25", "family": "lexical", "run": "a.trec"},
                {"name": "dense", "family": "encoder", "run": "b.trec"},
            ],
            "intents": {"file": "intents.csv"},
            "graders": [{"name": "grader-a", "family": "fa"}],
            "auditor": {"name": "auditor", "family": "fb"},
        }
    )


def corpus_of(chunks: dict[str, str]) -> pl.DataFrame:
    """Chunks with their text; the header is the id in capitals."""
    rows = [(c, c.upper(), t) for c, t in chunks.items()]
    return pl.DataFrame(rows, schema={"chunk_id": pl.String, "header": pl.String, "text": pl.String}, orient="row")


def runs_of(runs: dict[str, dict[str, list[str]]]) -> pl.DataFrame:
    """The Runs table from {arm: {query: chunks in order}}; scores fall by one from 100."""
    rows = [
        (arm, query, chunk, rank, 100.0 - rank)
        for arm, held in runs.items()
        for query, chunks in held.items()
        for rank, chunk in enumerate(chunks, start=1)
    ]
    schema = {"arm": pl.String, "query_id": pl.String, "chunk_id": pl.String, "rank": pl.Int64, "score": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def sample_of(queries: dict[str, str], stratum: dict[str, str] | None = None) -> pl.DataFrame:
    """The QuerySample table of {query id: query}; all in `head` unless told."""
    held = stratum or dict.fromkeys(queries, "head")
    rows = [(i, q, held[i], 1, 1.0, len(queries), len(queries), 1.0) for i, q in queries.items()]
    schema = {
        "query_id": pl.String,
        "query": pl.String,
        "stratum": pl.String,
        "count": pl.Int64,
        "stratum_share": pl.Float64,
        "stratum_size": pl.Int64,
        "target": pl.Int64,
        "inclusion_probability": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")
