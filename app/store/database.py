"""The engine, and how a transaction begins on each database.

SQLite ignores FOR UPDATE, so a writing transaction takes the write lock at once (BEGIN IMMEDIATE); writers of one
process queue on a lock of ours first, which is fairer than SQLite's polling. PostgreSQL runs READ COMMITTED, and
statements lock the rows that they decide on.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from sqlite3 import Connection as SqliteConnection
from threading import Lock
from typing import Any

from sqlalchemy import Connection, Dialect, Engine, Update, create_engine, event, exc, text
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect
from sqlalchemy.engine import make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import ConnectionPoolEntry

from app.core.errors import Unavailable

log = logging.getLogger("discreet")

_READ_ONLY = "discreet_read_only"
_WAIT_SECONDS = 10  # for this process's turn or for a connection, then 503
_SQLITE_WAIT_SECONDS = 30  # for other processes: SQLite polls, and may let one wait long
_START_LOCK = 0x44534352  # "DSCR": a number that nothing else on this PostgreSQL uses
_SQLITE_POOL = 40  # as many as the threads that carry requests
_IDLE_SECONDS = 1.0
_USED_AT = "discreet_used_at"
_POSTGRESQL_POOL = 10  # PostgreSQL allows 100 connections by default, shared by all workers


class Database:
    """One per process. `reading` and `writing` are the only ways to a session."""

    def __init__(self, url: str) -> None:
        self.engine = _engine(url)
        reader = self.engine.execution_options(**{_READ_ONLY: True})
        self._reading = sessionmaker(reader, expire_on_commit=False)
        self._writing = sessionmaker(self.engine, expire_on_commit=False)
        self._compiled: dict[Update, str] = {}
        self._writers = Lock() if self.engine.dialect.name == "sqlite" else None

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that must not write."""
        with _translated(self.engine.dialect), self._reading.begin() as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A session that is committed when the block ends and rolled back when it raises."""
        with _translated(self.engine.dialect), self._alone(), self._writing.begin() as session:
            yield session

    def carry_out(self, statement: Update, values: Mapping[str, object]) -> int:
        """One statement as a transaction of its own; how many rows it changed.

        Straight on the driver: one that is begun and committed around it takes several times as long, and one of
        SQLAlchemy's twice that.
        """
        compiled = self._compiled.get(statement)
        if compiled is None:
            compiled = self._compiled[statement] = _compiled(statement, self.engine.dialect)
        with _translated(self.engine.dialect), self._alone():
            pooled = self.engine.raw_connection()
            try:
                driver: Any = pooled.driver_connection
                _commit_each_statement(driver, self.engine.dialect, wanted=True)
                rows: int = driver.execute(compiled, values).rowcount
            except BaseException:
                pooled.invalidate()
                raise
            try:
                _commit_each_statement(driver, self.engine.dialect, wanted=False)
                pooled.close()
            except Exception:  # it is committed, whatever becomes of the connection
                pooled.invalidate()
            return rows

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """The turn of this process's one writer, on SQLite."""
        if self._writers is None:
            yield
        elif self._writers.acquire(timeout=_WAIT_SECONDS):
            try:
                yield
            finally:
                self._writers.release()
        else:
            raise Unavailable("Too many writers are waiting. Try again in a moment.")

    @contextmanager
    def starting(self) -> Iterator[Session]:
        """A writing session that only one process has at a time, for what a start must do once."""
        with self.writing() as session:
            if session.get_bind().dialect.name == "postgresql":
                session.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _START_LOCK})
            yield session  # on SQLite every writer is alone

    @contextmanager
    def migrating(self) -> Iterator[Connection]:
        """A connection that may rebuild tables, in one transaction that only one process has at a time.

        SQLite alters a table by copying and dropping it, which enforced foreign keys forbid; they can be let go only
        outside a transaction, and are checked before this one is committed.
        """
        with _translated(self.engine.dialect), self._alone(), self.engine.connect() as connection:
            sqlite = connection.dialect.name == "sqlite"
            if sqlite:
                _pragma(connection, "foreign_keys = OFF")
            try:
                with connection.begin():
                    if not sqlite:
                        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _START_LOCK})
                    yield connection
                    if sqlite and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
                        raise RuntimeError("a migration broke a foreign key")
            finally:
                if sqlite:
                    _pragma(connection, "foreign_keys = ON")

    def close(self) -> None:
        self.engine.dispose()


