"""What `experiment.yaml` says of the published folder to other tools: licence, address, makers, and the query that a
search engine is asked with. None of it changes a number, so that none of it is in the protocol digest (P2).
"""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

PLACE = "{{query}}"
"""Where the text of a query goes in a search engine's query."""

Line = Annotated[str, Field(min_length=1, max_length=1000, pattern=r"^[^\r\n\x00]*$")]
Address = Annotated[str, Field(pattern=r"^https?://[^\s<>\"]+$", max_length=1000)]


def _with_a_place(query: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if PLACE not in json.dumps(query, ensure_ascii=False):
        raise ValueError(f"the query has no {PLACE}, where the text of each query goes")
    return query


class RankEval(BaseModel):
    """How Elasticsearch or OpenSearch is asked in rank_eval.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    index: str = Field(
        pattern=r'^[^-_+.A-Z\\/*?"<>| ,#:\s][^A-Z\\/*?"<>| ,#:\s]{0,254}$',
        description="Index that holds the chunks, each under its chunk id.",
    )
    query: Annotated[dict[str, JsonValue], AfterValidator(_with_a_place)] = Field(
        description="A query in the engine's own language, as keys and values; {{query}} stands for the text."
    )


class Publication(BaseModel):
    """What the published folder says of itself to other tools (P42). Not part of the protocol digest."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    license: Line | None = Field(default=None, description="Licence of the published folder: its address or SPDX name.")
    url: Address | None = Field(default=None, description="Where the folder is published.")
    creators: tuple[Line, ...] = Field(default=(), description="Who publishes it; these names are published.")
    cite_as: Line | None = Field(default=None, description="How to cite it, in a line.")
    rank_eval: RankEval | None = Field(default=None, description="Index and query of rank_eval.json; none without it.")
