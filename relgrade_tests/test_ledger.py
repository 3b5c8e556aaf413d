"""The ledger (P23, P35): nothing accepted is lost or doubled, under real kills and two processes."""

import hashlib
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import polars as pl
import postgres
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.exc import IntegrityError

from relgrade_assets.errors import Refused
from relgrade_assets.io import attempts, events
from relgrade_assets.io.attempts import Attempt, Prompt
from relgrade_assets.io.database import VERSION_TABLE, utc_text
from relgrade_assets.io.ledger import ANSWERS, METADATA, REFUSALS, REVIEWS, ROWS, Ledger, Recorded, Whose

AT = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC)

WRITER = """
import sys
from datetime import UTC, datetime
import polars as pl
from relgrade_assets.io.ledger import ROWS, Ledger
ledger = Ledger(sys.argv[1])
print("open", flush=True)
for n in range(int(sys.argv[2]), 400):
    rows = [(f"q{n:03}", f"c{i}", "why", i % 3, False, False, False, "d") for i in range(5)]
    frame = pl.DataFrame(rows, schema=pl.Schema(ROWS), orient="row")
    ledger.record_answers("demo", 1, "a", frame, source=f"{n}.jsonl", at=datetime(2026, 1, 1, tzinfo=UTC))
    print(n, flush=True)
"""


def rows(*given: tuple[str, str, int | None], reason: str | None = "says so", **flags: bool) -> pl.DataFrame:
    flag = {"unrateable": False, "judge_later": False, "corpus_cleanup": False, **flags}
    filled = [
        (q, c, reason, g, flag["unrateable"], flag["judge_later"], flag["corpus_cleanup"], "d") for q, c, g in given
    ]
    return pl.DataFrame(filled, schema=pl.Schema(ROWS), orient="row")


@pytest.fixture
def opened() -> Iterator[Callable[[str], Ledger]]:
    """Opens ledgers, and closes them after the test."""
    ledgers: list[Ledger] = []

    def open_one(url: str) -> Ledger:
        ledgers.append(Ledger(url))
        return ledgers[-1]

    yield open_one
    for each in ledgers:
        each.close()


@pytest.fixture
def url(ledger_url: str) -> str:
    return ledger_url


@pytest.fixture
def ledger(url: str, opened: Callable[[str], Ledger]) -> Ledger:
    return opened(url)


MINE = Whose("demo", 1, "a")
PROMPT = Prompt("digest", "nonce", "q1", ("c1", 'c"2'), "1")


def attempt(number: int, outcome: attempts.Result, raw: bytes, why: str = "not the rows") -> Attempt:
    return Attempt(number, ("my-agent", "-q"), "1.2.3", "a-model", AT, 0.25, 0, outcome, why, raw)


def record(ledger: Ledger, frame: pl.DataFrame, grader: str = "a", round: int = 1) -> Recorded:
    return ledger.record_answers("demo", round, grader, frame, source="file.jsonl", at=AT)


def stored(ledger: Ledger, table: str) -> list[tuple[object, ...]]:
    return ledger.read(lambda c: [tuple(r) for r in c.execute(METADATA.tables[table].select().order_by("id"))])


def test_an_answer_again_is_the_same_and_another_is_the_next_revision(ledger: Ledger) -> None:
    """P23: idempotent; the view takes the highest revision, the table keeps all."""
    assert record(ledger, rows(("q1", "c1", 1), ("q1", "c2", 0))) == Recorded(2, 0, 0)
    assert record(ledger, rows(("q1", "c1", 1), ("q1", "c2", 2))) == Recorded(0, 1, 1)
    assert record(ledger, rows(("q1", "c1", 1), ("q1", "c2", 0), ("q2", "c1", 1))) == Recorded(1, 1, 1)
    assert record(ledger, rows(("q1", "c1", 1), reason=None)) == Recorded(0, 1, 0)
    assert record(ledger, rows(("q1", "c1", None), unrateable=True)) == Recorded(0, 1, 0)
    assert len(stored(ledger, "answers")) == 7
    found = ledger.answers("demo", 1, ["a"])
    assert found.schema == pl.Schema(ANSWERS)
    assert found.select("query_id", "chunk_id", "grade", "unrateable", "answered_at").rows() == [
        ("q1", "c1", None, True, "2026-03-01T12:00:00.000005Z"),
        ("q1", "c2", 0, False, "2026-03-01T12:00:00.000005Z"),
        ("q2", "c1", 1, False, "2026-03-01T12:00:00.000005Z"),
    ]


