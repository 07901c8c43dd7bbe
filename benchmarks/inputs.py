"""What the bars are tried on: streams of a million events, as sketches of every family, with the true counts.

A key is a number, written as text. Folding is done by the compiled kernel, so that a million events take a second.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from app.core.kernel import Events, Fold, Sets, batch_of, sets_of
from app.core.mechanism import Family
from app.core.sketches.compact import CompactSketch
from app.core.sketches.order import SECRET_BYTES, Order
from app.core.sketches.state import Sketch, decode, encode
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch
from benchmarks.streams import zipf

EVENTS = 1_000_000
SOURCES = 4  # streams that are merged, or added up
SET = 4  # events of which a person's set is made

ZIPF = "Zipf 1.1"

_SEED = 1
_KEYS = 100_000
_FEW_KEYS = 10_000  # of the uniform stream
_SURVIVORS, _FOR_SURVIVORS = 16, 0.05  # of the adversarial stream: keys that are still stored, and their events
_SECRET = bytes(range(1, SECRET_BYTES + 1))  # of the eviction order, so that all runs are alike

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Case:
    """A sketch and what it was made from."""

    kind: str  # how it was made: stream, merged, summed or sets
    family: Family
    mechanism: str
    sketch: Sketch
    truth: Numbers  # the true count of each key, by its number
    sources: int = 1

    @property
    def worst_error(self) -> float:
        """n/(k+1): what a sketch of so many events, or elements of sets, may miss at all."""
        return int(self.truth.sum()) / (self.sketch.k + 1)


def key_of(number: int) -> str:
    """The key with this number."""
    return f"key-{number:06}"


def number_of(key: str) -> int:
    """The number of this key."""
    return int(key[4:])


class Input:
    """A stream, ready to be folded: whole, in parts that go to different sketches, and as people's sets."""

    def __init__(self, numbers: Numbers, people: Numbers) -> None:
        keys = [key_of(number) for number in range(int(numbers.max()) + 1)]
        parts = np.random.default_rng(_SEED).integers(0, SOURCES, len(numbers))  # which part an event goes to
        self._whole = _events(numbers, keys)
        self._parts = [_events(numbers[parts == part], keys) for part in range(SOURCES)]
        self._sets = sets_of([(None, [keys[number] for number in row]) for row in people.tolist()], SET)
        self._truth = np.bincount(numbers, minlength=len(keys))
        ordered = np.sort(people, axis=1)
        first = np.concatenate([np.ones((len(people), 1), bool), np.diff(ordered) > 0], axis=1)
        self._people = np.bincount(ordered[first], minlength=len(keys))  # a person counts once for each key

    def cases(self, k: int) -> list[Case]:
        """Sketches of all families, of k counters."""
        parts = [_folded(k, part) for part in self._parts]
        merged = reduce(CompactSketch.merged, map(CompactSketch.of_stream, parts))
        summed = reduce(SummedSketch.plus, map(SummedSketch.of_stream, parts))
        people = _fold(CompactSketch.empty(k), self._sets)
        return [
            Case("stream", "stream", "pmg", _folded(k, self._whole), self._truth),
            Case("merged", "compact", "gshm", merged, self._truth),
            Case("summed", "summed", "reduced-approx", summed, self._truth, SOURCES),
            Case("sets", "compact", "gshm", people, self._people),
        ]


def _events(numbers: Numbers, keys: list[str]) -> Events:
    return batch_of([(keys[number], 1) for number in numbers.tolist()])


def _folded(k: int, events: Events) -> StreamSketch:
    sketch = _fold(StreamSketch.empty(k, Order(_SECRET)), events)
    assert isinstance(sketch, StreamSketch)
    return sketch


def _fold(empty: Sketch, batch: Events | Sets) -> Sketch:
    fold = Fold(encode(empty))
    fold.add(batch)
    return decode(fold.state())


def inputs(counters: Sequence[int]) -> Iterator[tuple[str, int, Input]]:
    """Every stream with every number of counters."""
    random = np.random.default_rng(_SEED)
    usual = zipf(_KEYS).draw(random, EVENTS)
    streams = {
        ZIPF: usual,
        "Zipf 1.5": zipf(_KEYS, 1.5).draw(random, EVENTS),
        "uniform": random.integers(0, _FEW_KEYS, EVENTS),
        "sorted": np.sort(usual),
    }
    for name, numbers in streams.items():
        folded = Input(numbers, numbers.reshape(-1, SET))
        yield from ((name, k, folded) for k in counters)
    yield from (("adversarial", k, _adversarial(k)) for k in counters)


MEANING = (
    f"*Zipf 1.1* and *1.5*: {_KEYS:,} keys. *Uniform*: {_FEW_KEYS:,} keys. *Sorted*: the events of Zipf 1.1, all of a "
    "key in a row. *Adversarial*: k keys equally often, so that all are stored, then keys that come once each, which "
    "lower all counters as often as can be; a few of the first have some more events, so that they are listed."
)


def _adversarial(k: int) -> Input:
    """k keys, equally often and one after the other, so that all are stored; then keys that come once each.

    Each late key lowers all counters until nothing is left of them: as often as can be, n/(k+1) times. So that some
    keys are listed at all, a few get a twentieth of all events besides. Of people, a late key is a set of its own.
    """
    rounds = int((1 - _FOR_SURVIVORS) * EVENTS) // (k + 1)
    survivors = np.resize(np.arange(min(_SURVIVORS, k)), EVENTS - rounds * (k + 1))
    late = np.arange(k, k + rounds)
    early = np.concatenate([survivors, np.tile(np.arange(k), rounds)])
    whole_sets = early[: len(early) // SET * SET]
    people = np.concatenate([whole_sets, np.repeat(late, SET)])
    return Input(np.concatenate([early, late]), people.reshape(-1, SET))
