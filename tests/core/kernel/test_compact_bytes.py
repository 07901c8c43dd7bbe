"""What the compiled fold of compact sketches leaves in its bytes, where the narrow form ends, and what callers see."""

import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core import kernel
from app.core.errors import BadState
from app.core.kernel import twin
from app.core.sketches.compact import CompactSketch
from app.core.sketches.state import LARGEST_NARROW, by_slot, decode, encode
from app.core.sketches.stream import sum_if_known
from app.core.sketches.summed import SummedSketch
from tests.core.kernel.adversarial import LARGEST_COUNT, adversarial_counts, key_pools
from tests.core.kernel.native import (
    KEYED,
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
from tests.core.sketches.oracle import merge_oracle
from tests.fuzz.states import with_offset
from tests.states import decode_as
from tests.streams import zipf

pytestmark = compiled_only

EACH_ORDERING = pytest.mark.parametrize("ordering", ORDERINGS.values(), ids=ORDERINGS)
WIDTH = 6  # where the header says how many bytes an entry has

short_keys = st.text("abcé", min_size=1, max_size=8)
sets_of_short_keys = st.lists(st.lists(short_keys, max_size=6), max_size=20)


# The text


def text_of(stored: bytes) -> bytes:
    (k,) = struct.unpack_from("<I", stored, 8)
    return stored[80 + 16 * k :]


def text_size(stored: bytes) -> tuple[int, int]:
    """Size, and how much of it is used."""
    size, used = struct.unpack_from("<II", stored, 20)
    return size, used


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 6), st.lists(st.tuples(key_pools, st.integers(1, 4)), max_size=8))
def test_nothing_of_a_forgotten_key_stays_behind(k: int, batches: list[tuple[list[str], int]]) -> None:
    """Beside the keys that are stored the text is zeros, and so are the entries of free slots."""
    fold = compact(k)
    for pool, count in batches:
        fold.add(people([pool[at : at + count] for at in range(len(pool))]), batch([(pool[0], count)]))
        state = fold.state()
        left = bytearray(text_of(state))
        for slot in range(k):
            entry, start, length, _room = struct.unpack_from("<QIHH", state, 80 + 16 * slot)
            assert (entry == 0) == (length == 0)
            left[start : start + length] = bytes(length)
        assert not any(left)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 12), sets_of_short_keys, st.lists(st.tuples(short_keys, st.integers(1, 9)), max_size=30))
def test_keys_of_at_most_16_bytes_never_change_the_size_of_a_state(
    k: int, listed: list[list[str]], events: Events
) -> None:
    """However many are stored and however often they were forgotten."""
    fold = compact(k)
    before = len(fold.state())
    fold.add(people(listed), batch(events), people(listed))
    assert len(fold.state()) == len(fold.stored()) == before == 80 + 32 * k


@pytest.mark.parametrize("k", [1, 2, 8, 20])
@EACH_ORDERING
def test_the_text_grows_and_is_closed_up_as_long_keys_follow_short_ones(ordering: Ordering, k: int) -> None:
    """`compact_counters` also checks after every batch that no two keys overlap and that none lies outside the text."""
    rng = Random(k)
    fold, expected = compact(k, ordering), CompactSketch.empty(k)
    uses = [0]
    for longest in range(20, 513, 4):
        length = rng.choice((1, 16, 17, longest, rng.randint(1, longest)))
        keys = ["".join(rng.choices("ab", k=length)) for _ in range(rng.randint(1, k + 3))]
        events, listed = [(key, rng.randint(1, 3)) for key in keys], [keys[at : at + 3] for at in range(len(keys))]
        fold.add(batch(events), people(listed))
        expected = expected.extended(events).extended_by_people(listed)
        assert decode(fold.state()) == expected
        size, used = text_size(fold.state())
        assert used <= size <= max(16 * k, 2 * 512 * (k + 1) * 4 // 3)
        assert len(fold.state()) == 80 + 16 * k + size
        uses.append(used)
    assert text_size(fold.state())[0] > 16 * k  # it grew
    assert any(later < earlier for earlier, later in pairwise(uses))  # and was closed up


def test_a_text_that_is_full_of_abandoned_rooms_is_closed_up_instead_of_grown() -> None:
    """One slot whose key grows and shrinks for ever, and is forgotten each time."""
    fold = compact(1)
    uses = []
    for number in range(500):
        key = f"{number:03}" + "x" * (20 * (number % 25))
        fold.add(people([[key], ["another"]]), batch([(key, 1)]))
        uses.append(text_size(fold.state())[1])
    assert text_size(fold.state())[0] <= 2048
    assert any(later < earlier for earlier, later in pairwise(uses))


# The end of the narrow form


def full(k: int, smallest: int, offset: int) -> bytes:
    """k keys with the counters smallest, smallest + 1, …, kept with this offset; lowered nine times before."""
    sketch = CompactSketch(k, {f"key {number}": smallest + number for number in range(k)}, lowered=9, items=99)
    return with_offset(encode(sketch), offset)


def offset_of(stored: bytes) -> int:
    (offset,) = struct.unpack_from("<Q", stored, 32)
    return int(offset)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 6), st.integers(1, 50), st.integers(0, 100), key_pools, st.data())
