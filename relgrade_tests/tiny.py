"""One experiment on disk, small enough to know by heart, and the people in it: for tests that go through the whole
graph.

Twelve queries in three strata, thirty chunks, two arms at depth 5. `truth` says what an honest grader answers; a test
that wants
disagreement passes another.
"""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from relgrade_assets.io.home import Home
from relgrade_assets.io.returns import collect, take_reviews
from relgrade_assets.io.study import Study, open_study
from relgrade_assets.io.worksheets import sheet_of, write_review_sheet, write_sheets
from relgrade_assets.methods.sheets import blind_rows
from relgrade_assets.protocol.canonical import keyed_id

NAME = "tiny"
AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
QUERIES = [f"where is thing {n}" for n in range(1, 13)]
COUNTS = [60, 50, 40, 30, 9, 8, 7, 6, 4, 3, 2, 1]
CHUNKS = [f"c{n:02}" for n in range(1, 31)]
Truth = Callable[[str, str], int | None]

DESIGN = """\
relgrade: 1
name: tiny
title: A tiny study
seed: "7"
scale: 0-2
query_log: {file: log.csv, columns: {query: query, count: count}}
strata:
  by: tier
  torso_to_rank: 8
  parts:
    - {name: head, target: 4, tiers: [head]}
    - {name: torso, target: 4, tiers: [torso]}
    - {name: tail, target: 4, tiers: [tail]}
corpus: {path: corpus.jsonl}
arms:
  - {name: old, family: lexical, run: runs/old.trec}
  - {name: new, family: dense, run: runs/new.trec}
depth: 5
intents: {file: intents.csv}
graders:
  - {name: ann, family: people-a, kind: human}
auditor: {name: bob, family: people-b, kind: human}
deviations:
  - {code: shallow_depth, reason: small enough to know by heart}
  - {code: reused_audit, reason: small enough to be audited whole}
"""


ELSEWHERE: dict[Path, str] = {}
"""Ledgers of homes that are not in their own folder: top folder to database URL."""


def home_of(top: Path) -> Home:
    """A home in a folder of the test's own."""
    own = f"sqlite:///{top / '.relgrade' / 'ledger.sqlite'}"
    return Home(top, top / ".relgrade", ELSEWHERE.get(top, own))


def number(text: str) -> int:
    """The number that a query or a chunk ends in."""
    return int("".join(c for c in text if c.isdigit()))


def truth(query: str, chunk: str) -> int:
    """What an honest grader answers: thing n is in chunk n (2), and mentioned in the chunk after it (1)."""
    apart = number(chunk) - number(query)
    return 2 if apart == 0 else 1 if apart == 1 else 0


def write_experiment(top: Path, *, design: str = DESIGN, name: str = NAME, without: tuple[str, ...] = ()) -> Path:
    """Write the experiment's files into data/experiments/<name>; those in `without` are left out. Needs no run of the
    graph.
    """
    folder = top / "data" / "experiments" / name
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    (folder / "experiment.yaml").write_text(design.replace("name: tiny\n", f"name: {name}\n"), encoding="utf-8")
    ids = query_ids(top, name=name) if "private: true" in design else query_ids()
    files = {
        "rubric.md": "# Rubric\n\n2 answers it, 1 helps, 0 doesn't help.\n",
        "log.csv": "query,count\n" + "".join(f"{q},{n}\n" for q, n in zip(QUERIES, COUNTS, strict=True)),
        "corpus.jsonl": "".join(
            json.dumps({"chunk_id": c, "header": f"Chunk {number(c)}", "text": f"This is thing {number(c)}."}) + "\n"
            for c in CHUNKS
        ),
        "intents.csv": "query_id,query,form,intent,author\n"
        + "".join(f"{i},{q},where,Where is thing {number(q)} written?,cleo\n" for q, i in ids.items()),
        "runs/old.trec": _run(ids, "old", [0, 5, 6, 7, 8, 9]),
        "runs/new.trec": _run(ids, "new", [1, 0, 5, 2, 3, 4]),
    }
    for file, text in files.items():
        if file not in without:
            (folder / file).write_text(text, encoding="utf-8")
    return folder


def query_ids(top: Path | None = None, *, name: str = NAME) -> dict[str, str]:
    """Query text to id, as relgrade makes it: from the seed, or from the secret of the private study in `top`."""
    secret = study_of(top, name=name).secret if top else "7"
    return {q: keyed_id("q", secret, q) for q in QUERIES}


def _run(ids: dict[str, str], arm: str, steps: list[int]) -> str:
    lines = []
    for query, query_id in ids.items():
        for rank, step in enumerate(steps, start=1):
            chunk = CHUNKS[(number(query) - 1 + step) % len(CHUNKS)]
            lines.append(f"{query_id} Q0 {chunk} {rank} {10 - rank} {arm}\n")
    return "".join(lines)


def study_of(top: Path, *, name: str = NAME) -> Study:
    """The study as it stands, at a fixed time."""
    return open_study(home_of(top), name, clock=lambda: AT)


def review_all(top: Path, *, name: str = NAME) -> None:
    """The auditor reviews every intent with ok."""
    study = study_of(top, name=name)
    path = top / "review.csv"
    write_review_sheet(study, path)
    rows = pl.read_csv(path, schema_overrides={"verdict": pl.String, "note": pl.String})
    rows.with_columns(verdict=pl.lit("ok"), note=pl.lit("")).write_csv(path)
    taken = take_reviews(study, path, name="review.csv", reviewer="bob")
    assert not taken.refused


def grade_all(
    top: Path, who: str, *, by: Truth = truth, name: str = NAME, at_most: int | None = None, later: int = 0
) -> int:
    """`who` answers the first `at_most` rows (all where None) of their present sheet, and puts the last `later` of
    these off. Returns the rows taken.
    """
    study = study_of(top, name=name)
    write_sheets(study, who, top / "out" / name / who)
    rows = [answer(r, by, hand=f"{who}, round {study.round}: ") for r in blind_rows(sheet_of(study, who))[:at_most]]
    for row in rows[len(rows) - later :]:
        row |= {"grade": None, "judge_later": True}
    return hand_in(top, who, rows, name=name)


def hand_in(top: Path, who: str, rows: list[dict[str, object]], *, name: str = NAME) -> int:
    """`who` hands P19 rows in. Returns the rows taken; none may be refused."""
    path = top / f"{who}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    taken = collect(study_of(top, name=name), who, path, name=path.name)
    assert not taken.refused, taken.refused[:3]
    return taken.new + taken.changed + taken.same


def answer(row: dict[str, str], by: Truth = truth, *, hand: str = "") -> dict[str, object]:
    """A P19 row for a row of a sheet; unrateable where `by` gives no grade. `hand` begins the reason: people don't find
    the same words.
    """
    grade = by(row["query"], row["chunk_id"])
    return {
        "query_id": row["query_id"],
        "chunk_id": row["chunk_id"],
        "reason": f"{hand}chunk is about thing {number(row['chunk_id'])}",
        "grade": grade,
        **({"unrateable": True} if grade is None else {}),
    }


def settings(top: Path) -> None:
    """Dagster's settings in a top folder of the test's own, as they ship, and this process pointed at them."""
    for name in ("dagster.yaml", "workspace.yaml"):
        (top / name).write_bytes((Path(__file__).parent.parent / name).read_bytes())
    os.environ["DAGSTER_HOME"] = str(top)
