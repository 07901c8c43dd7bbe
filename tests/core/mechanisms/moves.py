"""Neighbours key by key: the counters on both sides of all keys that differ. An absent key counts 0."""

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, product

Move = tuple[int, int]  # a counter on one side and on the other


def moves_by(distance: int, lower: Sequence[int]) -> list[Move]:
    """Up and down, from each of the lower ends."""
    up = [(low + distance, low) for low in lower]
    return up + [(low, high) for high, low in up]


def moves_up_to(distance: int, lower: Sequence[int]) -> list[Move]:
    return [move for by in range(1, distance + 1) for move in moves_by(by, lower)]


def apart(k: int, m: int, lower: Sequence[int]) -> Iterator[tuple[Move, ...]]:
    """Compact sketches after m steps, each of which moves up to k counters by one, all up or all down.

    Each side stores at most k keys. For m = 1 these are the neighbours of `cor:merged-user-level`.
    """
    for number in range(1, 2 * k + 1):
        for keys in combinations_with_replacement(moves_up_to(m, lower), number):
            gains = [0, *(left - right for left, right in keys)]
            stored = max(sum(key[side] > 0 for key in keys) for side in (0, 1))
            if max(gains) - min(gains) <= m and stored <= k:
                yield keys


def parts(total: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Every way to write a number as a sum, the largest part first."""
    if total == 0:
        yield ()
    for part in range(min(total, largest), 0, -1):
        for rest in parts(total - part, part):
            yield (part, *rest)


def within(distance: int, lower: Sequence[int]) -> Iterator[tuple[Move, ...]]:
    """Summed sketches: moves of any number of keys whose lengths add up to at most the distance."""
    for total in range(1, distance + 1):
        for lengths in parts(total, total):
            groups = [
                list(combinations_with_replacement(moves_by(length, lower), lengths.count(length)))
                for length in sorted(set(lengths))
            ]
            for chosen in product(*groups):
                yield tuple(move for group in chosen for move in group)
