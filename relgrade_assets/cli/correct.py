"""Command that makes a corrected key after measures were read (P35)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from relgrade_assets.cli.app import Name, app, home, say
from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io import correcting
from relgrade_assets.io.study import open_study


@app.command()
def correct(
    name: Name,
    file: Annotated[Path, typer.Argument(metavar="GRADES", help="JSON Lines: query_id, chunk_id and the other grade.")],
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="What was found wrong.")],
    by: Annotated[str, typer.Option("--by", metavar="TEXT", help="Who found it.")] = "",
) -> None:
    """Say what the numbers were with some grades corrected: a post-hoc key, apart; the frozen one decides (P35)."""
    if not why.strip():
        raise Refused("A correction has a reason", [Fault("--why", "nothing", "what was found wrong, in words")])
    study = open_study(home(), name)
    made = correcting.correct(study, file, name=str(file), why=why, by=by)
    say(made.standing.banner)
    say(f"{made.changed} grades differ; sha256 {made.standing.key}")
    of = made.arm_measures.filter(pl.col("measure") == study.design.headline)
    for row in of.filter(pl.col("scope") == "headline").sort("value", descending=True, nulls_last=True).to_dicts():
        value = "  -  " if row["value"] is None else f"{row['value']:.3f}"
        say(f"  POST-HOC  {study.design.headline}  {value}  {row['arm']}")
    say(f"{made.folder}")
