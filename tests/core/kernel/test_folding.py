"""The compiled fold is `alg:MG`, event by event, for whatever keys, counts and batches."""

import struct
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core import kernel
from app.core.kernel import twin
from app.core.sketches.order import Order
from app.core.sketches.state import LARGEST_NARROW, by_column, decode, encode
from app.core.sketches.stream import StreamSketch
from tests.core.kernel.adversarial import LARGEST_COUNT, PREFIXES, adversarial_counts, key_pools
from tests.core.kernel.native import KEYED, ORDERINGS, Events, Ordering, batch, compiled_only, counters, lowered
from tests.core.sketches import oracle
from tests.fuzz.states import with_offset
from tests.states import decode_as
from tests.streams import Stream, all_distinct, in_runs, small_streams, zipf

pytestmark = compiled_only

EACH_ORDERING = pytest.mark.parametrize("ordering", ORDERINGS.values(), ids=ORDERINGS)


def one_by_one(stream: Iterable[str]) -> Events:
    return [(key, 1) for key in stream]


# What is stored


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 9), st.lists(st.tuples(st.text(min_size=1, max_size=40), st.integers(1, LARGEST_COUNT)), max_size=40)
)
def test_what_is_stored_is_what_it_works_in_laid_out_by_column(k: int, events: Events) -> None:
    fold, plain = kernel.Fold(encode(StreamSketch.empty(k, KEYED.order))), StreamSketch.empty(k, KEYED.order)
    fold.add(batch(events))
    assert fold.stored() == by_column(fold.state())
    slow = twin.Fold(encode(plain))
    slow.add(twin.Batch(events))
    assert slow.stored() == by_column(encode(plain.extended(events)))


def test_the_last_third_of_what_is_stored_stays_while_short_keys_come_and_go() -> None:
    k = 256
    fold = KEYED.opened(k)
    fold.add(batch(one_by_one(all_distinct(2 * k))))
    before = fold.stored()
    fold.add(batch(one_by_one(zipf(20_000, keys=5000, seed=1))))
    after = fold.stored()
    assert len(after) == len(before) == 80 + 32 * k
    assert after[80 + 20 * k :] == before[80 + 20 * k :]
    assert sum(one != other for one, other in zip(before[: 80 + 20 * k], after, strict=False)) > k


# Every short stream


@EACH_ORDERING
@pytest.mark.parametrize(("k", "universe", "longest"), [(1, 3, 6), (2, 4, 6), (3, 4, 6), (3, 5, 5)])
def test_the_kernel_equals_the_paper_on_every_short_stream(
    k: int, universe: int, longest: int, ordering: Ordering
) -> None:
    sketches: dict[Stream, oracle.Sketch] = {(): oracle.empty(k)}
    times: dict[Stream, int] = {(): 0}  # that all counters were lowered
    for letters in small_streams(universe, longest):
        stream = tuple(PREFIXES[letter] for letter in letters)
        if stream:
            before, last = stream[:-1], stream[-1]
            sketches[stream] = oracle.after(sketches[before], last, ordering.place)
            times[stream] = times[before] + oracle.paid(sketches[before], last, 1, ordering.place)
        expected = oracle.without_dummies(sketches[stream])
        for events in (one_by_one(stream), in_runs(stream)):
            fold = ordering.opened(k)
            fold.add(batch(events))
            assert counters(fold.state()) == expected, events
            assert lowered(fold.state()) == times[stream], events


@EACH_ORDERING
def test_a_stream_may_be_stored_between_any_two_of_its_events(ordering: Ordering) -> None:
    k = 2
    stored: dict[Stream, bytes] = {(): ordering.opened(k).state()}
    for stream in small_streams(4, 5):
        results = set()
        for split in range(len(stream)):
            fold = ordering.opened(k, stored[stream[:split]])
            fold.add(batch(one_by_one(stream[split:])))
            results.add((frozenset(counters(fold.state()).items()), lowered(fold.state())))
            stored[stream] = fold.state()
        assert len(results) <= 1, stream
    assert len(stored) == sum(4**length for length in range(6))


# Keys that are hard to tell apart, and hard counts


@st.composite
def batches(draw: st.DrawFn) -> list[Events]:
    pool = draw(key_pools)
    events = draw(st.lists(st.tuples(st.sampled_from(pool), adversarial_counts), max_size=30))
    split = draw(st.integers(0, len(events)))
    return [events[:split], events[split:]]


