"""The ledger's database: opened by URL, brought to the newest form by Alembic, read and written in transactions.

Only connections, migrations and transactions belong here; which tables there are, and what they mean, is
`ledger.py`'s. SQLite by default, PostgreSQL by URL.
"""

from __future__ import annotations

import sqlite3
import time
import weakref
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from relgrade_assets.errors import Refused

VERSION_TABLE = "relgrade_ledger_version"
MIGRATIONS = Path(__file__).parent / "migrations"
BUSY_SECONDS = 30
_ATTEMPTS = 40
_TRY_AGAIN = {"40001", "40P01", "23505"}
"""What PostgreSQL says to the second of two: serialisation failure, deadlock, unique. SQLite queues writers instead."""
_MIGRATION_LOCK = 0x72656C6772616465

T = TypeVar("T")


class Unusable(Refused):
    """The database can't be used now: gone, cut off, full. Another time it may be."""


def utc_text(at: datetime) -> str:
    """A time as the ledger writes it: UTC, ISO 8601, microseconds, Z. Raises ValueError for a time without a zone."""
    if at.tzinfo is None:
        raise ValueError("times in the ledger have a zone")
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def storable(text: str) -> str:
    """Raw text as every database can hold it: NUL shown as its picture, broken surrogates escaped."""
    return text.replace("\0", "\u2400").encode("utf-8", "backslashreplace").decode()


def matches(table: sa.Table, values: Mapping[str, object]) -> list[sa.ColumnElement[bool]]:
    """That each column named has its value."""
    return [table.c[name] == value for name, value in values.items()]


def is_there(url: str) -> bool:
    """Whether there is a ledger behind `url`, without making one. True where that can't be told: opening it will say
    why.
    """
    try:
        parsed = sa.make_url(url)
        if parsed.get_backend_name() == "sqlite":
            return not parsed.database or Path(parsed.database).exists()
        return sa.inspect(sa.create_engine(parsed, poolclass=NullPool)).has_table(VERSION_TABLE)
    except (SQLAlchemyError, ImportError, OSError):
        return True


