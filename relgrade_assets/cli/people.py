"""Commands for those who grade and review: sheets out, answers and reviews in, the spot-check, revisions."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from relgrade_assets.cli.app import BAD_INPUT, Name, app, home, say, stop, warn
from relgrade_assets.cli.run import require_tables
from relgrade_assets.errors import SHOWN_AT_MOST, Fault, Refused
from relgrade_assets.io import returns, rounds, worksheets
from relgrade_assets.io.study import open_study

Grader = Annotated[str, typer.Option("--grader", metavar="GRADER", help="A grader of the design, or the auditor.")]


class Form(StrEnum):
    """Forms of answer files."""

    rows = "rows"
    qrels = "qrels"
    quepid_book = "quepid-book"
    quepid_ratings = "quepid-ratings"
    label_studio = "label-studio"
    spreadsheet = "spreadsheet"
    opensearch = "opensearch"
    ltr = "ltr"
    rre = "rre"


class SheetForm(StrEnum):
    """Tools whose form a sheet can have besides its own."""

    quepid = "quepid"
    label_studio = "label-studio"
    spreadsheet = "spreadsheet"


@app.command()
def sheets(
    name: Name,
    grader: Grader,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder to write; data/experiments/NAME/sheets/GRADER if not given."),
    ] = None,
    html: Annotated[
        bool, typer.Option("--html", help="Also sheet.html: a page that works without a server and gives rows back.")
    ] = False,
    form: Annotated[
        SheetForm | None,
        typer.Option("--format", help="Also the file that this tool takes; its answers come back by collect (P25)."),
    ] = None,
) -> None:
    """Write a grader's blind sheet: whole, and in parts of five chunks a query."""
    table = worksheets.sheet_table(open_study(home(), name), grader)
    study = require_tables(home(), name, table)
    folder = out or study.folder / "sheets" / grader
    page = None
    if html:
        from relgrade_assets.desk.offline import page as offline_page

        page = offline_page(study, grader)
    pairs = worksheets.write_sheets(study, grader, folder, page=page, tool=form.value if form else None)
    say(f"{pairs} pairs for {grader}, round {study.round}: {_shown(folder)}")


@app.command()
def collect(
    name: Name,
    files: Annotated[list[Path], typer.Argument(metavar="ANSWERS", help="Answer files.")],
    grader: Grader,
    form: Annotated[
        Form,
        typer.Option(
            "--format",
            help="rows: JSON Lines query_id, chunk_id, reason, grade. qrels: TREC qrels. Others: as that tool writes "
            "them (P25).",
        ),
    ] = Form.rows,
    judge: Annotated[
        str | None,
        typer.Option("--judge", metavar="NAME", help="Whose judgments, where another tool's file holds several."),
    ] = None,
    map_: Annotated[
        list[str] | None,
        typer.Option(
            "--map", metavar="RATING=GRADE", help="What a rating of another tool means, such as 100.000=2; repeated."
        ),
    ] = None,
    alike_because: Annotated[
        str | None,
        typer.Option(
            "--alike-because",
            metavar="WHY",
            help="Take rows that are another grader's, or another round's, all the same; it goes on record (P25).",
        ),
    ] = None,
) -> None:
    """Take a grader's answers: good rows are kept, bad ones refused one by one with reasons. A file of another
    grader's sheet is refused whole.
    """
    if alike_because is not None and not alike_because.strip():
        raise Refused("What goes on record has a reason", [Fault("--alike-because", "nothing", "why, in words")])
    if form in (Form.rows, Form.qrels) and (judge is not None or map_):
        raise Refused(
            "--judge and --map are for other tools' files",
            [Fault("--format", form.value, "the form of the tool that wrote the file")],
        )
    refused = 0
    for path in files:
        study = open_study(home(), name)
        try:
            taken = returns.collect(
                study,
                grader,
                path,
                name=str(path),
                form=form.value,
                judge=judge,
                ratings=map_ or (),
                alike_because=alike_because,
            )
        except Refused as whole:
            warn(whole.message())
            refused += 1
            continue
        _tell(taken, "The good rows are in the ledger; these are kept there as refused. Mend them and collect again.")
        refused += len(taken.refused)
    if refused:
        stop(BAD_INPUT)


@app.command()
def review(
    name: Name,
    file: Annotated[Path | None, typer.Argument(metavar="SHEET", help="A filled-in review sheet.")] = None,
    reviewer: Annotated[
        str | None, typer.Option("--reviewer", help="Who reviewed; the auditor where not given.")
    ] = None,
    write: Annotated[Path | None, typer.Option("--write", help="Write the sheet to review instead.")] = None,
) -> None:
    """Write the intents out for review, or take the reviews (ok or change) row by row."""
    if (file is None) == (write is None):
        raise Refused("relgrade review takes a filled-in sheet, or --write FILE to make one: give one of them")
    study = require_tables(home(), name, "query_sample")
    if write is not None:
        if write.exists():
            mend = "Take its reviews first, then move it away; or name another file."
            raise Refused(f"{write} is there already", [Fault(str(write), "a file", "none", mend)])
        rows = worksheets.write_review_sheet(study, write)
        say(f"{rows} intents to review: {_shown(write)}")
        say(f"Fill in verdict (ok or change) and note, then `relgrade review {name} {write}`.")
    if file is not None:
        taken = returns.take_reviews(study, file, name=str(file), reviewer=reviewer or study.design.auditor.name)
        _tell(taken, "The good reviews are in the ledger; these are not. Mend them and give the file again.")
        if taken.refused:
            stop(BAD_INPUT)


@app.command("spot-check")
def spot_check(name: Name) -> None:
    """Write the sheet on which a person checks the queries' types (P8)."""
    path = worksheets.write_spot_check(require_tables(home(), name, "spot_check"))
    say(f"Fill in type_by_person, then `relgrade run {name}`: {_shown(path)}")


@app.command()
def revise(
    name: Name,
    cause: Annotated[
        str, typer.Option("--cause", metavar="TEXT", help="What went wrong: an intent, a boundary rule, drift, ...")
    ],
    what: Annotated[str, typer.Option("--what", metavar="TEXT", help="What was changed.")] = "",
    by: Annotated[str, typer.Option("--by", metavar="TEXT", help="Who decided.")] = "",
    limited: Annotated[
        bool,
        typer.Option(
            "--limited",
            help="Grade again only what was graded relevant: where binary kappa passed, and weighted kappa failed on "
            "which relevant grade.",
        ),
    ] = False,
) -> None:
    """Log a revision with its cause and open the next round."""
    if not cause.strip():
        raise Refused("A revision has a cause", [Fault("--cause", "nothing", "what went wrong, in words")])
    number = rounds.open_next_round(open_study(home(), name), cause=cause, what=what, by=by, limited=limited)
    again = " Only chunks that were graded relevant are asked for again." if limited else ""
    say(f"Round {number} of {name} is open.{again} Review changed intents, then write fresh sheets.")


def _tell(taken: returns.Taken, mend: str) -> None:
    """What became of a file, and of each refused row why."""
    say(str(taken))
    for notice in taken.notices:
        say(f"  note: {notice}")
    for fault in taken.refused[:SHOWN_AT_MOST]:
        warn(f"  {fault}")
    if len(taken.refused) > SHOWN_AT_MOST:
        warn(f"  ... and {len(taken.refused) - SHOWN_AT_MOST} more.")
    if taken.refused:
        warn(mend)


def _shown(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(home().top))
    except ValueError:
        return str(path)