@settings(max_examples=1000, deadline=None)
@given(st.integers(1, 8), batches(), st.sampled_from(list(ORDERINGS.values())), st.booleans())
def test_the_kernel_equals_the_paper_on_adversarial_streams(
    k: int, batches: list[Events], ordering: Ordering, reopened: bool
) -> None:
    fold = ordering.opened(k)
    for events in batches:
        fold.add(batch(events))
        if reopened:
            before = fold.state()
            fold = ordering.opened(k, before)
            assert fold.state() == before
    together = [event for events in batches for event in events]
    expected = oracle.misra_gries_weighted(k, together, ordering.place)
    assert counters(fold.state()) == oracle.without_dummies(expected)
    assert lowered(fold.state()) == oracle.lowered(k, together, ordering.place)


@pytest.mark.parametrize("k", [1, 7, 64, 500])
@pytest.mark.parametrize("stream", [zipf(4000, keys=900, seed=1), all_distinct(2000)], ids=["zipf", "distinct"])
def test_long_streams_are_folded_like_the_definition_folds_them(k: int, stream: Stream) -> None:
    events = one_by_one(stream)
    fold = KEYED.opened(k)
    for at in range(0, len(events), 333):
        fold.add(batch(events[at : at + 333]))
    assert decode(fold.state()) == StreamSketch.empty(k, KEYED.order).extended(events)


@pytest.mark.parametrize("seed", range(6))
@EACH_ORDERING
def test_counters_far_apart_are_found_in_the_order_of_their_size(ordering: Ordering, seed: int) -> None:
    """Entries in every bucket of the radix heap, some of which grow while they lie in it."""
    rng = Random(seed)
    k = 40
    keys = [f"key {number}" for number in range(3 * k)]
    events = [(rng.choice(keys), min(LARGEST_COUNT, 1 << rng.randrange(32))) for _ in range(1500)]
    fold = ordering.opened(k)
    for at in range(0, len(events), 100):
        fold.add(batch(events[at : at + 100]))
    expected = oracle.misra_gries_weighted(k, events, ordering.place)
    assert counters(fold.state()) == oracle.without_dummies(expected)
    assert lowered(fold.state()) == oracle.lowered(k, events, ordering.place)


def test_a_fold_of_the_largest_size_is_folded_like_the_definition_folds_it() -> None:
    k = 65_536
    events = [(f"{number % 70_000}", 1 + number % 3) for number in range(140_000)]
    fold = KEYED.opened(k)
    fold.add(batch(events))
    assert decode(fold.state()) == StreamSketch.empty(k, KEYED.order).extended(events)


# The text


def text_size(stored: bytes) -> tuple[int, int]:
    """Size, and how much of it is used."""
    size, used = struct.unpack_from("<II", stored, 20)
    return size, used


@pytest.mark.parametrize("k", [1, 2, 8, 20])
@EACH_ORDERING
def test_the_text_grows_and_is_closed_up_as_long_keys_replace_short_ones(ordering: Ordering, k: int) -> None:
    """`counters` also checks after every batch that no two keys overlap and that none lies outside the text."""
    rng = Random(k)
    fold, expected = ordering.opened(k), oracle.empty(k)
    uses = [0]
    for longest in range(20, 513, 4):
        length = rng.choice((1, 16, 17, longest, rng.randint(1, longest)))
        events = [("".join(rng.choices("ab", k=length)), rng.randint(1, 3)) for _ in range(rng.randint(1, k + 3))]
        fold.add(batch(events))
        for key, count in events:
            expected = oracle.after_weighted(expected, key, count, ordering.place)
        assert counters(fold.state()) == oracle.without_dummies(expected)
        size, used = text_size(fold.state())
        assert used <= size <= max(16 * k, 2 * 512 * (k + 1) * 4 // 3)
        assert len(fold.state()) == 80 + 16 * k + size
        uses.append(used)
    assert text_size(fold.state())[0] > 16 * k  # it grew
    assert any(later < earlier for earlier, later in pairwise(uses))  # and was closed up


def test_a_text_that_is_full_of_abandoned_rooms_is_closed_up_instead_of_grown() -> None:
    """One slot whose key grows and shrinks for ever."""
    fold = KEYED.opened(1)
    uses = []
    for number in range(500):
        key = f"{number:03}" + "x" * (20 * (number % 25))
        fold.add(batch([(key, 2)]))
        uses.append(text_size(fold.state())[1])
    assert text_size(fold.state())[0] <= 2048
    assert any(later < earlier for earlier, later in pairwise(uses))  # the abandoned ones went


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 12), st.lists(st.tuples(st.text("abcé", min_size=1, max_size=8), st.integers(1, 9)), max_size=60))
def test_keys_of_at_most_16_bytes_never_change_the_size_of_a_state(k: int, events: Events) -> None:
    """However many are stored and however often they were replaced."""
    fold = KEYED.opened(k)
    before = len(fold.state())
    fold.add(batch(events))
    assert len(fold.state()) == before == 80 + 32 * k


