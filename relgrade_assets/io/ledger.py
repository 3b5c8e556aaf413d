"""The ledger (P23): every answer, refusal and review, and what was issued to whom, append-only in a database.

Which tables there are and how rows enter and are read belongs here; connections are `database.py`'s, the event chain
on the same database is `events.py`'s, prompts and attempts enter by `attempts.py`, and whether an answer is well-formed
(P19, P20) is decided before it comes here.
Times are values.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl
import sqlalchemy as sa

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io.database import Database, matches, storable, utc_text
from relgrade_assets.protocol.canonical import canonical_json

METADATA = sa.MetaData()
_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _texts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _whose() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", _ID, primary_key=True),
        *_texts("experiment"),
        sa.Column("round", sa.Integer, nullable=False),
        *_texts("grader"),
    ]


def _answer_columns() -> list[sa.Column[Any]]:
    return [
        *_whose(),
        *_texts("query_id", "chunk_id"),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("grade", sa.SmallInteger),
        *[sa.Column(name, sa.Boolean, nullable=False) for name in ("unrateable", "judge_later", "corpus_cleanup")],
        *_texts("row_digest", "source", "answered_at"),
    ]


answers = sa.Table(
    "answers",
    METADATA,
    *_answer_columns(),
    sa.UniqueConstraint(
        "experiment", "round", "grader", "query_id", "chunk_id", "revision", name="one_answer_a_revision"
    ),
)
refusals = sa.Table(
    "refusals",
    METADATA,
    *_whose(),
    *_texts("source"),
    sa.Column("line", sa.BigInteger),
    *_texts("raw", "reason", "at"),
    sa.Index("refusals_of_grader", "experiment", "round", "grader", "source"),
)
reviews = sa.Table(
    "reviews",
    METADATA,
    sa.Column("id", _ID, primary_key=True),
    *_texts("experiment", "query_id", "row_digest", "reviewer", "verdict", "note", "at"),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.UniqueConstraint("experiment", "query_id", "row_digest", "reviewer", "revision", name="one_review_a_revision"),
)
issued = sa.Table(
    "issued",
    METADATA,
    *_whose(),
    *_texts("sheets_digest", "at"),
    sa.Index("issued_to_grader", "experiment", "round", "grader"),
)
prompts = sa.Table(
    "prompts",
    METADATA,
    *_whose(),
    *_texts("prompt_digest", "nonce", "query_id", "chunk_ids", "template", "at"),
    sa.UniqueConstraint("prompt_digest", name="one_prompt_a_digest"),
    sa.Index("prompts_of_grader", "experiment", "round", "grader"),
)
attempts = sa.Table(
    "attempts",
    METADATA,
    *_whose(),
    *_texts("prompt_digest"),
    sa.Column("attempt", sa.Integer, nullable=False),
    *_texts("command", "version", "model", "started"),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("exit_status", sa.Integer),
    *_texts("outcome", "reason", "raw", "raw_digest"),
    sa.UniqueConstraint("prompt_digest", "attempt", name="one_attempt_a_number"),
    sa.Index("attempts_of_grader", "experiment", "round", "grader"),
)
events = sa.Table(
    "events",
    METADATA,
    sa.Column("experiment", sa.Text, primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    *_texts("at", "kind", "body", "prev", "hash"),
)
current_answers = sa.Table("current_answers", sa.MetaData(), *_answer_columns())
"""The view that takes each pair's highest revision."""

