"""Bring the schema up to date, safely when several workers or replicas start together."""

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from app.store.database import Database


class NewerSchema(Exception):
    """The database belongs to a newer version."""


class OlderSchema(Exception):
    """The database is not migrated to this version yet."""


def config() -> Config:
    packaged = Path(__file__).parents[1] / "migrations"  # in an installed wheel
    checkout = Path(__file__).parents[2] / "migrations"
    settings = Config()
    settings.set_main_option("script_location", str(packaged if packaged.exists() else checkout))
    return settings


def migrate(database: Database) -> None:
    """All of it in one transaction, under the lock of a start."""
    with database.migrating() as connection:
        if is_ahead(connection):
            raise NewerSchema
        settings = config()
        settings.attributes["connection"] = connection
        command.upgrade(settings, "head")


def is_current(connection: Connection) -> bool:
    return MigrationContext.configure(connection).get_current_revision() == _revisions()[0]


def is_ahead(connection: Connection) -> bool:
    """A newer version of Discreet has migrated the database; this one must not touch it."""
    return MigrationContext.configure(connection).get_current_revision() not in (None, *_revisions())


def require_current(connection: Connection) -> None:
    """For what reads every column, and would stumble over one that is not there."""
    if is_ahead(connection):
        raise NewerSchema
    if not is_current(connection):
        raise OlderSchema


@cache
def _revisions() -> tuple[str, ...]:
    """Those that this version knows, the newest first."""
    return tuple(script.revision for script in ScriptDirectory.from_config(config()).walk_revisions())
