"""What a sketch knows of its own error, in two worlds of which one has an item more; and that its error is no larger.

For streams every small pair is in `test_stream.py`, for sums in `test_summed.py`. Here are long random streams, and
compact sketches: one step for all small counters, and whole histories of streams, events, people's sets and merges.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product
from random import Random
from typing import Any

import pytest

from app.core.sketches.compact import CompactSketch
from app.core.sketches.order import Order
from app.core.sketches.stream import StreamSketch, sum_if_known
from tests.streams import LETTERS
from tests.worlds import are_compact_neighbours

Merge = Callable[[CompactSketch, CompactSketch], CompactSketch]

SMALL_K = pytest.mark.parametrize("k", [1, 2, 3])


def gains(longer: CompactSketch | StreamSketch, shorter: CompactSketch | StreamSketch) -> set[int]:
    """By how much counters are higher with the item more; a key that is not stored counts zero."""
    keys = longer.counters.keys() | shorter.counters.keys()
    return {longer.counters.get(key, 0) - shorter.counters.get(key, 0) for key in keys}


# Streams


@pytest.mark.parametrize("seed", range(4))
def test_one_event_more_lowers_all_counters_once_more_or_raises_one(seed: int) -> None:
    """States S1 and S2 of `lem:nb-cases`, or S3 to S6; with an event removed anywhere in a long stream."""
    rng = Random(seed)
    seen = set()
    for _ in range(500):
        k, order = rng.randint(1, 6), Order(rng.randbytes(16))
        stream = [(rng.choice("abcdefghij"), rng.choice((1, 1, 2, 7))) for _ in range(rng.randint(1, 60))]
        at = rng.randrange(len(stream))
        key, count = stream[at]
        fewer = [*stream[:at], *([(key, count - 1)] if count > 1 else []), *stream[at + 1 :]]
        longer, shorter = (StreamSketch.empty(k, order).extended(events) for events in (stream, fewer))
        assert longer.lowered is not None
        assert shorter.lowered is not None
        assert longer.events == sum(count for _, count in stream)
        assert shorter.events == longer.events - 1
        rise = longer.lowered - shorter.lowered
        assert rise in (0, 1)
        lost = sum(shorter.counters.values()) - sum(longer.counters.values())
        assert lost == (k if rise else -1)
        assert gains(longer, shorter) <= ({-1, 0} if rise else {0, 1})
        seen.add(rise)
    assert seen == {0, 1}


# Compact sketches


def small_sketches(k: int, universe: int, highest: int) -> list[CompactSketch]:
    """All of so many keys and such counters, reached by some items or not."""
    vectors = product(range(highest + 1), repeat=universe)
    return [
        CompactSketch(k, {key: count for key, count in zip(LETTERS, vector, strict=False) if count}, 0, 0)
        for vector in vectors
        if sum(count > 0 for count in vector) <= k
    ]


def small_neighbours(k: int, universe: int, highest: int) -> Iterator[tuple[CompactSketch, CompactSketch]]:
    """The one with an item more first."""
    for one, other in product(small_sketches(k, universe, highest), repeat=2):
        for pair in ((one, other), (replace(one, lowered=1), other)):
            if are_compact_neighbours(*pair):
                yield pair


@SMALL_K
def test_neighbours_stay_neighbours_through_any_merge_and_any_person(k: int) -> None:
    """`lem:merge-step-sensitivity` with what was lowered. By induction it covers all histories; a count of events in a
    row is so many persons with one key."""
    others = small_sketches(k, universe=k + 2, highest=2)
    sets = [chosen for size in range(k + 3) for chosen in combinations(LETTERS[: k + 2], size)]
    for longer, shorter in small_neighbours(k, universe=k + 2, highest=2 if k < 3 else 1):
        for other in others:
            assert are_compact_neighbours(longer.merged(other), shorter.merged(other)), (
                longer.counters,
                other.counters,
            )
        for keys in sets:
            assert are_compact_neighbours(longer.extended_by_people([keys]), shorter.extended_by_people([keys])), keys


@SMALL_K
def test_one_person_more_makes_neighbours_of_whatever_is_there(k: int) -> None:
    """The first step of the induction. An event is a person with one key."""
    sets = [chosen for size in range(k + 3) for chosen in combinations(LETTERS[: k + 2], size)]
    for sketch, keys in product(small_sketches(k, universe=k + 2, highest=2), sets):
        assert are_compact_neighbours(sketch.extended_by_people([keys]), sketch), (sketch.counters, keys)


Shape = tuple[Any, ...]  # how a history is put together; its items come from outside
Items = Sequence[Any]  # keys in a row for events, sets for people


def drawn_shape(rng: Random, people: bool, depth: int = 3) -> Shape:
    kind = rng.choice(("stream", "steps") if depth == 0 else ("stream", "steps", "then", "merge", "merge"))
    if kind == "merge":
        return kind, drawn_shape(rng, people, depth - 1), drawn_shape(rng, people, depth - 1)
    if kind == "then":
        return kind, drawn_shape(rng, people, depth - 1)
    return ("steps",) if people else (kind,)


def parts_of(shape: Shape) -> int:
    """How many lists of items a history needs."""
    return sum(map(parts_of, shape[1:])) + (0 if shape[0] == "merge" else 1)


def built(k: int, shape: Shape, parts: Iterator[Items], merge: Merge = CompactSketch.merged) -> CompactSketch:
    kind, *inner = shape
    if kind == "merge":
        left = built(k, inner[0], parts, merge)
        return merge(left, built(k, inner[1], parts, merge))
    if kind == "stream":
        return CompactSketch.of_stream(StreamSketch.empty(k).extended((key, 1) for key in next(parts)))
    start = built(k, inner[0], parts, merge) if inner else CompactSketch.empty(k)
    items = next(parts)
    return start.extended_by_people(items) if items and isinstance(items[0], tuple) else start.extended(ones(items))


def ones(items: Items) -> list[tuple[str, int]]:
    return [(key, 1) for key in items]


def drawn_parts(rng: Random, number: int, people: bool) -> list[list[Any]]:
    letters = LETTERS[: rng.randint(2, 8)]

    def item() -> Any:
        return tuple(rng.sample(letters, rng.randint(0, len(letters)))) if people else rng.choice(letters)

    return [[item() for _ in range(rng.choice((1, 5, 15, 40)))] for _ in range(number)]


def histories(seed: int, number: int, merge: Merge) -> Iterator[tuple[list[list[Any]], CompactSketch, CompactSketch]]:
    """So many pairs of neighbours, the one with an item more first, with its items."""
    rng = Random(seed)
    for _ in range(number):
        k, people = rng.randint(1, 5), rng.random() < 0.5
        shape = drawn_shape(rng, people)
        parts = drawn_parts(rng, parts_of(shape), people)
        which = rng.randrange(len(parts))
        at = rng.randrange(len(parts[which]))
        fewer = [part[:at] + part[at + 1 :] if number == which else part for number, part in enumerate(parts)]
        yield parts, built(k, shape, iter(parts), merge), built(k, shape, iter(fewer), merge)


@pytest.mark.parametrize("seed", range(4))
def test_one_item_more_in_any_history_lowers_once_more_or_raises_counters(seed: int) -> None:
    """Streams, events, people's sets, and merges of all these, with more events or people after them."""
    seen = set()
    for parts, longer, shorter in histories(seed, 1500, CompactSketch.merged):
        assert are_compact_neighbours(longer, shorter), parts
        assert longer.items == sum(map(len, parts))
        assert shorter.items == longer.items - 1
        seen.add((longer.lowered == shorter.lowered, max(map(abs, gains(longer, shorter)), default=0)))
        assert_error_is_known(longer, parts)
    assert seen == {(True, 0), (True, 1), (False, 0), (False, 1)}


def assert_error_is_known(sketch: CompactSketch, parts: list[list[Any]]) -> None:
    true = Counter(key for part in parts for item in part for key in item)
    assert sketch.lowered is not None
    assert all(0 <= count - sketch.counters.get(key, 0) <= sketch.lowered for key, count in true.items()), parts
    assert sketch.lowered * (sketch.k + 1) <= true.total()


def _without_cut(left: CompactSketch, right: CompactSketch) -> CompactSketch:
    return replace(left.merged(right), lowered=sum_if_known(left.lowered, right.lowered))


def _without_sources(left: CompactSketch, right: CompactSketch) -> CompactSketch:
    lowered = left.merged(right).lowered
    return replace(left.merged(right), lowered=sum_if_known(lowered, *(-(s.lowered or 0) for s in (left, right))))


@pytest.mark.parametrize("merge", [_without_cut, _without_sources])
def test_a_merge_that_forgets_what_was_subtracted_would_be_found(merge: Merge) -> None:
    assert not all(are_compact_neighbours(longer, shorter) for _, longer, shorter in histories(0, 1500, merge))
