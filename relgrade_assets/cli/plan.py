"""`relgrade plan`: what a number of queries can tell, before anything is spent (P11), without Dagster.

Options and printing only; the numbers are methods/planning.py's, the plot io/plots.py's.
"""

from __future__ import annotations

import json
import statistics
from enum import StrEnum
from itertools import combinations
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from relgrade_assets.cli.app import app, home, say, warn
from relgrade_assets.errors import Fault, NotThere, Refused
from relgrade_assets.methods import planning


class Form(StrEnum):
    """Forms of the output."""

    table = "table"
    json = "json"
    csv = "csv"


@app.command("plan")
def plan(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="An experiment, whose strata and arms count; or none.")
    ] = None,
    queries: Annotated[
        int | None, typer.Option("--queries", metavar="N", help="Queries, where no experiment is named.", min=1)
    ] = None,
    rate: Annotated[
        float, typer.Option("--rate", metavar="P", help="What a measure is assumed to be.", min=0.01, max=0.99)
    ] = planning.RATE,
    band: Annotated[
        float | None, typer.Option("--band", metavar="B", help="Half of the 95% band wanted; else half of the present.")
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option(
            "--spread",
            metavar="S",
            help=f"Standard deviation of per-query differences of two arms; else as measured, or {planning.SPREAD:g}.",
        ),
    ] = None,
    difference: Annotated[
        float | None, typer.Option("--difference", metavar="D", help="A difference that must be found.")
    ] = None,
    arms: Annotated[
        int | None, typer.Option("--arms", metavar="N", help="Arms; else the design's, or 2.", min=1)
    ] = None,
    depth: Annotated[
        int | None, typer.Option("--depth", metavar="K", help="Depth of the pool; else the design's, or 10.", min=1)
    ] = None,
    chunks: Annotated[
        int | None, typer.Option("--chunks", metavar="N", help="Chunks in the corpus; else as found.", min=1)
    ] = None,
    a_minute: Annotated[
        float, typer.Option("--a-minute", metavar="N", help="Judgments a minute.", min=0.01)
    ] = planning.A_MINUTE,
    form: Annotated[Form, typer.Option("--format", help="Form of the output.")] = Form.table,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Write a plot too: one self-contained HTML file.")
    ] = None,
) -> None:
    """Say what a number of queries can tell: bands, sizes, smallest differences, hours of judging."""
    _positive({"--band": band, "--spread": spread, "--difference": difference})
    if (name is None) == (queries is None):
        fault = Fault("NAME, --queries", "both" if name else "neither", "an experiment, or a number of queries")
        raise Refused("There is nothing to plan with", [fault])
    if name is not None:
        strata, shares, effort, measured = _of_study(name)
    else:
        strata, shares, effort, measured = {"queries": queries or 1}, {}, planning.Effort(2, 10, None), None
    effort = planning.Effort(arms or effort.arms, depth or effort.depth, chunks or effort.chunks, a_minute)
    wide = spread or measured or planning.SPREAD
    frame = planning.plan(strata, shares, effort, rate=rate, wanted=band, spread=wide)
    if name is None:
        frame = frame.filter(pl.col("scope") == "all")
    needed = None if difference is None else planning.size_for_difference(difference, wide)
    if plot is not None:
        from relgrade_assets.io.plots import plot_plan

        plot_plan(frame, plot)
    if form is Form.json:
        say(json.dumps({"rows": frame.to_dicts(), "queries_for_difference": needed}, ensure_ascii=False))
        return
    if form is Form.csv:
        typer.echo(frame.write_csv(), nl=False)
        return
    _print(frame, effort, rate, wide, "as measured" if not spread and measured else "assumed")
    if needed is not None:
        say(f"A difference of {difference:g} is found with a chance of 80% from {needed} queries up.")
    for note in [*planning.plan_notes(frame), *(_habits(name) if name else [])]:
        warn(f"warning: {note}")
    if plot is not None:
        say(f"Plot: {plot}")