def test_rounds_graders_and_experiments_are_apart(ledger: Ledger) -> None:
    """P4: an answer belongs to one round."""
    record(ledger, rows(("q1", "c1", 1)))
    record(ledger, rows(("q1", "c1", 2)), round=2)
    record(ledger, rows(("q1", "c1", 0)), grader="b")
    ledger.record_answers("other", 1, "a", rows(("q1", "c1", 2)), source="f", at=AT)
    assert ledger.answers("demo", 1, ["a"])["grade"].to_list() == [1]
    assert ledger.answers("demo", 1, ["b", "a"]).select("grader", "grade").rows() == [("a", 1), ("b", 0)]
    assert ledger.answers("demo", 2, ["a", "b"])["grade"].to_list() == [2]
    assert ledger.answers("demo", 3, ["a"]).schema == pl.Schema(ANSWERS)
    assert ledger.answers("demo", 1, []).is_empty()


def test_many_queries_at_once_and_ids_that_look_like_numbers(ledger: Ledger) -> None:
    many = rows(*[(f"{n:03}", "007", n % 3) for n in range(300)])
    assert record(ledger, many) == Recorded(300, 0, 0)
    assert record(ledger, many.reverse()) == Recorded(0, 0, 300)
    assert ledger.answers("demo", 1, ["a"])["query_id"].to_list() == [f"{n:03}" for n in range(300)]


def test_answers_that_are_none_are_refused_whole(ledger: Ledger) -> None:
    bad = pl.concat(
        [
            rows(("q1", "c1", 1), ("q1", "c1", 2), ("q1", "c2", 10), ("q1", "c3", None)),
            rows(("q1", "c4", 1), unrateable=True),
        ]
    )
    with pytest.raises(Refused) as caught:
        record(ledger, bad)
    assert len(caught.value.faults) == 4
    assert stored(ledger, "answers") == []
    assert record(ledger, pl.concat([rows(("q1", "c1", 1))] * 2)) == Recorded(1, 0, 1)


def test_a_frozen_round_takes_nothing(ledger: Ledger) -> None:
    """P35: after the freeze an answer is refused, also of a grader who had none; the same again is no change.

    The next round is open.
    """
    events.append(ledger, "demo", "audit_locked", {"round": 1, "digest": "d"}, AT)
    events.append(ledger, "demo", "first_reading", {"round": 1, "key_digest": "k"}, AT)
    record(ledger, rows(("q1", "c1", 1)))
    events.append(ledger, "demo", "frozen", {"round": 1, "key_digest": "k"}, AT)
    before = stored(ledger, "answers")
    for grader, frame in (("a", rows(("q1", "c1", 2))), ("a", rows(("q1", "c9", 1))), ("late", rows(("q1", "c1", 1)))):
        with pytest.raises(Refused, match=r"Round 1 of demo is frozen.*relgrade revise"):
            record(ledger, frame, grader)
    assert stored(ledger, "answers") == before
    assert record(ledger, rows(("q1", "c1", 1))) == Recorded(0, 0, 1)
    assert record(ledger, rows(("q1", "c1", 2)), round=2) == Recorded(1, 0, 0)
    assert ledger.record_answers("other", 1, "a", rows(("q1", "c1", 2)), source="f", at=AT).new == 1