# The end of the narrow form


def full(k: int, smallest: int, offset: int) -> bytes:
    """k keys with the counters smallest, smallest + 1, …, kept with this offset; lowered nine times before."""
    sketch = StreamSketch(k, {f"key {number}": smallest + number for number in range(k)}, KEYED.order, lowered=9)
    return with_offset(encode(sketch), offset)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 6), st.integers(0, 50), st.integers(0, 100), batches())
def test_a_large_offset_is_taken_off_before_entries_outgrow_the_narrow_form(
    k: int, smallest: int, below: int, batches: list[Events]
) -> None:
    stored = full(k, smallest, LARGEST_NARROW - smallest - k - below)
    fold = KEYED.opened(k, stored)
    expected = decode_as(StreamSketch, stored)
    for events in batches:
        fold.add(batch(events))
        expected = expected.extended(events)
    assert decode(fold.state()) == expected  # what was lowered is not taken off
    if sum(count for events in batches for _, count in events) > below + 1:
        assert struct.unpack_from("<Q", fold.state(), 32)[0] < LARGEST_NARROW // 2


def test_the_last_entry_that_fits_is_taken_and_the_next_changes_nothing() -> None:
    sketch = StreamSketch(2, {"a": LARGEST_NARROW - 10, "b": 3}, KEYED.order)
    fold = KEYED.opened(2, encode(sketch))
    fold.add(batch([("a", 9), ("b", 1)]))
    assert counters(fold.state()) == {"a": LARGEST_NARROW - 1, "b": 4}
    fold.add(batch([("a", 1)]))
    before = fold.state()
    with pytest.raises(OverflowError):
        fold.add(batch([("b", 1)]))  # not `a`, but no one looks that closely
    assert fold.state() == before
    assert fold.state()[6] == 8


def test_counters_are_the_same_where_taking_the_offset_off_does_not_help() -> None:
    sketch = StreamSketch(2, {"a": LARGEST_NARROW - 10, "b": 3}, KEYED.order, lowered=2)
    fold = KEYED.opened(2, with_offset(encode(sketch), 5))
    sketch = replace(sketch, lowered=7)
    with pytest.raises(OverflowError):
        fold.add(batch([("c", 11)]))
    assert decode(fold.state()) == sketch
    fold.add(batch([("c", 5)]))  # and it still folds
    assert decode(fold.state()) == sketch.extended([("c", 5)])


@pytest.mark.parametrize("offset", [0, 4])
def test_counters_of_more_than_62_bits_are_handed_over_to_the_twin_and_back(offset: int) -> None:
    sketch = StreamSketch(2, {"a": LARGEST_NARROW - 10, "b": 3}, KEYED.order, lowered=2)
    fold = kernel.Fold(with_offset(encode(sketch), offset))
    sketch = replace(sketch, lowered=2 + offset)
    for events in ([("a", 7)], [("a", 100), ("c", 1)], [("d", LARGEST_COUNT)], [("a", LARGEST_COUNT)]):
        fold.add(kernel.batch_of(events))
        sketch = sketch.extended(events)
        assert decode(fold.state()) == sketch
    assert fold.state()[6] == 16
    down = [("x", LARGEST_COUNT), ("y", LARGEST_COUNT)] * 4  # each takes from all what it adds to none
    fold = kernel.Fold(fold.state())
    fold.add(kernel.batch_of(down))
    sketch = sketch.extended(down)
    assert decode(fold.state()) == sketch


