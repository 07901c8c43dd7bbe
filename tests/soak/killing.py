"""kill -9 for one worker after the other, each at a random moment; the supervisor has to bring it back."""

import os
import random
import re
import signal
import threading
import time

from tests.server import Server

WORKERS = 2

_BACK_SECONDS = 120  # in which a killed worker must serve again
_STARTED = re.compile(r"Started server process \[(\d+)\]")
_SERVES = "Application startup complete"
_DIED = "Child process ["


class Killer(threading.Thread):
    """Kills workers until it is stopped. Which ones there are it reads in the log, as an operator would."""

    def __init__(self, server: Server, *, every: float, choice: random.Random) -> None:
        super().__init__(daemon=True)
        self._server, self._every, self._choice = server, every, choice
        self._stopped = threading.Event()
        self._killed: list[int] = []
        self.moments: list[float] = []  # of the kills
        self.faults: list[str] = []

    def run(self) -> None:
        """One kill in each span of time; one that was missed, because a worker came back late, is not made up for."""
        started, span = time.monotonic(), 0
        while not self._stopped.wait(self._until(started, span)) and self._all_back():
            self._kill()
            span = max(span + 1, int((time.monotonic() - started) / self._every))

    def _until(self, started: float, span: int) -> float:
        """Seconds to a random moment of it."""
        return max(0.0, started + self._every * (span + self._choice.uniform(0.25, 0.75)) - time.monotonic())

    def stop(self) -> None:
        """Returns when all workers serve again."""
        self._stopped.set()
        self.join()
        self._all_back()
        self._look_into_the_log()

    def _kill(self) -> None:
        pid = self._choice.choice([pid for pid in self._workers() if pid not in self._killed])
        moment = time.monotonic()
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            self.faults.append("a worker died that was not killed")
            return
        self.moments.append(moment)
        self._killed.append(pid)

    def _workers(self) -> list[int]:
        return [int(pid) for pid in _STARTED.findall(self._server.log.read_text())]

    def _all_back(self) -> bool:
        """Whether each kill was followed by a start."""
        deadline = time.monotonic() + _BACK_SECONDS
        while time.monotonic() < deadline:
            if self._server.log.read_text().count(_SERVES) >= WORKERS + len(self._killed):
                return True
            time.sleep(0.1)
        self.faults.append(f"a killed worker did not serve again in {_BACK_SECONDS} s")
        return False

    def _look_into_the_log(self) -> None:
        """Nothing died but what was killed, and nothing failed unseen."""
        log = self._server.log.read_text()
        deaths = log.count(_DIED)
        if deaths != len(self._killed):
            self.faults.append(f"{deaths} workers died, of which {len(self._killed)} were killed")
        errors = [line for line in log.splitlines() if '"level": "error"' in line]
        if errors:
            self.faults.append(f"{len(errors)} errors in the server's log, the first: {errors[0]}")