def test_digests_are_of_content_alone(ledger: Ledger, tmp_path: Path) -> None:
    """P2: when, from where and in how many steps does not change the digest; what is said does."""
    record(ledger, rows(("q1", "c1", 1), ("q1", "c2", 0)))
    other = Ledger(f"sqlite:///{tmp_path / 'other.db'}")
    for given in (("q1", "c2", 2), ("q1", "c2", 0), ("q1", "c1", 1)):
        other.record_answers("demo", 1, "a", rows(given), source="b", at=AT + timedelta(days=1))
    assert ledger.answers_digest("demo", 1, ["a"]) == other.answers_digest("demo", 1, ["a"])
    assert ledger.answers_digest("demo", 1, ["a"]) != ledger.answers_digest("demo", 1, ["b"])
    record(ledger, rows(("q1", "c2", 0), reason="other words"))
    assert ledger.answers_digest("demo", 1, ["a"]) != other.answers_digest("demo", 1, ["a"])
    text = (
        '["answers",["round","grader","query_id","chunk_id","reason","grade","unrateable","judge_later",'
        '"corpus_cleanup","row_digest"]]\n[1,"a","q1","c1","says so",1,false,false,false,"d"]\n'
        '[1,"a","q1","c2","says so",0,false,false,false,"d"]'
    )
    assert other.answers_digest("demo", 1, ["a"]) == hashlib.sha256(text.encode()).hexdigest(), "on every machine"


def test_reviews(ledger: Ledger) -> None:
    """P17: the latest by query, row digest and reviewer; a changed row has none."""
    schema = ["query_id", "row_digest", "verdict", "note"]
    frame = pl.DataFrame(
        [("q1", "d1", "ok", None), ("q2", "d2", "change", "two readings")], schema=schema, orient="row"
    )
    before = ledger.reviews_digest("demo")
    assert ledger.record_reviews("demo", "eve", frame, at=AT) == Recorded(2, 0, 0)
    assert ledger.record_reviews("demo", "eve", frame, at=AT + timedelta(1)) == Recorded(0, 0, 2)
    mended = frame.with_columns(verdict=pl.lit("ok"))
    assert ledger.record_reviews("demo", "eve", mended, at=AT + timedelta(1)) == Recorded(0, 1, 1)
    assert ledger.record_reviews("demo", "bob", frame.head(1), at=AT) == Recorded(1, 0, 0)
    found = ledger.reviews("demo")
    assert found.schema == pl.Schema(REVIEWS)
    assert found.select("query_id", "reviewer", "at", "verdict").rows() == [
        ("q1", "bob", utc_text(AT), "ok"),
        ("q1", "eve", utc_text(AT), "ok"),
        ("q2", "eve", utc_text(AT + timedelta(1)), "ok"),
    ]
    assert ledger.reviews_digest("demo") != before
    assert ledger.reviews("other").schema == pl.Schema(REVIEWS)
    with pytest.raises(Refused, match="ok or change"):
        ledger.record_reviews("demo", "eve", frame.with_columns(verdict=pl.lit("fine")), at=AT)


def test_refusals_are_kept_raw_and_once(ledger: Ledger) -> None:
    """P20, P23: refused rows and whole replies, as they came."""
    given = [(3, '{"grade": "two"}', "grade is text"), (None, "I think\0 it is \ud800 a 2", "not the asked rows")]
    assert ledger.record_refusals("demo", 1, "a", given, source="q1, attempt 1", at=AT) == 2
    assert ledger.record_refusals("demo", 1, "a", given, source="q1, attempt 1", at=AT + timedelta(1)) == 0
    assert ledger.record_refusals("demo", 1, "a", given[1:], source="q1, attempt 2", at=AT) == 1
    found = ledger.refusals("demo", 1)
    assert found.schema == pl.Schema(REFUSALS)
    assert found["line"].to_list() == [3, None, None]
    assert found["raw"].to_list()[1] == "I think\u2400 it is \\ud800 a 2"
    assert ledger.refusals("demo", 1, "b").schema == pl.Schema(REFUSALS)
    assert ledger.answers("demo", 1, ["a"]).is_empty(), "a refusal is never a grade"


