"""Grading by model agents: what is missing is asked, many at a time, and every attempt is in the ledger before that
worker's next (P20-P23).

Order, retries, stopping and counting belong here. One process is `agent.py`'s, the prompt and the reply are
`methods/`'s, rows in the ledger `attempts.py`'s.
"""

from __future__ import annotations

import os
import queue
import random
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import polars as pl

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io import agent, attempts
from relgrade_assets.io.atomic import locked
from relgrade_assets.io.attempts import Attempt, Prompt, Result
from relgrade_assets.io.calibration import require_calibrated
from relgrade_assets.io.database import Unusable
from relgrade_assets.io.frames import content_digest
from relgrade_assets.io.ledger import Whose
from relgrade_assets.io.presets import Command, NoReply, command_of
from relgrade_assets.io.rounds import open_first_round
from relgrade_assets.io.study import Study
from relgrade_assets.io.worksheets import sheet_of
from relgrade_assets.methods import prompt as rendering
from relgrade_assets.methods.reply import NotTheRows, Row, read_reply
from relgrade_assets.methods.sheets import BLIND
from relgrade_assets.protocol.canonical import digest_bytes
from relgrade_assets.protocol.design import Run

LONGEST_PAUSE = 60.0
DATABASE_AWAY_SECONDS = 60.0
"""So long an answer waits to be recorded where the database is away, before the run ends."""
STOPPED_SECONDS = 3.0
"""The same, where the run is being stopped meanwhile."""
GIVE_UP_AFTER = 10
"""Prompts exhausted one after another, none accepted between: the agent is not fit to run (no login, no plan left)."""

T = TypeVar("T")


class CantStart(Refused):
    """The grader can't be run now: its program is missing, or another process is running it."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a grader is: pairs graded of all; in this run prompts asked, attempts not accepted, pairs exhausted."""

    grader: str
    graded: int
    of: int
    graded_before: int
    asked: int
    failed: int
    exhausted: int
    seconds: float
    at: datetime
    gave_up: bool = False
    why: str = ""
    """Why the last attempt that was not accepted was not."""

    @property
    def per_minute(self) -> float:
        """Pairs graded a minute, in this run."""
        return 60 * (self.graded - self.graded_before) / self.seconds if self.seconds > 0 else 0.0

    @property
    def ends(self) -> datetime | None:
        """When all will be graded at this pace; None while there is none."""
        if self.graded == self.graded_before:
            return None
        return self.at + timedelta(minutes=(self.of - self.graded) / self.per_minute)

    def numbers(self) -> dict[str, Any]:
        """As the UI's metadata."""
        ends = {"estimated_end": self.ends.isoformat(timespec="seconds")} if self.ends else {}
        return {
            "grader": self.grader,
            "graded": self.graded,
            "of": self.of,
            "percent": round(100 * self.graded / self.of, 1) if self.of else 100.0,
            "per_minute": round(self.per_minute, 1),
            "attempts_not_accepted": self.failed,
            "exhausted": self.exhausted,
            **ends,
        }

    def __str__(self) -> str:
        ends = f", done about {self.ends:%Y-%m-%d %H:%M} UTC" if self.ends and self.graded < self.of else ""
        bad = f", {self.failed} attempts not accepted" if self.failed else ""
        out = f", {self.exhausted} pairs exhausted" if self.exhausted else ""
        return f"{self.grader}: {self.graded} of {self.of} pairs graded, {self.per_minute:.1f} a minute{bad}{out}{ends}"


Tell = Callable[[Progress], None]


