"""Reading Parquet that may be broken: what Polars raises then, and without the words that it says itself.

A broken file can make Polars panic: Python gets an exception, of which readers make a refusal, but Rust has written
lines of its own, with a stack, to the process's standard error by then. One that asks for more memory than there is
even ends the process. What columns mean is the readers' business.
"""

from __future__ import annotations

import ctypes
import io
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import IO

import polars as pl

from relgrade_assets.errors import Fault, Refused

BROKEN = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""What Polars raises on a file that is broken; a panic is no Exception, and would end the process."""
ENDED = 2
"""Exit code where Polars ends the process: that of any refusal."""
_STDERR = 2


@dataclass
class _Held:
    """What is held back while files are read, and where it would have gone."""

    names: list[str] = field(default_factory=list)
    text: IO[bytes] | None = None
    stderr: int = -1
    panicked: bool = False
    before: int | None = None
    """Who was told before of an abort."""


_held, _lock = _Held(), Lock()


def not_parquet(name: str, found: str) -> Refused:
    """The refusal of a file that Polars can't read."""
    fault = Fault(name, f"bytes that are not Parquet ({found})", "a whole Parquet file", "Write the file again.")
    return Refused(f"{name} can't be read", [fault])


@contextmanager
def unspoken(name: str) -> Iterator[None]:
    """Holds this process's standard error back until the last file within is read, and says it then; where Polars gave
    a file up, it is let go, with whatever else was said meanwhile. `name` is the file's in messages.

    Where Polars aborts, the process ends with a refusal and ENDED instead of a core dump.
    """
    with _lock:
        if not _held.names:
            _hold_back()
        _held.names.append(name)
    try:
        yield
    except BROKEN:
        _held.panicked = True
        raise
    finally:
        with _lock:
            _held.names.remove(name)
            if not _held.names:
                _let_go()


def read_parquet(source: Path | bytes) -> pl.DataFrame:
    """The whole table. Raises one of BROKEN where it can't be read."""
    with unspoken(source.name if isinstance(source, Path) else "a Parquet file"):
        return pl.read_parquet(io.BytesIO(source) if isinstance(source, bytes) else source)


def _hold_back() -> None:
    with suppress(OSError):  # closed, or no room for a file: there is nothing to hold back, or it is said
        text = tempfile.TemporaryFile()  # noqa: SIM115 - closed by _let_go
        _held.stderr = os.dup(_STDERR)
        os.dup2(text.fileno(), _STDERR)
        _held.text = text
    if _on_abort is not None:
        _held.before = _on_abort(signal.SIGABRT, ctypes.cast(_handler, ctypes.c_void_p).value)


def _let_go() -> None:
    text, stderr, panicked = _held.text, _held.stderr, _held.panicked
    _held.text, _held.stderr, _held.panicked = None, -1, False
    if _on_abort is not None:
        _on_abort(signal.SIGABRT, _held.before)
    if stderr >= 0:
        os.dup2(stderr, _STDERR)
        os.close(stderr)
    if text is not None:
        with text, suppress(OSError):
            text.seek(0)
            os.write(_STDERR, b"" if panicked else text.read())


def _ended(_signal: int) -> None:
    """In the thread that aborts: says what is known and ends at once, as the abort would have."""
    refused = not_parquet(" or ".join(sorted(set(_held.names))), "Polars ends the process over it")
    with suppress(OSError):
        os.write(_held.stderr if _held.stderr >= 0 else _STDERR, f"{refused.message()}\n".encode())
    os._exit(ENDED)


def _handler_setter() -> ctypes._NamedFuncPointer | None:
    """C's `signal`: Python's own handlers run in its main thread, which waits for Polars meanwhile."""
    if sys.platform == "win32":
        return None
    set_handler = ctypes.CDLL(None).signal
    set_handler.restype, set_handler.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p]
    return set_handler


_on_abort = _handler_setter()
_handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(_ended)  # kept, since C has nothing but its address
