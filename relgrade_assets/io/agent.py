"""One process of a model grader: started fresh in an empty folder with a scrubbed environment, given a prompt, and
ended with all it started (P21, P22).

Only running belongs here: which command, what the prompt says and what the reply means are known elsewhere.
"""

from __future__ import annotations

import importlib.util
import os
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from relgrade_assets.errors import Fault, Refused

MOST_BYTES = 4_000_000
"""A command that prints more is ended: five rows need a few kilobytes."""
_KEY = re.compile(r"API_?KEY|ACCESS_?KEY|AUTH_?TOKEN|ACCESS_?TOKEN|API_?TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.I)
_LEADS_HERE = re.compile(
    r"RELGRADE_|DAGSTER_|PG[A-Z]|(OLD)?PWD$|DATABASE_URL$|(HF|HUGGING_?FACE|GITHUB|GH|REPLICATE|LLM)_?[A-Z_]*(TOKEN|KEY)$"
    r"|CLAUDE_CODE_USE_(BEDROCK|VERTEX|FOUNDRY)$|GOOGLE_GENAI_USE_VERTEXAI$|AWS_"
)
_PIECE = 65_536


@dataclass(frozen=True, slots=True)
class Ran:
    """How one process ended: what it printed, its exit status (None where it was killed), and the seconds it took."""

    end: Literal["ended", "timeout", "flooded", "stopped"]
    status: int | None
    printed: bytes
    errors: bytes
    seconds: float


def environment(given: Mapping[str, str], keeps: Iterable[str]) -> dict[str, str]:
    """P21: `given` without keys of paid interfaces, secrets, and whatever leads to this study, save what is kept by
    name.
    """
    kept = set(keeps)
    return {k: v for k, v in given.items() if k in kept or not (_KEY.search(k) or _LEADS_HERE.match(k))}


def require_program(argv: Sequence[str], grader: str, needs: Iterable[str] = ()) -> None:
    """Refused where the program, or a module of this Python that it needs, is not there, before anything is asked."""
    if shutil.which(argv[0]) is None:
        mend = "Install it, or name another command under run."
        fault = Fault(f"{grader}, run.command", f"no program {argv[0]!r} on PATH", "a program", mend)
        raise Refused(f"{grader} can't be run", [fault])
    if absent := [module for module in needs if importlib.util.find_spec(module) is None]:
        mend = "pip install 'relgrade[local-model]': docs/how-to/local-model.md."
        fault = Fault(f"{grader}, run.command", f"no {' and no '.join(absent)}", "what the local model needs", mend)
        raise Refused(f"{grader} can't be run", [fault])


def version_of(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """The first line that the version's command prints; `unknown` where it gives none within half a minute."""
    with tempfile.TemporaryDirectory(prefix="relgrade-agent-") as empty:
        ran = Agents(env).run(argv, b"", timeout=30, folder=empty)
    lines = ran.printed.decode("utf-8", "replace").strip().splitlines()
    return lines[0][:200] if ran.end == "ended" and ran.status == 0 and lines else "unknown"


class Agents:
    """Processes with one environment, which can all be stopped at once from another thread."""

    def __init__(self, env: Mapping[str, str]) -> None:
        """Nothing is started yet."""
        self._env = dict(env)
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped

    def stop(self) -> None:
        """Kill every process that runs, and all they started; none is started any more."""
        with self._lock:
            self._stopped = True
            for group in self._groups:
                _kill_group(group)

    def run(self, argv: Sequence[str], prompt: bytes, *, timeout: float, folder: str | None = None) -> Ran:
        """Run `argv` once in an empty folder of its own, `prompt` on standard input, for `timeout` seconds at most.

        What it leaves running is killed. Raises OSError where the program can't be started.
        """
        if folder is not None:
            return self._run(argv, prompt, timeout, folder)
        with tempfile.TemporaryDirectory(prefix="relgrade-agent-", ignore_cleanup_errors=True) as empty:
            return self._run(argv, prompt, timeout, empty)

    def _run(self, argv: Sequence[str], prompt: bytes, timeout: float, folder: str) -> Ran:
        began = time.monotonic()
        with self._lock:
            if self._stopped:
                return Ran("stopped", None, b"", b"", 0.0)
            process = subprocess.Popen(  # noqa: S603 - an argv list from the design, never a shell
                list(argv),
                cwd=folder,
                env=self._env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
            self._groups.add(process.pid)
        try:
            end, printed, errors = _attend(process, prompt, began + timeout)
        finally:
            with self._lock:
                _kill_group(process.pid)  # before it is reaped, so that its number is still its own
                self._groups.discard(process.pid)
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        if end == "ended" and process.returncode == -signal.SIGKILL and self.stopped:
            end = "stopped"
        status = process.returncode if end == "ended" else None
        return Ran(end, status, printed, errors, time.monotonic() - began)


def _attend(
    process: subprocess.Popen[bytes], prompt: bytes, until: float
) -> tuple[Literal["ended", "timeout", "flooded", "stopped"], bytes, bytes]:
    """Feed and read a process until it has ended, or until it must be."""
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    if stdin is None or stdout is None or stderr is None:
        raise RuntimeError("unreachable: all three are pipes")
    into, out, err = stdin.fileno(), stdout.fileno(), stderr.fileno()
    took = {out: bytearray(), err: bytearray()}
    rest = memoryview(prompt)
    ended = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else None
    try:
        with selectors.DefaultSelector() as selector:
            for handle in (into, out, err):
                os.set_blocking(handle, False)
            selector.register(into, selectors.EVENT_WRITE)
            for handle in (*took, *([ended] if ended is not None else [])):
                selector.register(handle, selectors.EVENT_READ)
            while True:
                left = until - time.monotonic()
                if left <= 0:
                    return "timeout", bytes(took[out]), bytes(took[err])
                over = False
                for key, _ in selector.select(left if ended is not None else min(left, 0.05)):
                    if key.fd == ended:
                        over = True
                    elif key.fd == into:
                        rest = _feed(selector, key.fd, rest, stdin)
                    elif _take(key.fd, took[key.fd]) == 0:
                        selector.unregister(key.fd)
                    if sum(map(len, took.values())) > MOST_BYTES:
                        return "flooded", bytes(took[out][:MOST_BYTES]), b""
                if over or (ended is None and _is_over(process)):
                    for handle, piece in took.items():
                        while len(piece) <= MOST_BYTES and _take(handle, piece) > 0:
                            pass
                    return "ended", bytes(took[out]), bytes(took[err])
    finally:
        if ended is not None:
            os.close(ended)


def _feed(selector: selectors.BaseSelector, handle: int, rest: memoryview, stdin: object) -> memoryview:
    try:
        rest = rest[os.write(handle, rest[:_PIECE]) :] if rest else rest
    except BrokenPipeError:
        rest = rest[:0]
    except BlockingIOError:
        return rest
    if not rest:
        selector.unregister(handle)
        stdin.close()  # type: ignore[attr-defined]
    return rest


def _take(handle: int, into: bytearray) -> int:
    """Read what is there: how many bytes, 0 where none will come any more, -1 where none are there yet."""
    try:
        piece = os.read(handle, _PIECE)
    except BlockingIOError:
        return -1
    into += piece
    return len(piece)


def _is_over(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended, without reaping it."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