def _compiled(statement: Update, dialect: Dialect) -> str:
    """With parameters by name, which both drivers take."""
    named = sqlite_dialect(paramstyle="named") if dialect.name == "sqlite" else dialect
    return str(statement.compile(dialect=named))


def _commit_each_statement(driver: Any, dialect: Dialect, *, wanted: bool) -> None:
    if dialect.name != "sqlite":  # which does, as long as nobody begins a transaction
        driver.autocommit = wanted


@contextmanager
def _translated(dialect: Dialect) -> Iterator[None]:
    """A database that is away, busy or shutting down is a refusal that may be retried, not a fault of ours."""
    try:
        yield
    except dialect.loaded_dbapi.Error as error:  # of a driver that was asked directly: it may have taken effect
        raise _unavailable(error) from error
    except exc.DBAPIError as error:
        if not (isinstance(error, exc.OperationalError) or error.connection_invalidated):
            raise
        raise _unavailable(error.orig) from error
    except exc.TimeoutError as error:
        raise _unavailable(error) from error


def _unavailable(cause: BaseException | None) -> Unavailable:
    """The log gets the kind of failure and its code; messages may quote data."""
    log.warning("the database did not answer: %s %s", type(cause).__name__, getattr(cause, "sqlstate", None) or "")
    return Unavailable(
        "Try again in a moment. Without an Idempotency-Key the request may have taken effect all the same."
    )


def _engine(url: str) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        Path(parsed.database or "").parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        engine = create_engine(parsed, pool_size=_SQLITE_POOL, max_overflow=0, pool_use_lifo=True, hide_parameters=True)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    engine = create_engine(
        parsed,
        pool_size=_POSTGRESQL_POOL,
        max_overflow=0,
        pool_use_lifo=True,  # whose caches are warm
        pool_timeout=_WAIT_SECONDS,
        hide_parameters=True,
        isolation_level="READ COMMITTED",  # whatever the server's default
    )
    event.listen(engine, "connect", _prepare_postgresql)
    event.listen(engine, "checkin", _note_use)
    event.listen(engine, "checkout", partial(_require_alive, engine.dialect))
    return engine


def _note_use(_connection: object, record: ConnectionPoolEntry) -> None:
    record.info[_USED_AT] = time.monotonic()


def _require_alive(dialect: Dialect, connection: DBAPIConnection, record: ConnectionPoolEntry, _proxy: object) -> None:
    """A connection that was idle is asked whether it still stands. Not one just used: a round trip for each commit."""
    if time.monotonic() - record.info.get(_USED_AT, time.monotonic()) < _IDLE_SECONDS:
        return
    try:
        dialect.do_ping(connection)
    except dialect.loaded_dbapi.Error as error:
        raise exc.InvalidatePoolError from error  # the others are as old, and go too


def _prepare_postgresql(connection: Any, _record: object) -> None:
    """An answered release must survive a crash of the database, or its budget would come back. And a statement
    that is a transaction of its own would run at the server's isolation level, whatever that is."""
    connection.execute(
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    )
    connection.execute("SELECT set_config('default_transaction_isolation', 'read committed', false)")
    connection.commit()


def _prepare_sqlite(connection: SqliteConnection, _record: object) -> None:
    connection.isolation_level = None  # we begin transactions ourselves
    for pragma in (
        f"busy_timeout = {_SQLITE_WAIT_SECONDS * 1000}",
        "journal_mode = WAL",
        "synchronous = FULL",  # an acknowledged batch survives a power cut
        "foreign_keys = ON",
        "secure_delete = ON",  # erased sketches and fingerprints are overwritten, not just let go
    ):
        connection.execute(f"PRAGMA {pragma}")


def _pragma(connection: Connection, pragma: str) -> None:
    """Straight to the driver, because SQLAlchemy would begin a transaction first."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, SqliteConnection)  # noqa: S101
    driver.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    read_only = connection.get_execution_options().get(_READ_ONLY, False)
    connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
