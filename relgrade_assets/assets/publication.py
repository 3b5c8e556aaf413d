"""Publication: the report, and the one asset that writes what leaves (P41, P42)."""

from collections.abc import Mapping

import dagster as dg
import polars as pl

from relgrade_assets.assets import show
from relgrade_assets.assets.build import Made, table
from relgrade_assets.io.private_text import private_strings
from relgrade_assets.io.publishing import publish
from relgrade_assets.io.report import store
from relgrade_assets.io.study import Study
from relgrade_assets.methods import report_tables
from relgrade_assets.methods.key import key_digest


@table
def report(study: Study, **tables: pl.DataFrame) -> Made:
    """Make the round's report, private and public: what the measures, the gates and the pool say, on one page that
    needs nothing else (P37-P40, P46). The desk serves it to the study's owner.
    """
    frame = store.make_reports(study, tables, private_strings(study, tables))
    return Made(
        frame,
        {
            "page": dg.MetadataValue.url(f"{study.home.desk_url}/e/{study.name}/report?round={study.round}"),
            "private": dg.MetadataValue.path(str(store.report_path(study, "private"))),
            "public": dg.MetadataValue.path(str(store.report_path(study, "public"))),
            "key": key_digest(tables["frozen_key"]),
            **_pictures(study, tables),
        },
    )


def _pictures(study: Study, tables: Mapping[str, pl.DataFrame]) -> dict[str, dg.MarkdownMetadataValue]:
    """Small plots and tables of what the page shows (P27, P38-P40)."""
    d = study.design
    key = tables["frozen_key"].select("query_id", "chunk_id", "grade")
    of_headline = pl.col("measure") == d.headline
    arms = tables["arm_measures"].filter(of_headline & (pl.col("scope") == "headline"))
    pairs = tables["arm_comparisons"].filter(of_headline).with_columns(pair=pl.col("arm") + " - " + pl.col("other"))
    trust = tables["pool_trust"]
    unjudged = trust.filter(pl.col("check") == "unjudged").group_by("subject").agg(pl.col("value").max())
    left_out = trust.filter(of_headline & (pl.col("check") == "leave_arm_out")).sort("base_place", "subject")
    shared = report_tables.overlap(tables["contributions"], key, relevant_from=d.scale.relevant_from)
    n = f"{key['query_id'].n_unique()} queries"
    return {
        "gates": show.grid(
            ("gate", "threshold", "value", "verdict"),
            tables["verdicts"].select("gate", "threshold", "value", "verdict").rows(),
        ),
        "headline": show.intervals(
            arms.drop_nulls(["value", "low", "high"]).select("arm", "value", "low", "high").rows(),
            unit=f"{d.headline} per {d.estimand}, {n}, 95%",
        ),
        "differences": show.intervals(
            pairs.drop_nulls(["difference", "low", "high"]).select("pair", "difference", "low", "high").rows(),
            unit=f"{d.headline}, plain, {n}, 95%",
            least=-1,
        ),
        "unjudged_at_most": show.bars(
            dict(unjudged.sort("subject").iter_rows()), unit=f"share of a top k, {n}; counted, no interval", top=1
        ),
        "pools_shared": show.bars(
            dict(shared.head(6).select("arms", "chunks").iter_rows()),
            unit=f"chunks that exactly these arms found, {n}; counted, no interval",
        ),
        "left_out_of_the_pool": show.grid(
            ("arm", d.headline, "not pooled", "place", "place then"),
            left_out.select("subject", "base", "value", "base_place", "place").rows(),
        ),
    }


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
