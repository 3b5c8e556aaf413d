"""The grading run under kill -9 and cut connections (P20, P23): nothing accepted is lost, nothing is doubled.

Small counts here; the counts that docs/reliability.md states are behind the marker `full`.
"""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import agents
import driving
import postgres
import pytest
from agents import WHO, account, behave, check, fake, prepare, start
from tiny import NAME, home_of, study_of

from relgrade_assets.io.grading_run import grade
from relgrade_assets.io.home import Home
from relgrade_assets.io.study import Study, open_study

CONCURRENCY = 4


def study_at(top: Path, url: str) -> Study:
    return open_study(Home(top, top / ".relgrade", url), NAME)


def copied_ledger(url: str, study: Study) -> None:
    """What the prepared study's ledger holds of reviews and locks, in another database."""
    there = study_at(study.home.top, url)
    reviews = study.ledger.reviews(NAME)
    there.ledger.record_reviews(
        NAME, "bob", reviews.select("query_id", "row_digest", "verdict", "note"), at=study.clock()
    )
    for event in study.log:
        there.happened(event.kind, dict(event.body))


def killed_and_resumed(top: Path, url: str, journal: Path, *, kills: int, seed: str) -> None:
    """Kill the run so many times, each after a random while, and let it end; nothing that was there ever goes."""
    dice = random.Random(seed)  # noqa: S311
    before: set[tuple[object, ...]] = set()
    for _ in range(kills):
        process = start(top, url)
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        process.stdout.readline()
        time.sleep(dice.random() * 0.7)
        process.kill()
        process.wait()
        process.stdout.close()
        now = set(account(study_at(top, url), journal).answers.rows())
        assert before <= now, "an accepted row was lost"
        before = now
    for _ in range(2):  # the second asks again for what the first had to give up
        process = start(top, url)
        out = process.communicate(timeout=600)[0]
        assert process.returncode == 0 and "end " in out, out
    assert before <= set(account(study_at(top, url), journal).answers.rows())


def prepared(top: Path, monkeypatch: pytest.MonkeyPatch, *, queries: int, **options: object) -> Path:
    prepare(top, fake(), queries=queries, chunks=10, concurrency=CONCURRENCY, timeout_seconds=2)
    journal = top / "journal"
    behave(monkeypatch, journal=journal, bad=0.25, seed="kills", **options)
    return journal


def test_killed_at_random_moments_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P20, P23: 200 pairs, 8 kills, the fake misbehaving in every way."""
    journal = prepared(tmp_path, monkeypatch, queries=20, delay=0.5)
    url = home_of(tmp_path).ledger_url
    killed_and_resumed(tmp_path, url, journal, kills=8, seed="small")
    a = check(study_at(tmp_path, url), journal, kills=8, concurrency=CONCURRENCY)
    assert {e["kind"] for e in a.journal} > {"good"} and a.lost.height > 0


@pytest.mark.parametrize(("queries", "least"), [(10, 3), pytest.param(200, 100, marks=pytest.mark.full)])
def test_connections_are_cut_while_it_grades(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queries: int, least: int
) -> None:
    """P23: on PostgreSQL, every connection cut again and again; the run goes on."""
    journal = prepared(tmp_path, monkeypatch, queries=queries, delay=0.2)
    url = postgres.fresh(postgres_url)
    copied_ledger(url, study_of(tmp_path))
    done = threading.Event()
    cuts: list[int] = []

    def cutting() -> None:
        while not done.wait(0.4):
            cuts.append(postgres.cut(url))

    thread = threading.Thread(target=cutting)
    thread.start()
    try:
        last = grade(study_at(tmp_path, url), WHO)
    finally:
        done.set()
        thread.join()
    assert last.graded + last.exhausted == last.of == queries * 10 and sum(cuts) > least
    a = check(study_at(tmp_path, url), journal, kills=0, concurrency=0)
    print(
        f"\npostgresql: {sum(cuts)} connections cut, {a.answers.height} pairs graded of {last.of}, "
        f"{last.exhausted} reported exhausted"
    )


@pytest.mark.full
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_two_thousand_pairs_and_a_hundred_kills(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    """P20, P23: ninety kills of the grading process and ten of a Dagster run (on SQLite; a hundred of the first on
    PostgreSQL).
    """
    journal = prepared(tmp_path, monkeypatch, queries=200, delay=0.4)
    url = home_of(tmp_path).ledger_url
    through_dagster = 10 if database == "sqlite" else 0
    if database == "postgresql":
        url = postgres.fresh(request.getfixturevalue("postgres_url"))
        copied_ledger(url, study_of(tmp_path))
    dice = random.Random("dagster")  # noqa: S311
    for _ in range(through_dagster):
        asked = account(study_at(tmp_path, url), journal).prompts.height
        process = driving.started(tmp_path, "run", NAME, "--job", "regrade")
        agents.wait_for(lambda asked=asked: account(study_at(tmp_path, url), journal).prompts.height > asked, 300)
        time.sleep(dice.random())
        process.kill()
        process.communicate()
    killed_and_resumed(tmp_path, url, journal, kills=100 - through_dagster, seed=database)
    a = check(study_at(tmp_path, url), journal, kills=100, concurrency=CONCURRENCY)
    print(
        f"\n{database}: {a.answers.height} pairs graded, {a.prompts.height} prompts, {a.attempts.height} attempts, "
        f"{a.lost.height} prompts asked again for 100 kills"
    )


@pytest.mark.full
def test_overhead_against_a_bare_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake that takes 200 ms, 8 at a time: at least 95% of the ideal. One that answers at once: at least 50 prompts a
    second beyond what starting the processes costs in the same loop without the ledger.
    """
    from grading_overhead import measure

    found = measure(tmp_path, monkeypatch.setenv)
    print("\n" + found.text())
    assert found.share_of_ideal >= 0.95
    assert found.seconds_beyond <= 1 / 50
