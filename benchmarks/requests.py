"""Part `http`: how many events the service takes over HTTP, beside what its server can receive at all."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from benchmarks import peers, servers
from benchmarks.load import Answered, Generator, Load, Target
from benchmarks.markdown import number
from benchmarks.report import NOT_INSTALLED, Claim, Curve, Part
from benchmarks.rounds import ROUNDS, Costs, in_rounds, median, ratio, seconds
from benchmarks.servers import Server
from benchmarks.streams import BATCH, ZIPF

AGAINST_BATCH = "events in a request, 8 clients"
AGAINST_CLIENTS = "clients, one event a request"

_K = 1024
_NO_OP, _BARE, _RECEIVED = "/livez of the service", "bare server", "received only"
_CLIENTS, _MANY_CLIENTS = 8, 64
_BATCHES = (1, 10, 100, 1_000, 10_000)
_CLIENT_NUMBERS = (1, 2, 4, 8, 16, 32, 64)
_SWEEP_WINDOW = 0.6  # seconds: there are many of them
_HEAD = ["requests/s", "p50, ms", "p99, ms", "server CPU, ms a request", "load, cores"]


def run(part: Part, *, quick: bool) -> None:
    """Measure large requests, small ones, and the sweeps between them."""
    part.say(
        f"The service as `discreet serve` starts it, k = {_K:,}, {ZIPF.name}, one sketch, no two successive requests "
        "alike; a load generator in a process of its own. *Bare server* is the same uvicorn with the same settings and "
        "an app that receives the body and answers 200. Each figure is the median of five windows, which alternate "
        "between the contenders. PostgreSQL's write-ahead log has gone round once before, as on any server that is not "
        "new: the first time, each of its files is filled with zeros before it is used."
    )
    window = 0.5 if quick else 2
    with ExitStack() as stack:
        generator = stack.enter_context(Generator())
        bare = stack.enter_context(servers.bare())
        ours: dict[str, Server] = {}
        for kind in (servers.SQLITE, servers.POSTGRESQL):
            if servers.available(kind):
                ours[kind] = stack.enter_context(servers.serving(stack.enter_context(servers.new_database(kind))))
            else:
                part.say(f"{kind}: {NOT_INSTALLED}.")
        _large_requests(part, generator, ours, bare, 2 * window)  # what is compared most closely is measured longest
        for kind, server in ours.items():
            bench = _Bench(part, kind, generator, server, bare, window)
            bench.small_requests()
            replace(bench, window=min(window, _SWEEP_WINDOW)).sweeps()


def _large_requests(part: Part, generator: Generator, ours: dict[str, Server], bare: Server, window: float) -> None:
    """(a) As many events as fit well into a request; both databases in the same rounds."""
    contenders = {
        kind: _Contender(server, server.make_sketch("large", _K), BATCH, _CLIENTS) for kind, server in ours.items()
    }
    contenders[_BARE] = _Contender(bare, "/v1/sketches/large/events", BATCH, _CLIENTS)
    with servers.receiving() as receiving:
        contenders[_RECEIVED] = _Contender(receiving, receiving.make_sketch("large", _K), BATCH, _CLIENTS)
        works = {name: contender.work(generator, window) for name, contender in contenders.items()}
        if peers.installed("datasketches"):
            works[peers.DATASKETCHES] = _datasketches_requests()
        rates = in_rounds(works)
    part.say(f"### {BATCH:,} events a request, {_CLIENTS} clients")
    rows = [
        [name, number(median(rates[name]) * BATCH / 1e6)]
        + (contenders[name].row() if name in contenders else [number(median(rates[name])), "–", "–", "–", "–"])
        for name in rates
    ]
    part.show(["contender", "million events/s", *_HEAD], rows)
    part.say(
        "*Received only* is the service itself, which checks the key, takes the body in, and then neither decodes nor "
        "counts it. DataSketches is in process, decoding and folding the same bodies, without any server or database."
    )
    large = f"{BATCH:,} events a request"
    for kind in ours:
        sqlite = kind == servers.SQLITE
        _claim(part, kind, large, rates, _RECEIVED, at_least=0.2 if sqlite else None)
        _claim(part, kind, large, rates, _BARE)
        _claim(part, kind, large, rates, peers.DATASKETCHES, at_least=1.5 if sqlite else None)
    if servers.POSTGRESQL in ours:
        _claim(part, servers.POSTGRESQL, large, rates, servers.SQLITE, at_least=0.8)


def _claim(part: Part, kind: str, words: str, rates: Costs, peer: str, at_least: float | None = None) -> None:
    measured = ratio(rates[kind], rates[peer]) if peer in rates else None
    part.claim(Claim(f"HTTP, {kind}, {words}: of the rate of {peer}", measured, at_least=at_least))


@dataclass(frozen=True, slots=True)
class _Bench:
    part: Part
    kind: str
    generator: Generator
    server: Server
    bare: Server
    window: float

    def small_requests(self) -> None:
        """(b) One event a request into one hot sketch."""
        path = self.server.make_sketch("small", _K)
        contenders = {
            self.kind: _Contender(self.server, path, 1, _MANY_CLIENTS),
            _NO_OP: _Contender(self.server, "/livez", 0, _MANY_CLIENTS),
            _BARE: _Contender(self.bare, path, 1, _MANY_CLIENTS),
        }
        rates = in_rounds({name: contender.work(self.generator, self.window) for name, contender in contenders.items()})
        self.part.say(f"### {self.kind}: one event a request, {_MANY_CLIENTS} clients, one sketch")
        rows = [
            [name, f"×{number(ratio(rates[self.kind], rates[name]))}", *contender.row()]
            for name, contender in contenders.items()
        ]
        self.part.show(["contender", f"{self.kind} is", *_HEAD], rows)
        _claim(self.part, self.kind, "one event a request", rates, _NO_OP, at_least=0.5)
        _claim(self.part, self.kind, "one event a request", rates, _BARE)
        slowest = contenders[self.kind].slowest() / contenders[_NO_OP].slowest()
        self.part.claim(Claim(f"HTTP, {self.kind}, one event a request: p99, of that of {_NO_OP}", slowest, at_most=10))

    def sweeps(self) -> None:
        """(c) Against the size of a request and the number of clients."""
        self._sweep(AGAINST_BATCH, {batch: (batch, _CLIENTS) for batch in _BATCHES})
        self._sweep(AGAINST_CLIENTS, {clients: (1, clients) for clients in _CLIENT_NUMBERS})

    def _sweep(self, panel: str, points: dict[int, tuple[int, int]]) -> None:
        path = self.server.make_sketch(panel.partition(" ")[0].strip(","), _K)
        ours = {at: _Contender(self.server, path, *of) for at, of in points.items()}
        bare = {at: _Contender(self.bare, path, *of) for at, of in points.items()}
        works = {f"{at}": contender.work(self.generator, self.window) for at, contender in ours.items()}
        rates = in_rounds(
            works | {f"{at} bare": contender.work(self.generator, self.window) for at, contender in bare.items()}
        )
        self.part.say(f"### {self.kind}, against {panel}")
        rows, costs, floors = [], [], []
        for at, (batch, _clients) in points.items():
            rate, ceiling = rates[f"{at}"], rates[f"{at} bare"]
            costs.append((float(at), 1e9 / (median(rate) * batch)))
            floors.append((float(at), 1e9 / (median(ceiling) * batch)))
            rows.append([f"{at:,}", number(costs[-1][1] / 1e3), f"×{number(ratio(rate, ceiling))}", *ours[at].row()])
        self.part.show([panel.partition(",")[0], "µs per event", "of bare server's rate", *_HEAD], rows, words=0)
        self.part.curves += [Curve(panel, self.kind, costs), Curve(panel, _BARE, floors)]


class _Contender:
    """One kind of load on one server, and what was seen of it in each round."""

    def __init__(self, server: Server, path: str, batch: int, clients: int) -> None:
        self._server = server
        self._target = Target(server.port, path, batch)
        self._clients = clients
        self._seen: list[Answered] = []
        self._busy: list[float] = []  # seconds of the server's processor time per request

    def work(self, generator: Generator, window: float) -> Callable[[], float]:
        return lambda: self._measure(generator, window)

    def _measure(self, generator: Generator, window: float) -> float:
        busy = self._server.busy()
        answered = generator.run(Load(self._target, self._clients, window))
        self._seen.append(answered)
        self._busy.append((self._server.busy() - busy) / answered.all_requests)
        return answered.per_second

    def slowest(self) -> float:
        """p99"""
        return median([seen.slowest for seen in self._seen])

    def row(self) -> list[str]:
        assert len(self._seen) == ROUNDS
        return [
            number(median([seen.per_second for seen in self._seen])),
            number(median([seen.middle * 1e3 for seen in self._seen])),
            number(median([seen.slowest * 1e3 for seen in self._seen])),
            number(median(self._busy) * 1e3),
            f"{median([seen.busy for seen in self._seen]):.2f}",
        ]


def _datasketches_requests() -> Callable[[], float]:
    """Bodies per second, decoded by the fastest decoder and folded into one sketch."""
    bodies = list(ZIPF.bodies(500_000))
    decode = min(peers.decoders(), key=lambda named: seconds(lambda: [named[1](body) for body in bodies]))[1]
    size = peers.sizes_near(_K)[0]
    return lambda: len(bodies) / seconds(lambda: peers.datasketches(bodies, size, decode))
