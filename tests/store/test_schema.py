"""A schema that is no longer the one of the migrations is found, part by part."""

from contextlib import closing

import pytest
from sqlalchemy import Connection

from app.store import schema
from app.store.database import Database
from app.store.schema import APPEND_ONLY


def _found_after(database_url: str, *statements: str) -> list[str]:
    with closing(Database(database_url)) as database:
        with database.migrating() as connection:
            assert schema.faults(connection) == []
            for statement in statements:
                connection.exec_driver_sql(statement)
        with database.reading() as session:
            return schema.faults(session.connection())


def _require(database_url: str, kind: str) -> None:
    if not database_url.startswith(kind):
        pytest.skip(f"only of {kind}")


@pytest.mark.parametrize("table", ["ledgers", "sketch_ledgers", "sketch_origins", "ledger_entries"])
def test_a_table_that_is_missing_is_named(database_url: str, table: str) -> None:
    cascade = "" if database_url.startswith("sqlite") else " CASCADE"
    assert f"the table {table} is missing" in _found_after(database_url, f"DROP TABLE {table}{cascade}")


@pytest.mark.parametrize("table", APPEND_ONLY)
def test_a_trigger_that_was_dropped_is_named(database_url: str, table: str) -> None:
    if database_url.startswith("sqlite"):
        names = [f"{table}_no_update", f"{table}_no_delete"]
        found = _found_after(database_url, *(f"DROP TRIGGER {name}" for name in names))
    else:
        names = [f"{table}_append_only"]
        found = _found_after(database_url, f"DROP TRIGGER {names[0]} ON {table}")
    assert found == [
        f"table {table}: the trigger {name} is missing or was changed, so its rows can be" for name in names
    ]


def test_a_trigger_that_does_nothing_or_is_not_ours_is_named(database_url: str) -> None:
    if database_url.startswith("sqlite"):
        idle = "CREATE TRIGGER {} BEFORE {} ON ledger_entries BEGIN SELECT 1; END"
        found = _found_after(
            database_url,
            "DROP TRIGGER ledger_entries_no_update",
            idle.format("ledger_entries_no_update", "UPDATE"),
            idle.format("extra", "INSERT"),
        )
        name = "ledger_entries_no_update"
    else:
        idle = "CREATE TRIGGER {} BEFORE UPDATE ON ledger_entries FOR EACH STATEMENT EXECUTE FUNCTION idle()"
        found = _found_after(
            database_url,
            "CREATE FUNCTION idle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END$$",
            "DROP TRIGGER ledger_entries_append_only ON ledger_entries",
            idle.format("ledger_entries_append_only"),
            idle.format("extra"),
        )
        name = "ledger_entries_append_only"
    assert found == [
        f"table ledger_entries: the trigger {name} is missing or was changed, so its rows can be",
        "table ledger_entries: the trigger extra is not Discreet's",
    ]


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("ALTER TABLE ledger_entries DISABLE TRIGGER USER", "the trigger ledger_entries_append_only is disabled"),
        ("ALTER TABLE ledger_entries DISABLE TRIGGER ALL", "is disabled"),
        (
            "ALTER TABLE ledgers DROP CONSTRAINT ck_ledgers_within_limit",
            "the check spent >= 0 AND spent <= spendable is",
        ),
        (
            "ALTER TABLE ledger_entries DROP CONSTRAINT uq_ledger_entries_ledger_id_snapshot_id",
            "the unique key (ledger_id",
        ),
        (
            "ALTER TABLE ledger_entries DROP CONSTRAINT fk_ledger_entries_snapshot_id",
            "the foreign key (snapshot_id) to",
        ),
        ("ALTER TABLE sketch_ledgers DROP CONSTRAINT pk_sketch_ledgers", "the primary key (sketch_id, ledger_id)"),
        ("ALTER TABLE sketch_parts DROP CONSTRAINT ck_sketch_parts_one_part", "the check octet_length content <= 4000"),
        ("DROP INDEX ix_sketches_scope_id", "the index on (scope_id)"),
        ("ALTER TABLE ledgers ALTER COLUMN spent DROP NOT NULL", "column spent"),
        ("ALTER TABLE ledgers ALTER COLUMN spent TYPE integer", "column spent"),
        ("ALTER TABLE sketches DROP COLUMN universe", "column universe"),
        (
            "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger AS 'BEGIN RETURN NULL; END' LANGUAGE plpgsql",
            "the trigger snapshots_append_only is missing or was changed",
        ),
    ],
)
def test_what_postgresql_no_longer_enforces_is_named(database_url: str, statement: str, fault: str) -> None:
    _require(database_url, "postgresql")
    found = _found_after(database_url, statement)
    assert [line for line in found if fault in line], found


