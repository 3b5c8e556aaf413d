"""Known commands that read a prompt and print an answer: one table, a row each (P21).

How a command is called, asked for its version, and how its reply is taken out of what it prints belongs here. Running
it is `agent.py`'s; whether a reply is the asked rows is `methods/reply.py`'s.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass

from relgrade_assets.io import local_model
from relgrade_assets.protocol.design import Run

SYSTEM = "You are a careful relevance grader. You follow the prompt's instruction and answer with JSON Lines alone."


class NoReply(Exception):
    """What a command printed holds no reply, and why: the agent itself failed."""


def plain(printed: str) -> str:
    """The reply of a command that prints it and nothing else."""
    return printed


def claude_result(printed: str) -> str:
    """The `result` of `claude -p --output-format json`: one object with type, subtype, is_error and result."""
    try:
        said = json.loads(printed)
    except (ValueError, RecursionError):
        raise NoReply("no JSON object, as --output-format json prints one") from None
    if not isinstance(said, dict) or said.get("type") != "result":
        raise NoReply("no object of type result")
    if said.get("is_error") is not False or said.get("subtype") != "success":
        raise NoReply(f"the agent reports an error of subtype {str(said.get('subtype'))[:60]}")
    if not isinstance(said.get("result"), str):
        raise NoReply("an object of type result without its text")
    return str(said["result"])


@dataclass(frozen=True, slots=True)
class Preset:
    """One known command; `model` is put before the model's name; `keeps` are variables of its plan, never taken out;
    `needs` are modules of this Python that it can't do without.
    """

    name: str
    argv: tuple[str, ...]
    version: tuple[str, ...]
    model: tuple[str, ...]
    reply: Callable[[str], str]
    keeps: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


LOCAL = (sys.executable, "-P", "-m", local_model.__name__)

PRESETS: dict[str, Preset] = {
    row.name: row
    for row in (
        # Claude Code 2.1: no tools, no session kept, no servers, the user's and projects' settings left out.
        Preset(
            "claude",
            (
                *("claude", "-p", "--output-format", "json", "--tools", "", "--no-session-persistence"),
                *("--strict-mcp-config", "--setting-sources", "local", "--system-prompt", SYSTEM),
            ),
            ("claude", "--version"),
            ("--model",),
            claude_result,
            keeps=("CLAUDE_CODE_OAUTH_TOKEN",),
        ),
        # llm 0.27: prints the reply alone; nothing logged.
        Preset("llm", ("llm", "--no-stream", "--no-log"), ("llm", "--version"), ("--model",), plain),
        # A model that runs here, from packages: docs/how-to/local-model.md.
        Preset("local-model", LOCAL, (*LOCAL, "--version"), ("--model",), plain, needs=local_model.MODULES),
    )
}


@dataclass(frozen=True, slots=True)
class Command:
    """What is run for a grader: program and arguments, how its version is asked, and how its reply is read."""

    argv: tuple[str, ...]
    version: tuple[str, ...]
    model: str
    reply: Callable[[str], str]
    keeps: tuple[str, ...]
    needs: tuple[str, ...] = ()


def command_of(run: Run) -> Command:
    """The command that a design's `run` asks for."""
    if isinstance(run.command, str):
        row = PRESETS[run.command]
        argv = (*row.argv, *((*row.model, run.model) if run.model else ()))
        return Command(argv, row.version, run.model or "", row.reply, (*row.keeps, *run.allow_environment), row.needs)
    return Command(run.command, (run.command[0], "--version"), run.model or "", plain, run.allow_environment)
