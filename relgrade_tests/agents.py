"""A study whose grader is a command, prepared up to its sheets, and what its ledger says afterwards: for tests of the
grading run. The command is `fake_grader.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import driving
import polars as pl
import pytest
import tiny
import yaml
from tiny import NAME, study_of

from relgrade_assets.io import attempts
from relgrade_assets.io.home import LEDGER
from relgrade_assets.io.ledger import Whose
from relgrade_assets.io.study import Study

WHO = "ann"
TESTS = Path(__file__).resolve().parent
SHEETS = ("queries", "query_sample", "intents", "runs", "contributions", "pools", "audit_selection", "audit_sample",
          "sheets", "audit_sheets")  # fmt: skip
RUNNER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from tiny import home_of
from relgrade_assets.io.grading_run import grade
from relgrade_assets.io.home import Home
from relgrade_assets.io.study import open_study
top = Path(sys.argv[1])
study = open_study(Home(top, top / ".relgrade", sys.argv[2]), "tiny")
print("open", flush=True)
last = grade(study, "ann", tell=lambda p: print("told", flush=True))
print(f"end {last.graded} {last.of}", flush=True)
"""


def fake(**options: Any) -> list[str]:
    """The fake's command; a Python that starts fast."""
    words = [str(w) for name, value in options.items() for w in (f"--{name}", value)]
    return [sys.executable, "-S", "-E", str(TESTS / "fake_grader.py"), *words]


