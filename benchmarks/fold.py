"""How fast a sketch takes events, beside exact counting in a dictionary, which keeps every key and no promise."""

import random
import statistics
import time
from collections import Counter
from collections.abc import Callable

from app.core.sketches import state
from app.core.sketches.stream import StreamSketch

EVENTS = 200_000
ROUNDS = 5


def _zipf(generator: random.Random) -> list[str]:
    weights = [1 / rank**1.1 for rank in range(1, 100_001)]
    return [f"key-{number:012}" for number in generator.choices(range(100_000), weights, k=EVENTS)]


def _distinct(generator: random.Random) -> list[str]:
    return [f"key-{generator.getrandbits(40):012}" for _ in range(EVENTS)]


def _seconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    generator = random.Random(1)
    print(f"{EVENTS:,} events, median of {ROUNDS}\n")
    print(f"{'stream':<14}{'k':>7}{'M events/s':>13}{'of exact counting':>20}{'state, load and save, ms':>27}")
    for name, stream in (("zipf 1.1", _zipf(generator)), ("all distinct", _distinct(generator))):
        exact = _seconds(lambda stream=stream: Counter(stream))  # type: ignore[misc]
        weighted = [(key, 1) for key in stream]
        for k in (256, 1024, 16_384):
            folded = _seconds(lambda k=k, weighted=weighted: StreamSketch.empty(k).extended(weighted))  # type: ignore[misc]
            full = StreamSketch.empty(k).extended(weighted)
            stored = _seconds(lambda full=full: state.decode(state.encode(full)))  # type: ignore[misc]
            print(f"{name:<14}{k:>7}{EVENTS / folded / 1e6:>13.2f}{exact / folded:>20.2f}{stored * 1e3:>27.2f}")


if __name__ == "__main__":
    main()
