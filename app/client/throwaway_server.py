"""A server for the demonstration: with a new folder, a free port and an unknown API key; removed afterwards."""

import http.client
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from app.client.failures import Failure

_START_SECONDS, _STOP_SECONDS = 60, 10
_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Server:
    """A server that was started here, and the key to administer it."""

    url: str
    api_key: str = field(repr=False)
    process: subprocess.Popen[bytes] = field(repr=False)

    def wait(self) -> None:
        """Wait until the server ends, or somebody presses Ctrl-C."""
        self.process.wait()


@contextmanager
def running() -> Iterator[Server]:
    """Start a server that answers while the block runs; after it the server, its data and its log are gone."""
    # SIGTERM and SIGHUP (the terminal was closed) must unwind this block as Ctrl-C does, else the server stays behind.
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with tempfile.TemporaryDirectory(prefix="discreet-demo-") as folder:
            server = _start(Path(folder))
            try:
                _wait_until_ready(server, Path(folder))
                yield server
            finally:  # nothing of the server is worth keeping, so it and its workers need not end gracefully
                with suppress(ProcessLookupError):
                    os.killpg(server.process.pid, signal.SIGKILL)
                server.process.wait(_STOP_SECONDS)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _start(folder: Path) -> Server:
    with socket.create_server((_HOST, 0)) as probe:
        port: int = probe.getsockname()[1]  # free a moment ago
    api_key = secrets.token_urlsafe(24)
    root = str(Path(__file__).parents[2])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DISCREET_")} | {
        "DISCREET_DATABASE_URL": f"sqlite:///{folder}/demo.db",
        "DISCREET_ADMIN_KEY": api_key,
        "TMPDIR": str(folder),  # so that its temporary files go with the folder: it is killed and cannot remove them
        "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH")))),
    }
    # -P: where the current folder has an `app` of its own, that one is not meant
    command = [sys.executable, "-P", "-m", "app.cli", "serve", "--host", _HOST, "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603  # ourselves
            command, env=environment, cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
    return Server(f"http://{_HOST}:{port}", api_key, process)


def _wait_until_ready(server: Server, folder: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and server.process.poll() is None:
        if _is_ready(server.url.removeprefix("http://")):
            return
        time.sleep(0.03)
    last = (folder / "log").read_text("utf-8", "replace").strip().splitlines()[-1:]
    raise Failure(f"The server for the demonstration did not start: {''.join(last) or 'it said nothing'}")


def _is_ready(address: str) -> bool:
    connection = http.client.HTTPConnection(address, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