CONTENT: dict[str, pl.DataType] = {
    "reason": pl.String(),
    "grade": pl.Int64(),
    "unrateable": pl.Boolean(),
    "judge_later": pl.Boolean(),
    "corpus_cleanup": pl.Boolean(),
    "row_digest": pl.String(),
}
"""What an answer says; two answers that say the same are one."""
ROWS: dict[str, pl.DataType] = {"query_id": pl.String(), "chunk_id": pl.String(), **CONTENT}
ANSWERS: dict[str, pl.DataType] = {"round": pl.Int64(), "grader": pl.String(), **ROWS, "answered_at": pl.String()}
REVIEWS: dict[str, pl.DataType] = {
    n: pl.String() for n in ("query_id", "row_digest", "reviewer", "at", "verdict", "note")
}
REFUSALS: dict[str, pl.DataType] = {
    "round": pl.Int64(),
    "grader": pl.String(),
    "source": pl.String(),
    "line": pl.Int64(),
    "raw": pl.String(),
    "reason": pl.String(),
    "at": pl.String(),
}
_FEW = 200


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of rows: pairs answered for the first time, answered differently from before, and answered the
    same.
    """

    new: int
    changed: int
    same: int


class Closed(Refused):
    """The round takes no answers any more: it is frozen, or failed a gate."""


class Ledger(Database):
    """The ledger behind `url`. Raises Refused as `Database` does; so does every method where the database goes away."""

    def record_answers(
        self, experiment: str, round: int, grader: str, rows: pl.DataFrame, *, source: str, at: datetime
    ) -> Recorded:
        """Append `rows` (columns ROWS, one a pair) in one transaction; an answer that stands already is not appended,
        another is a new revision (P23).

        Raises Refused where the round is frozen and something would change (P35), and where a row is no answer or
        contradicts another.
        """
        given = rows.select(list(ROWS)).cast(pl.Schema(ROWS)).to_dicts()
        _check_answers(given, source)
        whose = Whose(experiment, round, grader)
        return self.write(lambda c: append_answers(c, whose, given, source=source, at=at))

    def record_refusals(
        self,
        experiment: str,
        round: int,
        grader: str,
        refused: Iterable[tuple[int | None, str, str]],
        *,
        source: str,
        at: datetime,
    ) -> int:
        """Keep refused rows or replies (line or None, raw text, reason) as they came (P20, P23).

        Returns how many were not known yet.

        The same raw text refused for the same reason on the same line of the same source is one refusal: attempts need
        sources of their own.
        """
        whose = {"experiment": experiment, "round": round, "grader": grader, "source": source}
        given = [(line, storable(raw), storable(why)) for line, raw, why in refused]

        def work(connection: sa.Connection) -> int:
            found = connection.execute(
                sa.select(refusals.c.line, refusals.c.raw, refusals.c.reason).where(*matches(refusals, whose))
            )
            known = {tuple(row) for row in found}
            fresh = [row for row in dict.fromkeys(given) if row not in known]
            if fresh:
                connection.execute(
                    sa.insert(refusals),
                    [{**whose, "line": n, "raw": raw, "reason": why, "at": utc_text(at)} for n, raw, why in fresh],
                )
            return len(fresh)

        return self.write(work)

    def record_reviews(self, experiment: str, reviewer: str, rows: pl.DataFrame, *, at: datetime) -> Recorded:
        """Append reviews of intents (columns query_id, row_digest, verdict `ok` or `change`, note), as
        `record_answers` does (P17).
        """
        names = ("query_id", "row_digest", "verdict", "note")
        given = rows.select(names).cast(pl.String()).with_columns(pl.col("note").fill_null("")).to_dicts()
        faults = [
            Fault(f"review of {row['query_id']!r}", repr(row["verdict"]), "ok or change")
            for row in given
            if row["verdict"] not in ("ok", "change")
        ]
        if faults:
            raise Refused(f"Reviews by {reviewer} were not recorded", faults)

        def work(connection: sa.Connection) -> Recorded:
            found = connection.execute(
                sa.select(reviews)
                .where(reviews.c.experiment == experiment, reviews.c.reviewer == reviewer)
                .order_by(reviews.c.revision)
            ).mappings()
            before = {(r["query_id"], r["row_digest"]): (int(r["revision"]), (r["verdict"], r["note"])) for r in found}
            fresh, changed, same = [], 0, 0
            for row in given:
                item, content = (row["query_id"], row["row_digest"]), (row["verdict"], row["note"])
                revision, known = before.get(item, (0, None))
                if known == content:
                    same += 1
                    continue
                changed += revision > 0
                before[item] = (revision + 1, content)
                fresh.append(
                    {
                        **row,
                        "experiment": experiment,
                        "reviewer": reviewer,
                        "at": utc_text(at),
                        "revision": revision + 1,
                    }
                )
            if fresh:
                connection.execute(sa.insert(reviews), fresh)
            return Recorded(len(fresh) - changed, changed, same)

        return self.write(work)

    def record_issued(self, experiment: str, round: int, grader: str, sheets_digest: str, *, at: datetime) -> bool:
        """Note that these sheets were written out for `grader`; False where they are the latest noted already, whose
        time then stands.
        """
        whose = {"experiment": experiment, "round": round, "grader": grader}

        def work(connection: sa.Connection) -> bool:
            latest = _latest_issued(connection, whose)
            if latest == sheets_digest:
                return False
            connection.execute(sa.insert(issued), [{**whose, "sheets_digest": sheets_digest, "at": utc_text(at)}])
            return True

        return self.write(work)

    def latest_issued(self, experiment: str, round: int, grader: str) -> str | None:
        """Digest of the sheets last written out for `grader`, or None."""
        return self.read(lambda c: _latest_issued(c, {"experiment": experiment, "round": round, "grader": grader}))

    def answers(self, experiment: str, round: int, graders: Sequence[str]) -> pl.DataFrame:
        """The current answers of `graders`: columns ANSWERS, one row a grader and pair, sorted by grader, query and
        chunk (code points).
        """
        table = current_answers
        wanted = sa.select(*[table.c[name] for name in ANSWERS]).where(
            table.c.experiment == experiment, table.c.round == round, table.c.grader.in_(list(graders))
        )
        return self._frame(wanted, ANSWERS).sort("grader", "query_id", "chunk_id")

    def reviews(self, experiment: str) -> pl.DataFrame:
        """Each reviewer's latest review of each intent as it read: columns REVIEWS, sorted by query, row digest and
        reviewer.
        """
        later = reviews.alias("later")
        same = [later.c[n] == reviews.c[n] for n in ("experiment", "query_id", "row_digest", "reviewer")]
        wanted = sa.select(*[reviews.c[name] for name in REVIEWS]).where(
            reviews.c.experiment == experiment, ~sa.exists().where(*same, later.c.revision > reviews.c.revision)
        )
        return self._frame(wanted, REVIEWS).sort("query_id", "row_digest", "reviewer")

    def refusals(self, experiment: str, round: int, grader: str | None = None) -> pl.DataFrame:
        """Refused rows and replies, as they came: columns REFUSALS, oldest first."""
        wanted = sa.select(*[refusals.c[name] for name in REFUSALS]).where(
            refusals.c.experiment == experiment, refusals.c.round == round
        )
        if grader is not None:
            wanted = wanted.where(refusals.c.grader == grader)
        return self._frame(wanted.order_by(refusals.c.id), REFUSALS)

    def answers_digest(self, experiment: str, round: int, graders: Sequence[str]) -> str:
        """Hex sha256 of what the current answers say; not of when, from where, or after how many changes."""
        return _content_digest("answers", self.answers(experiment, round, graders).drop("answered_at"))

    def reviews_digest(self, experiment: str) -> str:
        """Hex sha256 of what the latest reviews say; not of when."""
        return _content_digest("reviews", self.reviews(experiment).drop("at"))

    def _frame(self, wanted: sa.Select[tuple[object, ...]], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
        rows = self.read(lambda c: [tuple(row) for row in c.execute(wanted)])
        return pl.DataFrame(rows, schema=pl.Schema(schema), orient="row")


@dataclass(frozen=True, slots=True)
class Whose:
    """Of which experiment, round and grader rows are."""

    experiment: str
    round: int
    grader: str

    def values(self) -> dict[str, object]:
        """As columns."""
        return {"experiment": self.experiment, "round": self.round, "grader": self.grader}


def append_answers(
    connection: sa.Connection, whose: Whose, given: Sequence[Mapping[str, Any]], *, source: str, at: datetime
) -> Recorded:
    """`Ledger.record_answers` inside a transaction that is open already; `given` are whole rows (ROWS)."""
    before = _current(connection, whose.values(), sorted({row["query_id"] for row in given}))
    fresh, changed, same = [], 0, 0
    for row in given:
        pair, content = (row["query_id"], row["chunk_id"]), tuple(row[name] for name in CONTENT)
        revision, known = before.get(pair, (0, None))
        if known == content:
            same += 1
            continue
        changed += revision > 0
        before[pair] = (revision + 1, content)
        stamp = {"revision": revision + 1, "source": source, "answered_at": utc_text(at)}
        fresh.append({**whose.values(), **row, **stamp})
    if fresh:
        _refuse_if_closed(connection, whose.experiment, whose.round, fresh)
        connection.execute(sa.insert(answers), fresh)
    return Recorded(len(fresh) - changed, changed, same)


def _current(
    connection: sa.Connection, whose: Mapping[str, object], query_ids: Sequence[str]
) -> dict[tuple[str, str], tuple[int, tuple[object, ...] | None]]:
    table = current_answers
    wanted = sa.select(table).where(*matches(table, whose))
    if len(query_ids) <= _FEW:
        wanted = wanted.where(table.c.query_id.in_(query_ids))
    return {
        (r["query_id"], r["chunk_id"]): (int(r["revision"]), tuple(r[name] for name in CONTENT))
        for r in connection.execute(wanted).mappings()
    }


def frozen_rounds(connection: sa.Connection, experiment: str) -> dict[int, str]:
    """Rounds that a `frozen` event closed, with the digest of their key."""
    bodies = connection.execute(
        sa.select(events.c.body)
        .where(events.c.experiment == experiment, events.c.kind == "frozen")
        .order_by(events.c.seq)
    )
    return {int(body["round"]): str(body["key_digest"]) for body in map(json.loads, bodies.scalars())}


def gate_failed(connection: sa.Connection, experiment: str, round: int) -> bool:
    """Whether the round was judged and failed a gate (P30)."""
    bodies = connection.execute(
        sa.select(events.c.body).where(events.c.experiment == experiment, events.c.kind == "gate_failed")
    )
    return any(int(body["round"]) == round for body in map(json.loads, bodies.scalars()))


def _refuse_if_closed(
    connection: sa.Connection, experiment: str, round: int, fresh: Sequence[Mapping[str, object]]
) -> None:
    """P35: after the freeze nothing of the round changes. P30: nor after a failed gate, lest it be graded away."""
    if round in frozen_rounds(connection, experiment):
        why = "is frozen"
    elif gate_failed(connection, experiment, round):
        why = "was judged and failed a gate"
    else:
        return
    faults = [
        Fault(
            f"{row['query_id']} / {row['chunk_id']}",
            f"grade {row['grade']} by {row['grader']}",
            "what the ledger holds",
        )
        for row in fresh[:20]
    ]
    raise Closed(
        f"Round {round} of {experiment} {why} and takes no answers; `relgrade revise` opens the next round",
        faults,
        total=len(fresh),
        untouched="The ledger and the key are unchanged.",
    )


def _check_answers(given: Sequence[Mapping[str, object]], source: str) -> None:
    faults = []
    seen: dict[tuple[object, object], Mapping[str, object]] = {}
    for row in given:
        where = f"{source}, {row['query_id']} / {row['chunk_id']}"
        grade, flagged = row["grade"], bool(row["unrateable"] or row["judge_later"])
        if isinstance(grade, int) and not 0 <= grade <= 9:
            faults.append(Fault(where, f"grade {grade}", "a grade from 0 to 9"))
        if row["unrateable"] and grade is not None:
            faults.append(Fault(where, f"unrateable with grade {grade}", "no grade: unrateable is none (P19)"))
        if grade is None and not flagged:
            faults.append(Fault(where, "no grade and no flag", "a grade, unrateable or judge_later"))
        other = seen.setdefault((row["query_id"], row["chunk_id"]), row)
        if other != row:
            faults.append(Fault(where, "two different answers for the pair", "one answer a pair"))
    if faults:
        raise Refused(f"Answers from {source} were not recorded", faults)


def _latest_issued(connection: sa.Connection, whose: Mapping[str, object]) -> str | None:
    wanted = sa.select(issued.c.sheets_digest).where(*matches(issued, whose)).order_by(issued.c.id.desc()).limit(1)
    found = connection.execute(wanted).scalar()
    return None if found is None else str(found)


def _content_digest(purpose: str, frame: pl.DataFrame) -> str:
    total = hashlib.sha256(canonical_json([purpose, frame.columns]))
    for row in frame.iter_rows():
        total.update(b"\n" + canonical_json(list(row)))
    return total.hexdigest()
