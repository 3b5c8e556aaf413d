"""The command line's frame: one Typer app, and one place where a refusal becomes a message and an exit code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from relgrade_assets.errors import Refused
from relgrade_assets.io.home import Home, find_home
from relgrade_assets.io.study import NotThere

OK, NOT_PASSED, BAD_INPUT, WAITING = 0, 1, 2, 3
"""Exit codes: all done; a gate or check refused; bad input, nothing changed; people or files are still waited for."""

app = typer.Typer(
    name="relgrade",
    help="Make a retrieval answer key that can be trusted: sampled, pooled, graded blind, audited, frozen, measured.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(help="The experiment: a folder under data/experiments.")]
_home: dict[str, Path | None] = {"top": None}


@app.callback()
def _options(
    home: Annotated[
        Path | None,
        typer.Option("--home", help="The top folder; found upwards from here where not given.", file_okay=False),
    ] = None,
) -> None:
    _home["top"] = home


def home() -> Home:
    """The home the command works in."""
    return find_home(_home["top"])


def say(line: str = "") -> None:
    """A line on standard output."""
    typer.echo(line)


def stop(code: int) -> NoReturn:
    """End with an exit code."""
    raise typer.Exit(code)


def main() -> None:
    """Run the command line; a refusal is printed whole on standard error and exits with 2, waiting with 3."""
    try:
        app(standalone_mode=True)
    except Refused as refused:
        print(refused.message(), file=sys.stderr)
        sys.exit(BAD_INPUT)
    except NotThere as missing:
        print(f"Waiting: {missing.waiting}.", file=sys.stderr)
        sys.exit(WAITING)