def grade(study: Study, grader: str, *, tell: Tell = lambda _: None) -> Progress:
    """Ask for what is missing of a grader's sheet, and return how far that came; `tell` hears of each prompt done.

    Raises CantStart where nothing can be asked, Refused where the sheet or the protocol is not current or the ledger
    stays away. An interruption of the calling thread (a signal's exception) kills the agents, keeps what was accepted,
    and goes on its way.
    """
    run = study.design.run_of(grader)
    if run is None:
        fault = Fault(f"{grader}, run", "no command", "one that grades", "Or `relgrade sheets` and `relgrade collect`.")
        raise Refused(f"{grader} is not run by a command", [fault])
    sheet = sheet_of(study, grader)
    study.require_protocol_of_round()
    try:
        require_calibrated(study)
    except Refused as early:
        raise CantStart(early.what, early.faults) from early
    lock = locked(study.home.state / "locks" / f"{study.name}.{grader}.lock")
    try:
        lock.__enter__()
    except Refused as held:
        raise CantStart(f"{grader} is being run already: {held}", untouched=held.untouched) from held
    try:
        return _Grading(study, grader, run, sheet).go(tell)
    finally:
        lock.__exit__(None, None, None)


def grade_all(study: Study, who: Sequence[str], *, tell: Tell = lambda _: None) -> list[str]:
    """Run those of `who` that have a command, one after another, for what is missing. Returns why some could not be
    run: that is waiting, no failure. Raises Refused as `grade` does.
    """
    unable = []
    for grader in who:
        if study.design.run_of(grader) is None:
            continue
        try:
            last = grade(study, grader, tell=tell)
        except CantStart as why:
            unable.append("; ".join([why.what, *map(str, why.faults)]))
        else:
            if last.asked and last.graded < last.of:
                tell(last)
            if last.gave_up:
                unable.append(f"{grader} was given up: {GIVE_UP_AFTER} prompts or more exhausted one after another")
    return unable


