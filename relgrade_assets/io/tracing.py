"""Tracing one graded pair back to where it comes from: key row, grade events, sheets, pool entry, the arms that found
it, the sampled query, its rows of the log (P13, P33).

A trace says which arm found what, so it is given only while no round is being graded. What it finds is proved against
the stored digests; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any

import polars as pl
import sqlalchemy as sa

from relgrade_assets.errors import Fault, NotThere, Refused
from relgrade_assets.io import events
from relgrade_assets.io.frames import read_label, read_table
from relgrade_assets.io.ledger import answers as ledger_answers
from relgrade_assets.io.ledger import attempts, prompts
from relgrade_assets.io.standing import standing_of
from relgrade_assets.io.study import Study
from relgrade_assets.io.voiding import examine
from relgrade_assets.methods.grading import combine
from relgrade_assets.methods.key import canonical_bytes
from relgrade_assets.methods.normalise import normalised
from relgrade_assets.methods.pooling import chunk_digest

Row = dict[str, Any]
PROMPT = "prompt "
"""How the source of a model's answer begins (io/attempts.py)."""


@dataclass(frozen=True, slots=True)
class Link:
    """One step of the way back: what it is, the table or file it stands in with that one's digest, and its rows."""

    name: str
    stands_in: str
    digest: str
    rows: tuple[Row, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Proof:
    """One thing that was tried on the way, and whether it holds."""

    text: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """The way of one pair from the key back to the log, the links in that order. `standing` is what has to be said of
    the key (P35), "" where it is valid.
    """

    experiment: str
    round: int
    query_id: str
    chunk_id: str
    standing: str
    links: tuple[Link, ...]
    proofs: tuple[Proof, ...]

    def plain(self) -> Row:
        """As what JSON holds."""
        return asdict(self)


def trace_of(study: Study, query: str, chunk_id: str, *, round: int | None = None) -> Trace:
    """The trace of a pooled pair; `query` is a query's id, or its text where exactly one query has it.

    Refused while a round is being graded or before its freeze (a trace tells which arms found a chunk), for a round
    without a key, and for a query or chunk that the pool doesn't have.
    """
    number = round or study.round
    require_no_round_at_work(study, number)
    examine(study)
    log = study.log
    stands = standing_of(log, number)
    key_sha = next(str(e.body["key_digest"]) for e in log if e.kind == "frozen" and e.round == number)
    tables = _Tables(study, number)
    query_id = _query_id(tables, query)
    _require_pooled(tables, query_id, chunk_id)
    pair = {"query_id": query_id, "chunk_id": chunk_id}
    stored = study.keys.load(study.name, number, key_digest=key_sha)
    key = tables.read("frozen_key")
    row = tables.rows("frozen_key", **pair)
    line = canonical_bytes(key.filter(_of(pair))) if row else b""
    given = _answers(study, number, pair)
    sheets = [*tables.rows("sheets", **pair), *tables.rows("audit_sheets", **pair)]
    pool = tables.rows("pools", **pair)
    found = tables.rows("contributions", **pair)
    sampled = tables.rows("query_sample", query_id=query_id)
    logged = tables.rows("queries", query_id=query_id)
    raw, raw_note = _raw_rows(study, tables, logged)
    links = [
        Link("key row", "key.jsonl", key_sha, tuple(row), _why_no_row(study, tables, key, pair) if not row else ""),
        Link(
            "grade events",
            "the ledger's answers",
            tables.digest("grades"),
            tuple(given),
            "every revision, oldest first",
        ),
        *_asked(study, given),
        tables.link("sheets", "sheets", [_without(r, "text") for r in sheets], "text left out; audit_sheets too"),
        tables.link("pool entry", "pools", pool),
        tables.link("found by", "contributions", found, "arms whose top ranks hold it, to the pool's depth"),
        tables.link("sampled query", "query_sample", sampled),
        tables.link("query", "queries", logged),
        Link("log rows", study.design.query_log.file, tables.input("queries", "query_log"), tuple(raw), raw_note),
    ]
    proofs = list(
        _proofs(study, number, tables, stored, line, row, given, sheets, pool[0]["chunk_digest"], found, pair)
    )
    said = stands.banner if stands else ""
    return Trace(study.name, number, query_id, chunk_id, said, tuple(links), tuple(proofs))


def require_no_round_at_work(study: Study, number: int) -> None:
    """P13: Refused where the round has no key, or where the present round can still take answers."""
    frozen = {e.round for e in study.log if e.kind == "frozen"}
    opened = events.opening(study.log, study.round) is not None
    faults = []
    if number not in frozen:
        faults.append(Fault(f"round {number}", "no frozen key", "a round with a key", "Ask again after the freeze."))
    if study.round not in frozen and study.round != number and opened:
        mend = "Ask again when it is frozen."
        faults.append(Fault(f"round {study.round}", "a round that is being graded", "none", mend))
    if faults:
        raise Refused(f"A trace of {study.name} would unblind its graders", faults, untouched="Nothing was shown.")


class _Tables:
    """The stored tables of one round, each proved against its own digest when it is read."""

    def __init__(self, study: Study, number: int) -> None:
        self._study, self._number = study, number
        self._frames: dict[str, pl.DataFrame] = {}

    def read(self, table: str) -> pl.DataFrame:
        if table not in self._frames:
            self._frames[table] = read_table(self._study.path(table, self._number))
        return self._frames[table]

    def rows(self, table: str, **where: str) -> list[Row]:
        return self.read(table).filter(_of(where)).to_dicts()

    def digest(self, table: str) -> str:
        label = read_label(self._study.path(table, self._number))
        return label.digest if label else ""

    def input(self, table: str, name: str) -> str:
        label = read_label(self._study.path(table, self._number))
        return label.inputs.get(name, "") if label else ""

    def link(self, name: str, table: str, rows: Sequence[Row], note: str = "") -> Link:
        return Link(name, table, self.digest(table), tuple(rows), note)


def _of(where: Mapping[str, str]) -> pl.Expr:
    return pl.all_horizontal(pl.col(name) == value for name, value in where.items())


def _without(row: Row, *names: str) -> Row:
    return {name: value for name, value in row.items() if name not in names}


def _query_id(tables: _Tables, query: str) -> str:
    sample = tables.read("query_sample")
    if query in sample["query_id"]:
        return query
    asked = pl.DataFrame({"query": [query]}).select(normalised(pl.col("query")))["query"][0]
    same: list[str] = sample.filter(normalised(pl.col("query")) == asked)["query_id"].to_list()
    if len(same) == 1:
        return same[0]
    near = get_close_matches(query, [*sample["query_id"], *sample["query"]], n=3)
    found = "no query of the sample" if not same else f"the text of {len(same)} queries"
    fault = Fault(
        f"query {query!r}", found, "a query's id, or its text", f"Near it: {', '.join(near)}." if near else ""
    )
    raise Refused("There is nothing to trace", [fault])


def _require_pooled(tables: _Tables, query_id: str, chunk_id: str) -> None:
    pooled = tables.read("pools").filter(pl.col("query_id") == query_id)["chunk_id"].to_list()
    if chunk_id in pooled:
        return
    near = get_close_matches(chunk_id, pooled, n=3) or sorted(pooled)[:3]
    expected = f"one of the {len(pooled)} chunks of its pool"
    mend = f"Near it: {', '.join(near)}." if near else ""
    raise Refused(
        "There is nothing to trace", [Fault(f"chunk {chunk_id!r}", "a chunk that was not pooled", expected, mend)]
    )


def _why_no_row(study: Study, tables: _Tables, key: pl.DataFrame, pair: Mapping[str, str]) -> str:
    if pair["query_id"] in key["query_id"]:
        return "not in the key: the pair could not be rated (P19)"
    return "not in the key: its query was dropped, since nothing pooled for it is relevant (P32)"


def _answers(study: Study, number: int, pair: Mapping[str, str]) -> list[Row]:
    """Every answer to the pair up to this round, by graders and auditor, every revision of each."""
    t = ledger_answers
    wanted = (
        sa.select(t)
        .where(t.c.experiment == study.name, t.c.round <= number)
        .where(t.c.query_id == pair["query_id"], t.c.chunk_id == pair["chunk_id"])
        .order_by(t.c.id)
    )
    rows = study.ledger.read(lambda c: [dict(r) for r in c.execute(wanted).mappings()])
    names = (
        "round", "grader", "revision", "grade", "reason", "unrateable", "judge_later", "corpus_cleanup", "answered_at",
        "source", "row_digest",
    )  # fmt: skip
    return [{name: r[name] for name in names} for r in rows]


def _asked(study: Study, given: Sequence[Row]) -> Iterator[Link]:
    """The prompts that models' answers came from, and what became of each attempt (P20, P21)."""
    starts = [str(r["source"]).removeprefix(PROMPT) for r in given if str(r["source"]).startswith(PROMPT)]
    if not starts:
        return
    wanted = (
        sa.select(
            prompts.c.grader, prompts.c.prompt_digest, prompts.c.at, attempts.c.attempt, attempts.c.command,
            attempts.c.version, attempts.c.model, attempts.c.seconds, attempts.c.outcome, attempts.c.raw_digest,
        )
        .join_from(prompts, attempts, prompts.c.prompt_digest == attempts.c.prompt_digest)
        .where(prompts.c.experiment == study.name)
        .where(sa.or_(*[prompts.c.prompt_digest.startswith(start, autoescape=True) for start in starts]))
        .order_by(attempts.c.id)
    )  # fmt: skip
    rows = study.ledger.read(lambda c: [dict(r) for r in c.execute(wanted).mappings()])
    yield Link("prompts", "the ledger's attempts", "", tuple(rows), "what the models' answers came from")


def _raw_rows(study: Study, tables: _Tables, logged: Sequence[Row]) -> tuple[list[Row], str]:
    numbers = logged[0]["raw_rows"] if logged else []
    then = tables.input("queries", "query_log")
    if study.source_digest("query_log") != then:
        said = f"rows {', '.join(map(str, numbers))} of a log that is no longer there as it was (sha256 {then[:12]})"
        return [], said
    frame = study.query_log().filter(pl.col("row").is_in(numbers))
    texts = frame.with_columns(pl.col(pl.Datetime).dt.to_string("iso"))
    return [{k: v for k, v in row.items() if v is not None} for row in texts.to_dicts()], "as the file has them now"


def _proofs(
    study: Study,
    number: int,
    tables: _Tables,
    stored: Mapping[str, bytes],
    line: bytes,
    row: Sequence[Row],
    given: Sequence[Row],
    sheets: Sequence[Row],
    pool_digest: str,
    found: Sequence[Row],
    pair: Mapping[str, str],
) -> Iterator[Proof]:
    d = study.design
    yield Proof("the key in the store is the one that the log froze", True)  # loading it has proved it
    if row:
        held = line in stored["key.jsonl"].splitlines(keepends=True)
        yield Proof("the row stands in the frozen key", held)
        grades = tables.read("grades").filter(_of(pair))
        combined = combine(grades, order=d.key_graders, rule=d.combine)["grade"].to_list()
        yield Proof("its grade is the combined grade of the key's graders", combined == [row[0]["grade"]])
    newest = {(r["grader"], r["round"]): r for r in given}
    seen = {r["grader"]: r["row_digest"] for r in sheets}
    own = [r for (_, at), r in newest.items() if at == number]
    yield Proof(
        "every answer was given to the very text that stands on the sheet",
        all(r["row_digest"] == seen.get(r["grader"]) for r in own),
    )
    yield Proof("the chunk in the corpus is still the one that was pooled", _present(study, pair) == pool_digest)
    runs = tables.read("runs").filter(_of(pair)).select("arm", "rank", "score").rows()
    yield Proof(
        "every arm that found it has it in its run at that rank",
        {(r["arm"], r["rank"], r["score"]) for r in found} <= set(runs),
    )


def _present(study: Study, pair: Mapping[str, str]) -> str | None:
    """The digest of the chunk as the corpus has it now; None where it has none."""
    try:
        rows = study.corpus.filter(pl.col("chunk_id") == pair["chunk_id"]).select("header", "text").rows()
    except (NotThere, Refused):
        return None
    return chunk_digest(*rows[0]) if rows else None
