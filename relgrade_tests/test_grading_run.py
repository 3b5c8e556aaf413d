"""The grading run (P20-P23): what is missing is asked, every attempt is kept, and it can be killed anywhere."""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import agents
import driving
import polars as pl
import pytest
from agents import WHO, account, behave, check, fake, pace, prepare
from tiny import NAME, grade_all, study_of

from relgrade_assets.errors import Refused
from relgrade_assets.io import agent, events
from relgrade_assets.io.agent import Ran
from relgrade_assets.io.grading_run import CantStart, Progress, _Done, _Grading, grade, missing, prompts_of

Patch = pytest.MonkeyPatch


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of 60 pairs with its sheets, to be copied."""
    top = tmp_path_factory.mktemp("prepared")
    prepare(top, fake(), queries=12, chunks=5, chunks_a_prompt=3)
    return top


@pytest.fixture
def top(prepared: Path, tmp_path: Path) -> Path:
    return driving.copy(prepared, tmp_path / "top")


def test_everything_missing_is_asked_and_a_rerun_asks_nothing(top: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """P21, P23: at most so many chunks of one query a prompt; the round opens, the sheet is noted."""
    journal = tmp_path / "journal"
    behave(monkeypatch, journal=journal)
    told: list[Progress] = []
    study = study_of(top)
    last = grade(study, WHO, tell=told.append)
    assert (last.graded, last.of, last.failed, last.exhausted) == (60, 60, 0, 0)
    assert [p.graded for p in told] == sorted(p.graded for p in told) and told[-1].graded == 60
    a = check(study_of(top), journal, kills=0, concurrency=0)
    assert a.prompts["chunk_ids"].list.len().sort().to_list() == [2] * 12 + [3] * 12
    assert a.attempts["outcome"].unique().to_list() == ["accepted"]
    assert json.loads(a.attempts["command"][0]) == fake()
    assert a.attempts["version"][0] == f"Python {sys.version.split()[0]}"
    assert [e.kind for e in study.log].count("opened") == 1
    assert study.ledger.latest_issued(NAME, 1, WHO) is not None
    again = grade(study_of(top), WHO)
    assert (again.graded, again.asked) == (60, 0) and len(account(study, journal).journal) == 24


def test_only_what_is_missing_is_asked(top: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """P23: rows that came by file stand, for the bytes that they were given for."""
    journal = tmp_path / "journal"
    behave(monkeypatch, journal=journal)
    grade_all(top, WHO, at_most=13)
    sheet = study_of(top).load("sheets")
    left = set(missing(study_of(top), sheet).select("query_id", "chunk_id").rows())
    assert len(left) == 47
    other = sheet.with_columns(row_digest=pl.col("row_digest").str.reverse())
    assert missing(study_of(top), other).height == 60
    study = study_of(top)
    later = study.ledger.answers(NAME, 1, [WHO]).head(1).with_columns(grade=pl.lit(None, pl.Int64), judge_later=True)
    study.ledger.record_answers(NAME, 1, WHO, later, source="hand", at=study.clock())
    left |= set(later.select("query_id", "chunk_id").rows())
    assert set(missing(study_of(top), sheet).select("query_id", "chunk_id").rows()) == left and len(left) == 48
    assert grade(study_of(top), WHO).asked == 20
    prompts = account(study_of(top), journal).prompts.select("query_id", "chunk_ids").rows()
    asked = [(query, chunk) for query, chunks in prompts for chunk in chunks]
    assert sorted(asked) == sorted(left)


@pytest.mark.parametrize(
    ("kind", "outcome", "why"),
    [
        ("crash", "crashed", "exit status 3"),
        ("half", "refused", "no JSON object"),
        ("prose", "refused", "line 1: no JSON object"),
        ("repeat", "refused", "stands twice"),
        ("invent", "refused", "not asked"),
        ("seven", "refused", "whole number from 0 to 2"),
        ("silent", "refused", "rows"),
        ("hang", "timeout", "longer than 1 seconds"),
    ],
)
def test_a_bad_reply_is_refused_whole_asked_again_and_then_exhausted(
    top: Path, tmp_path: Path, monkeypatch: Patch, kind: str, outcome: str, why: str
) -> None:
    """P20: each attempt on record with its reason and the raw reply; never a grade, never a 0."""
    behave(monkeypatch, always=kind)
    pace(top, attempts=2, timeout_seconds=1 if kind == "hang" else 20, concurrency=12)
    last = grade(study_of(top), WHO)
    assert (last.graded, last.exhausted, last.failed) == (0, 60, 48)
    a = account(study_of(top), tmp_path / "none")
    assert a.answers.is_empty() and len(a.exhausted) == 60
    by_number = dict(a.attempts.group_by("attempt").agg(pl.col("outcome").unique()).iter_rows())
    assert by_number == {1: [outcome], 2: [outcome], 3: ["exhausted"]}
    assert a.attempts.filter(pl.col("attempt") < 3)["reason"].str.contains(why).all()
    if kind in ("seven", "prose"):
        assert a.attempts["raw"].str.contains('"grade": 7' if kind == "seven" else "Here are my grades").sum() == 48
    assert [e.kind for e in study_of(top).log].count("opened") == 0, "a round opens with its first answer (P2)"


def test_exhausted_pairs_are_asked_again_by_themselves(top: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """P20: so that one chunk that no reply is taken for doesn't hold up the others of its prompt."""
    behave(monkeypatch, always="prose")
    pace(top, attempts=1, concurrency=64)
    assert grade(study_of(top), WHO).exhausted == 60
    sheet = study_of(top).load("sheets")
    pairs = account(study_of(top), tmp_path / "none").exhausted
    alone = frozenset(sorted(pairs)[::7])
    parts = prompts_of(sheet, at_once=5, alone=alone)
    assert len(alone) == 9 and all(len(p) == 1 for p in parts if {(r["query_id"], r["chunk_id"]) for r in p} & alone)
    assert sorted((r["query_id"], r["chunk_id"]) for p in parts for r in p) == sorted(pairs)
    assert grade(study_of(top), WHO).asked == 60


