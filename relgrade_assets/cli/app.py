"""The command line's frame: the list of commands, each loaded when it is called, and one place where a refusal becomes
a message and an exit code.

Imports neither Dagster, pandera, pydantic nor SQLAlchemy, so that `relgrade score` starts fast.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from relgrade_assets.errors import Fault, NotThere, Refused

if TYPE_CHECKING:
    from relgrade_assets.io.home import Home

OK, NOT_PASSED, BAD_INPUT, WAITING = 0, 1, 2, 3
"""Exit codes: all done; a gate or check refused; bad input, nothing changed; people or files are still waited for."""
INTERRUPTED = 130
"""Exit code of a run that was stopped from the keyboard, as shells have it."""

COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("experiments", "Make a new experiment that validates."),
    "check": ("experiments", "List every fault of an experiment and its files at once."),
    "export-queries": ("experiments", "Give the sampled queries to whoever runs the arms."),
    "run": ("graph", "Make every table that is ready to be made."),
    "status": ("experiments", "Show what is ready, waited for and refused."),
    "review": ("people", "Write the intents out for review, or take the reviews."),
    "spot-check": ("people", "Write the sheet on which a person checks queries' types."),
    "sheets": ("people", "Write a grader's blind sheet."),
    "desk": ("desk", "Serve the pages on which people grade."),
    "desk-link": ("desk", "Make a person's link to the desk, or end it."),
    "collect": ("people", "Take a grader's answers."),
    "trace": ("trace", "Follow one grade of the key back to the log."),
    "export": ("export", "Write the published key as another tool takes it."),
    "grade": ("grade", "Run the model graders for what is missing."),
    "revise": ("people", "Log a revision and open the next round."),
    "staleness": ("refresh", "Say whether the key still fits, and what a refresh costs."),
    "refresh": ("refresh", "Open the next round on changed inputs."),
    "score": ("score", "Measure runs against judgments, without a study."),
    "agree": ("agree", "Say how far graders agree, without a study."),
    "plan": ("plan", "Say what a number of queries can tell, before spending."),
    "replay": ("replay", "Replay a recorded study from its folder."),
    "demo": ("replay", "Replay the study that ships, up to its frozen key."),
}
"""Every command: the module of this package that holds it, and what `relgrade --help` says of it."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class _Commands(TyperGroup):
    """The commands by name; one is imported when it is asked for."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        listed: dict[str, Any] = dict.fromkeys(COMMANDS)
        self.commands = {**listed, **self.commands}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS and self.commands[cmd_name] is None:
            import_module(f"relgrade_assets.cli.{COMMANDS[cmd_name][0]}")
            self.commands.update({n: c for n, c in typer.main.get_group(app).commands.items() if c is not None})
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


app = typer.Typer(
    name="relgrade",
    cls=_Commands,
    help="Make a retrieval answer key that can be trusted: sampled, pooled, graded blind, audited, frozen, measured.",
    epilog="Exit codes: 0 done; 1 a gate or check refused; 2 bad input, nothing changed; 3 people or files are waited "
    "for.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The experiment: a folder under data/experiments.")]
_home: dict[str, Path | None] = {"top": None}


def _version(asked: bool) -> None:
    if asked:
        from relgrade_assets import __version__

        typer.echo(f"relgrade {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    home: Annotated[
        Path | None,
        typer.Option(
            "--home",
            metavar="DIR",
            help="The top folder; found upwards from here where not given.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Say which version this is.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    _home["top"] = home


def home() -> Home:
    """The home the command works in."""
    from relgrade_assets.io.home import find_home

    return find_home(_home["top"])


def say(line: str = "") -> None:
    """A line on standard output, control characters escaped."""
    typer.echo(_plain(line))


def warn(line: str) -> None:
    """A line on standard error, control characters escaped."""
    typer.echo(_plain(line), err=True)


def stop(code: int) -> NoReturn:
    """End with an exit code."""
    raise typer.Exit(code)


def main() -> None:
    """Run the command line; a refusal is printed whole on standard error and exits with 2, waiting with 3."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that can't show a character still gets the rest
    try:
        if not _plainly(sys.argv[1:]):
            app(prog_name="relgrade")
    except Refused as refused:
        warn(refused.message())
        sys.exit(BAD_INPUT)
    except NotThere as missing:
        warn(f"Waiting: {missing.waiting}.")
        sys.exit(WAITING)
    except OSError as error:
        where = str(error.filename or "the system")
        fault = Fault(where, error.strerror or str(error), "a file or folder that this user may use")
        untouched = "What was taken before stands; mend this and run it again, and nothing is done twice."
        warn(Refused(f"{where} can't be used", [fault], untouched=untouched).message())
        sys.exit(BAD_INPUT)


def _plainly(words: list[str]) -> bool:
    """Run `relgrade score` without loading pydantic, which running the library loads; False where it must say more."""
    if words[:1] != ["score"]:
        return False
    from relgrade_assets.cli.plain_call import plain_arguments
    from relgrade_assets.cli.score import score

    given = plain_arguments(score, words[1:])
    if given is not None:
        score(**given)
    return given is not None


def _plain(text: str) -> str:
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
