"""Pooling: from run files to pools. Which arm found what ends in `contributions`; `pools` knows nothing of arms
(P13).
"""

import polars as pl

from relgrade_assets.assets import show
from relgrade_assets.assets.build import Made, table
from relgrade_assets.io.readers.matching import match_run
from relgrade_assets.io.readers.runs import read_run
from relgrade_assets.io.study import Study
from relgrade_assets.methods import pooling


@table
def runs(study: Study, query_sample: pl.DataFrame) -> Made:
    """Read every arm's run strictly and rank it once (P15)."""
    d = study.design
    study.named(*(arm.run for arm in d.arms))
    ids = query_sample["query_id"].to_list()
    frames: list[pl.DataFrame] = []
    rows: list[tuple[str, int, int]] = []
    oddities: dict[str, str] = {}
    for arm in d.arms:
        read = read_run(
            study.file(arm.run),
            name=arm.run,
            format=arm.format,
            score_order=arm.score_order,
            order=arm.order,
            duplicates=arm.duplicates,
        )
        matched = match_run(
            read.frame,
            arm=arm.name,
            name=arm.run,
            query_ids=ids,
            corpus_ids=study.corpus["chunk_id"],
            may_be_partial=d.declared("missing_arm"),
        )
        frames.append(matched.frame)
        rows.append((arm.name, matched.frame["query_id"].n_unique(), matched.frame.height))
        oddities |= {f"{arm.name}: {n.code}": str(n) for n in (*read.notices, *matched.notices)}
    return Made(pl.concat(frames), {"arms": show.grid(("arm", "queries", "rows"), rows), **oddities})


@table
def contributions(study: Study, runs: pl.DataFrame) -> Made:
    """Cut the runs to the pool's depth (P12, P13). Hidden from every grader."""
    frame = pooling.contributions(runs, study.design.depth)
    return Made(frame, {"depth": study.design.depth})


@table
def pools(study: Study, contributions: pl.DataFrame) -> Made:
    """Take the union of all arms' results, one row a chunk (P12), with nothing of the arms (P13)."""
    frame = pooling.pools(contributions, study.corpus)
    report = pooling.pool_report(
        contributions, frame, arms=len(study.design.arms), depth=study.design.depth, chunks=study.corpus.height
    )
    return Made(
        frame,
        {
            "queries": report.sizes.height,
            "mean_pool": report.sizes["size"].mean(),
            "largest_pool": report.sizes["size"].max(),
            "most_possible": report.sizes["most"].max(),
            "depth": study.design.depth,
            **{f"warning: {n.code}": str(n) for n in report.notices},
        },
    )