@pytest.mark.parametrize("less", range(5))
def test_what_is_lowered_more_often_than_its_field_holds_becomes_unknown(less: int) -> None:
    """In the kernel, when its offset is taken off, and in what reads its bytes."""
    largest = 2**64 - 2
    sketch = StreamSketch(1, {"a": 6}, KEYED.order, lowered=largest - 3)
    fold = KEYED.opened(1, with_offset(encode(sketch), 0))
    fold.add(batch([("b", 1 + less)]))
    right = largest - 2 + less if less <= 2 else None
    assert lowered(fold.state()) == lowered(encode(sketch.extended([("b", 1 + less)]))) == right
    close = KEYED.opened(1, with_offset(encode(sketch), LARGEST_NARROW - 10))
    assert lowered(close.state()) is None
    close.add(batch([("a", 7)]))
    assert struct.unpack_from("<QQ", close.state(), 56) == (2**64 - 1, 0)  # it took the offset off


def test_what_is_not_known_stays_unknown() -> None:
    sketch = StreamSketch(1, {"a": 6}, KEYED.order)
    fold = KEYED.opened(1, encode(sketch))
    fold.add(batch([("b", 3), ("a", 5), ("c", 2)]))
    assert decode(fold.state()) == sketch.extended([("b", 3), ("a", 5), ("c", 2)])
    assert lowered(fold.state()) is None


def test_a_sketch_that_is_narrow_again_is_opened_by_the_kernel_again() -> None:
    fold = kernel.Fold(encode(StreamSketch(1, {"a": LARGEST_NARROW}, KEYED.order)))
    fold.add(kernel.batch_of([("a", 5)]))
    assert fold.state()[6] == 16
    fold.add(kernel.batch_of([("b", 10)]))
    assert fold.state()[6] == 8
    again = kernel.Fold(fold.state())
    again.add(kernel.batch_of([("b", 1)]))
    assert counters(again.state()) == {"a": LARGEST_NARROW - 6}


# What callers see


def test_the_kernel_opens_narrow_keyed_streams_and_its_twin_the_others() -> None:
    def opens(stored: bytes) -> type:
        return type(kernel.Fold(stored)._fold)

    assert opens(encode(StreamSketch.empty(2, KEYED.order))) is type(KEYED.opened(2))
    assert opens(encode(StreamSketch.empty(2))) is twin.Fold  # the plain order
    assert opens(encode(StreamSketch(2, {"a": 2**70}, KEYED.order))) is twin.Fold


def test_a_batch_is_what_it_was_made_of() -> None:
    events = [("a", 1), ("é\0", LARGEST_COUNT), ("x" * 512, 3), ("a", 2)]
    for made in (kernel.batch_of(events), batch(events), twin.Batch(events)):
        assert made.pairs() == events
        assert len(made) == 4
        assert made.events == LARGEST_COUNT + 6
        assert made.nbytes >= 4 * 12
    assert batch([]).pairs() == []
    assert len(batch([])) == batch([]).events == 0


def test_an_empty_batch_changes_nothing() -> None:
    for k in (1, 3):
        fold = KEYED.opened(k)
        fold.add(batch(one_by_one("abcab")))
        before = fold.state()
        fold.add(batch([]))
        assert fold.state() == before


def test_the_memory_that_a_fold_names_follows_k_and_its_text() -> None:
    assert KEYED.opened(1000).nbytes > len(KEYED.opened(1000).state()) + 1000
    assert kernel.Fold(encode(StreamSketch.empty(1000))).nbytes > 100_000


def test_two_threads_with_a_fold_each_give_what_one_gives() -> None:
    """They release the interpreter's lock, and read the same batches."""
    streams = [zipf(20_000, keys=3000, seed=seed) for seed in range(2)]
    shared = [batch(one_by_one(stream)) for stream in streams]
    orders = [Order(bytes([number]) * 16) for number in (1, 2)]

    def folded(order: Order) -> list[bytes]:
        states = []
        fold = kernel.Fold(encode(StreamSketch.empty(256, order)))
        for number in range(20):
            fold.add(shared[number % 2])
            states.append(fold.state())
        return states

    alone = [folded(order) for order in orders]
    with ThreadPoolExecutor(2) as threads:
        together = list(threads.map(folded, orders))
    assert together == alone
    assert alone[0] != alone[1]
