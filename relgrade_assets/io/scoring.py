"""Foreign runs against judgments, for `relgrade score`: each run by the fast reader, or by the one that explains.

Files go in, hits come out; measures and means are methods'. Neither the study nor its design is known here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from relgrade_assets.errors import Fault, Notice, Refused
from relgrade_assets.io.readers import sieve
from relgrade_assets.io.readers.faults import shown
from relgrade_assets.io.readers.keys import Judgments
from relgrade_assets.io.readers.matching import match_run
from relgrade_assets.io.readers.runs import read_run
from relgrade_assets.methods.hits import Hits
from relgrade_assets.methods.kept_rows import KeptRun, hits_of


@dataclass(frozen=True, slots=True)
class Scored:
    """Runs that were read: their hits, the queries measured, and what was accepted and counted."""

    hits: Hits
    queries: list[str]
    notices: tuple[Notice, ...]


def arm_names(paths: Sequence[str]) -> list[str]:
    """An arm's name for each run: its file's name without its ending, or the path where two would share one.

    Raises Refused where one path is given twice.
    """
    if len(set(paths)) < len(paths):
        again = sorted({p for p in paths if paths.count(p) > 1})
        raise Refused("Each run is scored once", [Fault(p, "given again", "each run once") for p in again])
    stems = [Path(re.sub(r"\.(gz|zst)$", "", p, flags=re.IGNORECASE)).stem for p in paths]
    return [s if stems.count(s) == 1 else p for s, p in zip(stems, paths, strict=True)]


def read_hits(
    paths: Sequence[str],
    judgments: Judgments,
    *,
    partial: bool = False,
    extra_columns: bool = False,
    only_answered: bool = False,
) -> Scored:
    """Every run's hits among the judgments, over all judged queries.

    A run must answer at least half of them, unless `partial`. `only_answered` measures the queries of one run alone,
    as trec_eval does without -c. `extra_columns` takes TREC lines of more than six columns. Raises Refused as the
    readers do, for all runs' first faults.
    """
    query_ids = judgments.query_ids
    runs: dict[str, KeptRun] = {}
    notices: list[Notice] = []
    for path, arm in zip(paths, arm_names(paths), strict=True):
        run, told = _read(Path(path), path, judgments, extra_columns)
        answered = run.lengths.select("query_id", chunk_id=pl.lit(""), rank=pl.lit(1), score=pl.lit(0.0))
        matched = match_run(answered, arm=arm, name=path, query_ids=query_ids, corpus_ids=None, may_be_partial=partial)
        runs[arm] = run
        notices += [*told, *(n for n in matched.notices if not (only_answered and n.code == "queries_missing"))]
        if not run.judged.height:
            notices.append(_nothing_judged(path, run, judgments))
        if only_answered:
            query_ids = matched.frame["query_id"].to_list()
    return Scored(hits_of(runs, query_ids), query_ids, tuple(notices))


def _nothing_judged(name: str, run: KeptRun, judgments: Judgments) -> Notice:
    """Whose chunks are called otherwise, or are of another collection: every measure is 0 then."""
    such = ", ".join(shown(chunk) for chunk in judgments.frame["chunk_id"].head(3))
    text = f"{name}: none of its {run.rows} results stands in the judgments, whose chunks are called as {such}"
    return Notice("no_chunk_judged", run.rows, f"{text}: are its ids written in another way?")


def _read(path: Path, name: str, judgments: Judgments, extra: bool) -> tuple[KeptRun, tuple[Notice, ...]]:
    sifted = sieve.sift_run(path, name=name, judged=judgments.judged)
    if sifted is not None:
        return sifted
    read = read_run(path, name=name, extra_columns="ignore" if extra else "refuse")
    ranking = read.frame.select("query_id", "chunk_id", "rank")
    lengths = ranking.group_by("query_id", maintain_order=True).agg(retrieved=pl.len().cast(pl.Int64))
    hits = ranking.join(judgments.frame, on=["query_id", "chunk_id"])
    tied = next((n.count for n in read.notices if n.code == "tied_scores"), 0)
    return KeptRun(hits, lengths, ranking.height, tied, 0), read.notices
