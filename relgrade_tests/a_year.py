"""A year of a study that lives on: twelve months in which corpus, arms, embedding and rubric change, as frames and as
files. What should happen is the tests' to say.

The study is `tiny`'s: its twelve queries, its thirty chunks to begin with. An arm finds what is relevant first, then by
chance; chance is a hash, so that every run of the year is the same.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl
import tiny
from tiny import QUERIES, number

DEPTH = 5
RUBRIC = "# Rubric\n\n2 answers it, 1 helps, 0 doesn't help.\n"
STRATUM = {q: "head" if i < 4 else "torso" if i < 8 else "tail" for i, q in enumerate(QUERIES)}


def _chance(*parts: object) -> float:
    return int(hashlib.sha256(json.dumps([str(p) for p in parts]).encode()).hexdigest()[:12], 16) / 16**12


def truth(query: str, chunk: str) -> int:
    """What an honest grader answers: as in `tiny` for the first thirty chunks, seldom relevant for later ones."""
    if number(chunk) <= 30:
        return tiny.truth(query, chunk)
    return 1 if _chance("truth", query, chunk) < 0.05 else 0


@dataclass(frozen=True)
class World:
    """What there is in a month: chunks with their texts, arms with family and embedding, the rubric."""

    corpus: dict[str, str] = field(default_factory=lambda: {f"c{n:02}": f"This is thing {n}." for n in range(1, 31)})
    arms: dict[str, tuple[str, str]] = field(
        default_factory=lambda: {"old": ("lexical", "none"), "new": ("dense", "v1")}
    )
    rubric: str = RUBRIC

    def grown(self, n: int) -> World:
        """`n` chunks more."""
        more = range(len(self.corpus) + 1, len(self.corpus) + 1 + n)
        return replace(self, corpus=self.corpus | {f"c{i:02}": f"This is thing {i}." for i in more})

    def edited(self, *chunks: str) -> World:
        """These chunks say the same in other words."""
        return replace(self, corpus=self.corpus | {c: f"{self.corpus[c]} So it is." for c in chunks})

    def ranking(self, arm: str, query: str) -> list[str]:
        """What an arm finds, best first."""
        _, embedding = self.arms[arm]
        score = {c: truth(query, c) + 0.9 * _chance(arm, embedding, query, c) for c in self.corpus}
        return sorted(score, key=lambda c: (-score[c], c))[:DEPTH]

    def runs(self, ids: dict[str, str]) -> pl.DataFrame:
        """The Runs table."""
        rows = [
            (arm, query_id, chunk, rank, 10.0 - rank)
            for arm in self.arms
            for query, query_id in ids.items()
            for rank, chunk in enumerate(self.ranking(arm, query), start=1)
        ]
        schema = {"arm": pl.String, "query_id": pl.String, "chunk_id": pl.String, "rank": pl.Int64, "score": pl.Float64}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def corpus_frame(self) -> pl.DataFrame:
        """chunk_id, header, text."""
        rows = [(c, f"Chunk {number(c)}", t) for c, t in self.corpus.items()]
        return pl.DataFrame(rows, schema=["chunk_id", "header", "text"], orient="row")

    def write(self, folder: Path) -> None:
        """The month's files over those of the experiment."""
        arms = "".join(
            f"  - {{name: {a}, family: {family}, run: runs/{a}.trec, index: {{embedding: {embedding}}}}}\n"
            for a, (family, embedding) in self.arms.items()
        )
        head, rest = tiny.DESIGN.split("arms:\n")
        rest = rest[rest.index("depth:") :].replace(
            "deviations:\n", "audit: {at_least: 3}\ndeviations:\n  - {code: small_audit, reason: known by heart}\n"
        )
        (folder / "experiment.yaml").write_text(f"{head}arms:\n{arms}{rest}", encoding="utf-8")
        (folder / "rubric.md").write_text(self.rubric, encoding="utf-8")
        rows = [{"chunk_id": c, "header": f"Chunk {number(c)}", "text": t} for c, t in self.corpus.items()]
        (folder / "corpus.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
        for arm, part in self.runs(tiny.query_ids()).group_by("arm"):
            lines = [f"{q} Q0 {c} {r} {s} {arm[0]}\n" for _, q, c, r, s in part.rows()]
            (folder / "runs" / f"{arm[0]}.trec").write_text("".join(lines), encoding="utf-8")


def year() -> list[World]:
    """The world at the freeze, and in each of the twelve months after it."""
    w = [World()]
    w.append(w[-1].grown(1).edited("c04"))  # 1
    w.append(w[-1].grown(1).edited("c10", "c11"))  # 2
    w.append(replace(w[-1], arms=w[-1].arms | {"graph": ("graph", "none")}))  # 3: an arm of a new family
    w.append(w[-1].grown(3).edited("c20"))  # 4
    w.append(w[-1].grown(5))  # 5: 25% more than at the last refresh
    w.append(replace(w[-1], arms=w[-1].arms | {"new": ("dense", "v2")}))  # 6: another embedding
    w.append(w[-1].edited("c05", "c06"))  # 7
    w.append(replace(w[-1], rubric=f"{RUBRIC}\nA neighbouring thing is 1.\n"))  # 8
    w.append(w[-1].grown(4).edited("c07"))  # 9
    w.append(replace(w[-1], arms=w[-1].arms | {"fused": ("dense", "v2")}))  # 10: an arm of a known family
    w.append(w[-1].grown(12))  # 11
    w.append(w[-1].edited("c08"))  # 12
    return w


NEW_PAIRS = "pool again, judge the new pairs alone"
NEXT_EMBEDDING = "pool the affected strata again (head, tail, torso), carry unchanged pairs, rate 20% of those again"


@dataclass(frozen=True)
class Refresh:
    """A month's refresh: each due trigger with its action, the percent of carried pairs that is rated again, and pairs
    that one grader is asked for and that are saved by carry-over.
    """

    actions: dict[str, str]
    judged: int
    saved: int
    rerate: int = 0


REFRESHES: dict[int, Refresh] = {
    3: Refresh({"new_arm": NEW_PAIRS, "unjudged": "judge the unjudged"}, 39, 78),
    5: Refresh({"corpus_growth": NEW_PAIRS}, 30, 85),
    6: Refresh({"embedding": NEXT_EMBEDDING, "unjudged": "judge the unjudged"}, 40, 74, rerate=20),
    8: Refresh({"rubric": "open a new round and judge the whole pool"}, 114, 0),
    10: Refresh({"new_arm": NEW_PAIRS, "unjudged": "judge the unjudged"}, 32, 100),
    11: Refresh({"corpus_growth": NEW_PAIRS, "monthly_unjudged": "schedule judging"}, 24, 87),
}
"""Month -> what is to be done; in the other months nothing is. A new arm and another embedding bring chunks that nobody
judged, and so does a corpus that grew by half as much again as the limit.
"""
JUDGED, SAVED = sum(r.judged for r in REFRESHES.values()), sum(r.saved for r in REFRESHES.values())
"""Pairs that one grader is asked for in the six refreshes of the year, and pairs that are carried: 279 and 424."""


def actions(frame: pl.DataFrame) -> dict[str, str]:
    """Each due trigger of a Staleness table, with its action."""
    return dict(frame.filter(pl.col("state") == "due").select("trigger", "action").iter_rows())
