"""`relgrade calibrate`: several people try the rubric together before they grade (P26). Called again and again, it does
what is next in a folder.

Options and printing only; items, sheets and the log are io/calibration.py's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from relgrade_assets.cli.agree import print_agreement
from relgrade_assets.cli.app import WAITING, Name, app, home, say, stop
from relgrade_assets.cli.run import require_tables
from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io import calibration
from relgrade_assets.io.study import open_study


@app.command()
def calibrate(
    name: Name,
    folder: Annotated[
        Path | None,
        typer.Option("--in", metavar="DIR", help="Its folder; data/experiments/NAME/calibration if not given."),
    ] = None,
    discussed: Annotated[
        str | None,
        typer.Option(
            "--discussed",
            metavar="TEXT",
            help="What came of talking the differences over; logs the calibration, and locks the rubric with it.",
        ),
    ] = None,
) -> None:
    """Lead several people through a calibration: items, their sheets, how far they agree, and the log of it (P26)."""
    if discussed is not None and not discussed.strip():
        raise Refused("What goes on record has words", [Fault("--discussed", "nothing", "what came of it, in words")])
    people = calibration.people(open_study(home(), name).design)
    if not people:
        fault = Fault("graders", "not two of kind: human", "several people")
        raise Refused(f"{name} needs no calibration (P26)", [fault])
    study = require_tables(home(), name, "queries", "query_sample")
    inside = folder or study.folder / "calibration"
    again = f"`relgrade calibrate {name}`" if folder is None else f"`relgrade calibrate {name} --in {folder}`"
    if not (inside / calibration.ITEMS).exists():
        rows = calibration.draft_items(study, inside)
        say(f"{rows} items of queries outside the sample: {inside / calibration.ITEMS}")
        if not rows:
            say("Every query of the log is in the sample: write items of your own, a query, an intent, a chunk's id.")
        say(f"Write an intent for each query, change what you like, then {again}.")
        stop(WAITING)
    items = calibration.read_items(study, inside)
    new = calibration.write_sheets(study, inside, items)
    if new:
        for path in new:
            say(f"{items.height} items: {path}")
        say(f"Give each person the sheet and rubric.md; when grade and notes (the reason) are filled in, {again}.")
        stop(WAITING)
    answers = calibration.read_answers(study, inside, items)
    table = calibration.agreement(study, answers)
    print_agreement(table, study.design.scale.top, study.design.scale.relevant_from)
    _differences(answers, items.height)
    if discussed is None:
        say(f"Talk these over, mend the rubric where it is silent, then {again} --discussed TEXT.")
        stop(WAITING)
    calibration.log_calibration(study, answers, table, discussed=discussed.strip())
    say(f"Logged for {', '.join(people)}, under the rubric as it stands. If it changes, calibrate again.")


def _differences(answers: pl.DataFrame, items: int) -> None:
    """Each item on which they differ, with everybody's grade and reason."""
    say()
    differ = 0
    for (_, chunk), rows in answers.group_by("query_id", "chunk_id", maintain_order=True):
        if rows["grade"].n_unique() == 1:
            continue
        differ += 1
        say(f"{rows['query_id'][0]} {chunk}")
        for who, grade, reason in rows.sort("grader").select("grader", "grade", "reason").rows():
            say(f"  {who}: {'unrateable' if grade is None else grade}, {reason}")
    say(f"They differ on {differ} of {items} items.")
