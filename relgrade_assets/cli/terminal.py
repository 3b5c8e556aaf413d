"""What every command says and how it ends: lines for people, exit codes, and refusals as messages.

Without the command line's library, which takes longer to load than `relgrade score` to work; the commands are app.py's.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from relgrade_assets.errors import Fault, NotThere, Refused

OK, NOT_PASSED, BAD_INPUT, WAITING = 0, 1, 2, 3
"""Exit codes: all done; a gate or check refused; bad input, nothing changed; people or files are still waited for."""
INTERRUPTED = 130
"""Exit code of a run that was stopped from the keyboard, as shells have it."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def say(line: str = "") -> None:
    """A line on standard output, control characters escaped."""
    put(_plain(line) + "\n")


def put(text: str) -> None:
    """Text on standard output as it is."""
    sys.stdout.write(text)
    sys.stdout.flush()


def warn(line: str) -> None:
    """A line on standard error, control characters escaped."""
    sys.stderr.write(_plain(line) + "\n")
    sys.stderr.flush()


@contextmanager
def told_to_people() -> Iterator[None]:
    """A refusal in here is printed whole on standard error and exits with 2, waiting with 3."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that can't show a character still gets the rest
    try:
        yield
    except Refused as refused:
        warn(refused.message())
        sys.exit(BAD_INPUT)
    except NotThere as missing:
        warn(f"Waiting: {missing.waiting}.")
        sys.exit(WAITING)
    except OSError as error:
        where = str(error.filename or "the system")
        fault = Fault(where, error.strerror or str(error), "a file or folder that this user may use")
        untouched = "What was taken before stands; mend this and run it again, and nothing is done twice."
        warn(Refused(f"{where} can't be used", [fault], untouched=untouched).message())
        sys.exit(BAD_INPUT)


def _plain(text: str) -> str:
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
