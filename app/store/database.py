"""The one way to the database: sessions that read, sessions that write, and statements straight on the driver.

How a transaction begins, and what a connection is told, is in `sqlite.py` and `postgresql.py`.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any

from sqlalchemy import Connection, Dialect, Select, Update, exc, text
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session, sessionmaker

from app.refusals import Unavailable
from app.store import postgresql, sqlite

Statement = Update | Select[Any]

log = logging.getLogger("discreet")

_WAIT_SECONDS = 10  # for this process's turn, then 503
# idle_in_transaction_session_timeout and transaction_timeout, which the driver takes for faults of ours
_ENDED_BY_TIMEOUT = ("25P03", "25P04")
_START_LOCK = 0x44534352  # "DSCR": a number that nothing else on this PostgreSQL uses


class Database:
    """One per process. `reading` and `writing` are the only ways to a session."""

    def __init__(self, url: str) -> None:
        self.kind = sqlite if make_url(url).get_backend_name() == "sqlite" else postgresql
        self.engine = self.kind.engine(make_url(url))
        reader = self.engine.execution_options(**{sqlite.READ_ONLY: True})
        self._reading = sessionmaker(reader, expire_on_commit=False)
        self._writing = sessionmaker(self.engine, expire_on_commit=False)
        self._writers = Lock() if self.kind is sqlite else None

    @contextmanager
    def reading(self, *, one_moment: bool = False) -> Iterator[Session]:
        """A session that must not write. Of one moment: all its statements see the database as it was at the first.

        On SQLite they always do; PostgreSQL shows each statement what was committed before it, if it is not told.
        """
        with _translated(self.engine.dialect), self._reading.begin() as session:
            if one_moment and self.kind is postgresql:
                session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A session that is committed when the block ends and rolled back when it raises."""
        with _translated(self.engine.dialect), self._alone(), self._writing.begin() as session:
            yield session

    def carry_out(self, statement: Statement, values: Mapping[str, object]) -> int:
        """One statement as a transaction of its own; how many rows it changed, or tells of if it is a SELECT.

        Straight on the driver: one that is begun and committed around it takes several times as long, and one of
        SQLAlchemy's twice that.
        """
        with _translated(self.engine.dialect), self._alone():
            pooled = self.engine.raw_connection()
            try:
                rows: int = self.kind.carry_out(pooled.driver_connection, statement, values)
            except BaseException:
                pooled.invalidate()
                raise
            with suppress(Exception):  # it is committed, whatever becomes of the connection
                pooled.close()
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
            if self.kind is postgresql:
                session.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _START_LOCK})
            yield session  # on SQLite every writer is alone

    @contextmanager
    def migrating(self) -> Iterator[Connection]:
        """A connection that may rebuild tables, in one transaction that only one process has at a time.

        SQLite alters a table by copying and dropping it, which enforced foreign keys forbid; they can be let go only
        outside a transaction, and are checked before this one is committed.
        """
        with _translated(self.engine.dialect), self._alone(), self.engine.connect() as connection:
            if self.kind is sqlite:
                sqlite.pragma(connection, "foreign_keys = OFF")
            try:
                with connection.begin():
                    if self.kind is postgresql:
                        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _START_LOCK})
                    yield connection
                    if self.kind is sqlite and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
                        raise RuntimeError("a migration broke a foreign key")
            finally:
                if self.kind is sqlite:
                    sqlite.pragma(connection, "foreign_keys = ON")

    def close(self) -> None:
        self.engine.dispose()


@contextmanager
def _translated(dialect: Dialect) -> Iterator[None]:
    """A database that is away, busy or shutting down is a refusal that may be retried, not a fault of ours."""
    try:
        yield
    except dialect.loaded_dbapi.Error as error:  # of a driver that was asked directly: it may have taken effect
        raise _unavailable(error) from error
    except exc.DBAPIError as error:
        if not (isinstance(error, exc.OperationalError) or error.connection_invalidated or _was_ended(error.orig)):
            raise
        raise _unavailable(error.orig) from error
    except exc.TimeoutError as error:
        raise _unavailable(error) from error


def _was_ended(cause: BaseException | None) -> bool:
    """PostgreSQL ended the transaction after a time that its settings allow: whether it was committed is not known."""
    return getattr(cause, "sqlstate", None) in _ENDED_BY_TIMEOUT


def _unavailable(cause: BaseException | None) -> Unavailable:
    """The log gets the kind of failure and its code; messages may quote data."""
    log.warning("the database did not answer: %s %s", type(cause).__name__, getattr(cause, "sqlstate", None) or "")
    return Unavailable(
        "Try again in a moment. Without an Idempotency-Key the request may have taken effect all the same."
    )