class Database:
    """One database behind a URL, opened and migrated. Raises Refused where it can't be opened, is not ours, or is
    newer than this relgrade.
    """

    def __init__(self, url: str) -> None:
        """Open and migrate; a missing SQLite file is made."""
        try:
            parsed = sa.make_url(url)
            self.shown = (
                parsed.database or "memory"
                if parsed.get_backend_name() == "sqlite"
                else parsed.render_as_string(hide_password=True)
            )
            self.sqlite = parsed.get_backend_name() == "sqlite"
            self.engine = (
                _sqlite_engine(parsed)
                if self.sqlite
                else sa.create_engine(parsed, isolation_level="SERIALIZABLE", pool_pre_ping=True)
            )
        except (NoSuchModuleError, ImportError) as error:
            raise Refused(
                f"The ledger's database has no driver here ({error}); install the driver that its URL names"
            ) from error
        except ArgumentError as error:
            raise Refused(
                "The ledger's database URL can't be read; write it like sqlite:///state/ledger.db or postgresql+psycopg://host/name"
            ) from error
        except OSError as error:
            raise Refused(f"The folder of the ledger {self.shown} can't be made: {error.strerror}") from error
        # The desk opens one a request: what is kept open for it goes with it, not when memory is next cleaned up.
        weakref.finalize(self, self.engine.dispose)
        try:
            self._bring_up_to_date()
        except (SQLAlchemyError, UnicodeDecodeError) as error:
            raise self._unusable(error) from error

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Run `work` on one snapshot; again where the connection was cut meanwhile, since reading changes nothing."""
        for again in (True, True, False):
            try:
                with self.engine.connect() as connection, connection.begin():
                    return work(connection)
            except UnicodeDecodeError as error:  # sqlite3's own, of a broken file's names
                raise self._unusable(error) from error
            except SQLAlchemyError as error:
                if not (again and isinstance(error, DBAPIError) and error.connection_invalidated):
                    raise self._unusable(error) from error
        raise RuntimeError("unreachable")

    def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Run `work` in one serialised transaction: all of it or nothing, tried again where another process came
        first.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with self.engine.connect().execution_options(relgrade_write=True) as connection, connection.begin():
                    return work(connection)
            except UnicodeDecodeError as error:
                raise self._unusable(error) from error
            except SQLAlchemyError as error:
                if attempt == _ATTEMPTS or not _came_second(error):
                    raise self._unusable(error) from error
                time.sleep(0.005 * attempt)
        raise RuntimeError("unreachable")

    def close(self) -> None:
        """Let go of every connection."""
        self.engine.dispose()

    def _unusable(self, error: SQLAlchemyError | UnicodeDecodeError) -> Unusable:
        said = (str(error.orig) if isinstance(error, DBAPIError) else str(error)).splitlines()[0]
        if said == "file is not a database":
            said += "; restore it from a copy, or name another by RELGRADE_LEDGER"
        return Unusable(
            f"The ledger {self.shown} can't be used: {said}",
            untouched="Nothing of this step was recorded, or all of it; run it again, nothing is recorded twice.",
        )

    def _bring_up_to_date(self) -> None:
        script = ScriptDirectory(str(MIGRATIONS))
        newest = script.get_current_head()
        if self.read(lambda c: self._version(c, script)) == newest:
            return
        self._write_ahead()
        level = {} if self.sqlite else {"isolation_level": "READ COMMITTED"}
        with self.engine.connect().execution_options(relgrade_write=True, **level) as connection, connection.begin():
            if not self.sqlite:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
            if self._version(connection, script) != newest:
                config = Config()
                config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
                config.attributes["connection"] = connection
                command.upgrade(config, "head")

    def _write_ahead(self) -> None:
        """Put a SQLite file into its write-ahead mode, in which it stays; only once it is known to be ours or empty.

        Another process that opens it at the same moment may hold it: what fails for good fails in the migration.
        """
        for _ in range(_ATTEMPTS if self.sqlite else 0):
            with self.engine.connect() as connection:
                raw: Any = connection.connection.dbapi_connection
                try:
                    raw.execute("PRAGMA journal_mode = WAL")  # raw: outside of any transaction
                    return
                except sqlite3.OperationalError:
                    time.sleep(0.05)

    def _version(self, connection: sa.Connection, script: ScriptDirectory) -> str | None:
        """The migration the database stands at; None for an empty one. Raises Refused where it is not ours, or
        newer.
        """
        tables = sa.inspect(connection).get_table_names()
        if VERSION_TABLE not in tables:
            if (self.sqlite and tables) or {"answers", "refusals", "reviews", "issued", "events"} & set(tables):
                raise Refused(
                    f"{self.shown} is a database, but not a ledger of relgrade "
                    f"(it has the table {tables[0]}); name another"
                )
            return None
        version = connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608 - a constant
        known = {revision.revision for revision in script.walk_revisions()}
        if version is not None and version not in known:
            raise Refused(
                f"The ledger {self.shown} is of a newer relgrade (its form is {version!r}, "
                f"the newest known here is {script.get_current_head()!r}); "
                "use that relgrade, or a newer one"
            )
        return None if version is None else str(version)


def _came_second(error: SQLAlchemyError) -> bool:
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) in _TRY_AGAIN


def _sqlite_engine(url: sa.URL) -> sa.Engine:
    if url.database:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(url, poolclass=NullPool, connect_args={"timeout": BUSY_SECONDS})

    @sa.event.listens_for(engine, "connect")
    def _connect(connection: object, _: object) -> None:
        connection.isolation_level = None  # type: ignore[attr-defined]  # begin is ours, below
        cursor = connection.cursor()  # type: ignore[attr-defined]
        cursor.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        writes = connection.get_execution_options().get("relgrade_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
