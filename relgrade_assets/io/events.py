"""The event log (P36): openings, locks, freezes, first readings, voids and revisions as an append-only hash chain in
the ledger's database.

Which kinds there are, how they chain and what follows from them for rounds (P4) belongs here. What the events are
about is not checked here.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl
import sqlalchemy as sa

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io.database import utc_text
from relgrade_assets.io.ledger import Ledger
from relgrade_assets.io.ledger import events as table
from relgrade_assets.methods.carry_over import Source
from relgrade_assets.protocol.canonical import canonical_json, digest

GENESIS = "0" * 64
"""What the first event of an experiment follows."""

KINDS: dict[str, tuple[str, ...]] = {
    "opened": ("round", "cause", "what", "by", "protocol_digest"),
    "intents_locked": ("round", "digest"),
    "audit_locked": ("round", "digest"),
    "calibrated": ("round", "by", "rubric_digest", "answers_digest", "pairs", "queries", "agreement", "discussed"),
    "alike_taken": ("round", "grader", "other", "other_round", "pairs", "alike", "reasons", "verbatim", "why"),
    "gate_failed": ("round", "grades_digest", "audit_grades_digest", "gates"),
    "frozen": ("round", "key_digest"),
    "first_reading": ("round", "key_digest"),
    "revised": ("round", "what", "by"),
    "read_again": ("round", "key_digest", "measures_digest"),
    "corrected": ("round", "key_digest"),
    "voided": ("round", "key_digest", "why"),
}
"""Every kind of event, with the keys that its body has at least. `corrected` is a post-hoc key (P35), `read_again`
measures of a frozen key made again with other numbers, from other runs; `calibrated`: one person (`by`) was calibrated
with the others under a rubric (P26); `alike_taken`: answers were taken although they are another grader's or another
round's (P25), graders by pseudonym.

An opening also has `rubric_digest`, `scale_digest` and the digests of `inputs`; of a round that carries grades `carry`,
`from` (the round before it in the chain), `rerate` (percent) and `rerate_in` (P30, P43, P44).
"""

BY, SALT, BY_DIGEST = "by", "by_salt", "by_sha256"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the chain; `hash` covers all else, `prev` is the hash of the line before."""

    experiment: str
    seq: int
    at: str
    kind: str
    body: Mapping[str, object]
    prev: str
    hash: str

    @property
    def round(self) -> int:
        """The round that the event is about."""
        return int(str(self.body["round"]))


def event_hash(experiment: str, seq: int, at: str, kind: str, body: Mapping[str, object], prev: str) -> str:
    """P36: hex sha256 of the canonical JSON of [experiment, seq, at, kind, body, prev], the body as `committed`."""
    return digest([experiment, seq, at, kind, committed(body), prev])


def committed(body: Mapping[str, object]) -> dict[str, object]:
    """The body as the chain covers it: who decided (`by`) by a salted digest, so that a published log can hold a
    pseudonym in place of the name, and its chain still be checked (P36, P42). Whoever has salt and name can prove them.
    """
    apart = {name: value for name, value in body.items() if name not in (BY, SALT)}
    if SALT in body:
        return {**apart, BY_DIGEST: digest([body[SALT], body[BY]])}
    return apart if BY_DIGEST in body else dict(body)


def append(
    ledger: Ledger,
    experiment: str,
    kind: str,
    body: Mapping[str, object],
    at: datetime,
    *,
    once: bool | Callable[[Sequence[Event]], Event | None] = False,
    salt: str = "",
    more: Callable[[sa.Connection], Mapping[str, object]] | None = None,
) -> Event:
    """Append one event in one transaction; with `once`, an event of this kind and body that stands already is returned
    instead, or the one that `once` finds in the log and that says the same. A body that names who decided is salted
    (`committed`), at random where no `salt` is given; `more` reads in the same transaction what the body gets besides.

    Raises Refused where the event contradicts the log: a round opened out of turn, another key frozen for a round
    (P33), a second first reading. Raises ValueError for an unknown kind or a body without its keys.
    """
    if kind not in KINDS or set(KINDS[kind]) - set(body):
        raise ValueError(
            f"an event is one of {', '.join(KINDS)} with its keys; this is {kind!r} with {', '.join(sorted(body))}"
        )
    given = dict(body)
    if body.get(BY):
        body = {**body, SALT: salt or secrets.token_hex(16)}

    def work(connection: sa.Connection) -> Event:
        before = _read(connection, experiment)
        known = _same(before, kind, given) if once is True else once(before) if once else None
        if known is not None:
            return known
        _refuse_contradiction(before, experiment, kind, body)
        whole = {**body, **(more(connection) if more else {})}
        text = canonical_json(whole).decode()
        last = before[-1] if before else None
        seq, prev, when = (last.seq + 1, last.hash, utc_text(at)) if last else (1, GENESIS, utc_text(at))
        event = Event(
            experiment, seq, when, kind, json.loads(text), prev, event_hash(experiment, seq, when, kind, whole, prev)
        )
        row = {
            "experiment": experiment,
            "seq": seq,
            "at": when,
            "kind": kind,
            "body": text,
            "prev": prev,
            "hash": event.hash,
        }
        connection.execute(sa.insert(table), [row])
        return event

    return ledger.write(work)


