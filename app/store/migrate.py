"""Bring the schema of the database up to date, also when several workers or replicas start together."""

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from app.store.database import Database


class NewerSchema(Exception):
    """A newer version of Discreet has migrated the database."""


class OlderSchema(Exception):
    """The database is not migrated to this version yet."""


def config() -> Config:
    """Alembic's configuration, which says where the migrations lie."""
    packaged = Path(__file__).parents[1] / "migrations"  # in an installed wheel
    checkout = Path(__file__).parents[2] / "migrations"
    settings = Config()
    settings.set_main_option("script_location", str(packaged if packaged.exists() else checkout))
    return settings


def migrate(database: Database) -> None:
    """Run all missing migrations in one transaction that only one process has; raises `NewerSchema`."""
    with database.migrating() as connection:
        if is_ahead(connection):
            raise NewerSchema
        settings = config()
        settings.attributes["connection"] = connection
        command.upgrade(settings, "head")


def is_current(connection: Connection) -> bool:
    """Whether the schema is that of this version."""
    return MigrationContext.configure(connection).get_current_revision() == _revisions()[0]


def is_ahead(connection: Connection) -> bool:
    """Whether a newer version of Discreet has migrated the database, so that this one must not touch it."""
    return MigrationContext.configure(connection).get_current_revision() not in (None, *_revisions())


def require_current(connection: Connection) -> None:
    """Raise `NewerSchema` or `OlderSchema` unless the schema is that of this version: then every column is there."""
    if is_ahead(connection):
        raise NewerSchema
    if not is_current(connection):
        raise OlderSchema


@cache
def _revisions() -> tuple[str, ...]:
    """The revisions that this version knows, the newest first."""
    return tuple(script.revision for script in ScriptDirectory.from_config(config()).walk_revisions())
