"""Replaying a recorded study: the reviews and answers that were given, at the times they were given, through the same
doors as any others.

`recorded.yaml` in the experiment's folder lists the steps. `relgrade demo` replays the one that ships.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from relgrade_assets.cli.app import Name, app, home, say, stop
from relgrade_assets.cli.graph import code_of, show_published, tell
from relgrade_assets.cli.run import Outcome
from relgrade_assets.cli.run import run as run_graph
from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io import returns, rounds, worksheets
from relgrade_assets.io.home import Home
from relgrade_assets.io.readers.faults import shown
from relgrade_assets.io.strict_yaml import Lines, read_list
from relgrade_assets.io.study import Study, open_study
from relgrade_assets.io.text import read_text
from relgrade_assets.protocol.canonical import digest

DEMO = "networkx"
RECORDED = "recorded.yaml"


class Step(BaseModel):
    """One recorded step: what was done, by whom, with which file, and when."""

    model_config = ConfigDict(extra="forbid")

    do: Literal["run", "review", "sheets", "collect", "revise"]
    at: AwareDatetime
    grader: str = ""
    file: str = ""
    cause: str = ""
    what: str = ""
    by: str = ""
    round: int = Field(default=1, strict=True, ge=1)
    sheet: str = Field(default="", description="Digest of what the grader was shown, for a sheet.")


NEEDS: dict[str, tuple[str, ...]] = {
    "review": ("file",),
    "sheets": ("grader", "sheet"),
    "collect": ("grader", "file"),
    "revise": ("cause",),
}
"""Keys that a step can't do without."""


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
    steps = recorded(top.folder(name))
    for step in steps:
        at = step.at.astimezone(UTC)
        study = open_study(top, name, clock=lambda at=at: at)  # type: ignore[misc]
        study.salt = digest(["by", study.design.seed, name, str(step.at)])
        if step.round < study.round or _published(study) or (step is not steps[-1] and rounds.frozen(study)):
            continue
        outcome = _do(top, study, step, at) or outcome
    if outcome is None:
        say(f"All that was recorded of {name} is there already.")
        show_published(open_study(top, name))
    else:
        tell(name, outcome)
        stop(code_of(outcome))


def _published(study: Study) -> bool:
    """Whether the present round's key is published and current, so that nothing is left to do."""
    folder = study.home.published / study.name
    return rounds.frozen(study) and (folder / "manifest.json").is_file() and not study.outdated("published_key")


def _do(top: Home, study: Study, step: Step, at: datetime) -> Outcome | None:
    file = study.file(step.file) if step.file else study.folder
    if step.do == "run":
        return run_graph(top, study.name, at=at.isoformat())
    if step.do == "review":
        say(str(returns.take_reviews(study, file, name=step.file, reviewer=study.design.auditor.name)))
    elif step.do == "sheets":
        _require_same_sheet(study, step)
        pairs = worksheets.write_sheets(
            study, step.grader, top.state / "sheets" / study.name / str(study.round) / step.grader
        )
        say(f"{pairs} pairs on the sheet of {step.grader}")
    elif step.do == "collect":
        taken = returns.collect(study, step.grader, file, name=step.file)
        say(str(taken))
        if taken.refused:
            raise Refused(
                f"A recorded answer of {study.name} is refused", taken.refused, untouched="The good rows were taken."
            )
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
    """The recorded steps of an experiment, each with the file that it names. Refused, with every fault and its line,
    where there are none or one can't be done.
    """
    path = folder / RECORDED
    if not path.is_file():
        raise Refused(f"{folder.name} holds no recorded study", [Fault(RECORDED, "no file", "a list of steps")])
    items, lines = read_list(read_text(path, name=RECORDED, inside=folder).data.decode(), RECORDED)
    steps: list[Step] = []
    faults: list[Fault] = []
    for i, item in enumerate(items):
        try:
            steps.append(Step.model_validate(item))
        except ValidationError as error:
            faults += [_fault(dict(e), i, lines) for e in error.errors(include_url=False)]
            continue
        faults += _undoable(steps[-1], folder, f"{RECORDED}, line {lines[(str(i),)]}")
    if not items:
        faults.append(Fault(RECORDED, "an empty list", "steps"))
    if faults:
        raise Refused(f"{RECORDED} can't be replayed", faults)
    return steps


def _fault(error: dict[str, Any], i: int, lines: Lines) -> Fault:
    at = tuple(map(str, (i, *error["loc"])))
    line = next(lines[at[:n]] for n in range(len(at), 0, -1) if at[:n] in lines)
    where = f"{RECORDED}, line {line}" + (f", key {at[-1]}" if len(at) > 1 else "")
    if error["type"] == "missing":
        return Fault(where, "no such key", "it to be there", f"Add {at[-1]!r}.")
    if error["type"] == "extra_forbidden":
        return Fault(where, "a key that no step has", f"one of {', '.join(Step.model_fields)}")
    expected = str(error["msg"]).removeprefix("Input should be ").removeprefix("Input should have ")
    return Fault(where, shown(error["input"]), expected)


def _undoable(step: Step, folder: Path, where: str) -> list[Fault]:
    faults = [
        Fault(f"{where}, key {key}", f"nothing, to {step.do}", "it to be there", f"Add {key!r}.")
        for key in NEEDS.get(step.do, ())
        if not getattr(step, key).strip()
    ]
    if step.file:
        file = folder / step.file
        if not file.resolve().is_relative_to(folder.resolve()):
            faults.append(Fault(f"{where}, key file", shown(step.file), "a file inside the experiment's folder"))
        elif not file.is_file():
            faults.append(Fault(f"{where}, key file", f"{shown(step.file)}, which is not there", "a file"))
    return faults
