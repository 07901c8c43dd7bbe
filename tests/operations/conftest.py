"""What operators rely on is the same for both databases, so most of it is tried on SQLite alone."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def database_url(migrated_sqlite: Path, tmp_path: Path) -> str:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    shutil.copy(migrated_sqlite, folder / "discreet.db")
    (folder / "discreet.db").chmod(0o600)
    return f"sqlite:///{folder}/discreet.db"
