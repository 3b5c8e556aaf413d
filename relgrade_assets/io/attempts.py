"""What model graders were asked and what came back: prompts and attempts in the ledger, append-only (P20, P21, P23).

How they are recorded and counted belongs here; asking is `grading_run.py`'s, the tables and their triggers are the
ledger's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import polars as pl
import sqlalchemy as sa

from relgrade_assets.io.database import storable, utc_text
from relgrade_assets.io.ledger import Ledger, Whose, append_answers, attempts, prompts

Result = Literal["accepted", "refused", "timeout", "crashed", "interrupted", "exhausted"]
RAW_BYTES_AT_MOST = 200_000
"""Of a reply this much is kept; its digest is of the whole."""
TRIED: dict[str, pl.DataType] = {
    "prompt_digest": pl.String(),
    "query_id": pl.String(),
    "chunk_ids": pl.List(pl.String()),
    "attempt": pl.Int64(),
    "command": pl.String(),
    "version": pl.String(),
    "model": pl.String(),
    "started": pl.String(),
    "seconds": pl.Float64(),
    "exit_status": pl.Int64(),
    "outcome": pl.String(),
    "reason": pl.String(),
    "raw": pl.String(),
    "raw_digest": pl.String(),
}
ASKED: dict[str, pl.DataType] = {
    "prompt_digest": pl.String(),
    "nonce": pl.String(),
    "query_id": pl.String(),
    "chunk_ids": pl.List(pl.String()),
    "template": pl.String(),
    "at": pl.String(),
}


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is asked of a grader at once: pairs of one query."""

    digest: str
    nonce: str
    query_id: str
    chunk_ids: tuple[str, ...]
    template: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """One time a prompt was asked: what was run, for how many seconds, and what became of it. `raw` is the reply."""

    number: int
    command: tuple[str, ...]
    version: str
    model: str
    started: datetime
    seconds: float
    exit_status: int | None
    outcome: Result
    reason: str
    raw: bytes


def record_prompt(ledger: Ledger, whose: Whose, prompt: Prompt, *, at: datetime) -> None:
    """Note a prompt before it is asked; once, however often it is noted."""
    row = {
        **whose.values(),
        "prompt_digest": prompt.digest,
        "nonce": prompt.nonce,
        "query_id": prompt.query_id,
        "chunk_ids": json.dumps(prompt.chunk_ids, ensure_ascii=False),
        "template": prompt.template,
        "at": utc_text(at),
    }

    def work(connection: sa.Connection) -> None:
        known = sa.select(prompts.c.id).where(prompts.c.prompt_digest == prompt.digest)
        if connection.execute(known).first() is None:
            connection.execute(sa.insert(prompts), [row])

    ledger.write(work)


def record_attempt(
    ledger: Ledger,
    whose: Whose,
    prompt: Prompt,
    attempt: Attempt,
    answers: Sequence[Mapping[str, Any]] = (),
    *,
    at: datetime,
) -> None:
    """P23: an attempt and, where it was accepted, its answers (rows of ledger.ROWS), in one transaction; recording the
    same again changes nothing.

    Raises Refused where the round is frozen (P35), ledger.Unusable where the database is away.
    """
    row = {
        **whose.values(),
        "prompt_digest": prompt.digest,
        "attempt": attempt.number,
        "command": json.dumps(attempt.command, ensure_ascii=False),
        "version": storable(attempt.version),
        "model": attempt.model,
        "started": utc_text(attempt.started),
        "seconds": attempt.seconds,
        "exit_status": attempt.exit_status,
        "outcome": attempt.outcome,
        "reason": storable(attempt.reason),
        "raw": storable(attempt.raw[:RAW_BYTES_AT_MOST].decode("utf-8", "backslashreplace")),
        "raw_digest": hashlib.sha256(attempt.raw).hexdigest(),
    }

    def work(connection: sa.Connection) -> None:
        known = sa.select(attempts.c.id).where(
            attempts.c.prompt_digest == prompt.digest, attempts.c.attempt == attempt.number
        )
        if connection.execute(known).first() is not None:
            return
        connection.execute(sa.insert(attempts), [row])
        if answers:
            append_answers(connection, whose, answers, source=f"prompt {prompt.digest[:16]}", at=at)

    ledger.write(work)


