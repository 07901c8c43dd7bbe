"""One server for all of these tests, and the commands as they are typed."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from app.cli import main
from tests.conftest import ADMIN_KEY
from tests.server import Server, running


@dataclass(frozen=True, slots=True)
class Done:
    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Discreet = Callable[..., Done]


@pytest.fixture(scope="session")
def server(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("client") / "discreet.db"
    shutil.copy(migrated_sqlite, path)
    with running(f"sqlite:///{path}") as server:
        yield server


@pytest.fixture
def surroundings(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISCREET_URL", server.url)
    monkeypatch.setenv("DISCREET_KEY", ADMIN_KEY)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def discreet(surroundings: None, capfd: pytest.CaptureFixture[str]) -> Discreet:
    """Runs a command in this process. Whatever it says, it never says the key."""

    def run(*arguments: str) -> Done:
        capfd.readouterr()
        status = 0
        try:
            main(list(arguments))
        except SystemExit as ended:
            status = int(ended.code or 0)
        said = capfd.readouterr()
        assert ADMIN_KEY not in said.out + said.err
        return Done(status, said.out, said.err)

    return run


@pytest.fixture
def sketch(discreet: Discreet) -> str:
    """The name of a new one, with a budget so large that the noise rounds to nothing."""
    name = f"views-{uuid4().hex[:8]}"
    made = discreet("sketches", "create", name, "--k", "64", "--epsilon", "1000", "--delta", "1e-3")
    assert made.status == 0
    return name


Counts = Callable[[str], dict[str, int]]


@pytest.fixture
def counts(discreet: Discreet) -> Counts:
    """The true counts: at ε = 100 a draw other than 0 has probability e^-100."""

    def released(sketch: str) -> dict[str, int]:
        told = discreet("snapshot", sketch, "--epsilon", "100", "--delta", "1e-6", "--json")
        return {bar["key"]: bar["count"] for bar in told.document["histogram"]}

    return released