def every(seconds: float, tell: Tell) -> Tell:
    """`tell`, at most once in so many seconds, and whenever all is graded or given up."""
    last = time.monotonic()

    def seldom(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= seconds or progress.gave_up or progress.graded == progress.of:
            last = time.monotonic()
            tell(progress)

    return seldom


def missing(study: Study, sheet: pl.DataFrame) -> pl.DataFrame:
    """Rows of one grader's sheet that have no answer for the bytes they show (P23), in sheet order."""
    who = sheet["grader"].unique().to_list()
    given = study.ledger.answers(study.name, study.round, who).filter(~pl.col("judge_later"))
    return sheet.join(given, on=["grader", "query_id", "chunk_id", "row_digest"], how="anti", maintain_order="left")


def prompts_of(rows: pl.DataFrame, *, at_once: int, alone: frozenset[tuple[str, str]]) -> list[list[dict[str, str]]]:
    """P21: blind rows in parts of one query and at most `at_once` chunks, in sheet order; a pair in `alone`, whose
    prompt was exhausted before, gets one of its own.
    """
    parts: list[list[dict[str, str]]] = []
    for row in rows.select(BLIND).to_dicts():
        by_itself = (row["query_id"], row["chunk_id"]) in alone
        last = parts[-1] if parts else []
        fits = last and len(last) < at_once and last[0]["query_id"] == row["query_id"]
        if fits and not by_itself and (last[0]["query_id"], last[0]["chunk_id"]) not in alone:
            last.append(row)
        else:
            parts.append([row])
    return parts


class _Grading:
    """One run of one grader."""

    def __init__(self, study: Study, grader: str, run: Run, sheet: pl.DataFrame) -> None:
        self.study, self.grader, self.run = study, grader, run
        self.whose = Whose(study.name, study.round, grader)
        self.top = study.design.scale.top
        self.rubric = study.rubric
        self.command: Command = command_of(run)
        self.digests = {(q, c): d for q, c, d in sheet.select("query_id", "chunk_id", "row_digest").rows()}
        self.sheet_digest = content_digest(sheet)
        left = missing(study, sheet)
        alone = attempts.exhausted(study.ledger, self.whose)
        self.waiting = deque(prompts_of(left, at_once=run.chunks_a_prompt, alone=alone))
        self.progress = Progress(
            grader, sheet.height - left.height, sheet.height, sheet.height - left.height, 0, 0, 0, 0.0, study.clock()
        )
        self.stopping = threading.Event()
        self.done: queue.SimpleQueue[_Done | BaseException] = queue.SimpleQueue()
        self.opening = threading.Lock()
        self.opened = False
        self.version = "unknown"

    def go(self, tell: Tell) -> Progress:
        if not self.waiting:
            return self.progress
        env = agent.environment(os.environ, self.command.keeps)
        try:
            agent.require_program(self.command.argv, self.grader, self.command.needs)
        except Refused as absent:
            raise CantStart(absent.what, absent.faults) from None
        self.version = agent.version_of(self.command.version, env)
        self.agents = agent.Agents(env)
        ledger, now = self.study.ledger, self.study.clock()
        whose = (self.study.name, self.study.round, self.grader)
        self._keep(lambda: ledger.record_issued(*whose, self.sheet_digest, at=now))
        workers = [
            threading.Thread(target=self._work, name=f"grader-{n}", daemon=True)
            for n in range(min(self.run.concurrency, len(self.waiting)))
        ]
        began = time.monotonic()
        try:
            for worker in workers:
                worker.start()
            self._follow(workers, began, tell)
        finally:
            self.stopping.set()
            self.agents.stop()
            for worker in workers:
                if worker.ident is not None:
                    worker.join()
        while not self.done.empty():
            self._count(self.done.get(), began)
        return self.progress

    def _follow(self, workers: Sequence[threading.Thread], began: float, tell: Tell) -> None:
        in_a_row = 0
        while any(w.is_alive() for w in workers) or not self.done.empty():
            try:
                done = self.done.get(timeout=0.2)
            except queue.Empty:
                continue
            self._count(done, began)
            tell(self.progress)
            if isinstance(done, _Done):
                in_a_row = in_a_row + 1 if done.exhausted else 0 if done.graded else in_a_row
            if in_a_row >= max(GIVE_UP_AFTER, 2 * self.run.concurrency):
                self.progress = replace(self.progress, gave_up=True)
                return

    def _count(self, done: _Done | BaseException, began: float) -> None:
        if isinstance(done, BaseException):
            raise done
        p = self.progress
        self.progress = replace(
            p,
            graded=p.graded + done.graded,
            asked=p.asked + done.asked,
            failed=p.failed + done.failed,
            exhausted=p.exhausted + done.exhausted,
            seconds=time.monotonic() - began,
            at=self.study.clock(),
            why=done.why or p.why,
        )

    def _work(self) -> None:
        try:
            while not self.stopping.is_set():
                try:
                    rows = self.waiting.popleft()
                except IndexError:
                    return
                self._ask(rows)
        except BaseException as error:
            self.done.put(error)

    def _ask(self, rows: list[dict[str, str]]) -> None:
        """One prompt, as often as it takes or the design allows."""
        text, prompt = self._render(rows)
        self._keep(lambda: attempts.record_prompt(self.study.ledger, self.whose, prompt, at=self.study.clock()))
        self.done.put(_Done(asked=1))
        for number in range(1, self.run.attempts + 1):
            tried, graded = self._try(text, prompt, number)
            if tried.outcome == "accepted":
                self._open_round()
            self._record(prompt, tried, self._answers(prompt, graded))
            if tried.outcome in ("accepted", "interrupted"):
                self.done.put(_Done(graded=len(graded)))
                return
            self.done.put(_Done(failed=1, why=f"{tried.outcome}: {tried.reason}"))
            if number < self.run.attempts and self.stopping.wait(self._pause(number)):
                return
        end = Attempt(
            self.run.attempts + 1, self.command.argv, self.version, self.command.model, self.study.clock(), 0.0, None,
            "exhausted", f"{self.run.attempts} attempts without a reply to accept", b"",
        )  # fmt: skip
        self._record(prompt, end, [])
        self.done.put(_Done(exhausted=len(rows)))

    def _render(self, rows: list[dict[str, str]]) -> tuple[bytes, Prompt]:
        """P22: the prompt with a nonce nobody knows, drawn again where a passage happens to hold it."""
        while True:
            nonce = secrets.token_hex(16)
            if not any(nonce in value for row in rows for value in row.values()) and nonce not in self.rubric:
                break
        text = rendering.render(rows, rubric=self.rubric, top_grade=self.top, nonce=nonce).encode()
        chunks = tuple(row["chunk_id"] for row in rows)
        return text, Prompt(digest_bytes(text), nonce, rows[0]["query_id"], chunks, rendering.TEMPLATE)

    def _try(self, text: bytes, prompt: Prompt, number: int) -> tuple[Attempt, list[Row]]:
        started = self.study.clock()
        try:
            ran = self.agents.run(self.command.argv, text, timeout=self.run.timeout_seconds)
        except OSError as error:
            ran = agent.Ran("ended", None, b"", str(error).encode(), 0.0)
        outcome, reason, graded = self._judge(ran, prompt)
        return Attempt(
            number, self.command.argv, self.version, self.command.model, started, ran.seconds, ran.status, outcome,
            reason, ran.printed,
        ), graded  # fmt: skip

    def _judge(self, ran: agent.Ran, prompt: Prompt) -> tuple[Result, str, list[Row]]:
        """P20: what became of a process."""
        match ran.end:
            case "stopped":
                return "interrupted", "stopped from outside", []
            case "timeout":
                return "timeout", f"longer than {self.run.timeout_seconds} seconds", []
            case "flooded":
                return "refused", f"more than {agent.MOST_BYTES} bytes", []
        if ran.status != 0:
            said = ran.errors.decode("utf-8", "replace").strip()[-300:]
            return "crashed", f"exit status {ran.status}{': ' * bool(said)}{said}", []
        try:
            reply = self.command.reply(ran.printed.decode())
            rows = read_reply(reply, query_id=prompt.query_id, chunk_ids=prompt.chunk_ids, top_grade=self.top)
        except UnicodeDecodeError:
            return "refused", "no UTF-8", []
        except NoReply as error:
            return "crashed", str(error), []
        except NotTheRows as error:
            return "refused", str(error), []
        return "accepted", "", rows

    def _answers(self, prompt: Prompt, graded: list[Row]) -> list[dict[str, Any]]:
        return [
            {
                "query_id": prompt.query_id,
                "chunk_id": row.chunk_id,
                "reason": row.reason,
                "grade": row.grade,
                "unrateable": row.unrateable,
                "judge_later": False,
                "corpus_cleanup": row.corpus_cleanup,
                "row_digest": self.digests[prompt.query_id, row.chunk_id],
            }
            for row in graded
        ]

    def _record(self, prompt: Prompt, tried: Attempt, answers: list[dict[str, Any]]) -> None:
        ledger, at = self.study.ledger, self.study.clock()
        self._keep(lambda: attempts.record_attempt(ledger, self.whose, prompt, tried, answers, at=at))

    def _open_round(self) -> None:
        with self.opening:
            if not self.opened:
                self._keep(lambda: open_first_round(self.study))
                self.opened = True

    def _keep(self, write: Callable[[], T]) -> T:
        """Write to the ledger, again and again while it is away: what an agent answered is not to be lost for that."""
        give_up = time.monotonic() + DATABASE_AWAY_SECONDS
        pause = 0.1
        while True:
            try:
                return write()
            except Unusable:
                if self.stopping.is_set():
                    give_up = min(give_up, time.monotonic() + STOPPED_SECONDS)
                if time.monotonic() + pause > give_up:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, 5.0)

    def _pause(self, number: int) -> float:
        longest = min(self.run.pause_seconds * 2.0 ** (number - 1), LONGEST_PAUSE)
        return longest * random.uniform(0.5, 1.5)  # noqa: S311 - so that many don't come back at once


@dataclass(frozen=True, slots=True)
class _Done:
    """What a worker tells the thread that waits."""

    graded: int = 0
    asked: int = 0
    failed: int = 0
    exhausted: int = 0
    why: str = ""
