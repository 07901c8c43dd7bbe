"""Write the migration that turns the newest migrated schema into the tables of the models."""

import sys
import tempfile
from pathlib import Path

from alembic import command

from app.store.database import Database
from app.store.migrate import config, migrate

number = f"{len(list((Path(__file__).parent / 'versions').glob('*.py'))) + 1:04}"
database = Database(f"sqlite:///{tempfile.mkdtemp()}/scratch.db")
migrate(database)
with database.starting() as session:
    settings = config()
    settings.attributes["connection"] = session.connection()
    command.revision(settings, message=sys.argv[1], autogenerate=True, rev_id=number)
