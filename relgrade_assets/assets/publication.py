"""Publication: the one asset that writes what leaves (P41, P42)."""

import dagster as dg
import polars as pl

from relgrade_assets.assets import show
from relgrade_assets.assets.build import Made, table
from relgrade_assets.io.publishing import publish
from relgrade_assets.io.study import Study


@table
def published_key(study: Study, **tables: pl.DataFrame) -> Made:
    """Write the published folder, whole or not at all: key, qrels, judgments, pools, measures, manifest."""
    frame = publish(study, tables)
    folder = study.home.published / study.name
    sha = dict(frame.select("file", "sha256").iter_rows())
    return Made(
        frame,
        {
            "key": sha["key.jsonl"],
            "manifest": sha["manifest.json"],
            "folder": dg.MetadataValue.path(str(folder)),
            "files": show.grid(("file", "bytes", "sha256"), [(f, b, s[:12]) for f, b, s in frame.iter_rows()]),
        },
    )
