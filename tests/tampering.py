"""Change what the database would refuse to change, as somebody with full rights on it could, unseen by the schema."""

from sqlalchemy import text
from sqlalchemy.orm import Session

from app.store.database import Database
from app.store.schema import APPEND_ONLY


def tamper(database: Database, *statements: str) -> None:
    """Carry them out while the append-only triggers are away; then the triggers are back as they were."""
    with database.writing() as session:
        sqlite = session.get_bind().dialect.name == "sqlite"
        triggers = _drop_sqlite_triggers(session) if sqlite else []
        if not sqlite:
            _switch(session, "DISABLE")
        for statement in statements:
            session.connection().exec_driver_sql(statement)
        for trigger in triggers:
            session.connection().exec_driver_sql(trigger)
        if not sqlite:
            _switch(session, "ENABLE")


def _drop_sqlite_triggers(session: Session) -> list[str]:
    """What makes them again."""
    found = session.execute(text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")).all()
    for name, _ in found:
        session.execute(text(f"DROP TRIGGER {name}"))
    return [sql for _, sql in found]


def _switch(session: Session, verb: str) -> None:
    session.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))  # or they would be pending events of the table
    for table in APPEND_ONLY:
        session.execute(text(f"ALTER TABLE {table} {verb} TRIGGER USER"))
