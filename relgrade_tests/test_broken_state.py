"""A broken ledger, recording, name or state folder, files that may not be read, and a key that was altered (P33):
refused in words, with nothing changed on disk and no traceback.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from broken import (
    FILES,
    UNTOUCHED,
    Broken,
    Spoil,
    file,
    refused_in_words,
    write,
)
from command_line import LEDGER, at, content, ledger_rows, nothing_changes, relgrade


def ledger(data: bytes) -> Spoil:
    def spoil(top: Path) -> None:
        (top / LEDGER).parent.mkdir(exist_ok=True)
        (top / LEDGER).write_bytes(data)

    return spoil


def sql(*statements: str) -> Spoil:
    def spoil(top: Path) -> None:
        with closing(sqlite3.connect(top / LEDGER)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    return spoil


def alter_event(top: Path) -> None:
    """Change an event's body, past the triggers that keep the ledger append-only."""
    with closing(sqlite3.connect(top / LEDGER)) as connection, connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f'DROP TRIGGER "{name}"')
        connection.execute("UPDATE events SET body = 'nothing' WHERE seq = 1")


LEDGERS = [
    Broken(
        "ledger that is no database",
        ledger(b"not a database, not at all" * 100),
        ("ledger.sqlite can't be used", "not a database", "a copy"),
    ),
    Broken(
        "ledger that is no database, status",
        ledger(b"not a database, not at all" * 100),
        ("ledger.sqlite can't be used",),
        ("status", "tiny"),
    ),
    Broken(
        "ledger that is no database, run",
        ledger(b"not a database, not at all" * 100),
        ("ledger.sqlite can't be used",),
        ("run", "tiny"),
    ),
    Broken(
        "ledger of a newer form",
        sql("UPDATE relgrade_ledger_version SET version_num = '9999'"),
        ("of a newer relgrade", "'9999'", "use that relgrade, or a newer one"),
        stage="sampled",
    ),
    Broken(
        "another program's database",
        lambda top: (LEDGER.parent, ledger(b"")(top), sql("CREATE TABLE songs (title TEXT)")(top)),
        ("not a ledger of relgrade", "the table songs", "name another"),
    ),
    Broken(
        "an altered event",
        alter_event,
        ("The event log of tiny can't be read", "event 1", "restore the ledger from a copy"),
        stage="graded",
    ),
    Broken(
        "a file for the state folder", lambda top: (top / ".relgrade").write_text(""), (".relgrade",), ("run", "tiny")
    ),
    Broken("a folder for the ledger", lambda top: (top / LEDGER).mkdir(parents=True), ("ledger.sqlite can't be used",)),
]


def steps(text: str) -> Spoil:
    return write("recorded.yaml", text)


REPLAY = ("replay", "tiny")
RECORDED = [
    Broken(
        "nothing recorded",
        lambda top: None,
        ("tiny holds no recorded study", "recorded.yaml", "a list of steps"),
        REPLAY,
    ),
    Broken("no YAML recorded", steps("- do: [run\n"), ("recorded.yaml, line", "expected YAML"), REPLAY),
    Broken(
        "no list recorded",
        steps("do: run\n"),
        ("recorded.yaml, line 1", "keys and values at the top", "a list"),
        REPLAY,
    ),
    Broken("an empty list recorded", steps("[]\n"), ("recorded.yaml", "an empty list"), REPLAY),
    Broken("0 bytes recorded", steps(""), ("recorded.yaml", "0 bytes"), REPLAY),
    Broken(
        "alias bomb recorded",
        steps("- &a [x, x]\n- &b [*a, *a]\n- [*b, *b]\n"),
        ("recorded.yaml, line 2", "an alias"),
        REPLAY,
    ),
    Broken(
        "steps that can't be done",
        steps(
            "- {do: run, at: yesterday}\n"
            "- {do: review, at: 2026-03-01T12:00:00, file: review.csv}\n"
            "- {do: dance, at: 2026-03-01T12:00:00Z}\n"
            "- {do: sheets, at: 2026-03-01T12:00:00Z, grader: ann, why: no}\n"
            "- {do: collect, at: 2026-03-01T12:00:00Z, grader: ann, file: ../../../ann.jsonl}\n"
            "- {do: collect, at: 2026-03-01T12:00:00Z, grader: ann, file: nowhere.jsonl}\n"
            "- {do: revise, at: 2026-03-01T12:00:00Z}\n"
            "- run\n"
        ),
        (
            "8 faults",
            "recorded.yaml, line 1, key at",
            "line 2, key at",
            "line 3, key do",
            "line 4, key why",
            "line 5, key file: found '../../../ann.jsonl'; expected a file inside",
            "line 6, key file: found 'nowhere.jsonl', which is not there",
            "line 7, key cause",
            "line 8",
        ),
        REPLAY,
    ),
    Broken(
        "a sheet that nobody graded",
        steps("- {do: sheets, at: 2026-03-01T12:00:00Z, grader: ann, sheet: abc}\n"),
        ("not the one that was graded", "recorded.yaml", "a sheet with digest", "abc"),
        REPLAY,
        stage="asked",
    ),
]

