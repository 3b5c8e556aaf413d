"""Tracing one graded pair back to where it comes from: key row, grade events, sheets, pool entry, the arms that found
it, the sampled query, its rows of the log (P13, P33).

A trace says which arm found what, so it is given only while no round is being graded. What it finds is proved against
the stored digests; nothing is changed. Tables that rounds share are made again when inputs change: what a round's own
records don't bear out is not told of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any

import polars as pl
import sqlalchemy as sa

from relgrade_assets.errors import Fault, NotThere, Refused
from relgrade_assets.io import events
from relgrade_assets.io.frames import read_label, read_table
from relgrade_assets.io.judging import combined_then
from relgrade_assets.io.ledger import answers as ledger_answers
from relgrade_assets.io.ledger import attempts, prompts
from relgrade_assets.io.standing import standing_of
from relgrade_assets.io.study import Study
from relgrade_assets.io.voiding import examine
from relgrade_assets.methods.key import canonical_bytes
from relgrade_assets.methods.normalise import normalised
from relgrade_assets.methods.pooling import chunk_digest

Row = dict[str, Any]
PROMPT = "prompt "
"""How the source of a model's answer begins (io/attempts.py)."""


@dataclass(frozen=True, slots=True)
class Link:
    """One step of the way back: what it is, the table or file it stands in with that one's digest, and its rows.
    Not `known` where only tables of other inputs than the round's are left; the note says which.
    """

    name: str
    stands_in: str
    digest: str
    rows: tuple[Row, ...]
    note: str = ""
    known: bool = True


@dataclass(frozen=True, slots=True)
class Proof:
    """One thing that was tried on the way, and whether it holds; None where that isn't known, with `why`."""

    text: str
    holds: bool | None
    why: str = ""

    @property
    def word(self) -> str:
        """`yes`, `no` or `not known`."""
        return {True: "yes", False: "no", None: "not known"}[self.holds]


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
    stored = study.keys.load(study.name, number, key_digest=key_sha)
    about: Row = json.loads(stored["key.json"])
    tables = _Tables(study, number, about, events.opened_on(log, number))
    query_id = _query_id(tables, query)
    _require_pooled(tables, query_id, chunk_id)
    pair = {"query_id": query_id, "chunk_id": chunk_id}
    key = tables.read("frozen_key")
    row = tables.rows("frozen_key", **pair)
    line = canonical_bytes(key.filter(_of(pair))) if row else b""
    given = _answers(study, number, pair)
    sheets = [*tables.rows("sheets", **pair), *tables.rows("audit_sheets", **pair)]
    pool = _pool_entry(tables, pair)
    found = tables.link("found by", "contributions", pair, "arms whose top ranks hold it, to the pool's depth")
    logged = tables.link("query", "queries", {"query_id": query_id})
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
        Link(
            "sheets",
            "sheets",
            tables.digest("sheets"),
            tuple(_without(r, "text") for r in sheets),
            "text left out; audit_sheets too",
        ),
        pool,
        found,
        tables.link("sampled query", "query_sample", {"query_id": query_id}),
        logged,
        _log_rows(study, tables, logged),
    ]
    proofs = list(_proofs(study, number, tables, stored, line, row, given, sheets, pool, found, pair))
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
    """The stored tables of one round, each proved against its own digest when it is read, and told from those that
    were made again since from other inputs.
    """

    def __init__(self, study: Study, number: int, about: Row, opened_on: Row) -> None:
        self._study, self._number, self.about = study, number, about
        self._opened = opened_on
        self._frames: dict[tuple[str, int], pl.DataFrame] = {}

    def read(self, table: str, round_: int | None = None) -> pl.DataFrame:
        at = (table, round_ or self._number)
        if at not in self._frames:
            self._frames[at] = read_table(self._study.path(*at))
        return self._frames[at]

    def rows(self, table: str, **where: str) -> list[Row]:
        return self.read(table).filter(_of(where)).to_dicts()

    def digest(self, table: str, round_: int | None = None) -> str:
        label = read_label(self._study.path(table, round_ or self._number))
        return label.digest if label else ""

    def input(self, table: str, name: str) -> str:
        label = read_label(self._study.path(table, self._number))
        return label.inputs.get(name, "") if label else ""

    def later(self, table: str) -> str:
        """Why nothing of a table that rounds share may be told of this one; "" where its content is what the round was
        made from, by the records of the round itself: key.json, its own tables, and for the log its opening.
        """
        what, now = f"sha256 of {table}", self.digest(table)
        match table:
            case "contributions":
                then = self.input("audit_selection", table)
            case "runs":
                then = self.input("query_measures", table)
            case "queries":
                sample = self.later("query_sample")
                if sample:
                    return sample
                what, now = "digest of the query log", self.input(table, "query_log")
                then = str(self._opened.get("query_log") or "")
            case _:
                then = str(self.about["inputs"].get(table) or "")
        if then and then == now:
            return ""
        if not then:
            return f"nothing that is kept of round {self._number} has the {what}"
        return f"{what}: {then[:12]} in round {self._number}, {now[:12] or 'none'} now"

    def link(self, name: str, table: str, where: Mapping[str, str], note: str = "") -> Link:
        later = self.later(table)
        if later:
            return Link(name, table, "", (), later, known=False)
        return Link(name, table, self.digest(table), tuple(self.rows(table, **where)), note)


