"""What SQLAlchemy does not spell the same for both databases: two small statements, and moments as they are hashed."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, literal
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.store.tables import Table


def inserted(session: Session, table: type[Table], values: dict[str, Any]) -> bool:
    """Insert the row; False where its key is taken. Waits for a transaction that is inserting the same key."""
    sqlite = session.get_bind().dialect.name == "sqlite"
    insert = sqlite_insert if sqlite else postgresql_insert
    statement = insert(table).values(values).on_conflict_do_nothing().returning(literal(1))
    return session.connection().execute(statement).first() is not None


def like(column: InstrumentedAttribute[str], pattern: str) -> ColumnElement[bool]:
    """Names that match a pattern with *. Names are lower case, so SQLite's blind LIKE does no harm."""
    escaped = pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return column.like(escaped.replace("*", "%"), escape="\\")


def moment(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="microseconds")
