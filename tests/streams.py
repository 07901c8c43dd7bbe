"""Named inputs shared by the tests. A stream is a tuple of keys in arrival order."""

from collections.abc import Iterator
from itertools import groupby, product

import numpy as np

Stream = tuple[str, ...]

LETTERS = "abcdefgh"


def small_streams(universe: int, longest: int) -> Iterator[Stream]:
    """Every stream of at most `longest` events over the first `universe` letters, shorter ones first."""
    for length in range(longest + 1):
        yield from product(LETTERS[:universe], repeat=length)


def neighbours(stream: Stream) -> Iterator[Stream]:
    """The stream with one event removed, for every position once (inside a run the result is the same)."""
    for position, key in enumerate(stream):
        if position == 0 or stream[position - 1] != key:
            yield stream[:position] + stream[position + 1 :]


def in_runs(stream: Stream) -> list[tuple[str, int]]:
    """The same events as `(key, count)`, a run of equal keys as one item."""
    return [(key, len(list(run))) for key, run in groupby(stream)]


def zipf(events: int, keys: int, seed: int) -> Stream:
    """Keys drawn with probability proportional to 1/rank."""
    weights = 1 / np.arange(1, keys + 1)
    ranks = np.random.default_rng(seed).choice(keys, size=events, p=weights / weights.sum())
    return tuple(f"key-{rank:05}" for rank in ranks)


def all_distinct(events: int) -> Stream:
    """No key comes twice: the worst input for a Misra-Gries sketch."""
    return tuple(f"key-{number:05}" for number in range(events))
