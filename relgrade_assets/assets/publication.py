"""Publication: the report, and the one asset that writes what leaves (P41, P42)."""

import dagster as dg
import polars as pl

from relgrade_assets.assets import show
from relgrade_assets.assets.build import Made, table
from relgrade_assets.io.private_text import private_strings
from relgrade_assets.io.publishing import publish
from relgrade_assets.io.report import store
from relgrade_assets.io.study import Study
from relgrade_assets.methods.key import key_digest


@table
def report(study: Study, **tables: pl.DataFrame) -> Made:
    """Make the round's report, private and public: what the measures, the gates and the pool say, on one page that
    needs nothing else (P37-P40, P46). The desk serves it to the study's owner.
    """
    frame = store.make_reports(study, tables, private_strings(study, tables))
    d = study.design
    held = tables["arm_measures"].filter((pl.col("measure") == d.headline) & (pl.col("scope") == "headline"))
    rows = held.drop_nulls(["value", "low", "high"]).select("arm", "value", "low", "high").rows()
    return Made(
        frame,
        {
            "page": dg.MetadataValue.url(f"{study.home.desk_url}/e/{study.name}/report?round={study.round}"),
            "private": dg.MetadataValue.path(str(store.report_path(study, "private"))),
            "public": dg.MetadataValue.path(str(store.report_path(study, "public"))),
            "headline": show.intervals(rows, unit=f"{d.headline} per {d.estimand}, 95%"),
            "key": key_digest(tables["frozen_key"]),
        },
    )


@table
def published_key(study: Study, **tables: pl.DataFrame) -> Made:
    """Write the published folder, whole or not at all: key, qrels, judgments, pools, measures,
    report, manifest.
    """
    frame = publish(study, tables)
    folder = study.home.published / study.name
    sha = dict(frame.select("file", "sha256").iter_rows())
    return Made(
        frame,
        {
            "key": sha["key.jsonl"],
            "manifest": sha["manifest.json"],
            "report": dg.MetadataValue.url(f"{study.home.desk_url}/e/{study.name}/report?round={study.round}"),
            "folder": dg.MetadataValue.path(str(folder)),
            "files": show.grid(("file", "bytes", "sha256"), [(f, b, s[:12]) for f, b, s in frame.iter_rows()]),
        },
    )
