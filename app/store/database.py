"""The only way to the database: sessions that read, sessions that write, and single statements on the driver.

`sqlite.py` and `postgresql.py` say how connections are made and how a transaction begins.
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

_WAIT_SECONDS = 10  # for the turn to write on SQLite, then 503
# SQLSTATEs of idle_in_transaction_session_timeout and transaction_timeout, which psycopg raises as internal errors
_ENDED_BY_TIMEOUT = ("25P03", "25P04")
_START_LOCK = 0x44534352  # "DSCR": a number that nothing else on this PostgreSQL uses


class Database:
    """The database of this process. `reading`, `writing` and `starting` are the only ways to a session."""

    def __init__(self, url: str) -> None:
        self.kind = sqlite if make_url(url).get_backend_name() == "sqlite" else postgresql
        self.engine = self.kind.engine(make_url(url))
        read_only = self.engine.execution_options(**{sqlite.READ_ONLY: True})
        self._reading = sessionmaker(read_only, expire_on_commit=False)
        self._writing = sessionmaker(self.engine, expire_on_commit=False)
        self._writers = Lock() if self.kind is sqlite else None

    @contextmanager
    def reading(self, *, one_moment: bool = False) -> Iterator[Session]:
        """A session that must not write.

        With `one_moment` all its statements see the database as it was at the first of them. On SQLite they always do;
        PostgreSQL otherwise shows each statement what was committed before that statement.
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
        """Run one statement as a transaction of its own; gives how many rows it changed or, if a SELECT, found.

        The statement goes straight to the driver: a transaction that is begun and committed around it takes several
        times as long, and a session of SQLAlchemy twice that.
        """
        with _translated(self.engine.dialect), self._alone():
            pooled = self.engine.raw_connection()
            try:
                rows: int = self.kind.carry_out(pooled.driver_connection, statement, values)
            except BaseException:
                pooled.invalidate()
                raise
            with suppress(Exception):  # the statement is committed, whatever becomes of the connection
                pooled.close()
            return rows

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """On SQLite, wait for the turn to write: a process has one writer at a time. On PostgreSQL, do nothing."""
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
        """A writing session that only one process has at a time, for what must be done once when several start."""
        with self.writing() as session:
            if self.kind is postgresql:
                session.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _START_LOCK})
            yield session  # on SQLite a writing transaction is always the only one

    @contextmanager
    def migrating(self) -> Iterator[Connection]:
        """A connection that may rebuild tables, in one transaction that only one process has at a time.

        SQLite alters a table by copying and dropping it, which enforced foreign keys forbid. Enforcement can only be
        switched off outside a transaction, so that is done first, and all foreign keys are checked before the commit.
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
        """Close all connections that are not in use."""
        self.engine.dispose()


@contextmanager
def _translated(dialect: Dialect) -> Iterator[None]:
    """A database that is away, busy or shutting down becomes a refusal that the caller may retry, not a fault."""
    try:
        yield
    except dialect.loaded_dbapi.Error as error:  # from `carry_out`, whose statement may have taken effect
        raise _unavailable(error) from error
    except exc.DBAPIError as error:
        ended = getattr(error.orig, "sqlstate", None) in _ENDED_BY_TIMEOUT  # whether it was committed is not known
        if not (isinstance(error, exc.OperationalError) or error.connection_invalidated or ended):
            raise
        raise _unavailable(error.orig) from error
    except exc.TimeoutError as error:
        raise _unavailable(error) from error


def _unavailable(cause: BaseException | None) -> Unavailable:
    """The refusal. The log gets the kind of failure and its SQLSTATE, never the message, which may quote data."""
    log.warning("the database did not answer: %s %s", type(cause).__name__, getattr(cause, "sqlstate", None) or "")
    return Unavailable(
        "Try again in a moment. Without an Idempotency-Key the request may have taken effect all the same."
    )
