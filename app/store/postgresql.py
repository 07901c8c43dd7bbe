"""PostgreSQL: the engine, and a statement straight on libpq.

It runs READ COMMITTED, and statements lock the rows that they decide on.
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

_WAIT_SECONDS = 10  # for a connection, then 503
_CONNECTIONS = 10  # PostgreSQL allows 100 by default, shared by all workers
_IDLE_SECONDS = 1.0
_USED_AT = "discreet_used_at"
# In libpq: PQTRANS_IDLE; PGRES_COMMAND_OK and PGRES_TUPLES_OK; PG_DIAG_SQLSTATE
_IDLE, _DONE, _SQLSTATE = 0, (1, 2), ord("C")
_NOT_PREPARED = b"26000"


def engine(url: URL) -> Engine:
    made = create_engine(
        url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url,
        pool_size=_CONNECTIONS,
        max_overflow=0,
        pool_use_lifo=True,  # whose caches are warm
        pool_timeout=_WAIT_SECONDS,
        hide_parameters=True,
        isolation_level="READ COMMITTED",  # whatever the server's default
    )
    event.listen(made, "connect", _prepare)
    event.listen(made, "checkin", _note_use)
    event.listen(made, "checkout", partial(_require_alive, made.dialect))
    return made


def carry_out(driver: Any, statement: Any, values: Mapping[str, object]) -> int:
    """One statement as a transaction of its own; how many rows it changed, or tells of if it is a SELECT.

    libpq sends it and waits without the interpreter's lock. The driver's own way takes the lock again at each step, and
    in a busy process it then has to wait for it.
    """
    if driver.pgconn.transaction_status != _IDLE:  # what follows would not be committed
        raise RuntimeError("a connection from the pool is within a transaction")
    prepared = _prepared(statement)
    given, forms = prepared.given(values)
    result = driver.pgconn.exec_prepared(prepared.name, given, forms)
    if result.error_field(_SQLSTATE) == _NOT_PREPARED:  # or no more: after a rollback the driver lets go of all
        _require_done(driver.pgconn.prepare(prepared.name, prepared.words))
        result = driver.pgconn.exec_prepared(prepared.name, given, forms)
    _require_done(result)
    rows: int = result.command_tuples or 0
    return rows


class _Prepared(NamedTuple):
    name: bytes
    words: bytes
    order: Sequence[str]  # of its parameters

    def given(self, values: Mapping[str, object]) -> tuple[list[bytes], list[bool]]:
        """As text, but for bytes; and for each whether it is binary."""
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
    from psycopg.errors import error_from_result  # an extra

    raise error_from_result(result)


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


def _prepare(connection: Any, _record: object) -> None:
    """An answered release must survive a crash of the database, or its budget would come back. And a statement
    that is a transaction of its own would run at the server's isolation level, whatever that is."""
    connection.execute(
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    )
    connection.execute("SELECT set_config('default_transaction_isolation', 'read committed', false)")
    connection.commit()
