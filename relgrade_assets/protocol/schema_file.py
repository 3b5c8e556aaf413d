"""The JSON Schema of `experiment.yaml`, for editors: `experiment.schema.json`, made from the model and never by hand.

    python -m relgrade_assets.protocol.schema_file > relgrade_assets/protocol/experiment.schema.json

What two keys make together (`coherence.py`) a JSON Schema can't say; `relgrade check` does.
"""

from __future__ import annotations

import json
import sys

from pydantic.json_schema import GenerateJsonSchema

from relgrade_assets.protocol.design import Design

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _WithoutFieldTitles(GenerateJsonSchema):
    """Keys keep their own names; a title such as "Head At Most" says nothing more."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


def schema_text() -> str:
    """The schema's file: JSON with an indent of two and a line end."""
    schema = Design.model_json_schema(mode="validation", schema_generator=_WithoutFieldTitles)
    whole = {"$schema": DIALECT, **schema, "title": "experiment.yaml of relgrade"}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
