"""For developers: `check` that the migrations make the tables that the models describe, or `write` what is missing."""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.config import Config

from app.store.database import Database
from app.store.migrate import config, migrate


def _check(settings: Config) -> None:
    command.check(settings)


def _write(settings: Config) -> None:
    message = " ".join(sys.argv[2:])
    number = len(list(Path(__file__).parent.glob("versions/*.py"))) + 1
    command.revision(settings, message=message, autogenerate=True, rev_id=f"{number:04}")


_COMMANDS: dict[str, Callable[[Config], None]] = {"check": _check, "write": _write}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        database = Database(f"sqlite:///{scratch}/scratch.db")
        migrate(database)
        with database.migrating() as connection:
            settings = config()
            settings.attributes["connection"] = connection
            _COMMANDS[sys.argv[1]](settings)
        database.close()
