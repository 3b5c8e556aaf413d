"""What the grading run costs beyond the processes it starts: against a bare loop that starts the same commands with the
same prompts and throws the answers away, in the same run. For the full test, and by hand:

    PYTHONPATH=relgrade_tests python relgrade_tests/grading_overhead.py
"""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from agents import WHO, fake, prepare
from tiny import study_of

from relgrade_assets.io.grading_run import grade, prompts_of
from relgrade_assets.io.study import Study
from relgrade_assets.methods.prompt import render

AT_A_TIME = 8
QUERIES = 100


@dataclass(frozen=True)
class Found:
    """Seconds of the bare loop and of the grading run, for a command of 200 ms and for one that answers at once."""

    prompts: int
    slow_bare: float
    slow: float
    fast_bare: float
    fast: float

    @property
    def share_of_ideal(self) -> float:
        """Throughput as a share of the bare loop's, 200 ms a command."""
        return self.slow_bare / self.slow

    @property
    def seconds_beyond(self) -> float:
        """Seconds a prompt beyond the bare loop's, answered at once."""
        return max(0.0, self.fast - self.fast_bare) / self.prompts

    def text(self) -> str:
        """As docs/reliability.md states it."""
        beyond = f"{1 / self.seconds_beyond:.0f} prompts a second" if self.seconds_beyond else "nothing measurable"
        return (
            f"{self.prompts} prompts, {AT_A_TIME} at a time: {100 * self.share_of_ideal:.1f}% of the bare loop's pace "
            f"with 200 ms a command ({self.slow:.1f} s against {self.slow_bare:.1f} s); answered at once "
            f"{self.prompts / self.fast:.0f} prompts a second against {self.prompts / self.fast_bare:.0f}: beyond "
            f"process start {1000 * self.seconds_beyond:.1f} ms a prompt, that is {beyond}"
        )


def measure(top: Path, setenv: Callable[[str, str], None]) -> Found:
    """Measure both commands, each in a study of its own, the bare loop just before the run."""
    seconds = []
    for name, options in (("slow", "--sleep 0.2"), ("fast", "")):
        folder = top / name
        folder.mkdir(parents=True)
        prepare(folder, fake(), queries=QUERIES, chunks=10, concurrency=AT_A_TIME, timeout_seconds=60)
        setenv("FAKE_GRADER", options)
        seconds += [_bare(study_of(folder)), _run(study_of(folder))]
    return Found(2 * QUERIES, *seconds)


def _bare(study: Study) -> float:
    texts = [
        render(rows, rubric=study.rubric, top_grade=2, nonce=secrets.token_hex(16)).encode()
        for rows in prompts_of(study.load("sheets"), at_once=5, alone=frozenset())
    ]

    def once(text: bytes) -> None:
        with tempfile.TemporaryDirectory() as empty:
            subprocess.run(fake(), input=text, stdout=subprocess.PIPE, check=True, cwd=empty)

    began = time.monotonic()
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        list(pool.map(once, texts))
    return time.monotonic() - began


def _run(study: Study) -> float:
    last = grade(study, WHO)
    if last.graded != last.of or last.failed:
        raise RuntimeError(f"not all was graded: {last}")
    return last.seconds


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(measure(Path(folder), os.environ.__setitem__).text())
