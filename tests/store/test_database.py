"""Connections to PostgreSQL: kept between transactions, and replaced when they died meanwhile."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier

import pytest
from sqlalchemy import text

from app.store import database
from app.store.database import Database

_PROCESS = text("SELECT pg_backend_pid()")
_END_OTHERS = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
)


def _processes(kept: Database, number: int) -> set[int]:
    """Of so many connections in use at once."""
    together = Barrier(number)

    def ask(_: int) -> int:
        with kept.reading() as session:
            process: int = session.execute(_PROCESS).scalar_one()
            together.wait(30)
            return process

    with ThreadPoolExecutor(number) as threads:
        return set(threads.map(ask, range(number)))


def test_connections_that_died_while_idle_are_replaced(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if database_url.startswith("sqlite"):
        pytest.skip("SQLite has no server that could end")
    monkeypatch.setattr(database, "_IDLE_SECONDS", 0)
    with closing(Database(database_url)) as kept, closing(Database(database_url)) as other:
        before = _processes(kept, 8)
        assert _processes(kept, 8) == before
        with other.reading() as session:
            session.execute(_END_OTHERS)
        after = _processes(kept, 8)
        assert len(after) == 8
        assert after.isdisjoint(before)
