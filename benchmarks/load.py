"""The load generator: a process that sends prebuilt requests over kept connections and reads as little as it can.

It is told one run per line on standard input and answers each with one line. Each client sends its next request when
its last was answered. The requests of a target differ from one another and go round, over all runs, so that every one
that the server takes brings its sketch to a new state.
"""

import asyncio
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Self

import uvloop

from benchmarks.servers import AUTHORIZATION
from benchmarks.streams import ZIPF

_WARM_UP = 0.2  # seconds, and longer until every client was answered once
_MOST_EVENTS, _MOST_REQUESTS = 2_000_000, 20_000  # in the requests of one target


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go and how many events each carries; 0 is a GET without a body."""

    port: int
    path: str
    batch: int


@dataclass(frozen=True, slots=True)
class Load:
    """What to send, by how many clients at once, for how long."""

    target: Target
    clients: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Answered:
    """What the clients saw within the measured window."""

    per_second: float
    middle: float  # seconds until the answer: p50
    slowest: float  # p99
    refused: int  # answers other than 2xx
    all_requests: int  # before and after the window too
    busy: float  # share of one core that the load itself took


class Generator:
    """The process that makes the load, as the benchmark uses it."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "benchmarks.load"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, load: Load) -> Answered:
        """Make a load and wait for its end; an answer other than 2xx is an error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(load)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the load generator has ended")
        answered = Answered(**json.loads(line))
        if answered.refused:
            raise RuntimeError(f"{answered.refused} requests to {load.target.path} were not answered with 2xx")
        return answered


@cache
def _requests(target: Target) -> Iterator[bytes]:
    return itertools.cycle(list(_built(target)))


def _built(target: Target) -> Iterator[bytes]:
    head = f"{'POST' if target.batch else 'GET'} {target.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{AUTHORIZATION}\r\n"
    if not target.batch:
        yield f"{head}\r\n".encode()
        return
    events = min(_MOST_EVENTS, _MOST_REQUESTS * target.batch)
    for body in ZIPF.bodies(events, target.batch, seed=target.batch + 1):
        yield f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class _Client(asyncio.Protocol):
    def __init__(self, run: "_Run") -> None:
        self.run = run
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.buffer = b""
        self.cold = True  # not answered yet

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport  # uvloop's own, which is no asyncio.Transport
        self._send()

    def _send(self) -> None:
        self.sent = time.perf_counter()
        self.transport.write(next(self.run.requests))

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0 or len(self.buffer) < end + 4 + _length(self.buffer[:end]):
            return
        self.run.answered(self.buffer[9:12], self.sent, time.perf_counter())
        self.buffer = b""
        self.cold = False
        if self.run.over:
            self.transport.close()
        else:
            self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.run.over:
            self.run.statuses[b"lost"] += 1
        self.cold = False
        if not self.ended.done():
            self.ended.set_result(None)


def _length(head: bytes) -> int:
    return int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])


class _Run:
    def __init__(self, requests: Iterator[bytes]) -> None:
        self.requests = requests
        self.over = False
        self.counting = False
        self.statuses: Counter[bytes] = Counter()
        self.latencies: list[float] = []

    def answered(self, status: bytes, sent: float, now: float) -> None:
        self.statuses[status] += 1
        if self.counting:
            self.latencies.append(now - sent)


async def _run(load: Load) -> Answered:
    run = _Run(_requests(load.target))
    loop = asyncio.get_running_loop()
    clients = [
        (await loop.create_connection(lambda: _Client(run), "127.0.0.1", load.target.port))[1]
        for _ in range(load.clients)
    ]
    await asyncio.sleep(_WARM_UP)
    while any(client.cold for client in clients):
        await asyncio.sleep(0.01)
    run.counting, start, busy = True, time.perf_counter(), time.process_time()
    await asyncio.sleep(load.seconds)
    while len(run.latencies) < 2 and not all(client.ended.done() for client in clients):  # slower than the window
        await asyncio.sleep(load.seconds)
    run.counting, run.over = False, True
    spent, busy = time.perf_counter() - start, time.process_time() - busy
    await asyncio.gather(*(client.ended for client in clients))
    shares = statistics.quantiles([0, 0] if len(run.latencies) < 2 else run.latencies, n=100, method="inclusive")
    refused = sum(count for status, count in run.statuses.items() if not status.startswith(b"2"))
    return Answered(len(run.latencies) / spent, shares[49], shares[98], refused, run.statuses.total(), busy / spent)


def main() -> None:
    """Carry out the runs that standard input names, one a line."""
    for line in sys.stdin:
        asked = json.loads(line)
        load = Load(Target(**asked["target"]), asked["clients"], asked["seconds"])
        _requests(load.target)  # built before the loop runs
        print(json.dumps(asdict(uvloop.run(_run(load)))), flush=True)


if __name__ == "__main__":
    main()