def read(ledger: Ledger, experiment: str) -> list[Event]:
    """Every event of the experiment, in order. Raises Refused where a body is no JSON object or lacks a key of its
    kind (it was altered)."""
    return ledger.read(lambda connection: _read(connection, experiment))


def head(ledger: Ledger, experiment: str) -> tuple[str, int]:
    """Hash of the last event, and how many there are; (GENESIS, 0) where there are none."""
    return head_of(read(ledger, experiment))


def head_of(events: Sequence[Event]) -> tuple[str, int]:
    """The same, of events already read."""
    return (events[-1].hash, len(events)) if events else (GENESIS, 0)


def check_chain(events: Sequence[Event], *, anchor: tuple[str, int] | None = None) -> list[Fault]:
    """P36: every break of the chain. With `anchor` (hash and length known beforehand) also a log cut short or
    rewritten up to there.

    Without an anchor a consistent rewrite, or a log cut at its end, can't be excluded.
    """
    faults = []
    prev = GENESIS
    for place, event in enumerate(events, start=1):
        where = f"event {place}"
        if event.experiment != events[0].experiment:
            faults.append(Fault(where, f"experiment {event.experiment!r}", f"{events[0].experiment!r}"))
        if event.seq != place:
            faults.append(
                Fault(where, f"number {event.seq}", f"{place}", "An event is missing, doubled or out of order.")
            )
        if event.prev != prev:
            faults.append(
                Fault(where, f"previous hash {event.prev}", prev, "The event before it was altered or taken out.")
            )
        found = event_hash(event.experiment, event.seq, event.at, event.kind, event.body, event.prev)
        if found != event.hash:
            faults.append(
                Fault(where, f"content of hash {found}", event.hash, f"This event ({event.kind}) was altered.")
            )
        prev = event.hash
    if anchor is not None:
        known, length = anchor
        found = head_of(events[:length])[0] if len(events) >= length else f"{len(events)} events"
        if found != known:
            faults.append(
                Fault(
                    f"the log's first {length} events",
                    found,
                    known,
                    "The log was cut or rewritten since the anchor was taken.",
                )
            )
    return faults


def as_jsonl(events: Sequence[Event], names: Mapping[str, str] | None = None) -> bytes:
    """The chain as canonical JSON Lines, for the published folder: people by pseudonym (`names`), anyone else as
    person-1, person-2, ... in the order of the log (P42).

    Raises Refused for a name that was logged without a salt: the chain would not hold without it.
    """
    known = dict(names or {})
    others = len(known)
    lines, faults = [], []
    for event in events:
        body = dict(event.body)
        if body.get(BY) and SALT not in body:
            faults.append(Fault(f"event {event.seq}", "a name that the chain itself covers", "a name with its salt"))
        elif body.get(BY):
            name = str(body[BY])
            known.setdefault(name, f"person-{len(known) - others + 1}")
            body = {**committed(body), BY: known[name]}
        fields = {n: getattr(event, n) for n in Event.__dataclass_fields__}
        lines.append(canonical_json({**fields, "body": body}) + b"\n")
    if faults:
        raise Refused("The event log names people and can't be published", faults)
    return b"".join(lines)


def from_jsonl(data: bytes) -> list[Event]:
    """Read what `as_jsonl` wrote, unchecked (`check_chain` checks). Raises Refused for a line that is no event."""
    events, faults = [], []
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
        try:
            fields = json.loads(line)
            event = Event(**fields)
            if not isinstance(event.body, dict) or not isinstance(event.seq, int):
                raise TypeError("not an event")
            events.append(event)
        except (ValueError, TypeError):
            faults.append(
                Fault(f"line {number}", repr(line[:60]), f"an object with {', '.join(Event.__dataclass_fields__)}")
            )
    if faults:
        raise Refused("The event log can't be read", faults)
    return events


def current_round(events: Sequence[Event]) -> int:
    """P4: the round last opened; 1 where none was."""
    return max((event.round for event in events if event.kind == "opened"), default=1)


