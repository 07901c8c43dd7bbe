"""Part `commits`: how long it takes to store a new state of a full sketch, beside writing as many bytes to a file."""

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from app.store import states
from app.store.database import Database
from app.store.states import Version
from benchmarks import ours, servers
from benchmarks.load import Generator, Load, Target
from benchmarks.markdown import number
from benchmarks.report import NOT_INSTALLED, Part
from benchmarks.rounds import ROUNDS, in_rounds, median, ratio, seconds
from benchmarks.scratch import scratch_folder
from benchmarks.servers import Server
from benchmarks.streams import DISTINCT, ZIPF

_COUNTERS = (1024, 16_384, 65_536)
_FILLING = 100_000  # distinct keys: enough for the largest
_WRITES = 20  # in one round


def run(part: Part, *, quick: bool) -> None:
    """Measure request, store and file on both databases."""
    part.say(
        "Successive states of a full sketch, one event apart. *Request*: one client sends one event a request, until "
        "the answer. *Store*: the service's own store in this process, that is the lock on the state, the new bytes "
        "and the commit. *File* writes as many bytes as the state has to the end of a file on the same disk, with "
        "fdatasync."
    )
    window = 0.3 if quick else 1
    with Generator() as generator, scratch_folder() as folder:
        for kind in (servers.SQLITE, servers.POSTGRESQL):
            if not servers.available(kind):
                part.say(f"{kind}: {NOT_INSTALLED}.")
                continue
            with servers.new_database(kind) as url, servers.serving(url) as server:
                bench = _Bench(generator, server, Database(url), folder, window)
                bench.measure(part, kind)
                bench.database.close()


@dataclass(frozen=True, slots=True)
class _Bench:
    generator: Generator
    server: Server
    database: Database
    folder: Path
    window: float

    def measure(self, part: Part, kind: str) -> None:
        rows = []
        for k in _COUNTERS:
            costs = in_rounds(
                {
                    "request": _requested(self.generator, self.server, k, self.window),
                    "store": _stored(self.database, self.server, k),
                    "file": _floor(self.folder, _state_bytes(k)),
                }
            )
            times = [number(median(cost) * 1e3) for cost in costs.values()]
            ratios = [f"×{number(ratio(costs[name], costs['file']))}" for name in ("request", "store")]
            rows.append([f"{k:,}", f"{_state_bytes(k) / 1024:,.0f}", *times, *ratios])
        part.say(f"### {kind}")
        head = ["k", "state, KiB", "request, ms", "store, ms", "file, ms", "request / file", "store / file"]
        part.show(head, rows, words=0)


def _requested(generator: Generator, server: Server, k: int, window: float) -> Callable[[], float]:
    path = server.make_sketch(f"commits-{k}", k)
    for body in DISTINCT.bodies(_FILLING):  # full
        server.post(path, body)
    return lambda: generator.run(Load(Target(server.port, path, 1), 1, window)).middle


def _stored(database: Database, server: Server, k: int) -> Callable[[], float]:
    """The service's own store: the lock on the state, the new bytes, the commit."""
    name = f"stored-{k}"
    server.make_sketch(name, k)
    hot = ours.fold(DISTINCT.bodies(_FILLING), k)
    events = itertools.cycle(ZIPF.bodies(_WRITES * ROUNDS, 1))

    written: list[Version] = []

    def store(content: bytes) -> None:
        with database.writing() as session:
            held = states.lock(session, name)
            assert held is not None
            over = written.pop() if written else None
            written.append(states.write(session, held.sketch_id, content, over=over))

    def cost() -> float:
        times = []
        for event in itertools.islice(events, _WRITES):
            ours.add(hot, event)
            content = hot.stored()
            times.append(seconds(partial(store, content)))
        return median(times)

    return cost


def _floor(folder: Path, size: int) -> Callable[[], float]:
    def cost() -> float:
        with open(folder / "floor", "ab", buffering=0) as file:

            def write(content: bytes) -> None:
                file.write(content)
                os.fdatasync(file.fileno())

            return median([seconds(partial(write, os.urandom(size))) for _ in range(_WRITES)])

    return cost


@cache
def _state_bytes(k: int) -> int:
    return len(ours.fold(DISTINCT.bodies(_FILLING), k).state())
