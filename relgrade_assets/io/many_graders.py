"""Judgment files of several graders, for `relgrade agree`: one file a grader in P19's JSON Lines, or TREC qrels whose
column 2 may hold several judges. Statistics are methods'.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from relgrade_assets.errors import Fault, Notice, Refused
from relgrade_assets.io.readers.judgments import read_grades
from relgrade_assets.io.readers.qrels import POOLED, read_qrels

HIGHEST = 9
ENDINGS = (".gz", ".zst", ".jsonl", ".json", ".qrels", ".txt", ".tsv", ".trec")
SCHEMA = {"query_id": pl.String, "chunk_id": pl.String, "grader": pl.String, "grade": pl.Int64}


def read_graders(files: Sequence[str], *, top_grade: int | None) -> tuple[pl.DataFrame, tuple[Notice, ...]]:
    """Ratings query_id, chunk_id, grader, grade of every file, sorted; a null grade where there is none (-1 in qrels,
    unrateable or for later in ours).

    A grader is named by the file without its ending; where column 2 of qrels holds several, by file and judge. Raises
    Refused with every fault of a file, where two files give one name, where there is one grader alone, and for grades
    above `top_grade` (9 where None).
    """
    frames: list[pl.DataFrame] = []
    notices: list[Notice] = []
    for file in files:
        frame, said = _read(file, top_grade)
        frames.append(frame)
        notices += said
    names = [name for frame in frames for name in frame["grader"].unique().sort().to_list()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        faults = [Fault(f"grader {name!r}", "two files", "one file a grader", "Rename one of them.") for name in twice]
        raise Refused("Some graders can't be told apart", faults)
    if len(names) < 2:
        raise Refused(
            "Agreement needs two graders",
            [Fault(", ".join(files), f"{len(names)} grader", "two or more", "Give a file for each.")],
        )
    return pl.concat(frames).sort("query_id", "chunk_id", "grader"), tuple(notices)


def _read(file: str, top_grade: int | None) -> tuple[pl.DataFrame, list[Notice]]:
    top = HIGHEST if top_grade is None else top_grade
    name = grader_of(file)
    if ".jsonl" in Path(file).suffixes:
        read = read_grades(Path(file), name=file, top_grade=top, reason_needed="none")
        if read.bad:
            raise Refused(f"{file} can't be used", read.bad)
        if not read.good.height:
            raise Refused(f"{file} can't be used", [Fault(file, "no grade", "a line for each pair")])
        return read.good.select("query_id", "chunk_id", pl.lit(name).alias("grader"), "grade"), list(read.notices)
    qrels = read_qrels(Path(file), name=file, top_grade=top)
    several = qrels.frame["group"].n_unique() > 1
    grader = pl.lit(f"{name}:") + pl.col("group") if several else pl.lit(name)
    grade = pl.when(pl.col("grade") == POOLED).then(None).otherwise("grade").alias("grade")
    return qrels.frame.select("query_id", "chunk_id", grader.alias("grader"), grade), list(qrels.notices)


def grader_of(file: str) -> str:
    """The file's name without folder and known endings."""
    name = Path(file).name
    while (ending := Path(name).suffix) in ENDINGS and ending:
        name = name.removesuffix(ending)
    return name
