"""Blindness at the desk (P13, P18, P24): everything that can reach a grader or the auditor is the same bytes in two
worlds that differ in all that they may not know.

In the other world arms have other names, every rank and score is another, chunks were found by another number of arms,
and the other people answered otherwise. What is the same in both can tell nothing of it.
"""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import desk_study
import polars as pl
import pytest
import tiny
from starlette.testclient import TestClient

from relgrade_assets.desk.app import STATIC, make_app
from relgrade_assets.desk.offline import page as offline_page
from relgrade_assets.desk.sessions import Buckets, Desk
from relgrade_assets.io import grading_run
from relgrade_assets.io.grading_run import Progress
from relgrade_assets.io.links import Role
from relgrade_assets.io.tool_sheets import SHEET_TOOLS
from relgrade_assets.io.worksheets import sheet_of, write_sheets
from relgrade_assets.methods.prompt import render
from relgrade_assets.methods.sheets import BLIND, blind_rows

AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
GRADERS = ("ann", "dan", desk_study.AGENT)
PEOPLE: list[tuple[str, Role]] = [("ann", "grader"), ("bob", "auditor")]
ROW = {"i", *BLIND, "row_digest", "answer"}
BROKEN = ("runs/old.trec", "corpus.jsonl", "rubric.md", "log.csv", "intents.csv", "experiment.yaml")
Seen = dict[str, tuple[int, list[tuple[str, str]], bytes]]


def world(top: Path, name: str) -> Path:
    """The study in one world, where the others have answered; in each world otherwise."""
    desk_study.copy("sheets", top, world=name, graders=GRADERS)
    # One key signs in both, so that links and page secrets are no difference.
    (top / ".relgrade" / "desk").mkdir(exist_ok=True)
    (top / ".relgrade" / "desk" / "key").write_bytes(b"k" * 64)
    (top / ".relgrade" / "secrets").mkdir(exist_ok=True)
    (top / ".relgrade" / "secrets" / "tiny.sheets").write_text("s" * 64)
    return top


def others_answer(top: Path, name: str, but: str) -> None:
    for who in sorted({*GRADERS, "bob"} - {but}):
        step = 1 if name == "mine" else 2
        tiny.grade_all(top, who, by=lambda q, c, step=step: (tiny.number(c) * step) % 3, at_most=40 * step)


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.kept: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        # How long an answer took is another each time.
        self.kept.append(re.sub(r"[0-9.]+ ?ms", "ms", f"{record.name} {record.getMessage()}"))


def walk(top: Path, person: str, role: Role) -> Seen:
    """Every page, answer and refusal that a person can get: status, headers and body, by what was asked; every file,
    in every tool's form; the prompts of the same rows; and what the server logged meanwhile.
    """
    lines = Lines()
    root = logging.getLogger()
    before = root.level
    root.addHandler(lines)
    root.setLevel(logging.DEBUG)
    try:
        seen = _walk(top, person, role)
    finally:
        root.removeHandler(lines)
        root.setLevel(before)
    kept = [line for line in lines.kept if line.startswith("relgrade")]
    return {**seen, "log": (200, [], "\n".join(kept).encode())}


