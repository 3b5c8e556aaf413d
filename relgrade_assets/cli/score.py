"""`relgrade score`: measures of runs against qrels or a frozen key, without Dagster and without a study.

Options and printing only; the options are annotations that nobody evaluates until they are needed, with typer
(score_command.py) or without (plain_call.py). Reading is io/scoring.py's, the numbers methods/measures.py's, lines like
trec_eval's trec_eval_lines.py's, arm against arm comparing.py's.
"""

from __future__ import annotations

import json
import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import polars as pl

from relgrade_assets.cli import comparing
from relgrade_assets.cli.terminal import put, say, warn
from relgrade_assets.errors import Fault, Notice, Refused
from relgrade_assets.io.readers.keys import read_judgments
from relgrade_assets.io.scoring import read_hits
from relgrade_assets.methods import habits, measures
from relgrade_assets.methods.measure_names import Gain

if TYPE_CHECKING:
    import typer

DEFAULT = "nDCG@10,Recall@100,RR@10,AP,P@10,bpref,Judged@10"


class Form(StrEnum):
    """Forms of the output."""

    table = "table"
    json = "json"
    csv = "csv"


class GainOf(StrEnum):
    """The gain of a grade."""

    exponential = "exponential"
    linear = "linear"


class Like(StrEnum):
    """Programs whose lines can be printed."""

    trec_eval = "trec_eval"


def score(
    qrels: Annotated[
        str, typer.Argument(metavar="QRELS", help="TREC qrels, BEIR's TSV, key.jsonl, or the folder of a frozen key.")
    ],
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Runs: TREC, JSON Lines, CSV or Parquet.")],
    names: Annotated[
        list[str] | None,
        typer.Option("--measures", "-m", metavar="NAMES", help=f"Names, separated by commas. Default: {DEFAULT}"),
    ] = None,
    per_query: Annotated[bool, typer.Option("--per-query", "-q", help="Print each query, not only the means.")] = False,
    relevant_from: Annotated[
        int, typer.Option("--relevant-from", "-l", metavar="GRADE", help="The lowest relevant grade.", min=1)
    ] = 1,
    gain: Annotated[
        GainOf | None, typer.Option("--gain", help="nDCG's gain of a grade; exponential, or linear like trec_eval.")
    ] = None,
    top_grade: Annotated[
        int | None,
        typer.Option("--top-grade", metavar="GRADE", help="The scale's top grade, for ERR; else the highest.", min=1),
    ] = None,
    depth: Annotated[
        int | None, typer.Option("--depth", "-M", metavar="N", help="Cut every ranking after N chunks.", min=1)
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", metavar="JUDGE", help="The judge (column 2) whose grades count.")
    ] = None,
    grades: Annotated[
        list[str] | None,
        typer.Option("--grade", metavar="OLD=NEW", help="Read the negative grade OLD as NEW (--grade=-2=-1)."),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Take runs that answer fewer than half of the queries.")
    ] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare every two runs: differences, intervals, tests (P39).")
    ] = False,
    margins: Annotated[
        list[str] | None,
        typer.Option("--margin", metavar="MEASURE=D", help="With --compare: a difference that would not matter."),
    ] = None,
    seed: Annotated[
        str | None, typer.Option("--seed", metavar="TEXT", help=f"With --compare: the seed, else {comparing.SEED!r}.")
    ] = None,
    form: Annotated[Form, typer.Option("--format", help="Form of the output.")] = Form.table,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the table as Parquet too.")] = None,
    like: Annotated[Like | None, typer.Option("--like", help="Print trec_eval's lines for one run.")] = None,
    complete: Annotated[
        bool, typer.Option("--complete", "-c", help="Like trec_eval: average over every judged query.")
    ] = False,
) -> None:
    """Measure runs against judgments: per arm, over all queries and over those with something relevant."""
    asked = [n for part in names or [] for n in re.split(r",(?![^(]*\))(?![0-9]+(?:,|$))", part) if n]
    if complete and like is None:
        raise Refused("-c goes with --like trec_eval", [Fault("--complete", "given", "--like trec_eval")])
    if like is not None and (len(runs) > 1 or form is not Form.table):
        raise Refused(
            "--like trec_eval prints one run's lines", [Fault("--like", "more asked", "one RUN, no --format")]
        )
    of_pairs = comparing.asked(
        compare, runs, margins, seed, asked or DEFAULT.split(","), alone=like is None and not per_query
    )
    if like is not None:
        from relgrade_assets.cli import trec_eval_lines

    theirs = trec_eval_lines.names_asked(asked) if like is not None else {}
    ours = list(theirs.values()) or asked or DEFAULT.split(",")
    measures.parse_all(ours)
    read = read_judgments(Path(qrels), name=qrels, group=group, negatives=_mapped(grades or []))
    key = read.grades
    scored = read_hits(
        runs,
        read,
        partial=partial or like is not None,
        extra_columns=like is not None,
        only_answered=bool(like) and not complete,
    )
    hits = scored.hits if depth is None else scored.hits.down_to(depth)
    for notice in (*read.notices, *scored.notices):
        warn(f"{notice}")
    gained: Gain = "linear" if gain is GainOf.linear or (gain is None and like is not None) else "exponential"
    table = measures.score(hits, key, ours, relevant_from=relevant_from, gain=gained, top_grade=top_grade)
    mean = measures.means(table, key, relevant_from=relevant_from)
    pairs = None if of_pairs is None else comparing.compared(table, of_pairs)
    main = table if per_query else mean if pairs is None else pairs
    spoiling = habits.of_scores(mean, key) if like is None else ()
    for notice in spoiling:
        warn(f"{notice}")
    if out is not None:
        _write(out, main)
    if like is not None:
        for line in trec_eval_lines.lines(table, hits, key, theirs, relevant_from=relevant_from, each=per_query):
            say(line)
        return
    if form is Form.json:
        about = {
            "qrels": qrels,
            "runs": runs,
            "relevant_from": relevant_from,
            "gain": gained,
            "queries": len(hits.queries),
        }
        told = (*read.notices, *scored.notices, *spoiling)
        document = _document(about, table, mean, told, per_query)
        say(json.dumps(document | comparing.document(of_pairs, pairs), ensure_ascii=False))
    elif form is Form.csv:
        put((main if pairs is None else comparing.flat(pairs)).write_csv())
    else:
        for line in _table(table if per_query else mean):
            say(line)
        for line in [] if pairs is None else ["", *_table(comparing.shown(pairs))]:
            say(line)


