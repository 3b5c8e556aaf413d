"""Running the graph from the command line, and what a person wants to see of the outcome."""

from __future__ import annotations

from typing import Annotated

import typer

from relgrade_assets.cli.app import NOT_PASSED, WAITING, Name, app, home, say, stop
from relgrade_assets.cli.results import arm_table, where_next
from relgrade_assets.cli.run import Outcome
from relgrade_assets.cli.run import run as run_graph
from relgrade_assets.io.study import open_study


@app.command()
def run(
    name: Name,
    job: Annotated[str, typer.Option("--job", help="everything, regrade, recheck, repool or publish.")] = "everything",
) -> None:
    """Materialise an experiment: what is ready is made, what waits says for what, a failed gate stops what comes
    after it.
    """
    outcome = run_graph(home(), name, job=job)
    tell(name, outcome)
    if not outcome.ok:
        stop(NOT_PASSED)
    if outcome.waiting:
        stop(WAITING)


def tell(name: str, outcome: Outcome) -> None:
    """Say what was made, what waits and what was refused; and where a key was published, the arms and the hash."""
    say(f"{name}: {len(outcome.made)} tables made.")
    for table, why in outcome.waiting.items():
        say(f"  {table} waits: {why}")
    for check, why in outcome.failed_checks.items():
        typer.echo(f"  failed check {check}: {why}", err=True)
    for table, why in outcome.refused.items():
        typer.echo(f"  {table} refused: {why}", err=True)
    if "published_key" in outcome.made:
        study = open_study(home(), name)
        say()
        say(arm_table(study))
        say(where_next(study))