def test_an_agent_that_never_answers_is_given_up(top: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """P21: no login or no plan left must not burn through the sheet."""
    behave(monkeypatch, always="crash")
    pace(top, attempts=1, concurrency=2)
    last = grade(study_of(top), WHO)
    assert last.gave_up and 10 <= last.asked <= 16 and last.graded == 0


def test_only_prompts_in_a_row_give_an_agent_up(top: Path) -> None:
    """P21: one that answers now and then is asked to the end."""
    study = study_of(top)
    run = study.design.run_of(WHO)
    assert run is not None
    for steps, gave_up in (([1] * 9 + [0] + [1] * 9, False), ([0, *[1] * 10], True)):
        grading = _Grading(study, WHO, run, study.load("sheets"))
        for bad in steps:
            grading.done.put(_Done(exhausted=1) if bad else _Done(graded=5))
        grading._follow([], 0.0, lambda _: None)
        assert grading.progress.gave_up == gave_up


def test_what_cant_be_run_is_said_before_anything_is_asked(top: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr("relgrade_assets.io.agent.shutil.which", lambda _: None)
    with pytest.raises(CantStart, match="no program"):
        grade(study_of(top), WHO)
    with pytest.raises(Refused, match="not run by a command"):
        grade(study_of(top), "bob")
    assert study_of(top).ledger.latest_issued(NAME, 1, WHO) is None


def test_two_runs_of_one_grader_dont_mix(top: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """P23: the second is told so."""
    behave(monkeypatch, delay=0.5)
    going = threading.Event()
    first = threading.Thread(target=lambda: grade(study_of(top), WHO, tell=lambda _: going.set()))
    first.start()
    assert going.wait(20)
    with pytest.raises(CantStart, match="is being run already"):
        grade(study_of(top), WHO)
    first.join()
    assert account(study_of(top), tmp_path / "none").revisions == 60


def test_every_attempt_is_in_the_ledger_before_the_next_prompt(top: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """P23: what was accepted with its rows, what was refused with its reason; the prompt itself before it is asked."""
    behave(monkeypatch, journal=tmp_path / "journal", bad=0.4, seed="before")
    pace(top, concurrency=1, attempts=20, timeout_seconds=1)
    there: list[tuple[int, int, int, int]] = []
    started = agent.Agents.run

    def run(self: agent.Agents, argv: Sequence[str], said: bytes, *, timeout: float, folder: str | None = None) -> Ran:
        if said:
            a = account(study_of(top), tmp_path / "journal")
            accepted = a.attempts.filter(pl.col("outcome") == "accepted")
            rows = accepted["chunk_ids"].list.len().sum()
            there.append((a.attempts.height, a.revisions - rows, a.prompts.height - accepted.height, a.revisions))
        return started(self, argv, said, timeout=timeout, folder=folder)

    monkeypatch.setattr(agent.Agents, "run", run)
    last = grade(study_of(top), WHO)
    assert last.graded == 60 and last.failed > 3
    assert [n for n, *_ in there] == list(range(24 + last.failed)), "each attempt before the next"
    assert {(rows, asked) for _, rows, asked, _ in there} == {(0, 1)} and there[-1][3] in (57, 58)


def test_a_frozen_round_stops_the_run(top: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """P35."""
    events.append(study_of(top).ledger, NAME, "frozen", {"round": 1, "key_digest": "k"}, study_of(top).clock())
    with pytest.raises(Refused, match="frozen"):
        grade(study_of(top), WHO)
    assert account(study_of(top), tmp_path / "none").revisions == 0


def test_prompts_hold_nothing_but_what_a_grader_sees(top: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """P18, P13: all that reached the command (prompt, arguments, environment, folder), looked through."""
    spy = tmp_path / "spy.py"
    spy.write_text(
        "import json, os, sys\n"
        "entry = [sys.argv, dict(os.environ), os.getcwd(), os.listdir('.'), sys.stdin.read()]\n"
        f"open({str(tmp_path / 'seen')!r}, 'a').write(json.dumps(entry) + '\\n')\n"
    )
    pace(top, command=[sys.executable, str(spy)], attempts=1, concurrency=12)
    assert driving.run(top, *agents.SHEETS).ok
    grade(study_of(top), WHO)
    seen = [json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()]
    prompts = [s for s in seen if s[4]]
    assert len(prompts) == 24
    sheet = study_of(top).load("sheets")
    for argv, environment, folder, files, prompt in prompts:
        assert files == [] and argv == [str(spy)]
        assert not [k for k in environment if k.startswith(("RELGRADE", "DAGSTER", "PWD"))]
        # The folder's random letters now and then spell a short name.
        said = re.sub(r"relgrade-agent-\w+", "relgrade-agent-", " ".join([prompt, folder, *environment.values()]))
        for hidden in ("old.trec", "lexical", "dense", " arm", "rank", "score", NAME + "/", "bob", WHO + " "):
            assert hidden not in said.replace(str(Path(sys.prefix)), ""), hidden
    both = "\n".join(s[4] for s in prompts)
    assert all(both.count(f"chunk_id: {json.dumps(c)}\n") >= 1 for c in sheet["chunk_id"].unique())


def test_interrupted_it_keeps_what_was_accepted_and_goes_on(top: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """P21, P23: SIGTERM and Ctrl-C."""
    journal = tmp_path / "journal"
    behave(monkeypatch, journal=journal, delay=0.3)
    pace(top, concurrency=2)
    for sent, after in ((signal.SIGTERM, 5), (signal.SIGINT, 20)):
        process = driving.started(top, "grade", NAME)
        try:
            agents.wait_for(lambda after=after: account(study_of(top), journal).revisions > after)
            process.send_signal(sent)
            assert process.wait(10) == 3
        finally:
            process.kill()
            out = process.communicate()
        assert "stopped. What was accepted is kept" in out[1] and "Traceback" not in out[1]
    kept = account(study_of(top), journal).answers
    assert 0 < kept.height < 60
    last = grade(study_of(top), WHO)
    assert last.graded == 60 and last.graded_before == kept.height
    a = check(study_of(top), journal, kills=2, concurrency=2)
    assert a.attempts.filter(pl.col("outcome") == "interrupted").height <= 4
