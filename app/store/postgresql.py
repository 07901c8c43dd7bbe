"""PostgreSQL: the engine, and single statements on libpq.

Transactions run at READ COMMITTED, and statements lock the rows that a decision rests on.
"""

import time
from collections.abc import Mapping, Sequence
from functools import cache, partial
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import URL, Dialect, Engine, create_engine, event, exc
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

_WAIT_SECONDS = 10  # for a connection of the pool, then 503
_CONNECTIONS = 10  # PostgreSQL allows 100 by default, shared by all workers
_IDLE_SECONDS = 1.0  # after which a connection is tested before it is used again
_USED_AT = "discreet_used_at"  # in the pool's notes on a connection: when it was last given back
# In libpq: PQTRANS_IDLE; PGRES_COMMAND_OK and PGRES_TUPLES_OK; PG_DIAG_SQLSTATE
_IDLE, _DONE, _SQLSTATE = 0, (1, 2), ord("C")
_NOT_PREPARED = b"26000"  # the SQLSTATE invalid_sql_statement_name


def engine(url: URL) -> Engine:
    """The engine for a PostgreSQL server, by the driver psycopg."""
    made = create_engine(
        url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url,
        pool_size=_CONNECTIONS,
        max_overflow=0,
        pool_use_lifo=True,  # the connection used last has the warmest caches
        pool_timeout=_WAIT_SECONDS,
        hide_parameters=True,
        isolation_level="READ COMMITTED",  # whatever the default of the server is
    )
    event.listen(made, "connect", _prepare)
    event.listen(made, "checkin", _note_use)
    event.listen(made, "checkout", partial(_require_alive, made.dialect))
    return made


def carry_out(driver: Any, statement: Any, values: Mapping[str, object]) -> int:
    """Run one statement as a transaction of its own; gives how many rows it changed or, if a SELECT, found.

    libpq sends the statement and waits for the result without the interpreter's lock. The usual way of the driver takes
    that lock again at each step, and in a busy process has to wait for it each time.
    """
    if driver.pgconn.transaction_status != _IDLE:  # then the statement would not be committed
        raise RuntimeError("a connection from the pool is within a transaction")
    prepared = _prepared(statement)
    given, formats = prepared.given(values)
    result = driver.pgconn.exec_prepared(prepared.name, given, formats)
    if result.error_field(_SQLSTATE) == _NOT_PREPARED:  # never, or forgotten: after a rollback the driver drops all
        _require_done(driver.pgconn.prepare(prepared.name, prepared.words))
        result = driver.pgconn.exec_prepared(prepared.name, given, formats)
    _require_done(result)
    rows: int = result.command_tuples or 0
    return rows


class _Prepared(NamedTuple):
    """A statement as PostgreSQL keeps it: under a name, with parameters by position."""

    name: bytes
    words: bytes
    order: Sequence[str]  # the names of the parameters, by position

    def given(self, values: Mapping[str, object]) -> tuple[list[bytes], list[bool]]:
        """The parameters, bytes as they are and all else as text; and of each whether it is binary."""
        given = [values[name] for name in self.order]
        return [_given(value) for value in given], [isinstance(value, bytes) for value in given]


@cache
def _prepared(statement: Any) -> _Prepared:
    compiled = statement.compile(dialect=PGDialect(paramstyle="numeric_dollar"))  # type: ignore[no-untyped-call]
    words = str(compiled).encode()
    return _Prepared(b"discreet_" + sha256(words).hexdigest()[:16].encode(), words, compiled.positiontup or ())


def _given(value: object) -> bytes:
    match value:
        case bytes():
            return value
        case list():
            return f"{{{','.join(map(str, value))}}}".encode()
        case int() | str():
            return str(value).encode()
    raise TypeError(f"a statement takes no {type(value).__name__}")


def _require_done(result: Any) -> None:
    if result.status in _DONE:
        return
    from psycopg.errors import error_from_result  # an optional dependency, so not imported above

    raise error_from_result(result)


def _note_use(_connection: object, record: ConnectionPoolEntry) -> None:
    record.info[_USED_AT] = time.monotonic()


def _require_alive(dialect: Dialect, connection: DBAPIConnection, record: ConnectionPoolEntry, _proxy: object) -> None:
    """Test a connection that was idle. One that was just used is trusted: a test costs each commit a round trip."""
    if time.monotonic() - record.info.get(_USED_AT, time.monotonic()) < _IDLE_SECONDS:
        return
    try:
        dialect.do_ping(connection)
    except dialect.loaded_dbapi.Error as error:
        raise exc.InvalidatePoolError from error  # the others in the pool are as old, so all are replaced


def _prepare(connection: Any, _record: object) -> None:
    """Make commits durable and READ COMMITTED the default, whatever the server is set to.

    A release that was answered must survive a crash of the database, or its budget would come back. And `carry_out`
    begins no transaction, so its statements run at the default isolation level of the connection.
    """
    connection.execute(
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    )
    connection.execute("SELECT set_config('default_transaction_isolation', 'read committed', false)")
    connection.commit()
