"""What SQLAlchemy does not spell the same for both databases: small statements, and moments as they are hashed."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, literal
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.store.tables import Table


def insert_if_absent(session: Session, table: type[Table], values: dict[str, Any]) -> bool:
    """Insert the row; False where its key is taken. Waits for a transaction that is inserting the same key."""
    statement = _insert(session, table).values(values).on_conflict_do_nothing().returning(literal(1))
    return session.connection().execute(statement).first() is not None


def insert_missing(session: Session, table: type[Table], columns: Sequence[str], rows: Select[int, int]) -> None:
    """Insert those of the selected rows whose key is not taken, in one statement."""
    session.connection().execute(_insert(session, table).from_select(columns, rows).on_conflict_do_nothing())


def _insert(session: Session, table: type[Table]) -> sqlite.Insert | postgresql.Insert:
    return sqlite.insert(table) if session.get_bind().dialect.name == "sqlite" else postgresql.insert(table)


def like(column: InstrumentedAttribute[str], pattern: str) -> ColumnElement[bool]:
    """Names that match a pattern with *. Names are lower case, so SQLite's blind LIKE does no harm."""
    escaped = pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return column.like(escaped.replace("*", "%"), escape="\\")


def moment(value: datetime) -> str:
    """The moment as entries and snapshots are hashed with it: in UTC, to the microsecond."""
    return value.astimezone(UTC).isoformat(timespec="microseconds")
