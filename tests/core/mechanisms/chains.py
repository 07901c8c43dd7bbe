"""Streams of which one is the other plus m events, with all streams between them: the chain in pmg.md."""

import random
from collections.abc import Iterator
from typing import NamedTuple

from tests.core.mechanisms.stream_pairs import Folded
from tests.core.sketches.oracle import Key
from tests.streams import LETTERS


class Chain(NamedTuple):
    """What the proof compares: the first sketch is of the shorter stream, the last of the longer."""

    shorter: dict[Key, int]
    longer: dict[Key, int]
    events: int
    lowering: int  # V: steps in which all counters fall
    common: frozenset[Key]  # A: stored by all sketches of the chain

    @property
    def raising(self) -> int:
        """U."""
        return self.events - self.lowering

    @property
    def own(self) -> list[int]:
        """Counts of the longer stream's own keys, B."""
        return sorted(count for key, count in self.longer.items() if key not in self.common)

    @property
    def others(self) -> list[int]:
        """Counts of the shorter stream's own keys, B′."""
        return sorted(count for key, count in self.shorter.items() if key not in self.common)

    @property
    def moves(self) -> list[int]:
        """c_x − c′_x + V on A, where it is not 0."""
        gains = (self.longer[key] - self.shorter[key] + self.lowering for key in self.common)
        return sorted(gain for gain in gains if gain)


def random_chains(number: int, *, most_k: int, most_events: int, seed: int) -> Iterator[Chain]:
    """Short streams over few keys, into which events are put at any place and in any order."""
    chance = random.Random(seed)
    for _ in range(number):
        k, m = chance.randint(1, most_k), chance.randint(1, most_events)
        keys = LETTERS[: chance.randint(2, k + 3)]
        stream = [(chance.choice(keys), 0) for _ in range(chance.randint(1, 12))]
        for rank in range(1, m + 1):  # in the stream from the rank'th step of the chain on
            stream.insert(chance.randint(0, len(stream)), (chance.choice(keys), rank))
        sketches = [_folded(k, [key for key, rank in stream if rank <= step]) for step in range(m + 1)]
        stored = [frozenset(key for key, _ in sketch.counters) for sketch in sketches]
        yield Chain(
            dict(sketches[0].counters),
            dict(sketches[-1].counters),
            m,
            sketches[-1].lowered - sketches[0].lowered,
            frozenset.intersection(*stored),
        )


def _folded(k: int, stream: list[str]) -> Folded:
    sketch = Folded.start(k, 0, 0)
    for key in stream:
        sketch = sketch.after(key)
    return sketch
