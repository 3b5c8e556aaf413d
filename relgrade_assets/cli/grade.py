"""Running the design's model graders from the command line, with a progress bar; the graph does the same without."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from relgrade_assets.cli.app import WAITING, Name, app, home, say, stop, warn
from relgrade_assets.cli.run import require_tables
from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io import grading_run
from relgrade_assets.io.grading_run import Progress
from relgrade_assets.io.study import open_study
from relgrade_assets.io.worksheets import sheet_table

LINE_SECONDS = 30.0


@app.command()
def grade(
    name: Name,
    grader: Annotated[
        str | None,
        typer.Option("--grader", metavar="GRADER", help="One grader, or the auditor; all with a command if not given."),
    ] = None,
) -> None:
    """Run the model graders of the design for what is missing; stopped at any time, what was accepted is kept."""
    design = open_study(home(), name).design
    named = [grader] if grader else [*design.key_graders, design.auditor.name]
    tables = {who: sheet_table(open_study(home(), name), who) for who in named}
    who = [g for g in named if design.run_of(g) is not None]
    if not who:
        fault = Fault("graders, auditor", "no run", "a command to run", "docs/how-to/grade-with-agents.md tells how.")
        raise Refused(f"{grader or name} has nothing to run", [fault])
    whole = True
    for each in who:
        study = require_tables(home(), name, tables[each])
        try:
            with _stopped_by_signals(), _shown(each) as tell:
                last = grading_run.grade(study, each, tell=tell)
        except KeyboardInterrupt:
            warn(f"{each}: stopped. What was accepted is kept; `relgrade grade {name}` goes on.")
            stop(WAITING)
        say(str(last))
        if last.graded < last.of:
            whole = False
            if last.gave_up:
                warn(f"{each} was given up, since one prompt after another was exhausted.")
            warn(f"The last attempt that was not accepted: {last.why or 'none'}")
            warn(f"`relgrade grade {name} --grader {each}` asks again for what is missing.")
    if not whole:
        stop(WAITING)


@contextmanager
def _shown(grader: str) -> Iterator[grading_run.Tell]:
    """A bar on a terminal; elsewhere a line now and then."""
    if not sys.stderr.isatty():
        yield grading_run.every(LINE_SECONDS, lambda p: warn(str(p)) if p.graded < p.of else None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, TextColumn("{task.fields[note]}"), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(grader, total=None, note="")

        def tell(progress: Progress) -> None:
            note = f"{progress.per_minute:.0f} a minute" + f", {progress.failed} not accepted" * bool(progress.failed)
            bar.update(task, total=progress.of, completed=progress.graded, note=note)

        yield tell


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """SIGTERM stops as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
