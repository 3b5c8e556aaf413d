"""The hash chain (P36) and the rounds that follow from it (P4), on SQLite and PostgreSQL."""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from relgrade_assets.errors import Refused
from relgrade_assets.io import events
from relgrade_assets.io.events import Event
from relgrade_assets.io.ledger import Ledger
from relgrade_assets.schemas import Revisions

AT = datetime(2026, 3, 1, tzinfo=UTC)
OPENED = {"cause": "rubric", "what": "boundary rule", "by": "kim", "protocol_digest": "p"}

APPENDER = """
import sys
from datetime import UTC, datetime
from relgrade_assets.io import events
from relgrade_assets.io.ledger import Ledger
ledger = Ledger(sys.argv[1])
print("open", flush=True)
for n in range(int(sys.argv[3])):
    body = {"round": 1, "digest": f"{sys.argv[2]}-{n}"}
    events.append(ledger, "demo", "audit_locked", body, datetime(2026, 1, 1, tzinfo=UTC), once=True)
    print(n, flush=True)
"""


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    made = Ledger(ledger_url)
    yield made
    made.close()


def log_behind(url: str) -> list[Event]:
    with closing(Ledger(url)) as ledger:
        return events.read(ledger, "demo")


def chain(n: int) -> list[Event]:
    made: list[Event] = []
    for seq in range(1, n + 1):
        prev = made[-1].hash if made else events.GENESIS
        body = {"round": seq, "digest": f"ä{seq}"}
        at = f"2026-01-0{seq}T00:00:00.000000Z"
        made.append(
            Event(
                "demo",
                seq,
                at,
                "audit_locked",
                body,
                prev,
                events.event_hash("demo", seq, at, "audit_locked", body, prev),
            )
        )
    return made


def test_golden_chain(ledger: Ledger) -> None:
    """P36: the hashes are those that coreutils' sha256sum gives for the canonical text."""
    events.append(ledger, "demo", "opened", {"round": 1, **OPENED}, AT, salt="s")
    events.append(ledger, "demo", "frozen", {"round": 1, "key_digest": "ä"}, AT + timedelta(hours=1))
    first, second = events.read(ledger, "demo")
    by = hashlib.sha256(b'["s","kim"]').hexdigest()
    text = (
        f'["demo",1,"2026-03-01T00:00:00.000000Z","opened",{{"by_sha256":"{by}","cause":"rubric","protocol_digest":"p",'
        f'"round":1,"what":"boundary rule"}},"{"0" * 64}"]'
    )
    shown = subprocess.run(["sha256sum"], input=text.encode(), capture_output=True, check=True).stdout
    assert first.hash == shown[:64].decode()
    assert (first.prev, second.prev) == ("0" * 64, first.hash)
    text = f'["demo",2,"2026-03-01T01:00:00.000000Z","frozen",{{"key_digest":"ä","round":1}},"{first.hash}"]'
    assert second.hash == hashlib.sha256(text.encode()).hexdigest()
    assert second.hash == "dc3ea9933348607b5fc82a3d97f620f9d5cf714d955cb1744c69fc4c95bc40c8"
    assert events.head(ledger, "demo") == (second.hash, 2)
    assert events.head(ledger, "other") == ("0" * 64, 0)
    assert events.check_chain([first, second]) == []
    assert events.from_jsonl(events.as_jsonl([second])) == [second]


def test_a_published_log_names_nobody_and_its_chain_holds(ledger: Ledger) -> None:
    """P36, P42: graders by their pseudonyms, others in the order of the log; salt and name prove who it was."""
    for round, who in enumerate(("kim", "", "lee", "ann", "kim"), start=1):
        events.append(ledger, "demo", "opened", {"round": round, **OPENED, "by": who}, AT)
    log = events.read(ledger, "demo")
    data = events.as_jsonl(log, {"ann": "grader-1", "eve": "auditor-1"})
    assert not any(f'"{name}"'.encode() in data for name in ("kim", "lee", "ann")) and b"by_salt" not in data
    published = events.from_jsonl(data)
    assert [e.body["by"] for e in published] == ["person-1", "", "person-2", "grader-1", "person-1"]
    assert events.check_chain(published, anchor=events.head_of(log)) == []
    assert events.check_chain(log) == []
    digests = [e.body["by_sha256"] for e in published if e.body["by"]]
    assert len(set(digests)) == 4, "one person's digests can't be told from another's"
    assert events.digest([log[0].body["by_salt"], "kim"]) == digests[0]
    for change in ({"by": "lee"}, {"by_salt": "0"}):
        forged = [replace(log[0], body={**log[0].body, **change}), *log[1:]]
        assert [f.where for f in events.check_chain(forged)] == ["event 1"]
    forged = [replace(published[0], body={**published[0].body, "by_sha256": "0" * 64}), *published[1:]]
    assert [f.where for f in events.check_chain(forged)] == ["event 1"]