def test_issued_sheets(ledger: Ledger) -> None:
    assert ledger.latest_issued("demo", 1, "a") is None
    assert ledger.record_issued("demo", 1, "a", "s1", at=AT)
    assert not ledger.record_issued("demo", 1, "a", "s1", at=AT + timedelta(1))
    assert ledger.record_issued("demo", 1, "a", "s2", at=AT)
    assert ledger.record_issued("demo", 1, "a", "s1", at=AT)
    assert ledger.latest_issued("demo", 1, "a") == "s1"
    assert len(stored(ledger, "issued")) == 3


@pytest.mark.parametrize("table", sorted(METADATA.tables))
@pytest.mark.parametrize("change", ["UPDATE {} SET experiment = 'x'", "DELETE FROM {}"])
def test_nothing_is_changed_or_taken_out(ledger: Ledger, table: str, change: str) -> None:
    """P23, P36: the database itself refuses, whoever asks."""
    record(ledger, rows(("q1", "c1", 1)))
    ledger.record_refusals("demo", 1, "a", [(1, "x", "y")], source="f", at=AT)
    review = pl.DataFrame([("q", "d", "ok", "")], schema=["query_id", "row_digest", "verdict", "note"], orient="row")
    ledger.record_reviews("demo", "eve", review, at=AT)
    ledger.record_issued("demo", 1, "a", "s", at=AT)
    events.append(ledger, "demo", "audit_locked", {"round": 1, "digest": "d"}, AT)
    attempts.record_prompt(ledger, MINE, PROMPT, at=AT)
    attempts.record_attempt(ledger, MINE, PROMPT, attempt(1, "refused", b"prose"), at=AT)
    with pytest.raises(Refused, match="append-only"):
        ledger.write(lambda c: c.execute(sa.text(change.format(table))))
    assert (
        ledger.read(lambda c: c.execute(sa.select(sa.func.count()).select_from(METADATA.tables[table])).scalar()) == 1
    )


