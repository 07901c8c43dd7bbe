"""Streams, noise and errors for `accuracy.py`.

The streams are seeded; the noise is the service's own. It is drawn once per scale and repetition and met by every
contender of that scale, so contenders that differ only in their threshold are compared on the same draws. Within a
release each draw is given once.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from app.core.ledger.budget import Cost
from app.core.noise.samplers import SYSTEM_NOISE, Noise, Sampler
from app.core.sketches.compact import CompactSketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch
from benchmarks.contenders import Contender, Folded, contenders, merged_contenders

EVENTS = 100_000
COUNTERS = (64, 1024)
EPSILONS = ("0.1", "0.5", "1")
DELTAS = ("1e-6", "1e-9")
SHARDS = (2, 16, 256)
MERGE_DELTA = "1e-6"

ZIPF, MANY, FEW = "Zipf 1.1, 10,000 keys", "uniform, 10,000 keys", "uniform, 64 keys"

_SEED = 1


@dataclass(frozen=True, slots=True)
class Stream:
    """Events over a universe of keys; `truth` has a count, perhaps 0, for each of them."""

    name: str
    events: list[str]
    truth: Mapping[str, int]

    def sketched(self, k: int, shard: int = 0, shards: int = 1) -> StreamSketch:
        """Of every `shards`-th event, from the `shard`-th on."""
        return StreamSketch.empty(k).extended((key, 1) for key in self.events[shard::shards])


def streams() -> list[Stream]:
    """A usual stream; one in which no key is frequent enough for a sketch; one whose keys fit into any of them."""
    zipf = 1 / np.arange(1, 10_001) ** 1.1
    return [_stream(ZIPF, zipf), _stream(MANY, np.ones(10_000)), _stream(FEW, np.ones(64))]


def _stream(name: str, weights: NDArray[np.float64]) -> Stream:
    generator = np.random.default_rng(_SEED)
    # Shuffled names: which zero counter goes first depends on their order, which should say nothing about frequency.
    keys = [f"key-{number:05}" for number in generator.permutation(len(weights))]
    events = [keys[at] for at in generator.choice(len(keys), EVENTS, p=weights / weights.sum())]
    counted = Counter(events)
    return Stream(name, events, {key: counted[key] for key in keys})


class _Drawn:
    """Draws of one law that are kept, to be given out again."""

    def __init__(self, sample: Sampler) -> None:
        self._sample = sample
        self._drawn: defaultdict[float, list[int]] = defaultdict(list)

    def from_the_first(self) -> Sampler:
        """A sampler that gives, at each scale, the first draws first, and each of them once."""
        given: Counter[float] = Counter()

        def sample(scale: float, size: int) -> list[int]:
            drawn, start = self._drawn[scale], given[scale]
            given[scale] += size
            if len(drawn) < given[scale]:
                drawn += self._sample(scale, given[scale] - len(drawn))
            return drawn[start : given[scale]]

        return sample


class Repetition:
    """The noise of one repetition, which all contenders share."""

    def __init__(self) -> None:
        self._laplace, self._gaussian = _Drawn(SYSTEM_NOISE.laplace), _Drawn(SYSTEM_NOISE.gaussian)

    def noise(self) -> Noise:
        """The draws of this repetition, for one release."""
        return Noise(self._laplace.from_the_first(), self._gaussian.from_the_first(), SYSTEM_NOISE.below)


@dataclass(frozen=True, slots=True)
class Errors:
    """The largest and the mean error over all keys of the universe, one value for each repetition."""

    threshold: int
    largest: list[int]
    mean: list[float]
    promised: list[int]  # what the largest error passes with probability β at most

    @property
    def average_largest(self) -> float:
        """The largest error over the keys, averaged over the repetitions."""
        return statistics.fmean(self.largest)

    @property
    def average_mean(self) -> float:
        """The mean error over the keys, averaged over the repetitions."""
        return statistics.fmean(self.mean)

    @property
    def beyond_bound(self) -> int:
        """In how many repetitions the largest error passed the promised bound."""
        return sum(error > bound for error, bound in zip(self.largest, self.promised, strict=True))

    @property
    def closest_to_bound(self) -> float:
        """The largest error as a share of the promised bound, where that was largest."""
        return max(error / max(1, bound) for error, bound in zip(self.largest, self.promised, strict=True))


def errors(contender: Contender, truth: Mapping[str, int], repetitions: list[Repetition]) -> Errors:
    """The errors of a contender in each repetition; a key that is not released counts as 0."""
    true = np.fromiter(truth.values(), np.int64)
    position = {key: at for at, key in enumerate(truth)}
    found = Errors(contender.threshold, [], [], [])
    for repetition in repetitions:
        counts = np.zeros_like(true)
        released, promised = contender.release(repetition.noise())
        for key, count in released.items():
            counts[position[key]] = count
        error = np.abs(counts - true)
        found.largest.append(int(error.max()))
        found.mean.append(float(error.mean()))
        found.promised.append(promised)
    return found


@dataclass(frozen=True, slots=True)
class Setting:
    """Which stream is sketched by how many counters and released at what cost."""

    stream: str
    k: int
    epsilon: str
    delta: str
    shards: int = 1

    def cost(self) -> Cost:
        """The cost of the release."""
        return Cost.charged(epsilon=self.epsilon, delta=self.delta)


Results = dict[Setting, dict[str, Errors]]  # by contender


def one_stream(stream: Stream, repetitions: list[Repetition]) -> Iterator[tuple[Setting, dict[str, Errors]]]:
    """The errors of every contender on one sketch of the stream, in each setting."""
    for k in COUNTERS:
        folded = Folded(EVENTS, stream.truth, stream.sketched(k))
        for epsilon in EPSILONS:
            for delta in DELTAS:
                setting = Setting(stream.name, k, epsilon, delta)
                yield setting, _all_errors(contenders(folded, setting.cost()), stream, repetitions)


def merged_shards(stream: Stream, repetitions: list[Repetition]) -> Iterator[tuple[Setting, dict[str, Errors]]]:
    """The errors when the stream is sketched in shards that are merged, in each setting."""
    for k in COUNTERS:
        for shards in SHARDS:
            sketches = [stream.sketched(k, shard, shards) for shard in range(shards)]
            compact = reduce(CompactSketch.merged, map(CompactSketch.of_stream, sketches))
            summed = reduce(SummedSketch.plus, map(SummedSketch.of_stream, sketches))
            for epsilon in EPSILONS:
                setting = Setting(stream.name, k, epsilon, MERGE_DELTA, shards)
                yield (
                    setting,
                    _all_errors(merged_contenders(compact, summed, EVENTS, setting.cost()), stream, repetitions),
                )


def _all_errors(of: list[Contender], stream: Stream, repetitions: list[Repetition]) -> dict[str, Errors]:
    return {contender.name: errors(contender, stream.truth, repetitions) for contender in of}
