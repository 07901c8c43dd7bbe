"""How many may read the largest histogram at once: what it costs in memory, and whether the server still answers.

    python -m benchmarks.readers            # both databases
    python -m benchmarks.readers SQLite

A snapshot of 65,536 bars, whose keys have 512 bytes that JSON writes six times as long, is put into the store. Then 16
and 32 clients read all of it at once, as JSON, by count, in which order it is stored, and by key; and 8 more ask for it
and never read. Meanwhile /livez is asked twenty times a second. Memory is that of the server's process, sampled as
often.
"""

import http.client
import os
import secrets
import select
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from app.core.histogram import Bar, ErrorBound, Snapshot
from app.store import sketches, snapshots
from app.store.database import Database
from benchmarks import servers
from benchmarks.servers import POSTGRESQL, SQLITE, Server

_K = 65_536
_KEY_BYTES = 512
_SKETCH = "largest"
_PATH = f"/v1/sketches/{_SKETCH}/histogram"
_HEADERS = dict([servers.AUTHORIZATION.split(": ", 1)])
_READERS = (16, 32)
_IDLE = 8  # that never read
_IDLE_SECONDS = 5.0
_TRIES = 5
_PAUSE_SECONDS = 0.05
_ASK = "--ask-livez"


def main(kinds: list[str]) -> None:
    """Measure on the databases that the command names, or on both."""
    for kind in kinds or [kind for kind in (SQLITE, POSTGRESQL) if servers.available(kind)]:
        print(f"\n{kind}")
        with servers.new_database(kind) as url:
            with servers.serving(url) as server:
                server.make_sketch(_SKETCH, _K)
            print(f"  stored in {_insert(url):.2f} s")
            for order in ("count", "key"):
                for readers in _READERS:
                    with servers.serving(url) as server:
                        _many(server, readers, order)
            with servers.serving(url) as server:
                _alone(server)
                _idle(server)


def _insert(url: str) -> float:
    """Store the snapshot; gives how many seconds its transaction took."""
    counts = [100_000 + at * 40_503 % _K for at in range(_K)]  # neither order is near the other
    largest = [
        Bar(f"{at:08}" + "\x01" * (_KEY_BYTES - 8), count, count - 10_000, count + 10_000)
        for at, count in enumerate(counts)
    ]
    snapshot = Snapshot(
        id=secrets.token_hex(16),
        sketches=[_SKETCH],
        created_at=datetime.now(UTC),
        mechanism="pmg",
        theorem="thm:final_theorem",
        epsilon="0.5",
        delta="1e-6",
        beta="0.05",
        parameters={"noise": "discrete-laplace", "threshold": 40, "k": _K},
        error_bound=ErrorBound(below=22, above=24, sketch=1, unlisted=55),
        charged=[],
        remaining=[],
    )
    database = Database(url)
    try:
        started = time.perf_counter()
        with database.writing() as session:
            sketch = sketches.get_id(session, _SKETCH)
            [basis] = sketches.bases(session, [sketch])
            snapshots.add(session, snapshot, largest, {sketch: basis})
        return time.perf_counter() - started
    finally:
        database.close()


def _many(server: Server, readers: int, order: str) -> None:
    statuses: list[int] = []
    with _watched(server) as watch:
        started = time.perf_counter()
        _together(readers, lambda: statuses.append(_read(server, f"?order={order}")))
        seconds = time.perf_counter() - started
    refused = sum(status != http.client.OK for status in statuses)
    print(f"  {readers} readers by {order}: {seconds:.1f} s, {refused} refused; {watch}")


def _alone(server: Server) -> None:
    named = [f"key={at:08}{'%01' * (_KEY_BYTES - 8)}" for at in range(0, _K, _K // 40)]
    for words, query in (
        ("?top=1", "top=1"),
        ("?top=1&order=key", "top=1&order=key"),
        ("a named key", named[1]),
        ("40 named keys", "&".join(named[:40])),
    ):
        _read(server, f"?{query}")
        print(f"  {words}: {_median(partial(_read, server, f'?{query}')) * 1000:.1f} ms")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    connection.request("GET", _PATH, headers=_HEADERS)
    answer = connection.getresponse()
    etag = answer.headers["etag"]
    connection.close()
    known = {"If-None-Match": etag}
    print(f"  304: {_median(lambda: _read(server, headers=known)) * 1000:.1f} ms")


def _idle(server: Server) -> None:
    with _watched(server) as watch:
        idle = []
        for _ in range(_IDLE):
            client = socket.create_connection(("127.0.0.1", server.port))
            client.sendall(f"GET {_PATH} HTTP/1.1\r\nHost: x\r\n{servers.AUTHORIZATION}\r\n\r\n".encode())
            idle.append(client)
        time.sleep(_IDLE_SECONDS)
        for client in idle:
            client.close()
    print(f"  {_IDLE} clients that never read: {watch}")


def _read(server: Server, query: str = "", headers: dict[str, str] | None = None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    connection.request("GET", _PATH + query, headers=_HEADERS | (headers or {}))
    answer = connection.getresponse()
    buffer = bytearray(1 << 18)
    while answer.readinto(buffer):
        pass
    connection.close()
    return answer.status


def _together(number: int, run: Callable[[], None]) -> None:
    threads = [threading.Thread(target=run) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _median(run: Callable[[], object]) -> float:
    seconds = []
    for _ in range(_TRIES):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


@dataclass
class _Watch:
    before: int
    resident: list[int] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        grown = (max(self.resident) - self.before) / 1e6
        waits = sorted(wait * 1000 for wait in self.waits)
        usual, slow, slowest = (waits[round((len(waits) - 1) * share)] for share in (0.5, 0.99, 1))
        return f"memory +{grown:.0f} MB, /livez median {usual:.1f} ms, 99 % {slow:.0f} ms, slowest {slowest:.0f} ms"


@contextmanager
def _watched(server: Server) -> Iterator[_Watch]:
    watch, over = _Watch(_resident(server)), threading.Event()

    def sample() -> None:
        while not over.wait(_PAUSE_SECONDS):
            watch.resident.append(_resident(server))

    sampling = threading.Thread(target=sample)
    command = [sys.executable, "-m", "benchmarks.readers", _ASK, str(server.port)]
    asking = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    sampling.start()
    try:
        yield watch
    finally:
        over.set()
        sampling.join()
        watch.waits += map(float, asking.communicate("enough")[0].split())


def _ask_livez(port: int) -> None:
    """In a process of its own: beside the readers it would wait for them, not for the server."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while not select.select([sys.stdin], [], [], _PAUSE_SECONDS)[0]:
        started = time.perf_counter()
        connection.request("GET", "/livez")
        connection.getresponse().read()
        print(time.perf_counter() - started)
    connection.close()


def _resident(server: Server) -> int:
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    if _ASK in sys.argv:
        _ask_livez(int(sys.argv[2]))
    else:
        main(sys.argv[1:])
