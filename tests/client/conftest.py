"""One server for all of these tests, and the commands as they are typed."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from app.cli import main
from app.client.connection import Answer, Api
from app.store.database import Database
from tests import books
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
def server_database_url(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("client") / "discreet.db"
    shutil.copy(migrated_sqlite, path)
    return f"sqlite:///{path}"


@pytest.fixture(scope="session")
def server(server_database_url: str) -> Iterator[Server]:
    with running(server_database_url) as server:
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


@pytest.fixture
def sketch_of_users(discreet: Discreet, sketch: str) -> str:
    """The name of a new one that counts sets of up to two keys, paid from the budget of `sketch`."""
    name = f"{sketch}-people"
    made = discreet(
        "sketches", "create", name, "--k", "64", "--ledger", sketch, "--unit", "user", "--max-contributions", "2"
    )
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


@pytest.fixture
def counters(server_database_url: str) -> Iterator[Counts]:
    """The counters of a sketch as the server has stored them, read from its database."""
    database = Database(server_database_url)
    yield lambda sketch: books.counters(database, sketch)
    database.close()


def ingesting(server: Server, *arguments: str) -> subprocess.Popen[bytes]:
    """`discreet ingest` as a process of its own, to be fed, interrupted and killed."""
    environment = {**os.environ, "DISCREET_URL": server.url, "DISCREET_KEY": ADMIN_KEY}
    command = [sys.executable, "-m", "app.cli", "ingest", *arguments]
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_interruptible,
    )


def _interruptible() -> None:
    """Also where the tests run in the background of a shell, which has its children ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Rows of people, and what is sent of them

Rows = Sequence[tuple[str, str]]  # (user, key)
Sent = list[dict[str, Any]]


def as_csv(rows: Iterable[tuple[str, str]]) -> str:
    return "user,key\n" + "".join(f"{user},{key}\n" for user, key in rows)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """The documents that the commands of this test send as events, retries included. Probes are left out."""
    documents: Sent = []
    once = Api._ask_once

    def recorded(api: Api, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        if method == "POST" and target.endswith("/events") and body != b'{"users": []}':
            assert headers["Content-Type"] == "application/json"
            documents.append(json.loads(body or b""))
        return once(api, method, target, body, headers)

    monkeypatch.setattr(Api, "_ask_once", recorded)
    return documents


def everybody(sent: Sent) -> list[dict[str, Any]]:
    """The people of all requests, one after the other."""
    assert all(document.keys() == {"users"} for document in sent)
    return [person for document in sent for person in document["users"]]
