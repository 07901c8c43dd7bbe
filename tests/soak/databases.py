"""A new database for each soak, gone afterwards."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from tests import postgresql

NAMES = ("sqlite", "postgresql")


@contextmanager
def new(name: str) -> Iterator[str]:
    """Its URL. It is empty: starting the server is what migrates it."""
    if name == "postgresql":
        with postgresql.started() as server, server.database(migrated=False) as url:
            yield url
    else:
        with tempfile.TemporaryDirectory(prefix="discreet-soak-") as folder:
            yield f"sqlite:///{folder}/discreet.db"
