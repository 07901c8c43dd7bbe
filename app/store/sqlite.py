"""SQLite: the engine, how a transaction begins, and single statements on the driver.

SQLite ignores FOR UPDATE, so a writing transaction takes the write lock when it begins (BEGIN IMMEDIATE). Writers of
one process first queue for a lock in `database.py`, which is fairer than the polling of SQLite.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from sqlite3 import Connection as Driver
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.dialects.sqlite import dialect

READ_ONLY = "discreet_read_only"  # an execution option: the transaction will not write
_WAIT_SECONDS = 30  # for writers of other processes; polling is unfair, so this may take long
_CONNECTIONS = 40  # as many as there are threads for requests


def engine(url: URL) -> Engine:
    """The engine for a SQLite file, whose folder is made if it is missing."""
    Path(url.database or "").parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = create_engine(url, pool_size=_CONNECTIONS, max_overflow=0, pool_use_lifo=True, hide_parameters=True)
    event.listen(made, "connect", _prepare)
    event.listen(made, "begin", _begin)
    return made


def carry_out(driver: Any, statement: Any, values: Mapping[str, object]) -> int:
    """Run one statement as a transaction of its own; gives how many rows it changed."""
    rows: int = driver.execute(_compiled(statement), values).rowcount
    return rows


@cache
def _compiled(statement: Any) -> str:
    return str(statement.compile(dialect=dialect(paramstyle="named")))


def pragma(connection: Connection, words: str) -> None:
    """Set a PRAGMA on the driver, because SQLAlchemy would begin a transaction first."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, Driver)  # noqa: S101
    driver.execute(f"PRAGMA {words}")


def _prepare(driver: Driver, _record: object) -> None:
    driver.isolation_level = None  # the driver begins no transactions: `_begin` does
    for words in (
        f"busy_timeout = {_WAIT_SECONDS * 1000}",
        "journal_mode = WAL",
        "synchronous = FULL",  # an acknowledged batch survives a power cut
        "foreign_keys = ON",
        "secure_delete = ON",  # erased sketches and fingerprints are overwritten in the file
    ):
        driver.execute(f"PRAGMA {words}")


def _begin(connection: Connection) -> None:
    read_only = connection.get_execution_options().get(READ_ONLY, False)
    connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