def behave(monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    """How a fake that is run from now on behaves, whatever its command says."""
    monkeypatch.setenv("FAKE_GRADER", " ".join(f"--{name} {value}" for name, value in options.items()))


def pace(top: Path, **run: Any) -> None:
    """Change the pace of the grader's command, which makes no table old."""
    path = top / "data" / "experiments" / NAME / "experiment.yaml"
    design = yaml.safe_load(path.read_text("utf-8"))
    design["graders"][0]["run"].update(run)
    path.write_text(yaml.safe_dump(design, sort_keys=False), encoding="utf-8")


def prepare(top: Path, command: list[str], *, queries: int = 12, chunks: int = 10, **run: Any) -> Study:
    """Write a study of `queries` times `chunks` pairs, intents reviewed and sheets made; nothing is graded."""
    design = yaml.safe_load(tiny.DESIGN)
    whole = {"command": command, "concurrency": 4, "timeout_seconds": 5, "pause_seconds": 0.02, **run}
    design["graders"] = [{"name": WHO, "family": "model-a", "kind": "model", "run": whole}]
    design["depth"] = chunks
    del design["deviations"]
    design["strata"]["parts"] = [{"name": "all", "target": queries, "tiers": ["head", "torso", "tail"]}]
    if chunks < 10:
        design["deviations"] = [{"code": "shallow_depth", "reason": "small enough to know by heart"}]
    folder = tiny.write_experiment(top, design=yaml.safe_dump(design, sort_keys=False))
    _widen(folder, top, queries, chunks)
    told = driving.run(top, "queries", "query_sample")
    assert told.ok, told.text
    tiny.review_all(top)
    told = driving.run(top, *SHEETS)
    assert told.ok and "audit_sheets" in told.made, told.text
    study = study_of(top)
    assert study.load("sheets").height == queries * chunks
    return study


def _widen(folder: Path, top: Path, queries: int, chunks: int) -> None:
    """As many queries as are asked for, each with a pool of `chunks`: both arms find the same, the other way round."""
    texts = [f"where is thing {n}" for n in range(1, queries + 1)]
    (folder / "log.csv").write_text(
        "query,count\n" + "".join(f"{q},{max(1, 60 - n)}\n" for n, q in enumerate(texts)), encoding="utf-8"
    )
    corpus = [
        json.dumps({"chunk_id": f"c{n:04}", "header": f"Chunk {n}", "text": f"This is thing {n}."})
        for n in range(1, queries + chunks + 1)
    ]
    (folder / "corpus.jsonl").write_text("\n".join(corpus) + "\n", encoding="utf-8")
    secret = study_of(top).secret
    ids = {q: tiny.keyed_id("q", secret, q) for q in texts}
    (folder / "intents.csv").write_text(
        "query_id,query,form,intent,author\n"
        + "".join(f"{i},{q},where,Where is {q[9:]} written?,cleo\n" for q, i in ids.items()),
        encoding="utf-8",
    )
    for arm, order in (("old", range(chunks)), ("new", reversed(range(chunks)))):
        steps = list(order)
        lines = [
            f"{i} Q0 c{tiny.number(q) + step:04} {rank} {100 - rank} {arm}\n"
            for q, i in ids.items()
            for rank, step in enumerate(steps, start=1)
        ]
        (folder / "runs" / f"{arm}.trec").write_text("".join(lines), encoding="utf-8")


def start(top: Path, url: str) -> subprocess.Popen[str]:
    """The grading run in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(top), url, str(TESTS)],
        cwd=TESTS.parent,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, LEDGER: url},
    )


@dataclass(frozen=True)
class Account:
    """What the ledger and the fake's journal say of a grader's round."""

    answers: pl.DataFrame
    revisions: int
    prompts: pl.DataFrame
    attempts: pl.DataFrame
    exhausted: frozenset[tuple[str, str]]
    journal: list[dict[str, Any]]

    @property
    def lost(self) -> pl.DataFrame:
        """Prompts that came to no end: asked again because something was killed."""
        ended = self.attempts.filter(pl.col("outcome").is_in(["accepted", "exhausted"]))
        return self.prompts.join(ended, on="prompt_digest", how="anti")


def account(study: Study, journal: Path) -> Account:
    """Read both."""
    whose = Whose(study.name, study.round, WHO)
    lines = journal.read_text("utf-8").splitlines() if journal.exists() else []
    count = study.ledger.read(lambda c: c.exec_driver_sql("SELECT count(*) FROM answers").scalar())
    return Account(
        study.ledger.answers(study.name, study.round, [WHO]),
        int(str(count)),
        attempts.asked(study.ledger, whose),
        attempts.tried(study.ledger, whose),
        attempts.exhausted(study.ledger, whose),
        [json.loads(line) for line in lines],
    )


def check(study: Study, journal: Path, *, kills: int, concurrency: int) -> Account:
    """P20, P23: at the end every pair is graded exactly once or reported exhausted; no row that the fake did not
    answer; every attempt that was not accepted on record; no more asked again than the kills explain.
    """
    a = account(study, journal)
    sheet = set(study.load("sheets").filter(pl.col("grader") == WHO).select("query_id", "chunk_id").rows())
    graded = set(a.answers.select("query_id", "chunk_id").rows())
    assert graded <= sheet and sheet - graded <= a.exhausted
    assert a.revisions == a.answers.height == len(graded), "none is doubled"
    said = {e["nonce"]: e["rows"] for e in a.journal if e["kind"] == "good"}
    rows = {(r["query_id"], r["chunk_id"]): r for r in a.answers.to_dicts()}
    accepted = a.attempts.filter(pl.col("outcome") == "accepted").join(a.prompts, on="prompt_digest", how="left")
    from_prompts: Counter[tuple[str, str]] = Counter()
    for prompt in accepted.to_dicts():
        for row in said[prompt["nonce"]]:
            pair = row["query_id"], row["chunk_id"]
            from_prompts[pair] += 1
            assert {key: rows[pair][key] for key in ("grade", "reason")} == {k: row[k] for k in ("grade", "reason")}
    assert set(from_prompts) == graded and set(from_prompts.values()) <= {1}, "each from one accepted reply"
    printed = Counter(e["nonce"] for e in a.journal)
    known = Counter(
        a.attempts.filter(pl.col("outcome") != "exhausted").join(a.prompts, on="prompt_digest", how="left")["nonce"]
    )
    lost = set(a.lost["nonce"])
    for nonce, times in printed.items():
        assert times - known[nonce] <= (1 if nonce in lost else 0), "every reply is on record, save those killed"
    assert len(lost) <= kills * concurrency
    return a


def wait_for(happened: Callable[[], bool], seconds: float = 30.0) -> None:
    """Until it has."""
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, f"not within {seconds} seconds"
        time.sleep(0.05)
