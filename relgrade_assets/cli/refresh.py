"""Keeping a key up: how stale it is, and the next round on changed inputs (P43, P44)."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from relgrade_assets.cli.app import NOT_PASSED, Name, app, home, say, stop
from relgrade_assets.cli.run import require_tables
from relgrade_assets.errors import NotThere, Waiting
from relgrade_assets.io import refreshing, rounds
from relgrade_assets.io.study import Study, open_study
from relgrade_assets.methods import staleness as methods

_LOOKED_AT = ("queries", "query_sample", "runs", "pools", "staleness")


@app.command()
def staleness(name: Name, as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """Say of each refresh trigger what was found, what to do and what it costs; exit with 1 where one is due."""
    study = _with_staleness(name)
    frame = study.load("staleness")
    if as_json:
        rows = frame.to_dicts()
        say(json.dumps({"experiment": name, "round": study.round, "triggers": rows}, ensure_ascii=False))
    else:
        say(f"{name}, the key of round {refreshing.last_frozen(study)}")
        for row in frame.to_dicts():
            say(f"  {row['state']:<8} {row['trigger']:<17} {row['evidence']}")
            if row["action"] != "none":
                say(f"  {'':<26} {row['action']}")
            if row["pairs_to_judge"] is not None:
                cost = f"{row['pairs_to_judge']} pairs to judge ({row['hours']:.1f} hours)"
                say(f"  {'':<26} {cost}, {row['pairs_carried']} saved by carry-over")
        if methods.due(frame):
            say(f"Next: `relgrade refresh {name}` opens the next round; the old key stands.")
    if methods.due(frame):
        stop(NOT_PASSED)


@app.command()
def refresh(
    name: Name,
    cause: Annotated[
        str, typer.Option("--cause", metavar="TEXT", help="What changed; the triggers that are due, where not given.")
    ] = "",
    by: Annotated[str, typer.Option("--by", metavar="TEXT", help="Who decided.")] = "",
    rerate: Annotated[
        int | None,
        typer.Option(
            "--rerate",
            metavar="PERCENT",
            min=0,
            max=100,
            help="How much of what is carried is rated again, to measure drift; what the triggers ask, where not "
            "given. 100 judges all again.",
        ),
    ] = None,
) -> None:
    """Open the next round on changed inputs: unchanged grades are carried, and only new pairs are asked for."""
    study = open_study(home(), name)
    triggers: list[str] = []
    percent, affected = 0, False
    if refreshing.last_frozen(study) is not None:
        frame = _with_staleness(name).load("staleness")
        triggers = methods.due(frame)
        percent, affected = methods.rerate_of(frame)
    number = rounds.open_refresh(
        open_study(home(), name),
        cause=cause or ", ".join(triggers) or "changed inputs",
        by=by,
        rerate=percent if rerate is None else rerate,
        affected_alone=affected and rerate is None,
    )
    say(f"Round {number} of {name} is open; the old key stands. Next: `relgrade run {name}`.")


def _with_staleness(name: str) -> Study:
    study = open_study(home(), name)
    if refreshing.last_frozen(study) is None:
        raise NotThere(Waiting(f"no key of {name} is frozen yet, so that none can be stale"))
    return require_tables(home(), name, *_LOOKED_AT)