def test_a_large_offset_is_taken_off_before_entries_outgrow_the_narrow_form(
    k: int, smallest: int, below: int, pool: list[str], data: st.DataObject
) -> None:
    stored = full(k, smallest, LARGEST_NARROW - smallest - k - below)
    fold, expected = compact(k, KEYED, stored), decode_as(CompactSketch, stored)
    keys = st.sampled_from([*pool, "key 0", "key 1"])
    added = 0
    for _ in range(data.draw(st.integers(1, 3))):
        events = data.draw(st.lists(st.tuples(keys, adversarial_counts), max_size=5))
        listed = data.draw(st.lists(st.lists(keys, max_size=4), max_size=60))
        fold.add(batch(events), people(listed))
        expected = expected.extended(events).extended_by_people(listed)
        added += sum(count for _, count in events) + len(listed)
        assert decode(fold.state()) == expected  # what was lowered is not taken off
    if added > below + 1:
        assert offset_of(fold.state()) < LARGEST_NARROW // 2


def test_the_last_entry_that_fits_is_taken_and_the_next_changes_nothing() -> None:
    fold = compact(2, KEYED, encode(CompactSketch(2, {"a": LARGEST_NARROW - 10, "b": 3})))
    fold.add(batch([("a", 8), ("b", 1)]), people(["a"]))
    assert compact_counters(fold.state()) == {"a": LARGEST_NARROW - 1, "b": 4}
    fold.add(people(["a"]))
    before = fold.state()
    for more in (people(["b"]), batch([("b", 1)])):  # not `a`, but no one looks that closely
        with pytest.raises(OverflowError):
            fold.add(more)
    with pytest.raises(OverflowError):
        fold.add(*[batch([("b", LARGEST_COUNT)] * 2)] * 3, people(["b"]))
    assert fold.state() == before
    assert fold.state()[WIDTH] == 8


def test_counters_are_the_same_where_taking_the_offset_off_does_not_help() -> None:
    sketch = CompactSketch(2, {"a": LARGEST_NARROW - 10, "b": 3})
    fold = compact(2, KEYED, with_offset(encode(sketch), 5))
    with pytest.raises(OverflowError):
        fold.add(people(["c"] * 11))
    assert compact_counters(fold.state()) == sketch.counters
    fold.add(people(["c"] * 2), batch([("c", 3)]))  # and it still folds
    assert compact_counters(fold.state()) == {"a": LARGEST_NARROW - 13, "c": 2}


@pytest.mark.parametrize("offset", [0, 4])
def test_counters_of_more_than_62_bits_are_handed_over_to_the_twin_and_back(offset: int) -> None:
    sketch = CompactSketch(2, {"a": LARGEST_NARROW - 10, "b": 3}, lowered=2, items=LARGEST_NARROW)
    fold = kernel.Fold(with_offset(encode(sketch), offset))
    sketch = replace(sketch, lowered=2 + offset)
    for events in ([("a", 7)], [("a", 100), ("c", 1)], [("d", LARGEST_COUNT)], [("a", LARGEST_COUNT)]):
        fold.add(kernel.batch_of(events), kernel.sets_of([("u", ["a", "a"])], 2))
        sketch = sketch.extended(events).extended_by_people(["a"])
        assert decode(fold.state()) == sketch
    assert fold.state()[WIDTH] == 16
    assert fold.stored() == fold.state()  # only the narrow form has columns
    down = [("x", LARGEST_COUNT), ("y", LARGEST_COUNT)] * 4  # each takes from all what it adds to none
    fold = kernel.Fold(fold.state())
    fold.add(kernel.batch_of(down))
    assert decode(fold.state()) == sketch.extended(down)
    assert fold.state()[WIDTH] == 8
    again = kernel.Fold(fold.state())
    assert type(again._fold) is type(compact(2))


@pytest.mark.parametrize("less", range(4))
def test_tallies_too_large_for_their_fields_become_unknown(less: int) -> None:
    largest = 2**64 - 2
    sketch = CompactSketch(1, {"a": 9}, lowered=largest - 3, items=largest - 5)
    fold = compact(1, KEYED, encode(sketch))
    fold.add(people(["b"] * 2), batch([("c", 1 + less)]))
    after = sketch.extended_by_people(["b"] * 2).extended([("c", 1 + less)])
    assert decode(fold.state()) == decode(encode(after))
    assert lowered(fold.state()) == (after.lowered if less == 0 else None)
    assert decode_as(CompactSketch, fold.state()).items == (after.items if less <= 2 else None)
    unknown = replace(sketch, lowered=None, items=None)
    fold = compact(1, KEYED, encode(unknown))
    fold.add(people(["b"]), batch([("c", 1 + less)]))
    assert decode(fold.state()) == unknown.extended([("b", 1), ("c", 1 + less)])


# What callers see


