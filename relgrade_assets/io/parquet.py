"""Reading Parquet that may be broken: what Polars raises then, and without the words of its panics.

A broken file can make Polars panic: Python gets an exception, of which readers make a refusal, but Rust has written
lines of its own, with a stack, to the process's standard error by then. What columns mean is the readers' business.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO

import polars as pl

BROKEN = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""What Polars raises on a file that is broken; a panic is no Exception, and would end the process."""
_STDERR = 2


@dataclass
class _Held:
    """What is held back while `readers` are at work, and where it would have gone."""

    readers: int = 0
    text: IO[bytes] | None = None
    stderr: int = -1
    panicked: bool = False


_held, _lock = _Held(), Lock()


@contextmanager
def unspoken() -> Iterator[None]:
    """Holds this process's standard error back until the last reader within is done, and says it then; where Polars
    gave a file up, it is let go, with whatever else was said meanwhile."""
    with _lock:
        if not _held.readers:
            _hold_back()
        _held.readers += 1
    try:
        yield
    except BROKEN:
        _held.panicked = True
        raise
    finally:
        with _lock:
            _held.readers -= 1
            if not _held.readers:
                _let_go()


def read_parquet(source: Path | bytes) -> pl.DataFrame:
    """The whole table. Raises one of BROKEN where it can't be read."""
    with unspoken():
        return pl.read_parquet(io.BytesIO(source) if isinstance(source, bytes) else source)


def _hold_back() -> None:
    with suppress(OSError):  # closed, or no room for a file: there is nothing to hold back, or it is said
        text = tempfile.TemporaryFile()  # noqa: SIM115 - closed by _let_go
        _held.stderr = os.dup(_STDERR)
        os.dup2(text.fileno(), _STDERR)
        _held.text = text


def _let_go() -> None:
    text, stderr, panicked = _held.text, _held.stderr, _held.panicked
    _held.text, _held.stderr, _held.panicked = None, -1, False
    if stderr >= 0:
        os.dup2(stderr, _STDERR)
        os.close(stderr)
    if text is not None:
        with text, suppress(OSError):
            text.seek(0)
            os.write(_STDERR, b"" if panicked else text.read())
