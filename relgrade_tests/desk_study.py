"""The tiny study with two human graders and a human auditor, at the stages that the desk is tried on; and a desk on it.

Each stage is made once a process and copied. In `other` arms, ranks, scores and the number of arms that found a chunk
are all different, and the pools are the same.
"""

from __future__ import annotations

import atexit
import json
import logging
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import sqlalchemy as sa
import tiny
import uvicorn

from relgrade_assets.cli.run import run
from relgrade_assets.desk.app import make_app
from relgrade_assets.desk.sessions import Desk
from relgrade_assets.io.ledger import METADATA
from relgrade_assets.io.links import Role
from relgrade_assets.io.study import ledger_at, utc_now

ARMS = {"mine": ("zyxlexical", "wvudense"), "other": ("qqqhybrid", "pppsparse")}
STEPS = {"mine": ([0, 5, 6, 7, 8], [1, 0, 5, 2, 3]), "other": ([8, 7, 6, 1, 2], [3, 5, 0, 7, 8])}
SCORES = {"mine": 731.25, "other": 52.5}
OWNER = "olga"
AGENT = "moda"
"""A grader that is run: it keeps all that reaches it in the file that SPIED names, and answers as the fake does."""
SPY = """
import io, json, os, runpy, sys
said = sys.stdin.read()
seen = [sys.argv, dict(os.environ), os.getcwd(), os.listdir("."), said]
open(os.environ["SPIED"], "a").write(json.dumps(seen) + chr(10))
sys.stdin = io.StringIO(said)
runpy.run_path(os.environ["FAKE"], run_name="__main__")
"""
RUN = {"command": [sys.executable, "-S", "-E", "-c", SPY], "concurrency": 1, "attempts": 1}


def design(world: str = "mine", graders: tuple[str, ...] = ("ann", "dan"), scale: str = "0-2") -> str:
    """The design with arms that no other text contains."""
    text = tiny.DESIGN
    for was, now in zip(("old", "new"), ARMS[world], strict=True):
        text = text.replace(f"name: {was},", f"name: {now},")
    listed = "".join(f"  - {{name: {g}, family: people-a, kind: human}}\n" for g in graders if g != AGENT)
    listed += f"  - {{name: {AGENT}, family: model-a, run: {json.dumps(RUN)}}}\n" if AGENT in graders else ""
    text = text.replace("  - {name: ann, family: people-a, kind: human}\n", listed)
    text = text.replace("scale: 0-2", f"scale: {scale}")
    if len(graders) > 1:
        text += "  - {code: no_calibration, reason: they are made up for tests}\n"
    return text + "audit: {at_least: 12}\n"


def _write(top: Path, world: str, graders: tuple[str, ...]) -> None:
    folder = tiny.write_experiment(top, design=design(world, graders))
    ids = tiny.query_ids(top)
    for file, arm, steps in zip(("old", "new"), ARMS[world], STEPS[world], strict=True):
        lines = []
        for query, query_id in ids.items():
            for rank, step in enumerate(steps, start=1):
                chunk = tiny.CHUNKS[(tiny.number(query) - 1 + step) % len(tiny.CHUNKS)]
                lines.append(f"{query_id} Q0 {chunk} {rank} {SCORES[world] - rank / 8} {arm}\n")
        (folder / "runs" / f"{file}.trec").write_text("".join(lines), encoding="utf-8")
    tiny.settings(top)


def _made(top: Path) -> None:
    tables = ["intents", "runs", "contributions", "pools", "audit_selection", "audit_sample", "sheets", "audit_sheets"]
    done = run(tiny.home_of(top), tiny.NAME, tables=tables)
    assert done.ok, done


@cache
def _stage(stage: str, world: str, graders: tuple[str, ...]) -> Path:
    top = Path(tempfile.mkdtemp(prefix="relgrade-desk-"))
    atexit.register(shutil.rmtree, top, ignore_errors=True)
    if stage == "sample":
        _write(top, world, graders)
        done = run(tiny.home_of(top), tiny.NAME, tables=["queries", "query_sample", "spot_check"])
        assert done.ok, done
        return top
    if stage == "sheets":
        shutil.copytree(_stage("sample", world, graders), top, dirs_exist_ok=True)
        tiny.review_all(top)
        _made(top)
        return top
    shutil.copytree(_stage("sheets", world, graders), top, dirs_exist_ok=True)
    for who in graders:
        tiny.grade_all(top, who)
    # The auditor differs on some: one step apart, and by a whole scale.
    off = {"c01": 1, "c05": 2, "c09": 1}
    tiny.grade_all(top, "bob", by=lambda q, c: off.get(c, tiny.truth(q, c)))
    tables = ["grades", "audit_grades", "agreement", "disagreements", "verdicts"]
    done = run(tiny.home_of(top), tiny.NAME, tables=tables)
    assert not done.refused, done
    return top


def copy(
    stage: str, to: Path, *, world: str = "mine", graders: tuple[str, ...] = ("ann", "dan"), ledger: str | None = None
) -> Path:
    """A home of the test's own at a stage: `sample` (intents to review), `sheets` (to grade), `verdicts` (judged).
    With `ledger` its ledger is there: an empty database, into which every row is taken over.
    """
    shutil.copytree(_stage(stage, world, graders), to, dirs_exist_ok=True)
    tiny.settings(to)
    if ledger is not None:
        before = ledger_at(tiny.home_of(to).ledger_url)
        tiny.ELSEWHERE[to] = ledger
        for table in METADATA.sorted_tables:
            columns = [c for c in table.columns if c.name != "id"]
            order = table.primary_key.columns
            rows = before.read(
                lambda c, t=columns, o=order: [dict(r) for r in c.execute(sa.select(*t).order_by(*o)).mappings()]
            )  # type: ignore[misc]
            if rows:
                ledger_at(ledger).write(lambda c, t=table, r=rows: c.execute(sa.insert(t), r))  # type: ignore[misc]
    return to


@contextmanager
def served(top: Path) -> Iterator[tuple[str, Desk]]:
    """A desk on a free port of this machine: its address, and the desk."""
    desk = Desk(tiny.home_of(top), url="http://127.0.0.1")
    logging.getLogger("relgrade.desk").setLevel(logging.INFO)
    config = uvicorn.Config(make_app(desk), host="127.0.0.1", port=0, access_log=False, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    for _ in range(400):
        if server.started:
            break
        time.sleep(0.025)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}", desk
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join(10)


def link(desk: Desk, person: str, role: Role = "grader", *, name: str = tiny.NAME, days: int = 2) -> str:
    """The path of a new link."""
    return "/in/" + desk.links.issue(name, person, role, at=utc_now(), days=days)
