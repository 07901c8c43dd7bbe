"""Part `scaling`: what an event costs against the length of the stream and against the number of counters."""

import time
from collections.abc import Callable

from benchmarks import ours, peers
from benchmarks.markdown import number
from benchmarks.report import Claim, Curve, Part
from benchmarks.rounds import busy_seconds, in_rounds, median, ratio
from benchmarks.streams import BATCH, WIDE_ZIPF, ZIPF

AGAINST_LENGTH = "events in the stream, n"
AGAINST_COUNTERS = "counters, k"

_LENGTHS = (10**5, 10**6, 10**7, 10**8)
_LENGTH_K = 1024
_COUNTERS = (256, 1024, 4096, 16_384, 65_536)
_COUNTERS_EVENTS = 2_000_000
_AT_LEAST = 1_000_000  # events in one measurement, so that a short stream is not one short moment


def run(part: Part, *, quick: bool) -> None:
    """Measure against the length of the stream, then against the number of counters."""
    _against_length(part, [length for length in _LENGTHS if not quick or length <= 10**7])
    _against_counters(part)


def _against_length(part: Part, lengths: list[int]) -> None:
    part.say(
        f"The whole stream into one sketch of k = {_LENGTH_K:,}, {ZIPF.name}. Processor time. The stream is made in "
        "pieces between the timed folds; short streams are folded several times over for one measurement."
    )
    costs = in_rounds({str(length): _long(length) for length in lengths})
    first = costs[str(lengths[0])]
    rows = [[f"{int(n):,}", number(median(cost)), f"×{ratio(cost, first):.2f}"] for n, cost in costs.items()]
    part.show(["n", "ns per event", f"of n = {lengths[0]:,}"], rows, words=0)
    middle = [median(cost) for cost in costs.values()]
    words = f"fold, n from {lengths[0]:.0e} to {lengths[-1]:.0e}: dearest / cheapest".replace("e+0", "e")
    part.claim(Claim(words, max(middle) / min(middle), at_most=1.2))
    part.curves.append(Curve(AGAINST_LENGTH, "ours", list(zip(lengths, middle, strict=True))))


def _long(length: int) -> Callable[[], float]:
    """Nanoseconds per event; `repeats` streams with seeds of their own, each into an empty sketch."""
    repeats = max(1, _AT_LEAST // length)

    def cost() -> float:
        spent = 0.0
        for seed in range(1, repeats + 1):
            hot = ours.opened(_LENGTH_K)
            for body in ZIPF.bodies(length, seed=seed):
                start = time.process_time()
                ours.add(hot, body)
                spent += time.process_time() - start
        return spent * 1e9 / (repeats * length)

    return cost


def _against_counters(part: Part) -> None:
    part.say(f"{_COUNTERS_EVENTS:,} events of {WIDE_ZIPF.name}, enough to fill every sketch.")
    bodies = list(WIDE_ZIPF.bodies(_COUNTERS_EVENTS))
    works = {f"{k}": _folded(bodies, k) for k in _COUNTERS}
    theirs = peers.installed("datasketches")
    if theirs:
        works |= {f"{peers.DATASKETCHES} {k}": _peer(bodies, k) for k in _COUNTERS}
    costs = in_rounds(works)
    rows = []
    for k in _COUNTERS:
        cost = costs[str(k)]
        row = [f"{k:,}", number(median(cost)), f"×{ratio(cost, costs[str(_COUNTERS[0])]):.2f}"]
        peer = costs.get(f"{peers.DATASKETCHES} {k}")
        row += [number(median(peer)), f"×{number(ratio(peer, cost))}"] if peer else ["–", "–"]
        rows.append(row)
    part.show(["k", "ns per event", f"of k = {_COUNTERS[0]}", peers.DATASKETCHES, "of ours"], rows, words=0)
    middle = [median(costs[str(k)]) for k in _COUNTERS]
    words = f"fold, k from {_COUNTERS[0]:,} to {_COUNTERS[-1]:,}: dearest / cheapest"
    part.claim(Claim(words, max(middle) / min(middle), at_most=2))
    part.curves.append(Curve(AGAINST_COUNTERS, "ours", list(zip(_COUNTERS, middle, strict=True))))
    if theirs:
        points = [(float(k), median(costs[f"{peers.DATASKETCHES} {k}"])) for k in _COUNTERS]
        part.curves.append(Curve(AGAINST_COUNTERS, peers.DATASKETCHES, points))


def _folded(bodies: list[bytes], k: int) -> Callable[[], float]:
    return lambda: busy_seconds(lambda: ours.fold(bodies, k)) * 1e9 / (len(bodies) * BATCH)


def _peer(bodies: list[bytes], k: int) -> Callable[[], float]:
    """With the decoder that is fastest on these bodies, and the smaller of the two maps near k."""
    decode = min(peers.decoders(), key=lambda named: busy_seconds(lambda: [named[1](body) for body in bodies[:50]]))[1]
    size = peers.sizes_near(k)[0]
    return lambda: busy_seconds(lambda: peers.datasketches(bodies, size, decode)) * 1e9 / (len(bodies) * BATCH)
