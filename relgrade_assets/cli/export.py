"""Command that hands the published key on in the form of another tool (P42)."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from relgrade_assets.cli.app import Name, app, home, say
from relgrade_assets.cli.run import require_tables
from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io.atomic import write_bytes
from relgrade_assets.io.publishing import published_file
from relgrade_assets.io.study import open_study
from relgrade_assets.io.voiding import require_standing


class ExportForm(StrEnum):
    """Forms of tools that the key is published in."""

    opensearch = "opensearch"
    quepid_ratings = "quepid-ratings"
    quepid_book = "quepid-book"
    ltr = "ltr"
    rank_eval = "rank-eval"
    qrels = "qrels"
    croissant = "croissant"


@app.command()
def export(
    name: Name,
    form: Annotated[ExportForm, typer.Option("--format", help="The tool, and which of its forms.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="File to write; it must not be there yet.")],
) -> None:
    """Write the published key as another tool takes it: graders by pseudonym, nothing private."""
    require_standing(open_study(home(), name))
    study = require_tables(home(), name, "published_key")
    data = published_file(study, form.value)
    if out.exists():
        raise Refused(f"{out} is there already", [Fault(str(out), "a file", "none", "Name another file.")])
    write_bytes(out, data)
    say(f"{out}: {len(data)} bytes")