def test_a_check_that_was_replaced_by_a_weaker_one_is_named(database_url: str) -> None:
    _require(database_url, "postgresql")
    for weaker in ("spent >= 0", "true", "spent >= 0 AND spent <= spendable) NOT VALID --"):
        name = "ck_ledgers_within_limit"
        with closing(Database(database_url)) as database, database.migrating() as connection:
            _replace(connection, name, weaker)
            assert [fault for fault in schema.faults(connection) if "within_limit" in fault or "spent" in fault], weaker


def _replace(connection: Connection, name: str, check: str) -> None:
    connection.exec_driver_sql(f"ALTER TABLE ledgers DROP CONSTRAINT {name}")
    connection.exec_driver_sql(f"ALTER TABLE ledgers ADD CONSTRAINT {name} CHECK ({check}\n)".replace("--\n)", ""))


def test_a_database_whose_sessions_fire_no_triggers_is_named(database_url: str) -> None:
    _require(database_url, "postgresql")
    with closing(Database(database_url)) as database, database.reading() as session:
        session.connection().exec_driver_sql("SET LOCAL session_replication_role = replica")
        assert "session_replication_role is not origin" in schema.faults(session.connection())[0]


@pytest.mark.parametrize(
    ("removed", "fault"),
    [
        (
            "CONSTRAINT ck_ledgers_within_limit CHECK (spent >= 0 AND spent <= spendable)",
            "the check spent >= 0 AND spent",
        ),
        ("CONSTRAINT uq_ledgers_name UNIQUE (name)", "the unique key (name)"),
        (
            "CONSTRAINT fk_ledgers_scope_id FOREIGN KEY(scope_id) REFERENCES allowance_scopes (id)",
            "the foreign key (scope_id)",
        ),
    ],
)
def test_a_table_that_was_rebuilt_without_a_constraint_is_named_on_sqlite(
    database_url: str, removed: str, fault: str
) -> None:
    _require(database_url, "sqlite")
    with closing(Database(database_url)) as database:
        with database.migrating() as connection:
            query = "SELECT sql FROM sqlite_master WHERE name = 'ledgers'"
            made = str(connection.exec_driver_sql(query).scalar_one())
            rest = made.replace(f"{removed}, ", "").replace(f", \n\t{removed}", "").replace(f"{removed},", "")
            assert rest != made, made
            connection.exec_driver_sql("DROP TABLE ledgers")
            connection.exec_driver_sql(rest)
        with database.reading() as session:
            found = schema.faults(session.connection())
    assert [line for line in found if fault in line], found


def test_a_row_that_refers_to_a_missing_one_is_named(database_url: str) -> None:
    _require(database_url, "sqlite")
    with closing(Database(database_url)) as database:
        with database.engine.connect() as connection:
            driver = connection.connection.driver_connection
            assert driver is not None
            driver.execute("PRAGMA foreign_keys = OFF")
            driver.execute("INSERT INTO sketch_ledgers VALUES (7, 7)")
            driver.execute("PRAGMA foreign_keys = ON")
        with database.reading() as session:
            assert schema.faults(session.connection()) == ["table sketch_ledgers: a row refers to one that is missing"]
