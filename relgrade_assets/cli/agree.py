"""`relgrade agree`: how far several graders agree, without Dagster and without a study.

Options and printing only. Reading is io/many_graders.py's, the numbers methods/agreement.py's, the plot io/plots.py's.
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from relgrade_assets.cli.app import app, say, warn
from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io.many_graders import read_graders
from relgrade_assets.methods import agreement as methods
from relgrade_assets.methods.jackknife import how_far

STATISTICS = ("weighted_kappa", "binary_kappa", "alpha", "ac2", "disagreement", "two_step")
HEADINGS = ("weighted kappa", "binary kappa", "alpha", "AC2", "disagree", "two-step")


class Form(StrEnum):
    """Forms of the output."""

    table = "table"
    json = "json"
    csv = "csv"


@app.command("agree")
def agree(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="A file a grader: JSON Lines of grades, or TREC qrels; .gz, .zst too."),
    ],
    top_grade: Annotated[
        int | None,
        typer.Option(
            "--top-grade", metavar="GRADE", help="The scale's top grade; else the highest seen.", min=1, max=9
        ),
    ] = None,
    relevant_from: Annotated[
        int, typer.Option("--relevant-from", "-l", metavar="GRADE", help="The lowest relevant grade.", min=1)
    ] = 1,
    seed: Annotated[str, typer.Option("--seed", metavar="TEXT", help="Seed of the resamples.")] = "agree",
    form: Annotated[Form, typer.Option("--format", help="Form of the output.")] = Form.table,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Write a plot too: one self-contained HTML file.")
    ] = None,
) -> None:
    """Say how far graders agree: kappas, Krippendorff's alpha, AC2 and confusion, with 95% intervals over queries."""
    ratings, notices = read_graders(files, top_grade=top_grade)
    for notice in notices:
        warn(f"{notice}")
    highest = ratings["grade"].max()
    top = top_grade if top_grade is not None else int(highest) if isinstance(highest, int) else 1
    if relevant_from > max(top, 1):
        fault = Fault("--relevant-from", str(relevant_from), f"a grade of the scale, 1 to {max(top, 1)}")
        raise Refused("No grade would be relevant", [fault])
    table = methods.among(ratings, labels=list(range(max(top, 1) + 1)), relevant_from=relevant_from, seed=seed)
    if plot is not None:
        from relgrade_assets.io.plots import plot_agreement

        plot_agreement(table, plot)
    if form is Form.json:
        about = {"files": files, "top_grade": max(top, 1), "relevant_from": relevant_from, "rows": table.to_dicts()}
        say(json.dumps(about, ensure_ascii=False))
    elif form is Form.csv:
        typer.echo(table.write_csv(), nl=False)
    else:
        print_agreement(table, max(top, 1), relevant_from)
    if plot is not None and form is Form.table:
        say(f"Plot: {plot}")


def print_agreement(table: pl.DataFrame, top: int, relevant_from: int) -> None:
    """The figures of `methods.among` for people: kappas and their kin, confusion, and what can't be told."""
    say(f"Grades 0 to {top}, relevant from {relevant_from}; 95% intervals over queries")
    say()
    width = max(len(c) for c in table["comparison"].to_list())
    say(f"  {'graders':<{width}}  {'pairs':>7}  {'queries':>7}  " + "  ".join(f"{h:<22}" for h in HEADINGS).rstrip())
    for comparison in table["comparison"].unique(maintain_order=True).to_list():
        rows = {r["statistic"]: r for r in table.filter(pl.col("comparison") == comparison).to_dicts()}
        any_row = rows["alpha"]
        cells = "  ".join(f"{_cell(rows.get(s)):<22}" for s in STATISTICS).rstrip()
        say(f"  {comparison:<{width}}  {any_row['n']:>7}  {any_row['queries']:>7}  {cells}")
    for comparison in table.filter(pl.col("statistic") == "confusion")["comparison"].unique(maintain_order=True):
        say()
        first, _, second = comparison.partition("~")
        say(f"{first} down, {second} across, pairs:")
        cells_of = table.filter((pl.col("statistic") == "confusion") & (pl.col("comparison") == comparison))
        counts = {(a, b): int(n) for a, b, n in cells_of.select("grade", "audit_grade", "value").rows()}
        wide = max(4, *(len(str(n)) for n in counts.values()))
        say("     " + " ".join(f"{b:>{wide}}" for b in range(top + 1)))
        for a in range(top + 1):
            say(f"  {a}  " + " ".join(f"{counts[a, b]:>{wide}}" for b in range(top + 1)))
    shown = table.filter(pl.col("statistic").is_in(STATISTICS))
    least = min(shown.filter(pl.col("statistic") == "alpha")["queries"].to_list(), default=0)
    for text in how_far(least, shown.select("low", "high").rows()):
        say(text)
    undefined = table.filter(pl.col("value").is_null() & pl.col("statistic").is_in(STATISTICS))
    for row in undefined.to_dicts():
        say(f"{row['comparison']}, {row['statistic']}: {row['note']}")


def _cell(row: dict[str, object] | None) -> str:
    if row is None:
        return "-"
    value, low, high = row["value"], row["low"], row["high"]
    if not isinstance(value, float):
        return "undefined"
    ends = f" [{low:.3f}, {high:.3f}]" if isinstance(low, float) and isinstance(high, float) else ""
    return f"{value:.4f}{ends}"
