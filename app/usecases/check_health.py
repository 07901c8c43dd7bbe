"""Can this process serve? Only the database and its schema decide."""

from app.refusals import Unavailable
from app.store import migrate
from app.usecases.context import Context


def check_ready(context: Context) -> None:
    """Unavailable, unless the database answers and has the schema that this version needs."""
    with context.database.reading() as session:
        if migrate.is_ahead(session.connection()):
            raise Unavailable("The database schema belongs to a newer version; upgrade this replica.")
        if not migrate.is_current(session.connection()):
            raise Unavailable("The database schema is older than this version needs; run: discreet migrate.")
