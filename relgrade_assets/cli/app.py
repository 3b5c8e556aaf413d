"""The command line's frame: the list of commands, each loaded when it is called.

How lines are said and refusals become exit codes is terminal.py's. Imports neither Dagster, pandera nor SQLAlchemy.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from relgrade_assets.cli.terminal import BAD_INPUT, INTERRUPTED, NOT_PASSED, OK, WAITING, say, warn

if TYPE_CHECKING:
    from relgrade_assets.io.home import Home

__all__ = [
    "BAD_INPUT",
    "COMMANDS",
    "INTERRUPTED",
    "NOT_PASSED",
    "OK",
    "WAITING",
    "Name",
    "app",
    "home",
    "say",
    "stop",
    "warn",
]

COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("experiments", "Make a new experiment that validates."),
    "check": ("experiments", "List every fault of an experiment and its files at once."),
    "export-queries": ("experiments", "Give the sampled queries to whoever runs the arms."),
    "run": ("graph", "Make every table that is ready to be made."),
    "status": ("experiments", "Show what is ready, waited for and refused."),
    "review": ("people", "Write the intents out for review, or take the reviews."),
    "spot-check": ("people", "Write the sheet on which a person checks queries' types."),
    "calibrate": ("calibrate", "Lead several people through a calibration."),
    "sheets": ("people", "Write a grader's blind sheet."),
    "desk": ("desk", "Serve the pages on which people grade."),
    "desk-link": ("desk", "Make a person's link to the desk, or end it."),
    "collect": ("people", "Take a grader's answers."),
    "trace": ("trace", "Follow one grade of the key back to the log."),
    "export": ("export", "Write the published key as another tool takes it."),
    "grade": ("grade", "Run the model graders for what is missing."),
    "correct": ("correct", "Make a post-hoc key from other grades, for information."),
    "verify": ("verify", "Find out whether a folder or an experiment was altered."),
    "sign": ("verify", "Sign the manifest of a published folder."),
    "revise": ("people", "Log a revision and open the next round."),
    "staleness": ("refresh", "Say whether the key still fits, and what a refresh costs."),
    "refresh": ("refresh", "Open the next round on changed inputs."),
    "score": ("score_command", "Measure runs against judgments, without a study."),
    "agree": ("agree", "Say how far graders agree, without a study."),
    "plan": ("plan", "Say what a number of queries can tell, before spending."),
    "replay": ("replay", "Replay a recorded study from its folder."),
    "demo": ("replay", "Replay the study that ships, up to its frozen key."),
}
"""Every command: the module of this package that holds it, and what `relgrade --help` says of it."""


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


def stop(code: int) -> NoReturn:
    """End with an exit code."""
    raise typer.Exit(code)
