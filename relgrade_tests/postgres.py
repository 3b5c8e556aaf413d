"""A PostgreSQL server for one test session, on a socket in a temporary folder: starting and stopping it, an empty
database for a test, and cutting connections.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import sqlalchemy as sa

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


_NUMBER = count(1)


def fresh(url: str) -> str:
    """The URL of a new, empty database of the server."""
    name = f"test_{next(_NUMBER)}"
    _as_owner(url, f"CREATE DATABASE {name}")
    return sa.make_url(url).set(database=name).render_as_string(hide_password=False)


def cut(url: str) -> int:
    """Cut every connection to a database, as a restart or a network does; returns how many there were."""
    name = sa.make_url(url).database
    return _as_owner(
        sa.make_url(url).set(database="postgres").render_as_string(hide_password=False),
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
    )


def connected(url: str) -> int:
    """How many connections to a database there are."""
    name = sa.make_url(url).database
    return _as_owner(
        sa.make_url(url).set(database="postgres").render_as_string(hide_password=False),
        f"SELECT pid FROM pg_stat_activity WHERE datname = '{name}'",
    )


def _as_owner(url: str, statement: str) -> int:
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        done = connection.execute(sa.text(statement))
        return len(done.all()) if done.returns_rows else 0
