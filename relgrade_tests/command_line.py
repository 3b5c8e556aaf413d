"""The command line in this process as a person meets it: what it printed, its exit code, and what it left on disk.

Also the tiny study at the stages that commands are tried on, each made once a process.
"""

from __future__ import annotations

import atexit
import hashlib
import io
import json
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import tiny

from relgrade_assets.cli.main import main

LEDGER = Path(".relgrade") / "ledger.sqlite"
FOLDER = Path("data") / "experiments" / tiny.NAME


@dataclass(frozen=True)
class Ran:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.out + self.err


def relgrade(top: Path, *arguments: str | Path) -> Ran:
    """Run a command on a top folder. A traceback fails the test, whatever it was about."""
    out, err = io.StringIO(), io.StringIO()
    before = sys.argv
    sys.argv = ["relgrade", "--home", str(top), *map(str, arguments)]
    code = 0
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.argv = before
    ran = Ran(code, out.getvalue(), err.getvalue())
    assert "Traceback" not in ran.said, ran.said
    return ran


def expect(code: int, top: Path, *arguments: str | Path) -> Ran:
    """Run a command that must end with this exit code."""
    ran = relgrade(top, *arguments)
    assert ran.code == code, ran.said
    return ran


def content(top: Path, *, without: tuple[str, ...] = ()) -> dict[str, str]:
    """Every file under `top` by its digest, links by where they lead; folders that are empty too."""
    found = {}
    for path in sorted(top.rglob("*")):
        name = path.relative_to(top).as_posix()
        if any(name.startswith(w) for w in without):
            continue
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif not path.is_file():
            found[name] = "folder" if path.is_dir() else "device"
        else:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def ledger_rows(top: Path, *, without: tuple[str, ...] = ()) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table of the ledger; nothing where there is none, or where it is none."""
    path = top / LEDGER
    if not path.is_file():
        return {}
    with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as ledger:
        try:
            names = [n for (n,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
            return {n: ledger.execute(f'SELECT * FROM "{n}"').fetchall() for n in names if n not in without}
        except sqlite3.DatabaseError:
            return {}


@contextmanager
def nothing_changes(top: Path, *, refusals_apart: bool = False) -> Iterator[None]:
    """Nothing under `top` changes: no file, no link, no row. With `refusals_apart` the ledger may keep refused rows."""
    without = (str(LEDGER),) if refusals_apart else ()
    rows_apart = ("refusals",) if refusals_apart else ()
    files, rows = content(top, without=without), ledger_rows(top, without=rows_apart)
    yield
    changed = changes(files, content(top, without=without)) | changes(rows, ledger_rows(top, without=rows_apart))
    assert changed == {}, changed


def changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[object, object]]:
    """What differs between two of `content` or `ledger_rows`."""
    names = sorted({*before, *after})
    return {n: (before.get(n), after.get(n)) for n in names if before.get(n) != after.get(n)}


def fill_in(path: Path, verdict: str = "ok") -> None:
    """Write a verdict into every row of a review sheet."""
    frame = pl.read_csv(path, infer_schema=False)
    frame.with_columns(verdict=pl.lit(verdict)).write_csv(path)


def answers(sheet: Path, to: Path, by: tiny.Truth = tiny.truth) -> Path:
    """Answer every row of a sheet that was written out, in words of `to`'s own."""
    rows = [tiny.answer(json.loads(line), by, hand=f"{to.stem}: ") for line in sheet.read_text("utf-8").splitlines()]
    to.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return to


def _fresh(top: Path) -> None:
    tiny.write_experiment(top)


def _sampled(top: Path) -> None:
    expect(3, top, "run", tiny.NAME)


def _reviewed(top: Path) -> None:
    expect(0, top, "review", tiny.NAME, "--write", top / "review.csv")
    fill_in(top / "review.csv")
    expect(0, top, "review", tiny.NAME, top / "review.csv")


def _asked(top: Path) -> None:
    expect(3, top, "run", tiny.NAME)


def _issued(top: Path) -> None:
    for who in ("ann", "bob"):
        expect(0, top, "sheets", tiny.NAME, "--grader", who, "--out", top / who)
        answers(top / who / "sheet.jsonl", top / f"{who}.jsonl")


def _graded(top: Path) -> None:
    for who in ("ann", "bob"):
        expect(0, top, "collect", tiny.NAME, "--grader", who, top / f"{who}.jsonl")


def _frozen(top: Path) -> None:
    expect(0, top, "run", tiny.NAME)


_STAGES: dict[str, Callable[[Path], None]] = {
    "fresh": _fresh,
    "sampled": _sampled,
    "reviewed": _reviewed,
    "asked": _asked,
    "issued": _issued,
    "graded": _graded,
    "frozen": _frozen,
}


@cache
def _made(stage: str) -> Path:
    names = list(_STAGES)
    top = Path(tempfile.mkdtemp(prefix=f"relgrade-{stage}-"))
    atexit.register(shutil.rmtree, top, ignore_errors=True)
    if stage != names[0]:
        shutil.copytree(_made(names[names.index(stage) - 1]), top, dirs_exist_ok=True)
    _STAGES[stage](top)
    return top


def at(stage: str, top: Path, *, dagster: bool = False) -> Path:
    """A copy of the tiny study at a stage, in `top`; with Dagster's own state where the test runs the graph further."""
    left = None if dagster else shutil.ignore_patterns("dagster")
    shutil.copytree(_made(stage), top, dirs_exist_ok=True, ignore=left)
    return top