def test_a_name_that_the_chain_covers_is_not_published(ledger: Ledger) -> None:
    """P42."""
    body = {"round": 1, **OPENED}
    at = "2026-01-01T00:00:00.000000Z"
    old = Event(
        "demo", 1, at, "opened", body, events.GENESIS, events.event_hash("demo", 1, at, "opened", body, events.GENESIS)
    )
    assert events.check_chain([old]) == []
    with pytest.raises(Refused, match="event 1: found a name"):
        events.as_jsonl([old])


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_a_ledger_that_hides_who_decided_was_altered(ledger: Ledger, ledger_url: str) -> None:
    """P36: the published form is none of the ledger's."""
    events.append(ledger, "demo", "opened", {"round": 1, **OPENED}, AT)
    body = events.canonical_json({**events.committed(events.read(ledger, "demo")[0].body), "by": "lee"}).decode()
    engine = sa.create_engine(ledger_url)
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TRIGGER IF EXISTS events_no_update"))
        for name in (
            connection.execute(sa.text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).scalars().all()
        ):
            connection.execute(sa.text(f"DROP TRIGGER {name}"))
        connection.execute(sa.text("UPDATE events SET body = :body"), {"body": body})
    engine.dispose()
    with pytest.raises(Refused, match="hides who decided"):
        events.read(ledger, "demo")


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    st.integers(0, 4),
    st.sampled_from(["experiment", "seq", "at", "kind", "body", "prev", "hash", "gone", "swap", "resealed"]),
)
def test_any_single_change_is_found(place: int, what: str) -> None:
    """P36, tampering."""
    log = chain(5)
    if what == "resealed":
        if place == 4:
            return
        e = replace(log[place], body={**log[place].body, "digest": "x"})
        log[place] = replace(e, hash=events.event_hash(e.experiment, e.seq, e.at, e.kind, e.body, e.prev))
        assert [fault.where for fault in events.check_chain(log)] == [f"event {place + 2}"]
    elif what == "gone":
        if place == 4:
            return
        del log[place]
    elif what == "swap":
        log[place], log[(place + 1) % 5] = log[(place + 1) % 5], log[place]
    elif what == "seq":
        log[place] = replace(log[place], seq=9)
    elif what == "body":
        log[place] = replace(log[place], body={**log[place].body, "digest": "x"})
    else:
        log[place] = replace(log[place], **{what: "f" * 64})
    assert events.check_chain(log)


def test_a_cut_or_a_consistent_rewrite_needs_the_anchor() -> None:
    """P36: without an outside anchor these can't be excluded; with one they are found."""
    log = chain(5)
    anchor = events.head_of(log)
    assert events.check_chain(log[:3]) == []
    assert [fault.found for fault in events.check_chain(log[:3], anchor=anchor)] == ["3 events"]
    assert events.check_chain(log, anchor=events.head_of(log[:3])) == [], "a log that has grown since"
    forged = [replace(e, experiment="demx") for e in log]
    prev = events.GENESIS
    for i, e in enumerate(forged):
        forged[i] = e = replace(e, prev=prev, hash=events.event_hash("demx", e.seq, e.at, e.kind, e.body, prev))
        prev = e.hash
    assert events.check_chain(forged) == []
    assert events.check_chain(forged, anchor=anchor)


@pytest.mark.parametrize(
    ("change", "where"), [({"experiment": "other"}, "event 3"), ({"seq": 4}, "event 3"), ({}, None)]
)
def test_numbers_and_name_count_where_every_hash_was_made_again(change: dict[str, object], where: str | None) -> None:
    """P36: one experiment, its events counted from 1 without a gap."""
    log = chain(4)
    for i, e in enumerate(log):
        e = replace(e, prev=log[i - 1].hash if i else events.GENESIS, **(change if i == 2 else {}))  # type: ignore[arg-type]
        log[i] = replace(e, hash=events.event_hash(e.experiment, e.seq, e.at, e.kind, e.body, e.prev))
    assert [fault.where for fault in events.check_chain(log)] == ([where] if where else [])


def test_events_of_two_kinds_with_one_body_are_two(ledger: Ledger) -> None:
    """P36: `once` is for the same event alone."""
    body = {"round": 1, "digest": "d"}
    for kind in ("intents_locked", "audit_locked", "audit_locked"):
        events.append(ledger, "demo", kind, body, AT, once=True)
    assert [e.kind for e in events.read(ledger, "demo")] == ["intents_locked", "audit_locked"]


