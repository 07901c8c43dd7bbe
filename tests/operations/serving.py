"""A server as `discreet serve` runs it, with settings of a test's own."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import ADMIN_KEY
from tests.server import Server, free_port, wait_until_ready

_SERVE = """
import os, resource, sys, uvicorn
if len(sys.argv) > 1:
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
from app.main import uvicorn_options
from app.settings import Settings
if __name__ == "__main__":
    uvicorn.run("app.main:serving", **uvicorn_options(Settings.from_environment(os.environ)))
"""


@contextmanager
def serving(
    database_url: str,
    *,
    proxies: str | None = None,
    descriptors: tuple[int, int] | None = None,
    **settings: object,
) -> Iterator[Server]:
    """`descriptors`: how many files it may open, and how many it may permit itself."""
    port = free_port()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DISCREET_", "FORWARDED_"))}
    environment = {
        **kept,
        **({"FORWARDED_ALLOW_IPS": proxies} if proxies is not None else {}),
        "DISCREET_DATABASE_URL": database_url,
        "DISCREET_ADMIN_KEY": ADMIN_KEY,
        "DISCREET_PORT": str(port),
        **{f"DISCREET_{name.upper()}": str(value) for name, value in settings.items()},
    }
    descriptor, log = tempfile.mkstemp(prefix="discreet-server-", suffix=".log")
    command = [sys.executable, "-c", _SERVE, *map(str, descriptors or ())]
    with os.fdopen(descriptor, "wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)
    server = Server(f"http://127.0.0.1:{port}", process, Path(log))
    try:
        wait_until_ready(server)
        yield server
    finally:
        if server.process.poll() is None:
            server.kill()
        server.log.unlink()
