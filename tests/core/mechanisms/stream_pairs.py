"""Sketches of neighbouring streams, from `alg:MG` alone: nothing of `lem:nb-cases` is used to find them."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.core.sketches import oracle
from tests.core.sketches.oracle import Key, Sketch
from tests.streams import LETTERS


class Folded(NamedTuple):
    """A sketch, and how often all of its counters were lowered since the start."""

    counters: frozenset[tuple[Key, int]]
    lowered: int

    @classmethod
    def start(cls, k: int, tall: int, height: int) -> "Folded":
        """So many counters of one height, the others empty."""
        sketch = oracle.misra_gries(k, (key for key in LETTERS[:tall] for _ in range(height)))
        return cls(frozenset(sketch.items()), 0)

    def after(self, name: str) -> "Folded":
        before = dict(self.counters)
        sketch = oracle.after(before, name)
        fell = sum(sketch.values()) < sum(before.values())
        return Folded(frozenset(sketch.items()), self.lowered + fell)


class Side(NamedTuple):
    """What the output law depends on: counts of the keys that both sketches store, and of those only this one does."""

    common: tuple[int, ...]
    own: tuple[int, ...]


class Pair(NamedTuple):
    left: Side
    right: Side
    gap: int  # how much more often the left sketch was lowered


Kept = Callable[[Sketch], Sketch]  # which keys of a sketch a release knows


def every_slot(sketch: Sketch) -> Sketch:
    return sketch


def real_keys(sketch: Sketch) -> Sketch:
    return {key: count for key, count in sketch.items() if not key.is_dummy}


def positive(sketch: Sketch) -> Sketch:
    """What the usual Misra-Gries sketch stores: its counters are those of `alg:MG`, zero ones dropped."""
    return {key: count for key, count in sketch.items() if count}


def pair_of(one: Folded, other: Folded, kept: Kept = every_slot) -> Pair:
    """Keys renamed away: laws of equal counts are equal."""
    left, right = kept(dict(one.counters)), kept(dict(other.counters))
    common = sorted((left[key], right[key]) for key in left.keys() & right.keys())
    own = sorted(left[key] for key in left.keys() - right.keys())
    others = sorted(right[key] for key in right.keys() - left.keys())
    return Pair(
        Side(tuple(count for count, _ in common), tuple(own)),
        Side(tuple(count for _, count in common), tuple(others)),
        one.lowered - other.lowered,
    )


def sketches_apart(k: int, start: Folded, events: int, m: int) -> Iterator[tuple[Folded, Folded]]:
    """Sketches of all streams that go on with at most so many events, beside those that lack up to m of these."""
    universe = LETTERS[: k + 2]  # state S6 of lem:nb-cases names k + 2 keys
    missing: list[set[tuple[Folded, Folded]]] = [{(start, start)}] + [set() for _ in range(m)]
    for _ in range(events):
        fed = [{(left.after(key), right.after(key)) for left, right in found for key in universe} for found in missing]
        dropped = [{(left.after(key), right) for left, right in found for key in universe} for found in missing]
        missing = [fed[0], *(both | removed for both, removed in zip(fed[1:], dropped, strict=False))]
        for found in missing[1:]:
            yield from found


def pairs_apart(k: int, height: int, events: int, m: int = 1, kept: Kept = every_slot) -> list[Pair]:
    """Small neighbours, and those with some counters near `height`.

    Only tall counters are reported often, and only in what is reported can a wrong scale of the noise be seen.
    """
    starts = [Folded.start(k, tall, height) for tall in range(k + 1)]
    return sorted(
        {pair_of(left, right, kept) for start in starts for left, right in sketches_apart(k, start, events, m)}
    )