def _walk(top: Path, person: str, role: Role) -> Seen:
    desk = Desk(tiny.home_of(top), url="http://127.0.0.1", clock=lambda: AT)
    desk._asked = desk._tried = Buckets(1.0, 1_000_000)  # how fast this machine is makes no difference
    token = desk.links.issue("tiny", person, role, at=AT, days=2)
    client = TestClient(make_app(desk), base_url="http://127.0.0.1")
    seen: Seen = {}

    def note(name: str, response: Any) -> None:
        seen[name] = (response.status_code, sorted(response.headers.items()), response.content)

    for path in (f"/in/{token}", "/", "/e/tiny/grade", "/e/tiny/marks", "/e/tiny/rows?from=0&n=50"):
        note(path, client.get(path))
    for path in (*(f"/static/{n}" for n in STATIC), "/e/tiny/rows?from=50&n=50", "/e/tiny/rows?from=-1&n=x"):
        note(path, client.get(path))
    for path in ("..", "%2e%2e/x"):
        note(f"/e/tiny/{path}", client.get(f"/e/tiny/{path}"))
    for path in sorted(r.path for r in client.app.routes):  # type: ignore[attr-defined]
        asked = path.format(experiment="tiny", name="x", **{"token": "x.y"})
        note(f"any {path}", client.get(asked))
        note(f"any {path}?", client.get(f"{asked}?page=1&open&query=thing&chunk=c01&from=0&n=3"))
        note(f"head {path}", client.head(asked))
    found = re.search(rb'id="data">(.*?)</script>', seen["/e/tiny/grade"][2])
    assert found
    csrf = json.loads(found[1])["csrf"]
    rows = json.loads(seen["/e/tiny/rows?from=0&n=50"][2])["rows"]
    for n, (row, grade) in enumerate(zip(rows, (1, 0, 9, None, 2), strict=False)):
        p19 = {"query_id": row["query_id"], "chunk_id": row["chunk_id"], "reason": "says so", "grade": grade}
        body = {"row": p19, "row_digest": row["row_digest"], "key": f"k{n}"}
        headers = {"X-Relgrade-CSRF": csrf, "Content-Type": "application/json"}
        note(f"answer {n}", client.post("/e/tiny/answer", content=json.dumps(body), headers=headers))
    reviewed = {"query_id": rows[0]["query_id"], "row_digest": rows[0]["row_digest"], "verdict": "ok", "note": ""}
    for path in sorted(r.path for r in client.app.routes if "POST" in r.methods):  # type: ignore[attr-defined]
        for n, sent in enumerate(({}, reviewed, [], {"row": {}, "row_digest": "x", "key": "y"})):
            headers = {"X-Relgrade-CSRF": csrf, "Content-Type": "application/json"}
            note(
                f"post {n} {path}",
                client.post(path.format(experiment="tiny"), content=json.dumps(sent), headers=headers),
            )
    for path in ("/", "/e/tiny/marks", "/e/tiny/rows?from=0&n=50"):
        note(f"{path} after", client.get(path))
    for n, what in enumerate(BROKEN):
        file = top / "data" / "experiments" / "tiny" / what
        whole = file.read_bytes()
        file.write_bytes(b"broken")
        for path in ("/", "/e/tiny/grade", "/e/tiny/marks", "/e/tiny/rows?from=0&n=5", "/e/tiny/review"):
            note(f"broken {n}: {path}", client.get(path))
        for path, sent in (("answer", body), ("review/row", reviewed)):
            headers = {"X-Relgrade-CSRF": csrf, "Content-Type": "application/json"}
            note(f"broken {n}: {path}", client.post(f"/e/tiny/{path}", content=json.dumps(sent), headers=headers))
        file.write_bytes(whole)
    study = tiny.study_of(top)
    seen["sheet.html"] = (200, [], offline_page(study, person))
    write_sheets(study, person, top / "handed", page=seen["sheet.html"][2])
    for tool in SHEET_TOOLS:
        write_sheets(study, person, top / "handed-for" / tool, tool=tool)
    for path in sorted((top / "handed").rglob("*")) + sorted((top / "handed-for").rglob("*")):
        seen[f"file {path.relative_to(top)}"] = (200, [], path.read_bytes() if path.is_file() else b"")
    for (query,), part in sheet_of(study, person).group_by("query_id", maintain_order=True):
        prompt = render(blind_rows(part)[:5], rubric=study.rubric, top_grade=study.design.scale.top, nonce="0" * 32)
        seen[f"prompt {query}"] = (200, [], prompt.encode())
    return seen


@pytest.mark.parametrize(("person", "role"), PEOPLE)
def test_all_that_reaches_a_grader_is_the_same_bytes_in_another_world(person: str, role: Role, tmp_path: Path) -> None:
    """P13, P18."""
    seen = {}
    for name in desk_study.ARMS:
        top = world(tmp_path / name, name)
        others_answer(top, name, person)
        seen[name] = walk(top, person, role)
    mine, other = seen["mine"], seen["other"]
    assert list(mine) == list(other) and len(mine) > 40
    assert [name for name in mine if mine[name] != other[name]] == []
    assert sum(1 for status, _, _ in mine.values() if status == 200) > 25


