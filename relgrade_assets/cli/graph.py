"""Running the graph from the command line, and what a person wants to see of the outcome."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from relgrade_assets.cli.app import BAD_INPUT, NOT_PASSED, OK, WAITING, Name, app, home, say, stop, warn
from relgrade_assets.cli.results import arm_table, where_next
from relgrade_assets.cli.run import Outcome
from relgrade_assets.cli.run import run as run_graph
from relgrade_assets.io import progress
from relgrade_assets.io.next_steps import waited_for
from relgrade_assets.io.study import Study, open_study
from relgrade_assets.io.voiding import examine


class Job(StrEnum):
    """The graph's jobs."""

    everything = "everything"
    regrade = "regrade"
    recheck = "recheck"
    repool = "repool"
    publish = "publish"


@app.command()
def run(
    name: Name,
    job: Annotated[Job, typer.Option("--job", help="Which part of the graph.")] = Job.everything,
) -> None:
    """Materialise an experiment: what is ready is made, what waits says for what, a failed gate stops what comes
    after it.
    """
    outcome = run_graph(home(), name, job=job.value)
    tell(name, outcome)
    stop(code_of(outcome))


def code_of(outcome: Outcome) -> int:
    """The exit code of a run: a gate that refuses is told from input that can't be used."""
    if outcome.failed_checks or "frozen_key" in outcome.refused:
        return NOT_PASSED
    if outcome.refused:
        return BAD_INPUT
    return WAITING if outcome.waiting else OK


def tell(name: str, outcome: Outcome) -> None:
    """Say what was made, what waits and what was refused, each once; and where a key was published, the arms and the
    hash.
    """
    say(f"{name}: {_counted(len(outcome.made), 'table')} made.")
    study = open_study(home(), name)
    steps = {s.table: s for s in progress.steps(study)} if outcome.waiting else {}
    for table, why in outcome.waiting.items():
        say(f"  {table} waits: {why}")
        for one in waited_for(study, steps[table]) if steps[table].state == "waiting" else ():
            if one.command:
                say(f"    next: {one}")
    for table, why in outcome.refused.items():
        warn(f"{table} is refused: {_indented(why)}")
    for check, why in outcome.failed_checks.items():
        if not any(why in told for told in outcome.refused.values()):
            warn(f"The check {check} failed:\n  {_indented(why)}")
    if "published_key" in outcome.made:
        show_published(open_study(home(), name))


def show_published(study: Study) -> None:
    """The arms with their intervals, the key's hash, and where to look; first of all how the key stands (P35)."""
    say()
    standing = examine(study)
    if standing is not None and standing.banner:
        say(standing.banner)
        say()
    say(arm_table(study))
    say(where_next(study))


def _indented(text: str) -> str:
    return "\n  ".join(text.splitlines())


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
