"""Gives `relgrade score` to the command line's library, which then reads the declaration in score.py."""

from __future__ import annotations

import typer

from relgrade_assets.cli import score
from relgrade_assets.cli.app import app

vars(score)["typer"] = typer  # score.py names it in its annotations alone, so as not to load it
app.command("score")(score.score)
