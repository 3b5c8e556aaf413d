"""Turns: one run at a time makes an experiment's tables, whether a command or the Dagster page started it.

Two at once would not mix what they write (files are whole, events are transactions), but each would ask graders for the
same rows and find tables outdated under its hands. The kernel gives a killed run's turn back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io.atomic import Held, is_locked, locked, write_bytes
from relgrade_assets.io.home import Home

WAIT_SECONDS = 120.0
TELL_SECONDS = 1.0
_held: set[Path] = set()


@contextmanager
def turn(
    home: Home,
    name: str,
    *,
    run: str = "",
    wait_seconds: float = WAIT_SECONDS,
    tell: Callable[[str], None] = lambda said: None,
) -> Iterator[None]:
    """Hold the turn of an experiment. What this process holds already, or another process of the same Dagster `run`
    (an executor of many processes), is not waited for.

    Waits up to `wait_seconds`, told once what for; then raises Refused naming the process that has the turn.
    """
    path = _lock(home, name)
    if path in _held:
        yield
        return
    began, told = time.monotonic(), False
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(locked(path))
                break
            except Held as held:
                if run and _run_of(path) == run:
                    yield
                    return
                waited = time.monotonic() - began
                if waited >= wait_seconds:
                    raise _refused(name, held.holder) from None
                if not told and waited >= TELL_SECONDS:
                    tell(f"{name} is being run by process {held.holder}; waiting for it to end")
                    told = True
            time.sleep(0.2)
        write_bytes(path.with_suffix(".run"), run.encode())
        _held.add(path)
        try:
            yield
        finally:
            _held.discard(path)


def taken(home: Home, name: str) -> bool:
    """Whether some run has the turn of an experiment at this moment."""
    path = _lock(home, name)
    return path.exists() and is_locked(path)


def _lock(home: Home, name: str) -> Path:
    return home.state.resolve() / "locks" / "turns" / f"{name}.lock"


def _run_of(path: Path) -> str:
    try:
        return path.with_suffix(".run").read_text("utf-8")
    except FileNotFoundError:
        return ""


def _refused(name: str, holder: str) -> Refused:
    found = f"another run of {name}, process {holder} on this machine, which has not ended"
    mend = "Wait for it to end, or end it: what it has accepted stands. Then run again."
    return Refused(
        f"Two runs of {name} at once",
        [Fault(f"the experiment {name}", found, "one run at a time", mend)],
        untouched="This run changed nothing.",
    )
