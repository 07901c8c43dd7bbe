"""The real thing: `discreet serve` as a process of its own, to be raced, killed and restarted."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

from tests.conftest import ADMIN_KEY

_START_SECONDS = 60


@dataclass
class Server:
    url: str
    process: subprocess.Popen[bytes]
    log: Path  # what it printed, standard error included

    def client(self) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, headers={"Authorization": f"Bearer {ADMIN_KEY}"}, timeout=60)

    def kill(self) -> None:
        """kill -9, workers included."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start(database_url: str, *, workers: int = 1, admin_key: str | None = ADMIN_KEY, port: int | None = None) -> Server:
    """Start a server without waiting for it."""
    port = port or free_port()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("DISCREET_")},
        "DISCREET_DATABASE_URL": database_url,
        **({"DISCREET_ADMIN_KEY": admin_key} if admin_key else {}),
    }
    command = [sys.executable, "-m", "app.cli", "serve", "--port", str(port), "--workers", str(workers)]
    descriptor, log = tempfile.mkstemp(prefix="discreet-server-", suffix=".log")
    with os.fdopen(descriptor, "wb") as out:
        process = subprocess.Popen(
            command, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    return Server(f"http://127.0.0.1:{port}", process, Path(log))


def wait_until_ready(server: Server) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        try:
            if httpx2.get(f"{server.url}/readyz", timeout=5).status_code == 200:
                return
        except httpx2.TransportError:
            pass
        if server.process.poll() is not None:
            break
        time.sleep(0.05)
    server.process.kill()
    raise AssertionError(f"the server did not start:\n{server.log.read_text()}")


@contextmanager
def running(database_url: str, *, workers: int = 1) -> Iterator[Server]:
    server = start(database_url, workers=workers)
    try:
        wait_until_ready(server)
        yield server
    finally:
        if server.process.poll() is None:
            server.kill()
        server.log.unlink()