def _mapped(given: list[str]) -> dict[int, int]:
    mapped = {}
    faults = []
    for text in given:
        match = re.fullmatch(r"(-[0-9]{1,3})=(-?[0-9]{1,3})", text)
        if match is None or int(match[2]) < -1:
            faults.append(Fault(f"--grade={text}", "no mapping", "a negative grade, =, and a grade from -1 up"))
        else:
            mapped[int(match[1])] = int(match[2])
    if faults:
        raise Refused("Some grades can't be mapped", faults)
    return mapped


def _document(
    about: dict[str, Any], table: pl.DataFrame, mean: pl.DataFrame, notices: tuple[Notice, ...], per_query: bool
) -> dict[str, Any]:
    document = {**about, "means": mean.to_dicts()}
    document["notices"] = [{"code": n.code, "count": n.count, "text": n.text} for n in notices]
    return {**document, "per_query": table.to_dicts()} if per_query else document


def _table(frame: pl.DataFrame) -> list[str]:
    """Columns padded to their widest cell; numbers to the right, four decimals."""
    columns = []
    for series in frame:
        number = series.dtype.is_numeric()
        cells = [_cell(value) for value in series]
        head = series.name.replace("_", " ")
        width = max(len(head), *map(len, cells)) if cells else len(head)
        columns.append([f"{c:>{width}}" if number else f"{c:<{width}}" for c in (head, *cells)])
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)


def _write(path: Path, frame: pl.DataFrame) -> None:
    from io import BytesIO

    from relgrade_assets.io.atomic import write_bytes

    buffer = BytesIO()
    frame.write_parquet(buffer, compression="zstd", statistics=False)
    write_bytes(path, buffer.getvalue())