def asked(ledger: Ledger, whose: Whose) -> pl.DataFrame:
    """Every prompt of a grader in a round: columns ASKED, oldest first."""
    wanted = sa.select(*[prompts.c[name] for name in ASKED]).where(*_of(prompts, whose)).order_by(prompts.c.id)
    return _frame(ledger, wanted, ASKED)


def tried(ledger: Ledger, whose: Whose) -> pl.DataFrame:
    """Every attempt of a grader in a round: columns TRIED, oldest first."""
    columns = [prompts.c[name] if name in ("query_id", "chunk_ids") else attempts.c[name] for name in TRIED]
    wanted = _with_prompts(whose, *columns).order_by(attempts.c.id)
    return _frame(ledger, wanted, TRIED)


def accepted_by(ledger: Ledger, whose: Whose) -> frozenset[tuple[str, str]]:
    """What gave the accepted replies of a grader in a round: the version that the command reported, and the prompt's
    template.
    """
    wanted = _with_prompts(whose, attempts.c.version, prompts.c.template).where(attempts.c.outcome == "accepted")
    rows = ledger.read(lambda c: c.execute(wanted.distinct()).all())
    return frozenset((str(version), str(template)) for version, template in rows)


def exhausted(ledger: Ledger, whose: Whose) -> frozenset[tuple[str, str]]:
    """Pairs (query, chunk) of prompts that were asked as often as the design allows, without a reply to accept (P20).
    Pairs graded since are among them.
    """
    wanted = _with_prompts(whose, prompts.c.query_id, prompts.c.chunk_ids).where(attempts.c.outcome == "exhausted")
    rows = ledger.read(lambda c: [tuple(row) for row in c.execute(wanted)])
    return frozenset((str(query), chunk) for query, chunks in rows for chunk in json.loads(chunks))


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt that was not accepted: what was asked, what became of it, and why in the agent's or our own words."""

    query_id: str
    chunk_ids: tuple[str, ...]
    outcome: str
    reason: str


def last_failed(ledger: Ledger, whose: Whose) -> Failed | None:
    """The latest attempt of a grader in a round that was refused, crashed or took too long; None without one."""
    columns = [prompts.c.query_id, prompts.c.chunk_ids, attempts.c.outcome, attempts.c.reason]
    wanted = (
        _with_prompts(whose, *columns)
        .where(attempts.c.outcome.in_(("refused", "timeout", "crashed")))
        .order_by(attempts.c.id.desc())
        .limit(1)
    )
    row = ledger.read(lambda c: c.execute(wanted).first())
    if row is None:
        return None
    query, chunks, outcome, reason = row
    return Failed(str(query), tuple(json.loads(chunks)), str(outcome), str(reason))


def _with_prompts(whose: Whose, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Columns of the attempts of a grader in a round, and of the prompt that each asked."""
    both = sa.select(*columns).join_from(attempts, prompts, attempts.c.prompt_digest == prompts.c.prompt_digest)
    return both.where(*_of(attempts, whose))


def _of(table: sa.Table, whose: Whose) -> list[sa.ColumnElement[bool]]:
    return [table.c[name] == value for name, value in whose.values().items()]


def _frame(ledger: Ledger, wanted: sa.Select[tuple[object, ...]], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    rows = ledger.read(lambda c: [dict(row) for row in c.execute(wanted).mappings()])
    for row in rows:
        row["chunk_ids"] = json.loads(row["chunk_ids"])
    return pl.DataFrame(rows, schema=pl.Schema(schema))
