"""Is the schema of the database still the one that the migrations made?

A constraint or trigger that somebody has dropped leaves no trace in the rows, and from then on the database no longer
refuses what it should. So everything that the tables of `tables.py` have is looked for, and the append-only triggers
too. What else there is does no harm, except for triggers that are not ours.
"""

import re
from collections.abc import Iterable, Iterator

from sqlalchemy import (
    CheckConstraint,
    Connection,
    Dialect,
    ForeignKeyConstraint,
    Inspector,
    UniqueConstraint,
    inspect,
    text,
)
from sqlalchemy import Table as SqlTable

from app.store.tables import Table

APPEND_ONLY = ("ledger_entries", "snapshot_bars", "snapshot_sketches", "snapshots")

Parts = dict[str, object]  # what a table has: in words, and as it is defined

_POSTGRESQL_ALONE = "one_part"  # a check (`tables.py`)
_CAST = re.compile(r"::[a-z ]+(\(\d+\))?(\[\])?")
_ANY_OF = re.compile(r"= ANY \(+ARRAY\[")
_REFUSING = (
    " BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation'; END "
)
_BEFORE_EACH_STATEMENT = 2 | 8 | 16 | 32  # in pg_trigger: before, of DELETE, UPDATE and TRUNCATE
_TRIGGERS = text(
    "SELECT c.relname AS table, t.tgname AS name, t.tgenabled::text IN ('O', 'A') AS enabled,"
    " t.tgisinternal AS internal, t.tgtype AS kind, t.tgqual IS NULL AS always, p.prosrc AS source"
    " FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid"
    " WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY(:tables)"
    " ORDER BY c.relname, t.tgname"
)
_NOT_VALID = text(
    "SELECT c.relname, k.conname FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid"
    " WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY(:tables) AND NOT k.convalidated"
)


def faults(connection: Connection) -> list[str]:
    """Everything that is missing or was changed, in sentences without a full stop."""
    found = inspect(connection)
    present = set(found.get_table_names())
    wrong = [f"the table {table} is missing" for table in Table.metadata.tables if table not in present]
    for name, table in Table.metadata.tables.items():
        if name in present:
            has = _found(found, name, connection.dialect)
            wanted = _wanted(table, connection.dialect)
            wrong += [
                f"table {name}: {part} is missing or was changed" for part in wanted if has.get(part) != wanted[part]
            ]
    if connection.dialect.name == "sqlite":
        return wrong + list(_sqlite_faults(connection))
    return wrong + list(_postgresql_faults(connection))


def can_be_read(connection: Connection) -> bool:
    """Whether every table has every column, so that its rows can be asked for."""
    found = inspect(connection)
    return all(
        found.has_table(name) and {column["name"] for column in found.get_columns(name)} >= set(table.columns.keys())
        for name, table in Table.metadata.tables.items()
    )


def _wanted(table: SqlTable, dialect: Dialect) -> Parts:
    parts: Parts = {f"column {c.name}": (c.type.compile(dialect), bool(c.nullable)) for c in table.columns}
    parts[f"the primary key {_names(table.primary_key.columns.keys())}"] = True
    for index in table.indexes:
        parts[f"the index on {_names(column.name for column in index.columns)}"] = True
    for constraint in table.constraints:
        match constraint:
            case CheckConstraint() if dialect.name == "postgresql" or _POSTGRESQL_ALONE not in str(constraint.name):
                parts[f"the check {_bare(str(constraint.sqltext))}"] = True
            case UniqueConstraint():
                parts[f"the unique key {_names(constraint.columns.keys())}"] = True
            case ForeignKeyConstraint():
                there = [element.target_fullname.partition(".")[2] for element in constraint.elements]
                parts |= _foreign_key(
                    constraint.column_keys, constraint.referred_table.name, there, deferred=bool(constraint.deferrable)
                )
    return parts


def _found(found: Inspector, table: str, dialect: Dialect) -> Parts:
    parts: Parts = {
        f"column {column['name']}": (column["type"].compile(dialect), column["nullable"])
        for column in found.get_columns(table)
    }
    parts[f"the primary key {_names(found.get_pk_constraint(table)['constrained_columns'])}"] = True
    for index in found.get_indexes(table):
        parts[f"the index on {_names(map(str, index['column_names']))}"] = True
    for check in found.get_check_constraints(table):
        parts[f"the check {_bare(check['sqltext'])}"] = True
    for unique in found.get_unique_constraints(table):
        parts[f"the unique key {_names(unique['column_names'])}"] = True
    for key in found.get_foreign_keys(table):
        deferred = bool(key.get("options", {}).get("deferrable"))
        parts |= _foreign_key(
            key["constrained_columns"], key["referred_table"], key["referred_columns"], deferred=deferred
        )
    return parts


def _foreign_key(here: Iterable[str], table: str, there: Iterable[str], *, deferred: bool) -> Parts:
    return {f"the foreign key {_names(here)} to {table} {_names(there)}": deferred}


def _names(columns: Iterable[str]) -> str:
    return f"({', '.join(columns)})"


def _bare(check: str) -> str:
    """The words of a check without casts and brackets, which PostgreSQL adds, and with its lists as we write them."""
    return " ".join(re.findall(r"[\w']+|[<>=]+", _ANY_OF.sub("IN (", _CAST.sub(" ", check))))


def _sqlite_faults(connection: Connection) -> Iterator[str]:
    query = "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name"
    found = {name: (table, sql) for name, table, sql in connection.exec_driver_sql(query)}
    for table in APPEND_ONLY:
        for verb in ("UPDATE", "DELETE"):
            name = f"{table}_no_{verb.lower()}"
            refusing = f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            if found.pop(name, None) != (table, f"CREATE TRIGGER {name} BEFORE {verb} ON {table} {refusing}"):
                yield f"table {table}: the trigger {name} is missing or was changed, so its rows can be"
    for name, (table, _) in found.items():
        yield f"table {table}: the trigger {name} is not Discreet's"
    for table in sorted({row[0] for row in connection.exec_driver_sql("PRAGMA foreign_key_check")}):
        yield f"table {table}: a row refers to one that is missing"


def _postgresql_faults(connection: Connection) -> Iterator[str]:
    tables = {"tables": list(Table.metadata.tables)}
    if connection.exec_driver_sql("SHOW session_replication_role").scalar() != "origin":
        yield "session_replication_role is not origin, so no trigger and no foreign key is in force"
    found = connection.execute(_TRIGGERS, tables).all()
    yield from (f"table {one.table}: the trigger {one.name} is disabled" for one in found if not one.enabled)
    ours = {(one.table, one.name): (one.kind, one.always, one.source) for one in found if not one.internal}
    for table in APPEND_ONLY:
        if ours.pop((table, f"{table}_append_only"), None) != (_BEFORE_EACH_STATEMENT, True, _REFUSING):
            yield f"table {table}: the trigger {table}_append_only is missing or was changed, so its rows can be"
    yield from (f"table {table}: the trigger {name} is not Discreet's" for table, name in ours)
    for table, name in connection.execute(_NOT_VALID, tables):
        yield f"table {table}: the constraint {name} was not checked for the rows that were there before it"