NAMES = [
    Broken(
        "unknown experiment",
        lambda top: None,
        ("There is no experiment 'tinny'", "one of: tiny", "relgrade init tinny"),
        ("check", "tinny"),
    ),
    Broken(
        "name that leads out",
        lambda top: None,
        ("'../tiny' can't be the name", "small letters, digits"),
        ("status", "../tiny"),
    ),
    Broken(
        "name of a new one that leads out",
        lambda top: None,
        ("'../x' can't be the name", "small letters"),
        ("init", "../x"),
    ),
    Broken("empty name", lambda top: None, ("'' can't be the name",), ("run", "")),
    Broken("name in capitals", lambda top: None, ("'TINY' can't be the name",), ("check", "TINY")),
    Broken("name with a control character", lambda top: None, ("can't be the name", "\\x1b"), ("check", "ti\x1bny")),
    Broken(
        "a name that is taken",
        lambda top: None,
        ("There is an experiment 'tiny' already", "Take another name"),
        ("init", "tiny"),
    ),
    Broken(
        "a design that is a folder",
        lambda top: (file(top, "experiment.yaml").unlink(), file(top, "experiment.yaml").mkdir()),
        ("no experiment.yaml",),
    ),
]

ALL = [*LEDGERS, *RECORDED, *NAMES]


@pytest.mark.parametrize("broken", ALL, ids=repr)
def test_a_broken_experiment_is_refused_in_words(broken: Broken, tmp_path: Path) -> None:
    refused_in_words(broken, tmp_path / "top")


@pytest.mark.parametrize(("name", "named"), [("key.jsonl", "key.jsonl"), ("SHA256SUMS", "key.json")])
def test_p33_a_key_altered_after_the_freeze_is_named_and_nothing_published(
    name: str, named: str, tmp_path: Path
) -> None:
    top = at("frozen", tmp_path / "top")
    path = top / ".relgrade" / "keys" / "tiny" / "round-1" / name
    path.chmod(0o644)
    path.write_bytes(b"0" * 64 + path.read_bytes()[64:])
    published = content(top / ".relgrade" / "published")
    ran = relgrade(top, "run", "tiny", "--job", "publish")
    assert ran.code in (1, 2) and f"round-1/{named}" in ran.err and "altered" in ran.err, ran.said
    assert content(top / ".relgrade" / "published") == published


@contextmanager
def as_somebody_without_rights() -> Iterator[None]:
    """Root may read and write anything; for a while this process is nobody."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_top() -> Iterator[Path]:
    """A top folder that anybody can enter, unlike pytest's own."""
    top = Path(tempfile.mkdtemp(prefix="relgrade-open-"))
    yield top
    for path in (top, *top.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(top)


@pytest.mark.parametrize("name", ["experiment.yaml", *FILES])
def test_a_file_that_may_not_be_read_is_named(name: str, open_top: Path) -> None:
    top = at("fresh", open_top)
    relgrade(top, "check", "tiny")  # every module is loaded while this process may read them
    top.chmod(0o755)
    file(top, name).chmod(0)
    before = content(top) if not os.geteuid() else None
    with as_somebody_without_rights():
        ran = relgrade(top, "check", "tiny")
    assert ran.code == 2 and name in ran.err and "Permission denied" in ran.err, ran.said
    assert "expected a" in ran.err and "Nothing was changed" in ran.err
    assert before is None or content(top) == before


def test_a_top_folder_that_may_not_be_entered_is_named(open_top: Path) -> None:
    top = at("fresh", open_top)
    relgrade(top, "check", "tiny")
    top.chmod(0o600)
    with as_somebody_without_rights():
        ran = relgrade(top, "check", "tiny")
    assert ran.code == 2 and "can't be used: 1 fault" in ran.err and "Permission denied" in ran.err
    assert str(top) in ran.err and "this user may use" in ran.err and "nothing is done twice" in ran.err


@pytest.mark.parametrize("command", ["collect", "review", "revise"])
def test_a_state_folder_that_may_not_be_written_is_named(command: str, open_top: Path) -> None:
    top = at("issued" if command == "collect" else "graded", open_top)
    arguments = {
        "collect": ("--grader", "ann", top / "ann.jsonl"),
        "review": (top / "review.csv",),
        "revise": ("--cause", "drift"),
    }[command]
    text = (top / "review.csv").read_text("utf-8")
    (top / "review.csv").write_text(text.replace(",ok,", ",change,"), encoding="utf-8")
    relgrade(top, "status", "tiny")
    for path in sorted((top / ".relgrade").rglob("*"), reverse=True):
        path.chmod(0o555 if path.is_dir() else 0o444)
    (top / ".relgrade").chmod(0o555)
    top.chmod(0o755)
    rows = ledger_rows(top)
    with as_somebody_without_rights():
        ran = relgrade(top, command, "tiny", *arguments)
    assert ran.code == 2 and re.search("ledger.sqlite can't be used|audit sheets of round 1", ran.err), ran.said
    assert UNTOUCHED.search(ran.err)
    assert ledger_rows(top) == rows


def test_dagsters_settings_that_are_none_are_named(tmp_path: Path) -> None:
    top = at("sampled", tmp_path / "top")
    (top / "dagster.yaml").write_text("nonsense: 1\n", encoding="utf-8")
    with nothing_changes(top):
        ran = relgrade(top, "run", "tiny")
    assert ran.code == 2 and "Dagster can't start" in ran.err and "dagster.yaml" in ran.err
    assert "nonsense" in ran.err and "Move it away" in ran.err and len(ran.err) < 600