def opening(events: Sequence[Event], round: int) -> Event | None:
    """The event that opened `round`, or None."""
    return next((event for event in events if event.kind == "opened" and event.round == round), None)


def opened_on(events: Sequence[Event], round: int) -> dict[str, Any]:
    """Digests of log, corpus, runs and intents that `round` was opened on (P43); empty where none is told."""
    opened = opening(events, round)
    inputs = opened.body.get("inputs") if opened else None
    return inputs if isinstance(inputs, dict) else {}


def voided(events: Sequence[Event], round: int) -> Event | None:
    """The event that voided `round` (P35), or None."""
    return next((event for event in events if event.kind == "voided" and event.round == round), None)


def rounds(events: Sequence[Event]) -> pl.DataFrame:
    """The openings as schemas.Revisions, sorted by round (P4, P30)."""
    names = ("cause", "what", "by", "at", "protocol_digest", "carry")
    rows = [
        (e.round, *[str({"carry": "none", **e.body, "at": e.at}[name]) for name in names], e.body.get("rerate", 0))
        for e in events
        if e.kind == "opened"
    ]
    schema = {"round": pl.Int64(), **{name: pl.String() for name in names}, "rerate": pl.Int64()}
    return pl.DataFrame(rows, schema=schema, orient="row").sort("round")


def carried_from(events: Sequence[Event], round: int) -> list[Source]:
    """The earlier rounds whose answers may count in `round`, latest first (P30, P44); empty where it grades its whole
    pool anew. A round of another scale counts nowhere; one of another rubric only in a limited regrade.
    """
    present = opening(events, round)
    found: list[Source] = []
    limited, at = False, present
    while present is not None and at is not None and at.body.get("carry", "none") != "none":
        limited = limited or at.body["carry"] == "limited"
        at = opening(events, int(str(at.body["from"])))
        if at is None or at.body.get("scale_digest") != present.body["scale_digest"]:
            continue
        same = at.body.get("rubric_digest") == present.body["rubric_digest"]
        if same or present.body["carry"] == "limited":
            found.append(Source(at.round, str(at.body.get("rubric_digest")), limited))
    return found


def _read(connection: sa.Connection, experiment: str) -> list[Event]:
    events, faults = [], []
    for row in connection.execute(
        sa.select(table).where(table.c.experiment == experiment).order_by(table.c.seq)
    ).mappings():
        try:
            body = json.loads(row["body"])
        except ValueError:
            body = None
        needed = {"round", *KINDS.get(row["kind"], ())}
        whole = isinstance(body, dict) and needed <= set(body) and isinstance(body["round"], int)
        if not whole or BY_DIGEST in body:
            faults.append(
                Fault(
                    f"event {row['seq']}",
                    "a body that is no JSON object, lacks a key, or hides who decided",
                    "one that was logged",
                    "It was altered; restore the ledger from a copy.",
                )
            )
            continue
        events.append(Event(row["experiment"], int(row["seq"]), row["at"], row["kind"], body, row["prev"], row["hash"]))
    if faults:
        raise Refused(f"The event log of {experiment} can't be read", faults)
    return events


def _same(before: Sequence[Event], kind: str, body: Mapping[str, object]) -> Event | None:
    """The event of this kind and body, whatever it was salted with."""
    for event in before:
        unsalted = {name: value for name, value in event.body.items() if name != SALT}
        if event.kind == kind and canonical_json(unsalted) == canonical_json(body):
            return event
    return None


def _refuse_contradiction(before: Sequence[Event], experiment: str, kind: str, body: Mapping[str, object]) -> None:
    round = int(str(body["round"]))
    if kind == "opened":
        due = {current_round(before) + 1} | ({1} if not any(e.kind == "opened" for e in before) else set())
        if round not in due:
            raise Refused(
                f"Round {round} of {experiment} can't be opened: the current round is {current_round(before)}",
                untouched="The log is unchanged.",
            )
    if kind == "first_reading" and any(e.kind == kind and e.round == round for e in before):
        raise Refused(
            f"Another run read the measures of round {round} of {experiment} first, and found other numbers",
            untouched="The log is unchanged; run again, and the reading is recorded after that one.",
        )
    if kind == "frozen":
        other = next(
            (
                e
                for e in before
                if e.kind == "frozen" and e.round == round and e.body["key_digest"] != body["key_digest"]
            ),
            None,
        )
        if other is not None:
            raise Refused(
                f"Round {round} of {experiment} is frozen with the key {other.body['key_digest']}; "
                f"another key, {body['key_digest']}, can't take its place",
                untouched="The log and the key are unchanged; `relgrade revise` opens the next round.",
            )
