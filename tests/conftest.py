"""Fixtures. Whatever takes `database_url` runs twice: on SQLite and on PostgreSQL."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import pytest
from fastapi.testclient import TestClient

from app.main import build_context, create_app
from app.settings import Settings
from app.store.database import Database
from app.store.migrate import migrate
from app.usecases.context import Context
from tests import postgresql

ADMIN_KEY = "an admin key for tests"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first, so that at the end no worker is left alone with it. A file is run by one worker."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[postgresql.Postgresql]:
    with postgresql.started() as server:
        yield server


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sqlite") / "migrated.db"
    database = Database(f"sqlite:///{path}")
    migrate(database)
    database.close()
    return path


class NewDatabase(Protocol):
    """Each call makes a database of the test's own and gives its URL."""

    def __call__(self, *, migrated: bool = True) -> str: ...


@pytest.fixture(params=["sqlite", "postgresql"])
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewDatabase]:
    with ExitStack() as databases:

        def sqlite(*, migrated: bool = True) -> str:
            path = tmp_path / f"{uuid4().hex}.db"
            if migrated:
                shutil.copy(request.getfixturevalue("migrated_sqlite"), path)
            return f"sqlite:///{path}"

        def postgresql(*, migrated: bool = True) -> str:
            server = request.getfixturevalue("postgresql_server")
            url: str = databases.enter_context(server.database(migrated=migrated))
            return url

        yield sqlite if request.param == "sqlite" else postgresql


@pytest.fixture
def database_url(new_database: NewDatabase) -> str:
    return new_database()


@pytest.fixture
def settings(database_url: str) -> Settings:
    return Settings(database_url=database_url, admin_key=ADMIN_KEY)


@pytest.fixture
def context(settings: Settings) -> Iterator[Context]:
    context = build_context(settings)
    yield context
    context.database.close()


@pytest.fixture
def client(settings: Settings, context: Context) -> Iterator[TestClient]:
    """The app in this process, with real noise, called as the administrator."""
    with TestClient(create_app(settings, context), headers={"Authorization": f"Bearer {ADMIN_KEY}"}) as client:
        yield client
