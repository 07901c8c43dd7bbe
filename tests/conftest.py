"""Fixtures. Whatever takes `database_url` runs twice: on SQLite and on PostgreSQL."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app.main import build_context, create_app
from app.settings import Settings
from app.store.database import Database
from app.store.migrate import migrate
from app.usecases.context import Context
from tests import postgresql

ADMIN_KEY = "an admin key for tests"


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


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A migrated database of this test's own."""
    if request.param == "sqlite":
        path = tmp_path / "discreet.db"
        shutil.copy(request.getfixturevalue("migrated_sqlite"), path)
        yield f"sqlite:///{path}"
    else:
        with request.getfixturevalue("postgresql_server").database() as url:
            yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database with no table in it."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
    else:
        with request.getfixturevalue("postgresql_server").database(migrated=False) as url:
            yield url


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
