"""The supervisor replaces a worker that has died, and not one that is slow: on a busy machine that would never end.
Workers end with it, in good order."""

import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from app.store.database import Database
from tests import books
from tests.api.calls import create_sketch
from tests.operations.wire import connected, head
from tests.server import Server, running

pytestmark = pytest.mark.long

_SLOW_SECONDS = 7  # more than the 5 that uvicorn would wait
_STARTED = re.compile(r"Started server process \[(\d+)\]")


def _workers(server: Server, *, at_least: int) -> list[int]:
    """All that were ever started, in this order."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = [int(pid) for pid in _STARTED.findall(server.log.read_text())]
        if len(found) >= at_least:
            return found
        time.sleep(0.05)
    raise AssertionError(f"no {at_least} workers:\n{server.log.read_text()}")


def test_a_worker_that_is_slow_is_kept_and_one_that_died_is_replaced(tmp_path: Path) -> None:
    with running(f"sqlite:///{tmp_path}/discreet.db", workers=2) as server:
        slow, killed = _workers(server, at_least=2)
        os.kill(slow, signal.SIGSTOP)
        time.sleep(_SLOW_SECONDS)
        os.kill(slow, signal.SIGCONT)
        time.sleep(1)  # the supervisor looks twice a second
        assert _workers(server, at_least=2) == [slow, killed]
        os.kill(killed, signal.SIGKILL)
        assert len(_workers(server, at_least=3)) == 3


def _wait_until_nobody_listens(server: Server) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            httpx2.get(f"{server.url}/livez", timeout=5)
        except httpx2.ConnectError:
            return
        except httpx2.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"somebody still listens:\n{server.log.read_text()}")


def test_workers_end_with_their_supervisor_and_answer_what_they_have_begun(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/discreet.db"
    with running(url, workers=2) as server:
        workers = _workers(server, at_least=2)
        with server.client() as client:
            create_sketch(client)
        try:
            with connected(server) as wire:
                wire.send(head("views", "Content-Length: 4") + b"a\n", b"")
                server.process.kill()
                server.process.wait()
                _wait_until_nobody_listens(server)
                wire.send(b"a\n")
                assert wire.answers() == [200]
            ended = [f"Finished server process [{worker}]" for worker in workers]
            deadline = time.monotonic() + 60
            while not all(line in server.log.read_text() for line in ended):
                assert time.monotonic() < deadline, server.log.read_text()
                time.sleep(0.1)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(server.process.pid, signal.SIGKILL)
    database = Database(url)
    assert books.counters(database) == {"a": 2}
    database.close()
