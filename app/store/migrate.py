"""Bring the schema up to date, safely when several workers or replicas start together."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from app.store.database import Database


def config() -> Config:
    packaged = Path(__file__).parents[1] / "migrations"  # in an installed wheel
    checkout = Path(__file__).parents[2] / "migrations"
    settings = Config()
    settings.set_main_option("script_location", str(packaged if packaged.exists() else checkout))
    return settings


def migrate(database: Database) -> None:
    """All of it in one transaction, under the lock of a start."""
    with database.migrating() as connection:
        settings = config()
        settings.attributes["connection"] = connection
        command.upgrade(settings, "head")


def is_current(connection: Connection) -> bool:
    head = ScriptDirectory.from_config(config()).get_current_head()
    return MigrationContext.configure(connection).get_current_revision() == head