def _habits(name: str) -> list[str]:
    """What of the design, of the sample where it is drawn, and of a key's reuse spoils judgments (P45)."""
    from relgrade_assets.io.refreshing import reused
    from relgrade_assets.io.study import open_study
    from relgrade_assets.methods import habits

    study = open_study(home(), name)
    sample = None if study.outdated("query_sample") else study.load("query_sample")
    return [notice.text for notice in (*habits.of_study(study.design, sample), *reused(study))]


def _of_study(name: str) -> tuple[dict[str, int], dict[str, float], planning.Effort, float | None]:
    """Queries and traffic share a stratum, the effort, and the widest spread of differences that was measured."""
    from relgrade_assets.io.study import open_study

    study = open_study(home(), name)
    d = study.design
    parts = [p.name for p in d.strata.parts]
    if study.outdated("query_sample"):
        strata = {p.name: p.target for p in d.strata.parts}
        shares = {p.name: p.share for p in d.strata.parts if p.share is not None}
        warn("The sample isn't drawn yet: the design's targets are taken, which a short stratum may not reach.")
    else:
        sample = study.load("query_sample")
        strata = {part: sample.filter(pl.col("stratum") == part).height for part in parts}
        shares = dict(sample.select("stratum", "stratum_share").unique().sort("stratum").iter_rows())
    try:
        chunks: int | None = study.corpus.height
    except NotThere:
        chunks = None
    measured = None
    if not study.outdated("query_measures"):  # there is none before the freeze (P34)
        values = study.load("query_measures").filter(pl.col("measure") == d.headline).sort("arm", "query_id")
        wide = values.pivot("arm", index="query_id", values="value").drop_nulls()
        columns = [wide[a.name].to_list() for a in d.arms if a.name in wide.columns]
        each = [statistics.stdev(x - y for x, y in zip(a, b, strict=True)) for a, b in combinations(columns, 2)]
        measured = max(each) if wide.height > 1 and each and max(each) > 0 else None
    return strata, shares if len(shares) == len(parts) else {}, planning.Effort(len(d.arms), d.depth, chunks), measured


def _positive(given: dict[str, float | None]) -> None:
    faults = [
        Fault(option, f"{value:g}", "a number above 0, at most 1")
        for option, value in given.items()
        if value is not None and not 0 < value <= 1
    ]
    if faults:
        raise Refused("Some numbers can't be used", faults)


def _print(frame: pl.DataFrame, effort: planning.Effort, rate: float, spread: float, how: str) -> None:
    say(f"At a rate of {rate:g}; per-query differences of two arms with a standard deviation of {spread:.3f} ({how});")
    say(f"{effort.arms} arms, depth {effort.depth}, {effort.a_minute:g} judgments a minute")
    say()
    width = max(5, *(len(s) for s in frame["scope"].to_list()))
    say(
        f"  {'scope':<{width}}  queries  error  95% band  one query  for +-band      smallest difference"
        "  pooled at most     exhaustive"
    )
    for r in frame.to_dicts():
        least = "-" if r["smallest_difference"] is None else f"{r['smallest_difference']:.3f}"
        whole = "-" if r["hours_exhaustive"] is None else f"{r['pairs_exhaustive']:,} ({r['hours_exhaustive']:,.0f} h)"
        wanted = f"{r['band_wanted']:.3f}: {r['queries_wanted']}"
        pooled = f"{r['pairs_pooled']:,} ({r['hours_pooled']:,.1f} h)"
        say(
            f"  {r['scope']:<{width}}  {r['queries']:>7}  {r['standard_error']:.3f}  +-{r['band']:.3f}"
            f"   {r['resolution']:>9.3f}  {wanted:<14}  {least:>19}  {pooled:<17}  {whole}"
        )
    row = frame.filter(pl.col("scope") == "all").row(0, named=True)
    say()
    say(f"Another arm adds at most {row['pairs_another_arm']:,} pairs, one more rank of depth {row['pairs_deeper']:,}.")