def packed(sketch: CompactSketch) -> bytes:
    """In version 2, which had as many slots and as much text as are used, as a sum has; and no tallies."""
    stored = encode(SummedSketch(sketch.k, 1, sketch.counters))
    return stored[:4] + b"\2\2" + stored[6:56] + stored[72:]


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 6), key_pools, key_pools)
def test_a_packed_state_of_version_2_is_opened_and_goes_on_in_this_version(
    k: int, before: list[str], after: list[str]
) -> None:
    sketch = CompactSketch.empty(k).extended((key, 1 + at) for at, key in enumerate(before))
    assert decode(packed(sketch)) == replace(sketch, lowered=None, items=None)
    fold = kernel.Fold(packed(sketch))
    assert type(fold._fold) is type(compact(k))
    listed = [after[at : at + 3] for at in range(len(after))]
    fold.add(kernel.sets_of([(None, keys) for keys in listed], 3))
    assert compact_counters(by_slot(fold.stored())) == sketch.extended_by_people(listed).counters
    assert fold.state()[4] == 4


def test_the_kernel_opens_narrow_compact_sketches_and_its_twin_the_others() -> None:
    assert type(kernel.Fold(encode(CompactSketch.empty(2)))._fold) is type(compact(2))
    assert type(kernel.Fold(encode(CompactSketch(2, {"a": 2**70})))._fold) is twin.Fold
    with pytest.raises(BadState):
        kernel.Fold(encode(SummedSketch(2, 1, {"a": 1})))


def test_an_empty_batch_changes_nothing() -> None:
    for k in (1, 3):
        fold = compact(k)
        fold.add(people(["ab", "b", "bc"]), batch([("a", 2)]))
        before = fold.state()
        for nothing in ([batch([])], [people([])], [people([]), batch([])], []):
            fold.add(*nothing)
            assert fold.state() == before


def test_a_person_without_keys_is_counted_as_a_person_and_changes_nothing_else() -> None:
    fold, sketch = compact(1), CompactSketch.empty(1)
    for listed in (["a"], [], ["a", "b"], [], []):
        fold.add(people([listed]))
        after = sketch.extended_by_people([listed])
        assert decode(fold.state()) == after
        assert listed or after == replace(sketch, items=sum_if_known(sketch.items, 1))
        sketch = after
    assert sketch == CompactSketch(1, {"a": 1}, lowered=1, items=5)


def test_what_is_no_batch_is_refused_by_its_type_and_leaves_the_fold_as_it_was() -> None:
    fold: Any = compact(2)
    fold.add(people(["ab", "b"]))
    before = fold.state()
    wrong: tuple[Any, ...] = (None, [], b"", "ab", [("a", 1)], twin.Batch([("a", 1)]), twin.Sets([], 1), compact(2))
    for one in wrong:
        for batches in ([one], [people(["c" * 9] * 5), one], [one, batch([("a", 1)])]):
            with pytest.raises(TypeError):
                fold.add(*batches)
            assert fold.state() == before
    fold.add(people(["b"]))
    assert compact_counters(fold.state()) == merge_oracle(2, {"a": 1, "b": 3})
    for arguments in ((None, KEYED.multipliers), (before, None), (bytearray(before), KEYED.multipliers)):
        with pytest.raises(TypeError):
            type(fold)(*arguments)
    with pytest.raises(ValueError, match="multipliers"):
        type(fold)(before, KEYED.multipliers[1:])


def test_people_are_not_folded_into_a_stream() -> None:
    with pytest.raises(TypeError):
        KEYED.opened(2).add(people(["a"]))  # type: ignore[arg-type]


def test_the_memory_that_a_fold_names_follows_k_and_its_text_and_the_largest_set() -> None:
    fold = compact(1000)
    small = fold.nbytes
    assert small > len(fold.state()) + 1000
    fold.add(people([[f"{number}" for number in range(10_000)]]))
    large = fold.nbytes
    assert large >= small + 10_000 * (4 + 8 + 16)  # scratch: two numbers a key, and a table of which half is free
    fold.add(batch([(f"{number}" * 100, 1) for number in range(100, 400)]))
    assert fold.nbytes >= large + 300 * 300
    assert kernel.Fold(encode(CompactSketch(1000, {"a": 2**70}))).nbytes > 100_000


def test_two_threads_with_a_fold_each_give_what_one_gives() -> None:
    """They release the interpreter's lock, and read the same batches."""
    stream = zipf(30_000, keys=3000, seed=1)
    shared: list[kernel.Batch] = [
        people([stream[at : at + 3] for at in range(0, 30_000, 3)], 2),
        batch([(key, 1) for key in stream]),
    ]

    def folded(first: int) -> list[bytes]:
        states = []
        fold = kernel.Fold(encode(CompactSketch.empty(256)))
        for number in range(20):
            fold.add(shared[(first + number) % 2])
            states.append(fold.state())
        return states

    alone = [folded(first) for first in (0, 1)]
    with ThreadPoolExecutor(2) as threads:
        together = list(threads.map(folded, (0, 1)))
    assert together == alone
    assert alone[0] != alone[1]