@pytest.mark.parametrize("table", ["answers", "reviews", "events"])
def test_a_revision_or_a_number_stands_once(ledger: Ledger, table: str) -> None:
    """P23, P36: the database itself refuses a second row of the same revision, whoever writes it."""
    record(ledger, rows(("q1", "c1", 1)))
    review = pl.DataFrame([("q", "d", "ok", "")], schema=["query_id", "row_digest", "verdict", "note"], orient="row")
    ledger.record_reviews("demo", "eve", review, at=AT)
    events.append(ledger, "demo", "audit_locked", {"round": 1, "digest": "d"}, AT)
    columns = ", ".join(c.name for c in METADATA.tables[table].columns if c.name != "id")
    again = sa.text(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {table}")
    with pytest.raises(IntegrityError), ledger.engine.begin() as connection:
        connection.execute(again)
    assert ledger.read(lambda c: c.execute(sa.text(f"SELECT count(*) FROM {table}")).scalar()) == 1


def test_an_attempt_and_its_answers_are_recorded_once_and_together(ledger: Ledger) -> None:
    """P20, P21, P23: what was run and what came back, raw up to 200 kB and whole by its digest; the answers with it."""
    answers = rows(("q1", "c1", 2), ("q1", 'c"2', 0)).to_dicts()
    for _ in range(2):
        attempts.record_prompt(ledger, MINE, PROMPT, at=AT)
        attempts.record_attempt(ledger, MINE, PROMPT, attempt(1, "refused", b"\xff\x00" + b"x" * 300_000), at=AT)
        attempts.record_attempt(ledger, MINE, PROMPT, attempt(2, "accepted", b"rows", ""), answers, at=AT)
    assert attempts.asked(ledger, MINE).rows() == [("digest", "nonce", "q1", ["c1", 'c"2'], "1", utc_text(AT))]
    tried = attempts.tried(ledger, MINE)
    assert tried.schema == pl.Schema(attempts.TRIED)
    assert tried.select(
        "attempt", "outcome", "reason", "command", "version", "model", "seconds", "exit_status"
    ).rows() == [
        (1, "refused", "not the rows", '["my-agent", "-q"]', "1.2.3", "a-model", 0.25, 0),
        (2, "accepted", "", '["my-agent", "-q"]', "1.2.3", "a-model", 0.25, 0),
    ]
    assert tried["raw"][0] == "\\xff\u2400" + "x" * 199_998
    assert tried["raw_digest"][0] == hashlib.sha256(b"\xff\x00" + b"x" * 300_000).hexdigest()
    assert ledger.answers("demo", 1, ["a"]).select("query_id", "chunk_id", "grade").rows() == [
        ("q1", 'c"2', 0),
        ("q1", "c1", 2),
    ]
    assert len(stored(ledger, "answers")) == 2
    assert attempts.exhausted(ledger, MINE) == frozenset()
    attempts.record_attempt(ledger, MINE, PROMPT, attempt(3, "exhausted", b""), at=AT)
    assert attempts.exhausted(ledger, MINE) == {("q1", "c1"), ("q1", 'c"2')}
    for whose in (Whose("demo", 2, "a"), Whose("demo", 1, "b"), Whose("other", 1, "a")):
        assert attempts.exhausted(ledger, whose) == frozenset()
        assert attempts.asked(ledger, whose).is_empty() and attempts.tried(ledger, whose).is_empty()
    assert attempts.tried(ledger, whose).schema == pl.Schema(attempts.TRIED)


def test_a_frozen_round_takes_no_accepted_attempt(ledger: Ledger) -> None:
    """P35: neither the attempt nor its answers."""
    attempts.record_prompt(ledger, MINE, PROMPT, at=AT)
    events.append(ledger, "demo", "frozen", {"round": 1, "key_digest": "k"}, AT)
    with pytest.raises(Refused, match="frozen"):
        attempts.record_attempt(
            ledger, MINE, PROMPT, attempt(1, "accepted", b"rows"), rows(("q1", "c1", 2)).to_dicts(), at=AT
        )
    assert stored(ledger, "attempts") == stored(ledger, "answers") == []


def test_a_ledger_of_the_first_form_is_brought_up_to_date_with_its_rows(tmp_path: Path) -> None:
    """P23: migration 0002 on a ledger that 0001 made."""
    url = f"sqlite:///{tmp_path / 'old.db'}"
    old = Ledger(url)
    record(old, rows(("q1", "c1", 1)))
    with sqlite3.connect(tmp_path / "old.db") as connection:
        connection.executescript(
            "DROP TABLE prompts; DROP TABLE attempts; UPDATE relgrade_ledger_version SET version_num = '0001'"
        )
    connection.close()
    new = Ledger(url)
    assert new.answers("demo", 1, ["a"])["grade"].to_list() == [1]
    attempts.record_prompt(new, MINE, PROMPT, at=AT)
    with pytest.raises(Refused, match="append-only"):
        new.write(lambda c: c.execute(sa.text("DELETE FROM prompts")))


def test_killed_while_answers_are_recorded(url: str, opened: Callable[[str], Ledger]) -> None:
    """P23, kill -9: every acknowledged answer is there, none twice, no query in part."""
    acknowledged = -1
    for kill in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, url, str(max(acknowledged, 0))], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        for _ in range(3 + 4 * kill):
            acknowledged = int(writer.stdout.readline())
        time.sleep(0.0013 * kill)
        writer.send_signal(signal.SIGKILL)
        acknowledged = max([acknowledged, *[int(line) for line in writer.stdout.read().splitlines() if line.isdigit()]])
        assert writer.wait() == -signal.SIGKILL
        writer.stdout.close()
        found = opened(url).answers("demo", 1, ["a"]).group_by("query_id").len().sort("query_id")
        assert found["len"].to_list() == [5] * found.height, "whole transactions only"
        assert found.height - 1 in (acknowledged, acknowledged + 1)
    revisions = opened(url).read(lambda c: c.execute(sa.text("SELECT max(revision) FROM answers")).scalar())
    assert revisions == 1, "repeating the last query added nothing"


