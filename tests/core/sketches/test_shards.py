"""Many shards: the error and the distance of neighbours do not grow with their number."""

import random
from collections import Counter
from functools import reduce

import pytest

from app.core.sketches.compact import CompactSketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch

SHARDS = pytest.mark.parametrize("shards", [2, 16, 256])
K, EVENTS = 16, 6000


def stream(seed: int) -> list[str]:
    generator = random.Random(seed)
    return [f"key-{int(generator.paretovariate(0.6)) % 400}" for _ in range(EVENTS)]


def sketches(events: list[str], shards: int) -> list[StreamSketch]:
    """Event i goes to shard i mod the number of shards."""
    return [StreamSketch.empty(K).extended((key, 1) for key in events[at::shards]) for at in range(shards)]


def compact(parts: list[StreamSketch]) -> CompactSketch:
    return reduce(CompactSketch.merged, map(CompactSketch.of_stream, parts))


def summed(parts: list[StreamSketch]) -> SummedSketch:
    return reduce(SummedSketch.plus, map(SummedSketch.of_stream, parts))


def neighbours(parts: list[StreamSketch], events: list[str], shards: int, gone: int) -> list[StreamSketch]:
    """The same shards with one event missing from the one that had it."""
    at = gone % shards
    own = [key for place, key in enumerate(events) if place % shards == at and place != gone]
    return [*parts[:at], StreamSketch.empty(K).extended((key, 1) for key in own), *parts[at + 1 :]]


@SHARDS
@pytest.mark.parametrize("seed", [1, 2])
def test_a_compact_merge_errs_by_at_most_its_share(shards: int, seed: int) -> None:
    events = stream(seed)
    merged = compact(sketches(events, shards))
    assert len(merged.counters) <= K
    for key, true in Counter(events).items():
        assert true - EVENTS / (K + 1) <= merged.counters.get(key, 0) <= true


@SHARDS
@pytest.mark.parametrize("seed", [1, 2])
def test_a_sum_errs_by_at_most_its_share(shards: int, seed: int) -> None:
    events = stream(seed)
    total = summed(sketches(events, shards))
    for key, true in Counter(events).items():
        estimate = total.counters.get(key, 0) / (K + 1)
        assert true - EVENTS / (K + 1) <= estimate <= true


@SHARDS
def test_neighbours_of_a_compact_merge_differ_by_one_in_one_direction(shards: int) -> None:
    events = stream(3)
    parts = sketches(events, shards)
    before = compact(parts)
    seen = set()
    for gone in random.Random(4).sample(range(EVENTS), 40):
        after = compact(neighbours(parts, events, shards, gone))
        keys = before.counters.keys() | after.counters.keys()
        differences = {before.counters.get(key, 0) - after.counters.get(key, 0) for key in keys}
        assert differences <= {0, 1} or differences <= {0, -1}
        seen |= differences
    assert seen != {0}  # some event mattered


@SHARDS
def test_neighbours_of_a_sum_are_as_near_as_those_of_one_stream(shards: int) -> None:
    events = stream(5)
    parts = sketches(events, shards)
    before = summed(parts)
    farthest = 0
    for gone in random.Random(6).sample(range(EVENTS), 40):
        after = summed(neighbours(parts, events, shards, gone))
        keys = before.counters.keys() | after.counters.keys()
        distance = sum(abs(before.counters.get(key, 0) - after.counters.get(key, 0)) for key in keys)
        assert distance <= 2 * K - 1
        farthest = max(farthest, distance)
    assert farthest > 0