def _of(where: Mapping[str, str]) -> pl.Expr:
    return pl.all_horizontal(pl.col(name) == value for name, value in where.items())


def _without(row: Row, *names: str) -> Row:
    return {name: value for name, value in row.items() if name not in names}


def _query_id(tables: _Tables, query: str) -> str:
    sample = _sampled(tables)
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


def _sampled(tables: _Tables) -> pl.DataFrame:
    """query_id and query of the round's queries; where the sample was made again since, those that were graded, with
    the query as the round's sheets have it.
    """
    if not tables.later("query_sample"):
        return tables.read("query_sample").select("query_id", "query")
    texts = pl.concat([tables.read(t).select("query_id", "query") for t in ("sheets", "audit_sheets")]).unique()
    graded = tables.read("grades").select("query_id").unique().sort("query_id")
    return graded.join(texts, on="query_id", how="left").with_columns(pl.col("query").fill_null(""))


def _require_pooled(tables: _Tables, query_id: str, chunk_id: str) -> None:
    graded = tables.read("grades").filter(pl.col("query_id") == query_id)  # every pooled pair is, before the freeze
    pooled = graded["chunk_id"].unique().to_list()
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


def _pool_entry(tables: _Tables, pair: Mapping[str, str]) -> Link:
    """The pair in the round's pools; where those were made again since, its chunk as the round's sheets have it."""
    later = tables.later("pools")
    if not later:
        return tables.link("pool entry", "pools", pair)
    given = sorted(set(tables.read("grades").filter(_of(pair))["from_round"]), reverse=True)
    for number in given:  # a carried grade holds for a chunk of the same text alone (P44)
        for table in ("sheets", "audit_sheets"):
            asked = tables.read(table, number).filter(pl.col("chunk_id") == pair["chunk_id"])
            if asked.height:
                row = {**pair, "chunk_digest": chunk_digest(*asked.select("header", "text").row(0))}
                note = f"the chunk's digest is of the sheets of round {number}; {later}"
                return Link("pool entry", table, tables.digest(table, number), (row,), note)
    return Link("pool entry", "pools", "", (), later, known=False)


def _log_rows(study: Study, tables: _Tables, logged: Link) -> Link:
    name, file = "log rows", study.design.query_log.file
    if not logged.known:
        return Link(name, "the query log", "", (), logged.note, known=False)
    numbers = logged.rows[0]["raw_rows"] if logged.rows else []
    then = tables.input("queries", "query_log")
    if study.source_digest("query_log") != then:
        said = f"rows {', '.join(map(str, numbers))} of a log that is no longer there as it was (sha256 {then[:12]})"
        return Link(name, file, then, (), said, known=False)
    frame = study.query_log().filter(pl.col("row").is_in(numbers))
    texts = frame.with_columns(pl.col(pl.Datetime).dt.to_string("iso"))
    rows = tuple({k: v for k, v in row.items() if v is not None} for row in texts.to_dicts())
    return Link(name, file, then, rows, "as the file has them now")


def _proofs(
    study: Study,
    number: int,
    tables: _Tables,
    stored: Mapping[str, bytes],
    line: bytes,
    row: Sequence[Row],
    given: Sequence[Row],
    sheets: Sequence[Row],
    pool: Link,
    found: Link,
    pair: Mapping[str, str],
) -> Iterator[Proof]:
    yield Proof("the key in the store is the one that the log froze", True)  # loading it has proved it
    if row:
        held = line in stored["key.jsonl"].splitlines(keepends=True)
        yield Proof("the row stands in the frozen key", held)
        yield _combined(study, tables, row[0], pair)
    newest = {(r["grader"], r["round"]): r for r in given}
    seen = {r["grader"]: r["row_digest"] for r in sheets}
    own = [r for (_, at), r in newest.items() if at == number]
    yield Proof(
        "every answer was given to the very text that stands on the sheet",
        all(r["row_digest"] == seen.get(r["grader"]) for r in own),
    )
    same, then = "the chunk in the corpus is still the one that was pooled", [r["chunk_digest"] for r in pool.rows]
    yield Proof(same, [_present(study, pair)] == then) if pool.known else Proof(same, None, pool.note)
    ranked, later = "every arm that found it has it in its run at that rank", tables.later("runs")
    if not found.known or later:
        yield Proof(ranked, None, later or found.note)
        return
    runs = tables.read("runs").filter(_of(pair)).select("arm", "rank", "score").rows()
    yield Proof(ranked, {(r["arm"], r["rank"], r["score"]) for r in found.rows} <= set(runs))


def _combined(study: Study, tables: _Tables, row: Row, pair: Mapping[str, str]) -> Proof:
    """P30, by the round's own rule; the order of several graders is known from the round's own design alone."""
    text = "its grade is the combined grade of the key's graders"
    combined = combined_then(study, tables.read("grades").filter(_of(pair)), tables.about)
    if combined is None:
        return Proof(text, None, "experiment.yaml, which says whose grade comes first, was another in this round")
    return Proof(text, combined["grade"].to_list() == [row["grade"]])


def _present(study: Study, pair: Mapping[str, str]) -> str | None:
    """The digest of the chunk as the corpus has it now; None where it has none."""
    try:
        rows = study.corpus.filter(pl.col("chunk_id") == pair["chunk_id"]).select("header", "text").rows()
    except (NotThere, Refused):
        return None
    return chunk_digest(*rows[0]) if rows else None
