"""rank_eval.json: the key as a request of Elasticsearch's and OpenSearch's ranking evaluation (P42).

Each query is written out whole, so that the file needs no search template on the server. Which index and which query
is the design's to say (`publication.rank_eval`).
"""

from __future__ import annotations

import json

import polars as pl
from pydantic import JsonValue

from relgrade_assets.methods.measure_names import Measure, parse
from relgrade_assets.protocol.publication import PLACE, RankEval
from relgrade_assets.protocol.scale import Scale

SIZE = 10
"""Results that are looked at where the headline has no cut-off, as the engines have it."""


def rank_eval_json(key: pl.DataFrame, queries: pl.DataFrame, asked: RankEval, *, headline: str, scale: Scale) -> bytes:
    """The request's body. `key`: query_id, chunk_id, grade; `queries`: query_id, query, whose text is asked."""
    text = dict(queries.select("query_id", "query").iter_rows())
    rated: dict[str, list[dict[str, object]]] = {}
    rows = key.select("query_id", "chunk_id", "grade").sort("query_id", "chunk_id")
    for query_id, chunk_id, grade in rows.iter_rows():
        rated.setdefault(query_id, []).append({"_index": asked.index, "_id": chunk_id, "rating": grade})
    requests = [
        {"id": query_id, "request": {"query": _filled(dict(asked.query), text[query_id])}, "ratings": ratings}
        for query_id, ratings in rated.items()
    ]
    content = {"requests": requests, "metric": metric(parse(headline), scale)}
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


def metric(headline: Measure, scale: Scale) -> dict[str, dict[str, object]]:
    """The engines' metric for the headline; normalised DCG where they have none of its kind.

    Their DCG gains 2^g - 1, whatever the design's gain is.
    """
    cut: dict[str, object] = {"k": headline.cutoff or SIZE}
    relevant = {**cut, "relevant_rating_threshold": headline.rel or scale.relevant_from}
    if headline.family == "P":
        return {"precision": relevant}
    if headline.family == "Recall":
        return {"recall": relevant}
    if headline.family == "RR":
        return {"mean_reciprocal_rank": relevant}
    if headline.family == "ERR":
        return {"expected_reciprocal_rank": {**cut, "maximum_relevance": headline.max or scale.top}}
    return {"dcg": {**cut, "normalize": True}}


def _filled(value: JsonValue, text: str) -> JsonValue:
    if isinstance(value, str):
        return value.replace(PLACE, text)
    if isinstance(value, dict):
        return {name: _filled(inner, text) for name, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, text) for inner in value]
    return value
