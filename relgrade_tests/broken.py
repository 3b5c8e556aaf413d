"""Ways to break the tiny study, and how a command that meets one is held to account: what it must say, how it must end,
and that nothing changed on disk.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from command_line import FOLDER, LEDGER, at, changes, content, ledger_rows, relgrade

UNTOUCHED = re.compile(
    "Nothing was changed|Nothing was read|Nothing was frozen|It was left as it is|The good r|unchanged"
    "|nothing is recorded"
)
FILES = {
    "rubric.md": "rubric",
    "log.csv": "log",
    "corpus.jsonl": "corpus",
    "intents.csv": "intents",
    "runs/old.trec": "run",
}
Spoil = Callable[[Path], object]


@dataclass(frozen=True)
class Broken:
    """One way to break the tiny study: what is done to its top folder, the command, and what it must say."""

    name: str
    spoil: Spoil
    says: tuple[str, ...]
    command: tuple[str, ...] = ("check", "tiny")
    code: int = 2
    stage: str = "fresh"
    taken: int = 0
    """Good rows of an answer or review file, which are taken all the same."""
    kept: int = 0
    """Rows of an answer file that the ledger keeps as refused."""

    def __repr__(self) -> str:
        return self.name.replace(" ", "-")


def file(top: Path, name: str) -> Path:
    return top / FOLDER / name


def write(name: str, data: str | bytes) -> Spoil:
    def spoil(top: Path) -> None:
        path = file(top, name)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())

    return spoil


def swap(name: str, old: str, new: str, *, every: bool = False) -> Spoil:
    def spoil(top: Path) -> None:
        path = file(top, name)
        text = path.read_text("utf-8")
        assert old in text, (old, text)
        path.write_text(text.replace(old, new, -1 if every else 1), encoding="utf-8")

    return spoil


def design(old: str, new: str) -> Spoil:
    return swap("experiment.yaml", old, new)


def line(name: str, number: int, change: Callable[[str], str]) -> Spoil:
    """Change one line of a file."""

    def spoil(top: Path) -> None:
        path = file(top, name)
        lines = path.read_text("utf-8").splitlines(keepends=True)
        lines[number - 1] = change(lines[number - 1].rstrip("\n")) + "\n"
        path.write_text("".join(lines), encoding="utf-8")

    return spoil


def score(value: str) -> Callable[[str], str]:
    def changed(text: str) -> str:
        cells = text.split(" ")
        cells[4] = value
        return " ".join(cells)

    return changed


def every_line(name: str, change: Callable[[int, list[str]], list[str]]) -> Spoil:
    """Change the cells of every line of a run."""

    def spoil(top: Path) -> None:
        path = file(top, name)
        rows = [text.split(" ") for text in path.read_text("utf-8").splitlines()]
        path.write_text("".join(" ".join(change(i, row)) + "\n" for i, row in enumerate(rows)), encoding="utf-8")

    return spoil


def both(*spoils: Spoil) -> Spoil:
    def spoil(top: Path) -> None:
        for one in spoils:
            one(top)

    return spoil


def link(name: str, to: str) -> Spoil:
    def spoil(top: Path) -> None:
        file(top, name).unlink(missing_ok=True)
        file(top, name).symlink_to(to)

    return spoil


def by_type(types: str, parts: str) -> Spoil:
    """Cut the strata by the log's own type, which stands in its third column."""

    def spoil(top: Path) -> None:
        text = file(top, "experiment.yaml").read_text("utf-8")
        head, rest = text.split("strata:\n")
        tail = rest[rest.index("corpus:") :]
        head = head.replace("count: count}", "count: count, type: type}")
        text = f"{head}strata:\n  by: type\n  parts:\n{parts}{tail}"
        file(top, "experiment.yaml").write_text(text, encoding="utf-8")
        rows = file(top, "log.csv").read_text("utf-8").splitlines()
        kinds = ["type", *(types.split() * 12)]
        file(top, "log.csv").write_text("".join(f"{r},{k}\n" for r, k in zip(rows, kinds, strict=False)), "utf-8")

    return spoil


GRAPH = ("run", "replay", "sheets", "review", "spot-check")
"""Commands that make tables first where there are none, so that Dagster keeps records of its own."""


def refused_in_words(broken: Broken, top: Path) -> None:
    """The command ends as it must and says all it must, without a traceback; no file and no row changes but those that
    it takes or keeps as refused.
    """
    at(broken.stage, top)
    broken.spoil(top)
    command = [part.replace("{top}", str(top)) for part in broken.command]
    apart = (".relgrade/dagster", "dagster.yaml", "workspace.yaml") if command[0] in GRAPH else ()
    ledger_apart = (str(LEDGER),) if command[0] in (*GRAPH, "collect") else ()
    before, rows = content(top, without=(*apart, *ledger_apart)), ledger_rows(top)
    ran = relgrade(top, *command)
    assert ran.code == broken.code, ran.said
    assert [text for text in broken.says if text not in ran.said] == [], ran.said
    assert UNTOUCHED.search(ran.said), ran.said
    assert changes(before, content(top, without=(*apart, *ledger_apart))) == {}, ran.said
    after = ledger_rows(top)
    grown = {table: len(after[table]) - len(rows.get(table, ())) for table in after}
    assert grown.pop("refusals", 0) == broken.kept, (grown, ran.said)
    assert grown.get("answers", 0) + grown.get("reviews", 0) == broken.taken, grown
    if not broken.taken:
        rows.pop("refusals", None)
        after.pop("refusals", None)
        assert changes(rows, after) == {}, ran.said