def spied_on(top: Path, spied: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What reached the agent, a line a process, and what was told meanwhile; nonce and folder's own name apart."""
    spied.unlink(missing_ok=True)
    monkeypatch.setenv("SPIED", str(spied))
    monkeypatch.setenv("FAKE", str(Path(__file__).parent / "fake_grader.py"))
    told: list[Progress] = []
    last = grading_run.grade(tiny.study_of(top), desk_study.AGENT, tell=told.append)
    assert last.graded == last.of == 96
    lines = [re.sub(r"relgrade-agent-\w+", "folder", line) for line in spied.read_text().splitlines()]
    lines = [re.sub(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])", "nonce", line) for line in lines]
    return lines + [repr((p.grader, p.graded, p.of, p.graded_before, p.asked, p.failed, p.why)) for p in told]


def test_all_that_reaches_an_agent_is_the_same_bytes_in_another_world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P13, P18, P21: prompts in their order, arguments, environment, folder, and what is told while it runs; the nonce
    and the folder's own name apart.
    """
    seen = {}
    for name in desk_study.ARMS:
        top = world(tmp_path / name, name)
        others_answer(top, name, desk_study.AGENT)
        seen[name] = spied_on(top, tmp_path / "spied", monkeypatch)
    mine, other = seen["mine"], seen["other"]
    assert len(mine) == len(other) > 20
    assert [n for n, (a, b) in enumerate(zip(mine, other, strict=True)) if a != b] == []
    assert not re.search("|".join([*desk_study.ARMS["mine"], *desk_study.ARMS["other"]]), "".join(mine + other))


def test_the_two_worlds_differ_in_all_that_is_hidden(tmp_path: Path) -> None:
    """Else the test above would prove nothing."""
    held = {}
    for name in desk_study.ARMS:
        study = tiny.study_of(desk_study.copy("sheets", tmp_path / name, world=name, graders=GRADERS))
        held[name] = study.load("contributions")
    mine, other = held["mine"], held["other"]
    pair = ["query_id", "chunk_id"]
    assert mine.select(pair).unique().sort(pair).equals(other.select(pair).unique().sort(pair))
    assert set(mine["arm"]).isdisjoint(other["arm"]) and set(mine["score"]).isdisjoint(other["score"])
    counts = [h.group_by(pair).agg(pl.len()).sort(pair)["len"] for h in (mine, other)]
    assert (counts[0] != counts[1]).sum() > counts[0].len() / 4
    ranks = [h.group_by(pair).agg(pl.col("rank").min()).sort(pair)["rank"] for h in (mine, other)]
    assert (ranks[0] != ranks[1]).sum() > ranks[0].len() / 2


@pytest.mark.parametrize(("person", "role"), PEOPLE)
def test_no_arm_rank_score_or_other_person_is_written_anywhere(person: str, role: Role, tmp_path: Path) -> None:
    """P13: by the words themselves, and rows have P18's fields alone."""
    top = world(tmp_path, "mine")
    others_answer(top, "mine", person)
    seen = walk(top, person, role)
    everything = b"\n".join(
        name.encode() + b"\n" + repr(headers).encode() + b"\n" + body for name, (_, headers, body) in seen.items()
    ).decode()
    words = {*desk_study.ARMS["mine"], "lexical", "contribution", "shallow_depth", "old.trec", "A tiny study"}
    words |= {w for w in (*GRADERS, "bob") if w != person} | {"people-a", "people-b", "model-a"}
    scores = {f"{desk_study.SCORES['mine'] - r / 8:g}" for r in range(1, 6)}
    for word in words | scores:
        assert not re.search(rf"(?<![\w.]){re.escape(word)}(?![\w.])", everything), word
    assert not re.search(r"\b(rank|score|arms?|depth|pool)\b", everything, re.IGNORECASE)
    for name, (_, _, body) in seen.items():
        if name.startswith("/e/tiny/rows?from=") and b'"rows"' in body:
            for row in json.loads(body)["rows"]:
                assert set(row) == ROW, name


def test_order_is_not_the_arms_order(tmp_path: Path) -> None:
    """P14: the sheet's positions against ranks; by hash they are uncorrelated."""
    study = tiny.study_of(desk_study.copy("sheets", tmp_path, graders=GRADERS))
    best = study.load("contributions").group_by("query_id", "chunk_id").agg(pl.col("rank").min())
    for who in (*GRADERS, "bob"):
        both = sheet_of(study, who).join(best, on=["query_id", "chunk_id"])
        assert abs(both.select(pl.corr("position", "rank", method="spearman")).item()) < 0.3
