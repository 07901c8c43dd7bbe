"""The compiled fold of compact sketches is `alg:user-level-sketch`, person by person and event by event."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core import kernel
from app.core.kernel import twin
from app.core.sketches.compact import CompactSketch
from app.core.sketches.state import by_column, by_slot, encode
from tests.core.kernel.adversarial import LARGEST_COUNT, PREFIXES, adversarial_counts, key_pools
from tests.core.kernel.native import (
    ORDERINGS,
    Events,
    Ordering,
    batch,
    compact,
    compact_counters,
    compiled_only,
    lowered,
    people,
)
from tests.core.sketches.oracle import Counts, merge_oracle, pamg_after
from tests.states import decode_as
from tests.streams import Stream, all_distinct, in_runs, small_streams, zipf

if kernel.NATIVE:
    from app.core.kernel import scanning, sets

pytestmark = compiled_only

EACH_ORDERING = pytest.mark.parametrize("ordering", ORDERINGS.values(), ids=ORDERINGS)
SMALL_K = pytest.mark.parametrize("k", [1, 2, 3])

Set = tuple[str, ...]  # the keys that a person lists


@dataclass(frozen=True)
class Group:
    """People, of whom so many different keys count."""

    listed: Sequence[Set]
    most_keys: int = 1000


Input = Events | Group


def compiled(given: Input) -> "scanning.Batch | sets.Sets":
    return people(given.listed, given.most_keys) if isinstance(given, Group) else batch(given)


def plain(given: Input) -> twin.Batch | twin.Sets:
    if isinstance(given, Group):
        return twin.Sets([(None, keys) for keys in given.listed], given.most_keys)
    return twin.Batch(given)


def items_in(given: Input) -> int:
    """People, or events."""
    return len(given.listed) if isinstance(given, Group) else sum(count for _, count in given)


def expected(k: int, counters: Counts, given: Input) -> dict[str, int]:
    """By the paper: a person is a step, and a count that many steps in a row, which is one merge."""
    counters = dict(counters)
    if isinstance(given, Group):
        for listed in given.listed:
            counters = pamg_after(k, counters, list(dict.fromkeys(listed))[: given.most_keys])
    else:
        for key, count in given:
            counters = merge_oracle(k, counters, {key: count})
    return counters


def one_by_one(stream: Iterable[str]) -> Events:
    return [(key, 1) for key in stream]


# Every short input


def small_sets(universe: int) -> list[Set]:
    """The empty one too, and all in an order that is not theirs by name."""
    names = list(PREFIXES.values())[:universe]
    return [chosen[::-1] for size in range(universe + 1) for chosen in combinations(names, size)]


def sequences(universe: int, longest: int) -> Iterator[tuple[Set, ...]]:
    """Shorter ones first."""
    for length in range(1, longest + 1):
        yield from product(small_sets(universe), repeat=length)


@SMALL_K
@EACH_ORDERING
@pytest.mark.parametrize(("universe", "longest"), [(3, 4), (4, 3)])
def test_the_kernel_equals_the_paper_on_every_short_sequence_of_people(
    k: int, ordering: Ordering, universe: int, longest: int
) -> None:
    """All in one batch; and the last alone, into what was stored after the others."""
    right: dict[tuple[Set, ...], dict[str, int]] = {(): {}}
    stored: dict[tuple[Set, ...], bytes] = {(): compact(k, ordering).stored()}
    for listed in sequences(universe, longest):
        right[listed] = pamg_after(k, right[listed[:-1]], listed[-1])
        fold, last = compact(k, ordering), compact(k, ordering, by_slot(stored[listed[:-1]]))
        fold.add(people(listed))
        last.add(people(listed[-1:]))
        assert compact_counters(fold.state()) == compact_counters(last.state()) == right[listed], listed
        sketches = {lowered(one.state()) for one in (fold, last)}
        assert sketches == {CompactSketch.empty(k).extended_by_people(listed).lowered}, listed
        stored[listed] = last.stored()


@EACH_ORDERING
@pytest.mark.parametrize(("k", "universe", "longest"), [(1, 3, 6), (2, 4, 5), (3, 5, 5)])
def test_the_kernel_equals_the_paper_on_every_short_stream_of_events(
    k: int, ordering: Ordering, universe: int, longest: int
) -> None:
    """One by one, and in runs with counts."""
    right: dict[Stream, dict[str, int]] = {(): {}}
    for letters in small_streams(universe, longest):
        stream = tuple(PREFIXES[letter] for letter in letters)
        if stream:
            right[stream] = pamg_after(k, right[stream[:-1]], stream[-1:])
        sketch = CompactSketch.empty(k).extended(one_by_one(stream))
        for events in (one_by_one(stream), in_runs(stream)):
            fold = compact(k, ordering)
            fold.add(batch(events))
            assert compact_counters(fold.state()) == right[stream], events
            assert decode_as(CompactSketch, fold.state()) == sketch, events


@SMALL_K
@EACH_ORDERING
def test_the_kernel_equals_the_paper_on_every_short_mixture_of_events_and_people(k: int, ordering: Ordering) -> None:
    """Each item a batch of its own, all handed over at once."""
    a, b, c, d, _ = PREFIXES.values()
    items: list[Input] = [[(a, 1)], [(b, 2)], [(c, 3)], [(d, 1)], Group([(a, b)]), Group([(b, c)]), Group([(a, c, d)])]
    batches = [compiled(item) for item in items]
    right: dict[tuple[int, ...], dict[str, int]] = {(): {}}
    for chosen in (chosen for length in range(1, 5) for chosen in product(range(len(items)), repeat=length)):
        right[chosen] = expected(k, right[chosen[:-1]], items[chosen[-1]])
        fold = compact(k, ordering)
        fold.add(*(batches[at] for at in chosen))
        assert compact_counters(fold.state()) == right[chosen], chosen


@SMALL_K
def test_only_the_first_different_keys_of_a_person_count_each_once(k: int) -> None:
    for listed in product("abc", repeat=5):
        for most_keys in (1, 2, 3):
            fold = compact(k)
            fold.add(batch([("a", 2)]), people([listed, listed], most_keys))
            right = expected(k, {"a": 2}, Group([listed, listed], most_keys))
            assert compact_counters(fold.state()) == right, (listed, most_keys)


# Keys that are hard to tell apart, hard counts, and large sets


@st.composite
def inputs(draw: st.DrawFn) -> list[Input]:
    pool = st.sampled_from(draw(key_pools))
    events = st.lists(st.tuples(pool, adversarial_counts), max_size=12)
    listed = st.lists(st.lists(pool, max_size=10).map(tuple), max_size=8)
    groups = st.builds(Group, listed, st.sampled_from([1, 2, 3, 5, 1000]))
    return draw(st.lists(events | groups, min_size=1, max_size=5))


@settings(max_examples=1000, deadline=None)
@given(st.integers(1, 8), inputs(), st.sampled_from(list(ORDERINGS.values())), st.lists(st.integers(0, 2), min_size=5))
def test_the_kernel_equals_the_paper_and_its_twin_on_adversarial_inputs(
    k: int, given: list[Input], ordering: Ordering, between: list[int]
) -> None:
    """In between the sketch stays open, or goes on from its bytes as they are or as they are stored."""
    fold, slow = compact(k, ordering), twin.Fold(encode(CompactSketch.empty(k)))
    counters: dict[str, int] = {}
    items = 0
    for item, how in zip(given, between, strict=False):
        fold.add(compiled(item))
        slow.add(plain(item))
        counters = expected(k, counters, item)
        state = fold.state()
        items += items_in(item)
        assert compact_counters(state) == counters
        assert decode_as(CompactSketch, state) == decode_as(CompactSketch, slow.state())  # what was lowered too
        assert decode_as(CompactSketch, state).items == items
        assert fold.stored() == by_column(state)
        if how:
            fold = compact(k, ordering, state if how == 1 else by_slot(fold.stored()))
            assert fold.state() == state


# Long inputs


@pytest.mark.parametrize("k", [1, 7, 64, 500])
@pytest.mark.parametrize("stream", [zipf(4000, keys=900, seed=1), all_distinct(2000)], ids=["zipf", "distinct"])
def test_long_streams_are_folded_like_the_definition_folds_them(k: int, stream: Stream) -> None:
    fold, sketch = compact(k), CompactSketch.empty(k)
    for at in range(0, len(stream), 333):
        fold.add(batch(one_by_one(stream[at : at + 333])))
    assert decode_as(CompactSketch, fold.state()) == sketch.extended(one_by_one(stream))
    listed = [stream[at : at + at % 7] for at in range(0, len(stream), 3)]
    fold = compact(k)
    for at in range(0, len(listed), 99):
        fold.add(people(listed[at : at + 99]))
    assert decode_as(CompactSketch, fold.state()) == sketch.extended_by_people(listed)


def far_apart(seed: int, keys: list[str]) -> Iterator[tuple[Events, Group]]:
    rng = Random(seed)
    for _ in range(15):
        events = [(rng.choice(keys), min(LARGEST_COUNT, 1 << rng.randrange(32))) for _ in range(100)]
        yield events, Group([tuple(rng.sample(keys, rng.choice((1, 3, 50)))) for _ in range(20)])


@pytest.mark.parametrize("seed", range(6))
@EACH_ORDERING
def test_counters_far_apart_are_found_in_the_order_of_their_size(ordering: Ordering, seed: int) -> None:
    """Entries in every bucket of the radix heap, some of which grow while they lie in it; people between them."""
    k = 40
    fold = compact(k, ordering)
    counters: dict[str, int] = {}
    for events, group in far_apart(seed, [f"key {number}" for number in range(3 * k)]):
        fold.add(batch(events), compiled(group))
        counters = expected(k, expected(k, counters, events), group)
        assert compact_counters(fold.state()) == counters


@pytest.mark.parametrize("seed", range(4))
def test_a_sketch_that_is_nearly_always_full_forgets_and_stores_like_the_definition(seed: int) -> None:
    """Counters of one and two, which every other person lowers: slots are free and taken again all the time."""
    rng = Random(seed)
    k = 100
    listed = [[f"{rng.randrange(300)}" for _ in range(rng.randint(1, 5))] for _ in range(5000)]
    fold = compact(k)
    for at in range(0, 5000, 250):
        fold.add(people(listed[at : at + 250], 3))
    kept = [list(dict.fromkeys(keys))[:3] for keys in listed]
    assert decode_as(CompactSketch, fold.state()) == CompactSketch.empty(k).extended_by_people(kept)


def test_a_fold_of_the_largest_size_is_folded_like_the_definition_folds_it() -> None:
    k = 65_536
    events = [(f"{number % 70_000}", 1 + number % 3) for number in range(140_000)]
    listed = [[f"{(number * step) % 90_001}" for step in (1, 7, 11)] for number in range(30_000)]
    listed.append([f"one of many {number}" for number in range(k + 1)])
    fold = compact(k)
    fold.add(batch(events), people(listed, k + 1), batch(events[:1000]))
    sketch = CompactSketch.empty(k).extended(events).extended_by_people(listed).extended(events[:1000])
    assert decode_as(CompactSketch, fold.state()) == sketch
    assert len(sketch.counters) > k // 2
