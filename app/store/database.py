"""The engine, and how a transaction begins on each database.

SQLite ignores FOR UPDATE, so a writing transaction takes the write lock at once (BEGIN IMMEDIATE); writers of one
process queue on a lock of ours first, which is fairer than SQLite's polling. PostgreSQL runs READ COMMITTED, and
statements lock the rows that they decide on.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from sqlite3 import Connection as SqliteConnection
from threading import Lock

from sqlalchemy import Connection, Engine, create_engine, event, exc, text
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session, sessionmaker

from app.core.errors import Unavailable

_READ_ONLY = "discreet_read_only"
_SQLITE_WAIT_MS = 30_000
_START_LOCK = 0x44534352  # "DSCR": a number that nothing else on this PostgreSQL uses
_POOL = 40  # as many as the thread pool that carries requests


class Database:
    """One per process. `reading` and `writing` are the only ways to a session."""

    def __init__(self, url: str) -> None:
        self.engine = _engine(url)
        reader = self.engine.execution_options(**{_READ_ONLY: True})
        self._reading = sessionmaker(reader, expire_on_commit=False)
        self._writing = sessionmaker(self.engine, expire_on_commit=False)
        self._writers = Lock() if self.engine.dialect.name == "sqlite" else nullcontext()

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that must not write."""
        with _translated(), self._reading.begin() as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A session that is committed when the block ends and rolled back when it raises."""
        with _translated(), self._writers, self._writing.begin() as session:
            yield session

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
        with _translated(), self._writers, self.engine.connect() as connection:
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


@contextmanager
def _translated() -> Iterator[None]:
    """A database that is away, busy or shutting down is a refusal that may be retried, not a fault of ours."""
    try:
        yield
    except (exc.OperationalError, exc.TimeoutError) as error:
        raise Unavailable("Try again in a moment; a request with an Idempotency-Key is safe to repeat.") from error
    except exc.DBAPIError as error:
        if error.connection_invalidated:
            raise Unavailable(
                "The connection was lost; a request with an Idempotency-Key is safe to repeat."
            ) from error
        raise


def _engine(url: str) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        Path(parsed.database or "").parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(parsed, pool_size=_POOL, max_overflow=0, hide_parameters=True)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    return create_engine(parsed, pool_size=_POOL, max_overflow=0, pool_pre_ping=True, hide_parameters=True)


def _prepare_sqlite(connection: SqliteConnection, _record: object) -> None:
    connection.isolation_level = None  # we begin transactions ourselves
    for pragma in (
        f"busy_timeout = {_SQLITE_WAIT_MS}",
        "journal_mode = WAL",
        "synchronous = FULL",  # an acknowledged batch survives a power cut
        "foreign_keys = ON",
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
