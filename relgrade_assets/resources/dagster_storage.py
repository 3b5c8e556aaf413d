"""Dagster's own SQLite storage, whose connections are kept open; the files and all that is in them are Dagster's.

The original makes an engine, compiles its statement anew and opens and closes the file for each of the thousands of
statements of a run; closing it writes all of SQLite's log back. That was a quarter of the demo's processor time.
`dagster.yaml` names this class.
"""

import weakref
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Self

from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.runs import SqliteRunStorage
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage, _event_logs_directory, _runs_directory
from dagster._serdes import ConfigurableClassData
from sqlalchemy import Connection, Engine, create_engine, event

KEPT = 4
"""Files of one storage that stay open: the index of events, and the last runs' own."""
BUSY_SECONDS = 30


class Engines:
    """An engine a database file, the last used kept open; all are closed with their owner."""

    def __init__(self, owner: object) -> None:
        """Nothing is opened yet; `owner` is the storage, whose end closes all."""
        self._kept: OrderedDict[str, Engine] = OrderedDict()
        self._lock = Lock()
        weakref.finalize(owner, _close, self._kept)

    def of(self, url: str) -> Engine:
        """The engine of a database."""
        with self._lock:
            engine = self._kept.pop(url, None) or _opened(url)
            self._kept[url] = engine
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)[1].dispose()
        return engine

    def close(self) -> None:
        """Close every file."""
        with self._lock:
            _close(self._kept)


def _opened(url: str) -> Engine:
    # As many connections at once as are asked for: the page's server has many threads, and none may be refused.
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS}, max_overflow=-1)

    @event.listens_for(engine, "connect")
    def _settle(connection: Any, _record: object) -> None:
        # With SQLite's write-ahead log this loses no consistency, at most the last events where the power fails. What
        # people answered is in relgrade's own ledger, which waits for the disk.
        connection.execute("PRAGMA synchronous=NORMAL")

    return engine


def _close(kept: OrderedDict[str, Engine]) -> None:
    while kept:
        kept.popitem()[1].dispose()


class KeptEvents(SqliteEventLogStorage):
    """Events: a file a run, and the index."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        """Makes the index where it is not there."""
        self._engines = Engines(self)
        super().__init__(base_dir, inst_data)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._db_lock:
            engine = self._engines.of(self.conn_string_for_shard(shard))
            if shard not in self._initialized_dbs:
                self._initdb(engine)
                self._initialized_dbs.add(shard)
            with engine.connect() as connection, connection.begin():
                yield connection

    def wipe(self) -> None:
        """Delete every run's file; none is open then."""
        with self._db_lock:
            self._engines.close()
        super().wipe()

    def dispose(self) -> None:
        """Close all files."""
        super().dispose()
        self._engines.close()


class KeptRuns(SqliteRunStorage):
    """Runs: one file."""

    def __init__(self, conn_string: str, inst_data: ConfigurableClassData | None = None) -> None:
        """`from_local` makes the file where it is not there."""
        self._engines = Engines(self)
        super().__init__(conn_string, inst_data)

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A connection in a transaction."""
        with self._engines.of(self._conn_string).connect() as connection, connection.begin():
            yield connection

    def dispose(self) -> None:
        """Close the file."""
        super().dispose()
        self._engines.close()


class KeptSqliteStorage(DagsterSqliteStorage):
    """All of Dagster's storage under one folder, as `storage: sqlite` lays it out."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        """Makes the folder and its files where they are not there."""
        super().__init__(base_dir, inst_data)
        self._event_log_storage = KeptEvents(_event_logs_directory(base_dir))
        self._run_storage = KeptRuns.from_local(_runs_directory(base_dir))

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> Self:
        """As Dagster makes it from `dagster.yaml`."""
        return cls.from_local(inst_data=inst_data, **config_value)
