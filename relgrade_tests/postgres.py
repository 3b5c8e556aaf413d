"""A PostgreSQL server for one test session, on a socket in a temporary folder. Only starting and stopping it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OWNERS = ("postgres", "nobody")
"""Who runs the server where the tests run as root, which PostgreSQL refuses."""


def why_not() -> str:
    """The reason why no server can be started here, or the empty string."""
    missing = [name for name in ("initdb", "pg_ctl") if shutil.which(name) is None]
    return f"{' and '.join(missing)} not on PATH" if missing else ""


@contextmanager
def server() -> Iterator[str]:
    """A new, empty server; its SQLAlchemy URL. It listens on no network address."""
    with tempfile.TemporaryDirectory(prefix="relgrade-pg-") as folder:
        top = Path(folder)
        owner: int | None = None
        if os.geteuid() == 0:
            known = {entry.pw_name: entry for entry in pwd.getpwall()}
            entry = next(known[name] for name in OWNERS if name in known)
            os.chown(top, entry.pw_uid, entry.pw_gid)
            owner = entry.pw_uid

        def run(*words: str) -> None:
            done = subprocess.run(
                words, user=owner, cwd=top, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
            )
            if done.returncode:
                log = top / "log"
                raise RuntimeError(done.stdout + done.stderr + (log.read_text("utf-8") if log.exists() else ""))

        data = str(top / "data")
        run("initdb", "-D", data, "-U", "relgrade", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        run("pg_ctl", "-D", data, "-l", str(top / "log"), "-w", "-o", f"-c listen_addresses='' -k {top} -F", "start")
        try:
            yield f"postgresql+psycopg://relgrade@/postgres?host={top}"
        finally:
            run("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