def test_a_change_in_the_database_is_found(ledger: Ledger) -> None:
    """P36: with the triggers taken away, the chain still tells."""
    for n in range(3):
        events.append(ledger, "demo", "audit_locked", {"round": 1, "digest": str(n)}, AT)
    drop = "DROP TRIGGER events_no_update" if ledger.sqlite else "DROP TRIGGER events_append_only ON events"
    ledger.write(lambda c: c.execute(sa.text(drop)))
    change = sa.text("UPDATE events SET body = :body WHERE seq = 2")
    ledger.write(lambda c: c.execute(change, {"body": '{"digest":"9","round":1}'}))
    (fault,) = events.check_chain(events.read(ledger, "demo"))
    assert fault.where == "event 2"
    for body in ("[]", "x", '{"round":1}', '{"digest":"9"}', '{"digest":"9","round":"1"}'):
        ledger.write(lambda c, body=body: c.execute(change, {"body": body}))  # type: ignore[misc]
        with pytest.raises(Refused, match="event 2"):
            events.read(ledger, "demo")


def test_two_processes_keep_one_chain(ledger_url: str) -> None:
    """P36: appended at once, one chain, each event once."""
    writers = [
        subprocess.Popen([sys.executable, "-c", APPENDER, ledger_url, name, "10"], stdout=subprocess.DEVNULL)
        for name in "ab"
    ]
    assert [w.wait() for w in writers] == [0, 0]
    log = log_behind(ledger_url)
    assert events.check_chain(log) == []
    assert sorted(str(e.body["digest"]) for e in log) == sorted(f"{name}-{n}" for name in "ab" for n in range(10))


def test_killed_while_appending(ledger_url: str) -> None:
    """P36, kill -9: what was acknowledged is in the chain, and the rerun doubles nothing."""
    for stop in (2, 5, 7):
        writer = subprocess.Popen(
            [sys.executable, "-c", APPENDER, ledger_url, "a", "400"], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        for _ in range(stop):
            last = int(writer.stdout.readline())
        writer.kill()
        writer.wait()
        writer.stdout.close()
        log = log_behind(ledger_url)
        assert events.check_chain(log) == []
        assert [e.body["digest"] for e in log] == [f"a-{n}" for n in range(len(log))]
        assert len(log) > last


def test_rounds(ledger: Ledger) -> None:
    """P4: the current round is the last opening; rounds are opened one after the other."""
    assert events.current_round([]) == 1
    assert events.rounds([]).schema == events.rounds(chain(2)).schema
    events.append(ledger, "demo", "opened", {"round": 1, **OPENED}, AT)
    events.append(ledger, "demo", "frozen", {"round": 1, "key_digest": "k"}, AT)
    for round in (1, 3):
        with pytest.raises(Refused, match="current round is 1"):
            events.append(ledger, "demo", "opened", {"round": round, **OPENED}, AT)
    events.append(ledger, "demo", "opened", {"round": 2, **OPENED}, AT)
    log = events.read(ledger, "demo")
    assert events.current_round(log) == 2
    assert events.opening(log, 2) == log[-1]
    assert events.opening(log, 3) is None
    frame = events.rounds(log)
    Revisions.validate(frame)
    assert frame.select("round", "at").rows() == [(1, log[0].at), (2, log[2].at)]


def test_another_key_for_a_frozen_round_is_refused(ledger: Ledger) -> None:
    """P33, in the log itself; the same freeze again is one event."""
    body = {"round": 1, "key_digest": "k1"}
    first = events.append(ledger, "demo", "frozen", body, AT, once=True)
    assert events.append(ledger, "demo", "frozen", body, AT + timedelta(1), once=True) == first
    with pytest.raises(Refused, match=r"(?s)k1.*k2"):
        events.append(ledger, "demo", "frozen", {"round": 1, "key_digest": "k2"}, AT)
    events.append(ledger, "demo", "frozen", {"round": 2, "key_digest": "k2"}, AT)
    assert len(events.read(ledger, "demo")) == 2


def test_what_is_no_event(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="an event is one of"):
        events.append(ledger, "demo", "exploded", {}, AT)
    with pytest.raises(ValueError, match="an event is one of"):
        events.append(ledger, "demo", "frozen", {"round": 1}, AT)
    with pytest.raises(Refused, match="line 2"):
        events.from_jsonl(events.as_jsonl(chain(1)) + b"{}\n")
