"""Part `fold`: what it costs to count JSON bytes into a sketch, beside the peers."""

from collections.abc import Callable
from pathlib import Path

from benchmarks import ours, peers
from benchmarks.markdown import number
from benchmarks.report import NOT_INSTALLED, Claim, Part
from benchmarks.rounds import Costs, busy_seconds, in_rounds, median, ratio
from benchmarks.scratch import scratch_folder
from benchmarks.streams import BATCH, DISTINCT, MOSTLY_DISTINCT, ZIPF, Stream

OURS = "ours"
TWIN = "ours in pure Python"

_COUNTERS = (1024, 16_384)
_NEEDED = {ZIPF: 3, DISTINCT: 2, MOSTLY_DISTINCT: 2}

_EVENTS = 1_000_000
_FEWER = {TWIN: 100_000, peers.DUCKDB: 50_000}  # some are too slow for all; the cost is per event

Work = Callable[[], float]  # nanoseconds per event


def run(part: Part, *, quick: bool) -> None:
    """Measure on each stream, with each number of counters."""
    part.say(
        f"From the bytes of JSON bodies of {BATCH:,} events to an updated sketch, in one process and on one thread, "
        f"beginning with an empty sketch. {_EVENTS // (5 if quick else 1):,} events, fewer for the slowest. "
        "Processor time. DataSketches is named with its decoder and the number of keys that its map holds. DuckDB and "
        "chdb read the same bodies from a file in one query and keep no sketch; they are shown for orientation. Behind "
        "× stands the cost divided by ours."
        + ("" if ours.NATIVE else " The kernel is not compiled here: ours is pure Python.")
    )
    for stream, needed in _NEEDED.items():
        for k in _COUNTERS:
            _measure(part, stream, k, needed, _EVENTS // (5 if quick else 1))


def _measure(part: Part, stream: Stream, k: int, needed: float, events: int) -> None:
    bodies = list(stream.bodies(events))
    with scratch_folder() as folder:
        costs = in_rounds(_works(bodies, k, folder))
    rows = [
        [name, number(median(cost)), f"{1e3 / median(cost):.2f}", f"×{number(ratio(cost, costs[OURS]))}"]
        for name, cost in costs.items()
    ]
    rows += [[name, NOT_INSTALLED, "–", "–"] for name, package in _PACKAGES.items() if not peers.installed(package)]
    part.say(f"### {stream.name}, k = {k:,}")
    part.show(["contender", "ns per event", "million events/s", "of ours"], rows)
    part.claim(Claim(f"fold, {stream.name}, k = {k:,}: DataSketches / ours", _closest(costs), at_least=needed))


_PACKAGES = {peers.DATASKETCHES: "datasketches", peers.DUCKDB: "duckdb", peers.CHDB: "chdb"}


def _closest(costs: Costs) -> float | None:
    """How many times the fastest DataSketches costs what ours costs."""
    theirs = [cost for name, cost in costs.items() if name.startswith(peers.DATASKETCHES)]
    return ratio(min(theirs, key=median), costs[OURS]) if theirs else None


def _works(bodies: list[bytes], k: int, folder: Path) -> dict[str, Work]:
    works = {
        OURS: _timed(OURS, bodies, lambda some: ours.fold(some, k)),
        TWIN: _timed(TWIN, bodies, lambda some: ours.fold(some, k, plain=True)),
    }
    if peers.installed("datasketches"):
        for decoder, decode in peers.decoders():
            for size in peers.sizes_near(k):
                name = f"{peers.DATASKETCHES}, {decoder}, {int(0.75 * 2**size):,}"
                works[name] = _timed(name, bodies, _datasketches(size, decode))
    for name, query in ((peers.DUCKDB, peers.duckdb), (peers.CHDB, peers.chdb)):
        if peers.installed(_PACKAGES[name]):
            works[name] = _queried(name, bodies, folder, k, query)
    return works


def _some(name: str, bodies: list[bytes]) -> list[bytes]:
    return bodies[: _FEWER.get(name, _EVENTS) // BATCH]


def _timed(name: str, bodies: list[bytes], fold: Callable[[list[bytes]], object]) -> Work:
    some = _some(name, bodies)
    return lambda: busy_seconds(lambda: fold(some)) * 1e9 / (len(some) * BATCH)


def _datasketches(size: int, decode: peers.Decode) -> Callable[[list[bytes]], object]:
    return lambda some: peers.datasketches(some, size, decode)


def _queried(name: str, bodies: list[bytes], folder: Path, k: int, query: Callable[[Path, int], object]) -> Work:
    some = _some(name, bodies)
    path = folder / f"{name.split()[0]}.ndjson"
    path.write_bytes(b"\n".join(some) + b"\n")
    return lambda: busy_seconds(lambda: query(path, k)) * 1e9 / (len(some) * BATCH)
