"""Connections: kept between transactions, replaced when they died meanwhile, and lent for single statements."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from threading import Barrier

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import PoolProxiedConnection, bindparam, column, func, table, text, update
from sqlalchemy.orm import Session

from app.refusals import Unavailable
from app.store import postgresql, states
from app.store.database import Database
from app.usecases.context import Context
from tests import books
from tests.api.calls import create_sketch, post_events, problem

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
    monkeypatch.setattr(postgresql, "_IDLE_SECONDS", 0)
    with closing(Database(database_url)) as kept, closing(Database(database_url)) as other:
        before = _processes(kept, 8)
        assert _processes(kept, 8) == before
        with other.reading() as session:
            session.execute(_END_OTHERS)
        after = _processes(kept, 8)
        assert len(after) == 8
        assert after.isdisjoint(before)


_NOTES = table("notes", column("id"), column("words"))
_REWRITE = update(_NOTES).where(_NOTES.c.id == bindparam("which")).values(words=bindparam("new"))


def _notes(database: Database) -> list[str]:
    with database.reading() as session:
        return [words for (words,) in session.execute(text("SELECT words FROM notes ORDER BY id"))]


def _with_notes(database_url: str) -> Database:
    database = Database(database_url)
    with database.writing() as session:
        session.execute(text("CREATE TABLE notes (id INTEGER PRIMARY KEY, words VARCHAR(20))"))
        session.execute(text("INSERT INTO notes VALUES (1, 'one'), (2, 'two')"))
    return database


def test_a_single_statement_is_committed_and_tells_how_many_rows_it_changed(database_url: str) -> None:
    with closing(_with_notes(database_url)) as kept, closing(Database(database_url)) as other:
        assert kept.carry_out(_REWRITE, {"which": 2, "new": "zwei"}) == 1
        assert kept.carry_out(_REWRITE, {"which": 3, "new": "drei"}) == 0
        assert _notes(other) == ["one", "zwei"]


def test_after_a_single_statement_transactions_are_transactions_again(database_url: str) -> None:
    with closing(_with_notes(database_url)) as kept:
        kept.carry_out(_REWRITE, {"which": 1, "new": "eins"})
        with suppress(ArithmeticError), kept.writing() as session:
            session.execute(text("UPDATE notes SET words = 'lost'"))
            raise ArithmeticError
        assert _notes(kept) == ["eins", "two"]


def test_a_single_statement_that_the_driver_let_go_of_is_prepared_again(database_url: str) -> None:
    if database_url.startswith("sqlite"):
        pytest.skip("SQLite prepares statements by itself")
    with closing(_with_notes(database_url)) as kept:
        for words in ("eins", "one", "uno"):
            assert kept.carry_out(_REWRITE, {"which": 1, "new": words}) == 1
            with kept.writing() as session:
                names = "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'discreet%'"
                assert session.execute(text(names)).scalar_one() == 1
                session.execute(text("DEALLOCATE ALL"))
        assert _notes(kept) == ["uno", "two"]


def test_any_fault_of_the_driver_is_a_refusal_which_nobody_tries_again(database_url: str) -> None:
    """Whether a statement took effect that failed in an odd way, nobody knows."""
    missing = update(table("missing", column("id"))).values(id=bindparam("new"))
    with closing(_with_notes(database_url)) as kept:
        for _ in range(2):
            with pytest.raises(Unavailable):
                kept.carry_out(missing, {"new": 1})
        assert kept.carry_out(_REWRITE, {"which": 1, "new": "eins"}) == 1


def test_an_error_that_the_driver_does_not_know_is_a_refusal_too(database_url: str) -> None:
    if database_url.startswith("sqlite"):
        pytest.skip("SQLite has no errors of others")
    fail = (
        "CREATE FUNCTION fail() RETURNS varchar AS $$ BEGIN RAISE 'no' USING ERRCODE = 'ZZ001'; END $$ LANGUAGE plpgsql"
    )
    with closing(_with_notes(database_url)) as kept:
        with kept.writing() as session:
            session.execute(text(fail))
        with pytest.raises(Unavailable):
            kept.carry_out(update(_NOTES).values(words=func.fail()), {})
        assert _notes(kept) == ["one", "two"]


def _write_slowly(database: Database, setting: str) -> None:
    with database.writing() as session:
        session.execute(text(f"SET {setting} = 50"))
        session.execute(text("UPDATE notes SET words = 'lost'"))
        if setting == "statement_timeout":
            session.execute(text("SELECT pg_sleep(1)"))
        time.sleep(0.2)
        session.execute(text("SELECT 1"))


@pytest.mark.parametrize("setting", ["transaction_timeout", "idle_in_transaction_session_timeout", "statement_timeout"])
def test_a_transaction_that_the_server_ended_after_its_time_is_a_refusal(database_url: str, setting: str) -> None:
    if database_url.startswith("sqlite"):
        pytest.skip("SQLite ends no transaction by itself")
    with closing(_with_notes(database_url)) as kept:
        with pytest.raises(Unavailable):
            _write_slowly(kept, setting)
        assert _notes(kept) == ["one", "two"]


@pytest.mark.parametrize("setting", ["transaction_timeout", "idle_in_transaction_session_timeout"])
def test_a_batch_whose_transaction_was_ended_is_refused_and_not_tried_again(
    client: TestClient, context: Context, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    """It may have been committed, so that another try could count it twice."""
    if context.database.engine.dialect.name == "sqlite":
        pytest.skip("SQLite ends no transaction by itself")
    create_sketch(client)
    tries, write = [], states.write

    def slowly(session: Session, sketch_id: int, stored: bytes, *, over: states.Version | None) -> states.Version:
        written = write(session, sketch_id, stored, over=over)
        tries.append(sketch_id)
        session.execute(text(f"SET LOCAL {setting} = 50"))
        time.sleep(0.2)
        return written

    monkeypatch.setattr(states, "write", slowly)
    refused = post_events(client, ["a"], key="once")
    assert (refused.status_code, problem(refused)) == (503, "unavailable")
    assert len(tries) == 1
    monkeypatch.undo()
    assert post_events(client, ["a"], key="once").status_code == 200
    assert books.counters(context.database) == {"a": 1}


def test_a_single_statement_on_a_connection_that_was_idle_is_committed(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "_IDLE_SECONDS", 0)
    with closing(_with_notes(database_url)) as kept, closing(Database(database_url)) as other:
        for words in ("eins", "one"):
            assert kept.carry_out(_REWRITE, {"which": 1, "new": words}) == 1
            assert _notes(other) == [words, "two"]


def test_a_single_statement_within_a_transaction_is_not_carried_out(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would not be committed."""
    if database_url.startswith("sqlite"):
        pytest.skip("SQLite's driver begins nothing by itself")
    with closing(_with_notes(database_url)) as kept:
        begin = kept.engine.raw_connection

        def begun() -> PoolProxiedConnection:
            pooled: PoolProxiedConnection = begin()
            pooled.cursor().execute("SELECT 1")
            return pooled

        monkeypatch.setattr(kept.engine, "raw_connection", begun)
        with pytest.raises(RuntimeError):
            kept.carry_out(_REWRITE, {"which": 1, "new": "lost"})
        monkeypatch.undo()
        assert _notes(kept) == ["one", "two"]


def test_a_single_statement_sees_what_is_committed_whatever_the_servers_default(database_url: str) -> None:
    if database_url.startswith("sqlite"):
        pytest.skip("SQLite has one writer")
    with closing(_with_notes(database_url)) as first, first.writing() as session:
        name = session.execute(text("SELECT current_database()")).scalar_one()
        session.execute(text(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"))
    level = func.current_setting(bindparam("setting"))
    with closing(Database(database_url)) as kept:
        assert kept.carry_out(update(_NOTES).values(words=level), {"setting": "transaction_isolation"}) == 2
        assert _notes(kept)[0] == "read committed"