def test_two_processes_record_at_once(url: str, opened: Callable[[str], Ledger]) -> None:
    """P23: two runs of one partition; nothing doubled."""
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, url, "388"], stdout=subprocess.DEVNULL) for _ in range(2)
    ]
    assert [w.wait() for w in writers] == [0, 0]
    found = opened(url)
    assert len(stored(found, "answers")) == 12 * 5
    assert found.answers("demo", 1, ["a"]).height == 12 * 5


def test_a_database_that_is_no_ledger(tmp_path: Path) -> None:
    """Refused: another program's database, no database, a newer form, no driver, no URL."""
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE shopping (item TEXT)")
    connection.close()
    (tmp_path / "text.db").write_text("not a database, and long enough to be looked at" * 50)
    newer = tmp_path / "newer.db"
    Ledger(f"sqlite:///{newer}").close()
    with sqlite3.connect(newer) as connection:
        connection.execute("UPDATE relgrade_ledger_version SET version_num = '9999'")
    connection.close()
    (tmp_path / "folder").mkdir()
    for url, said in {
        f"sqlite:///{other}": "not a ledger of relgrade .it has the table shopping",
        f"sqlite:///{tmp_path / 'text.db'}": "not a database",
        f"sqlite:///{newer}": "newer relgrade",
        f"sqlite:///{tmp_path / 'folder'}": "unable to open",
        f"sqlite:///{tmp_path / 'text.db' / 'x.db'}": "can't be made",
        "nonsense": "can't be read",
        "nothing://x": "no driver",
    }.items():
        with pytest.raises(Refused, match=said):
            Ledger(url)


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_a_database_that_goes_away(ledger_url: str, ledger: Ledger, tmp_path: Path) -> None:
    record(ledger, rows(("q1", "c1", 1)))
    (tmp_path / "state").rename(tmp_path / "away")
    for act in (lambda: ledger.answers("demo", 1, ["a"]), lambda: record(ledger, rows(("q1", "c1", 2)))):
        with pytest.raises(Refused, match="can't be used"):
            act()
    (tmp_path / "away").rename(tmp_path / "state")
    assert record(ledger, rows(("q1", "c1", 1))) == Recorded(0, 0, 1)


def test_migrations_make_what_the_code_expects(ledger: Ledger) -> None:
    """Against Alembic's own comparison; SQLite in WAL mode with full synchronisation."""

    def ours(_: object, name: str | None, kind: str, *__: object) -> bool:
        return not (kind == "table" and name == VERSION_TABLE)

    with ledger.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"include_object": ours, "compare_type": True})
        assert compare_metadata(context, METADATA) == []
        if not ledger.sqlite:
            return
        pragma = {
            n: connection.execute(sa.text(f"PRAGMA {n}")).scalar()
            for n in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert pragma == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_connections_that_were_cut_are_opened_again(postgres_url: str, opened: Callable[[str], Ledger]) -> None:
    """P23: nothing recorded is lost, and the next step goes on."""
    url = postgres.fresh(postgres_url)
    ledger = opened(url)
    record(ledger, rows(("q1", "c1", 1)))
    assert postgres.cut(url) >= 1
    assert record(ledger, rows(("q1", "c1", 1), ("q1", "c2", 2))) == Recorded(1, 0, 1)


def test_connections_go_with_the_ledger_that_opened_them(postgres_url: str) -> None:
    """P23: the desk opens a ledger a request; PostgreSQL takes a hundred connections and no more."""
    url = postgres.fresh(postgres_url)
    for _ in range(10):
        assert Ledger(url).answers("x", 1, ["ann"]).height == 0
    until = time.monotonic() + 30
    while left := postgres.connected(url):
        assert time.monotonic() < until, f"{left} connections are still open"
        time.sleep(0.05)


def test_times_are_utc_and_have_a_zone() -> None:
    assert utc_text(datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))) == "2025-12-31T23:00:00.000000Z"
    with pytest.raises(ValueError, match="zone"):
        utc_text(datetime(2026, 1, 1))
