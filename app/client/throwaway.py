"""A server of one's own for a while: a new folder, a free port, a key that nobody knows; gone afterwards."""

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
from types import FrameType

from app.client.failures import Failure

_START_SECONDS, _STOP_SECONDS = 60, 10
_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    key: str = field(repr=False)
    process: subprocess.Popen[bytes] = field(repr=False)

    def wait(self) -> None:
        """Until it ends, or somebody presses Ctrl-C."""
        self.process.wait()


@contextmanager
def running() -> Iterator[Server]:
    # Whoever ends us, or closes the terminal, does not leave the server behind.
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with tempfile.TemporaryDirectory(prefix="discreet-demo-") as folder:
            server = _started(Path(folder))
            try:
                _wait_until_ready(server, Path(folder))
                yield server
            finally:
                _stop(server.process)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _started(folder: Path) -> Server:
    port, key = _free_port(), secrets.token_urlsafe(24)
    root = str(Path(__file__).parents[2])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DISCREET_")} | {
        "DISCREET_DATABASE_URL": f"sqlite:///{folder}/demo.db",
        "DISCREET_ADMIN_KEY": key,
        "TMPDIR": str(folder),  # what it would tidy up itself goes with the rest
        "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH")))),
    }
    # -P: a folder that happens to have an `app` of its own is not what we mean
    command = [sys.executable, "-P", "-m", "app.cli", "serve", "--host", _HOST, "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603  # ourselves
            command, env=environment, cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
    return Server(f"http://{_HOST}:{port}", key, process)


def _free_port() -> int:
    with socket.create_server((_HOST, 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


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


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Nothing of it is worth keeping, so it need not end gracefully; workers go with it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(_STOP_SECONDS)
