"""A server for each worker and database, which all of the attack's tests on it share."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
from schemathesis import BaseSchema

from tests.attack import cases, checks
from tests.operations.serving import serving
from tests.postgresql import Postgresql
from tests.server import Server


@dataclass(frozen=True)
class Target:
    server: Server
    connection: requests.Session  # kept open from one request to the next
    thorough: bool  # the statements differ between databases, and little else, so one of them is enough for most


@contextmanager
def _attacked(database_url: str, *, thorough: bool) -> Iterator[Target]:
    """Wrong keys are part of the attack, so they are not limited. Sketches are: a plan for a huge one takes seconds."""
    with serving(database_url, failures_per_minute=0, max_k=16_384) as server, requests.Session() as connection:
        yield Target(server, connection, thorough)


@pytest.fixture(scope="session")
def schema() -> BaseSchema:
    schema = cases.schema()
    checks.enable(schema)
    return schema


@pytest.fixture(scope="session")
def sqlite(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    path = tmp_path_factory.mktemp("attack") / "discreet.db"
    shutil.copy(migrated_sqlite, path)
    with _attacked(f"sqlite:///{path}", thorough=True) as target:
        yield target


@pytest.fixture(scope="session")
def postgresql(postgresql_server: Postgresql) -> Iterator[Target]:
    with postgresql_server.database() as url, _attacked(url, thorough=False) as target:
        yield target
