"""Replaying a recorded study: the reviews and answers that were given, at the times they were given, through the same
doors as any others.

`recorded.yaml` in the experiment's folder lists the steps. `relgrade demo` replays the one that ships.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer
import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from relgrade_assets.cli.app import NOT_PASSED, Name, app, home, say, stop
from relgrade_assets.cli.graph import tell
from relgrade_assets.cli.run import Outcome
from relgrade_assets.cli.run import run as run_graph
from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io import returns, rounds, worksheets
from relgrade_assets.io.home import Home
from relgrade_assets.io.study import Study, open_study

DEMO = "networkx"


class Step(BaseModel):
    """One recorded step: what was done, by whom, with which file, and when."""

    model_config = ConfigDict(extra="forbid")

    do: Literal["run", "review", "sheets", "collect", "revise"]
    at: datetime
    grader: str = ""
    file: str = ""
    cause: str = ""
    what: str = ""
    by: str = ""
    round: int = Field(default=1, ge=1)
    sheet: str = Field(default="", description="Digest of what the grader was shown, for a sheet.")


@app.command()
def replay(name: Name) -> None:
    """Replay a recorded study from its folder: same inputs, same times, same bytes. What was replayed already is
    passed over.
    """
    _replay(home(), name)


@app.command()
def demo(
    keep_corpus: Annotated[bool, typer.Option(hidden=True, help="Don't look at the corpus again.")] = False,
) -> None:
    """Build the corpus of the demo from the installed NetworkX, replay its recorded study, and end in a frozen key."""
    folder = home().folder(DEMO)
    corpus = folder / "corpus.jsonl"
    if not (keep_corpus and corpus.exists()):
        built = subprocess.run(  # noqa: S603 - our own script, no shell
            [sys.executable, str(folder / "build" / "corpus.py"), str(corpus)],
            capture_output=True,
            text=True,
            check=False,
        )
        say(built.stdout.strip())
        if built.returncode:
            raise Refused(f"The demo's corpus could not be built: {built.stderr.strip() or built.stdout.strip()}")
    _replay(home(), DEMO)


def _replay(top: Home, name: str) -> None:
    outcome: Outcome | None = None
    for step in recorded(top.folder(name)):
        at = step.at.astimezone(UTC)
        study = open_study(top, name, clock=lambda at=at: at)  # type: ignore[misc]
        if step.round < study.round or (step.do != "run" and _frozen(study)):
            continue
        told = _do(top, study, step, at)
        outcome = told or outcome
    if outcome is not None:
        tell(name, outcome)
        if not outcome.ok:
            stop(NOT_PASSED)


def _frozen(study: Study) -> bool:
    return any(e.kind == "frozen" and e.round == study.round for e in study.log)


def _do(top: Home, study: Study, step: Step, at: datetime) -> Outcome | None:
    file = study.file(step.file) if step.file else study.folder
    if step.do == "run":
        return run_graph(top, study.name, at=at.isoformat())
    if step.do == "review":
        say(str(returns.take_reviews(study, file, name=step.file, reviewer=study.design.auditor.name)))
    elif step.do == "sheets":
        pairs = worksheets.write_sheets(
            study, step.grader, top.state / "sheets" / study.name / str(study.round) / step.grader
        )
        _require_same_sheet(study, step)
        say(f"{pairs} pairs on the sheet of {step.grader}")
    elif step.do == "collect":
        taken = returns.collect(study, step.grader, file, name=step.file)
        say(str(taken))
        if taken.refused:
            raise Refused(f"A recorded answer of {study.name} is refused", taken.refused)
    elif step.do == "revise":
        say(
            f"round {rounds.open_next_round(study, cause=step.cause, what=step.what, by=step.by)} is open: {step.cause}"
        )
    return None


def _require_same_sheet(study: Study, step: Step) -> None:
    """Recorded answers hold for what the grader saw and nothing else."""
    found = worksheets.sheet_digest(study, step.grader)
    if found != step.sheet:
        raise Refused(
            f"The sheet of {step.grader} is not the one that was graded in the recorded study",
            [Fault("recorded.yaml", f"a sheet with digest {found}", step.sheet or "a recorded digest")],
        )


def recorded(folder: Path) -> list[Step]:
    """The recorded steps of an experiment. Refused where there are none or the file is no list of steps."""
    path = folder / "recorded.yaml"
    if not path.is_file():
        raise Refused(f"{folder.name} holds no recorded study", [Fault("recorded.yaml", "no file", "a list of steps")])
    try:
        return TypeAdapter(list[Step]).validate_python(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Refused(
            "recorded.yaml can't be read", [Fault("recorded.yaml", str(error).replace("\n", " "), "YAML")]
        ) from None
    except ValidationError as error:
        faults = [
            Fault(f"recorded.yaml, {'.'.join(map(str, e['loc']))}", repr(e["input"])[:80], e["msg"])
            for e in error.errors()
        ]
        raise Refused("recorded.yaml is no list of steps", faults) from None
