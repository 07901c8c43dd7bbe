"""The supervisor replaces a worker that has died, and not one that is slow: on a busy machine that would never end."""

import os
import re
import signal
import time
from pathlib import Path

import pytest

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
