"""The stored form of a sketch: read back exactly, refused when damaged, and silent about how many keys it holds."""

import random
import struct
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.errors import BadState
from app.core.sketches.compact import CompactSketch
from app.core.sketches.order import BY_BYTES, Order
from app.core.sketches.state import (
    LARGEST_NARROW,
    ROOM,
    Sketch,
    by_column,
    by_slot,
    decode,
    encode,
    family,
    is_narrow_compact,
    narrow_stream_secret,
)
from app.core.sketches.stream import MAX_K, StreamSketch
from app.core.sketches.summed import SummedSketch
from tests.core.sketches.earlier_states import EARLIER, SECRET

UNKNOWN = 2**64 - 1  # the tally that stands for one
LARGEST_TALLY = UNKNOWN - 1

GOLDEN_SKETCH = StreamSketch(3, {"b": 7, "é": 300}, Order(SECRET), lowered=0)
GOLDEN = (
    b"DSCR\x04\x01\x08\x00"  # magic, version, family, width of an entry, zero
    b"\x03\x00\x00\x00\x02\x00\x00\x00"  # k, stored keys
    b"\x01\x00\x00\x00\x30\x00\x00\x00"  # sources, size of the text: a room for each slot
    b"\x20\x00\x00\x00\x00\x00\x00\x00"  # used text: two rooms; zero
    b"\x00\x00\x00\x00\x00\x00\x00\x00"  # offset
    b"0123456789abcdef"  # secret
    b"\x00\x00\x00\x00\x00\x00\x00\x00"  # never lowered
    b"\x00\x00\x00\x00\x00\x00\x00\x00"  # a stream has no second tally
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x07\x00\x00\x00\x00\x00\x00\x00" + b"\x00\x00\x00\x00" + b"\x01\x00" + b"\x10\x00"  # 7, at 0, one byte of 16
    b"\x2c\x01\x00\x00\x00\x00\x00\x00" + b"\x10\x00\x00\x00" + b"\x02\x00" + b"\x10\x00"  # 300, at 16, two bytes of 16
    b"\x00\x00\x00\x00\x00\x00\x00\x00" + b"\x00\x00\x00\x00" + b"\x00\x00" + b"\x00\x00"  # a slot for a third key
    b"b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\xc3\xa9\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
)
GOLDEN_WIDE_SKETCH = StreamSketch(2, {"a": 2**64 + 1, "a key of 17 bytes": 0}, Order(SECRET), lowered=2**40 + 5)
GOLDEN_WIDE = (
    b"DSCR\x04\x01\x10\x00"  # an entry has 16 bytes
    b"\x02\x00\x00\x00\x02\x00\x00\x00"
    b"\x01\x00\x00\x00\x30\x00\x00\x00"  # the text has grown to hold a key of two rooms
    b"\x30\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"0123456789abcdef"
    b"\x05\x00\x00\x00\x00\x01\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"  # the lower half first
    b"\x00\x00\x00\x00\x01\x00\x10\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x10\x00\x00\x00\x11\x00\x20\x00"
    b"a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"a key of 17 byte"
    b"s\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
)
# As the kernel leaves it, and `encode` does not
GOLDEN_OFFSET_SKETCH = StreamSketch(2, {"b": 0, "a": 4}, Order(SECRET), lowered=5)
GOLDEN_OFFSET = (
    b"DSCR\x04\x01\x08\x00"
    b"\x02\x00\x00\x00\x02\x00\x00\x00"
    b"\x01\x00\x00\x00\x20\x00\x00\x00"
    b"\x20\x00\x00\x00\x00\x00\x00\x00"
    b"\x03\x00\x00\x00\x00\x00\x00\x00"  # three times all counters were decremented
    b"0123456789abcdef"
    b"\x02\x00\x00\x00\x00\x00\x00\x00"  # and twice before
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x03\x00\x00\x00\x00\x00\x00\x00" + b"\x00\x00\x00\x00" + b"\x01\x00" + b"\x10\x00"
    b"\x07\x00\x00\x00\x00\x00\x00\x00" + b"\x10\x00\x00\x00" + b"\x01\x00" + b"\x10\x00"
    b"b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"aold key's rest\x00"  # rooms may hold what was there before
)
GOLDEN_UNKNOWN_SKETCH = StreamSketch(1, {"b": 7}, Order(SECRET))
GOLDEN_UNKNOWN = (
    b"DSCR\x04\x01\x08\x00"
    b"\x01\x00\x00\x00\x01\x00\x00\x00"
    b"\x01\x00\x00\x00\x10\x00\x00\x00"
    b"\x10\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"0123456789abcdef"
    b"\xff\xff\xff\xff\xff\xff\xff\xff"  # nobody knows how often it was lowered
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x07\x00\x00\x00\x00\x00\x00\x00" + b"\x00\x00\x00\x00" + b"\x01\x00" + b"\x10\x00"
    b"b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
)
GOLDEN_COMPACT_SKETCH = CompactSketch(3, {"b": 7, "é": 300}, lowered=2, items=310)
GOLDEN_COMPACT = (
    b"DSCR\x04\x02\x08\x00"
    b"\x03\x00\x00\x00\x02\x00\x00\x00"
    b"\x01\x00\x00\x00\x30\x00\x00\x00"  # a room for each slot
    b"\x20\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"  # no secret: nothing is evicted
    b"\x02\x00\x00\x00\x00\x00\x00\x00"  # lowered
    b"\x36\x01\x00\x00\x00\x00\x00\x00"  # items
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x07\x00\x00\x00\x00\x00\x00\x00" + b"\x00\x00\x00\x00" + b"\x01\x00" + b"\x10\x00"
    b"\x2c\x01\x00\x00\x00\x00\x00\x00" + b"\x10\x00\x00\x00" + b"\x02\x00" + b"\x10\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00" + b"\x00\x00\x00\x00" + b"\x00\x00" + b"\x00\x00"  # a free slot
    b"b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\xc3\xa9\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
)
# As the kernel leaves it, and `encode` does not
GOLDEN_HOLES_SKETCH = CompactSketch(3, {"a": 4}, lowered=4, items=11)
GOLDEN_HOLES = (
    b"DSCR\x04\x02\x08\x00"
    b"\x03\x00\x00\x00\x01\x00\x00\x00"
    b"\x01\x00\x00\x00\x30\x00\x00\x00"
    b"\x20\x00\x00\x00\x00\x00\x00\x00"
    b"\x03\x00\x00\x00\x00\x00\x00\x00"  # three times all counters were decremented
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x01\x00\x00\x00\x00\x00\x00\x00"  # and once before
    b"\x0b\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00" + b"\x00\x00\x00\x00" + b"\x00\x00" + b"\x10\x00"  # free, with its room
    b"\x07\x00\x00\x00\x00\x00\x00\x00" + b"\x10\x00\x00\x00" + b"\x01\x00" + b"\x10\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00" + b"\x00\x00\x00\x00" + b"\x00\x00" + b"\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
)
GOLDEN_SUMMED_SKETCH = SummedSketch(1, 513, {"b": 2**64, "é": 300}, reduction=600, events=None)
GOLDEN_SUMMED = (
    b"DSCR\x04\x03\x10\x00"
    b"\x01\x00\x00\x00\x02\x00\x00\x00"
    b"\x01\x02\x00\x00\x20\x00\x00\x00"  # 513 sources
    b"\x20\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x58\x02\x00\x00\x00\x00\x00\x00"  # reduction
    b"\xff\xff\xff\xff\xff\xff\xff\xff"  # events, not known
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x01\x00\x10\x00"
    b"\x2c\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x10\x00\x00\x00\x02\x00\x10\x00"
    b"b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\xc3\xa9\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
)
GOLDENS: dict[str, tuple[Sketch, bytes]] = {
    "narrow": (GOLDEN_SKETCH, GOLDEN),
    "wide": (GOLDEN_WIDE_SKETCH, GOLDEN_WIDE),
    "unknown": (GOLDEN_UNKNOWN_SKETCH, GOLDEN_UNKNOWN),
    "compact": (GOLDEN_COMPACT_SKETCH, GOLDEN_COMPACT),
    "summed": (GOLDEN_SUMMED_SKETCH, GOLDEN_SUMMED),
}

OTHERS = {"offset": GOLDEN_OFFSET, "holes": GOLDEN_HOLES}
OF_THIS_VERSION = [*(stored for _, stored in GOLDENS.values()), *OTHERS.values()]
EVERY_STATE = [*OF_THIS_VERSION, *(stored for _, stored in EARLIER.values())]
EACH_STATE = pytest.mark.parametrize("stored", EVERY_STATE, ids=[*GOLDENS, *OTHERS, *EARLIER])

keys = st.text(min_size=1, max_size=20) | st.sampled_from(["x" * 512, "é" * 256, "\0", "\0" * 17, "y" * 16, "y" * 17])
positive = st.integers(1, 3) | st.sampled_from([LARGEST_NARROW, LARGEST_NARROW + 1]) | st.integers(1, 2**128 - 1)
orders = st.just(BY_BYTES) | st.builds(Order, st.binary(min_size=16, max_size=16))
tallies = st.none() | st.integers(0, 3) | st.integers(0, LARGEST_TALLY) | st.just(LARGEST_TALLY)


@st.composite
def stream_sketches(draw: st.DrawFn) -> StreamSketch:
    """States that a stream can lead to: a zero counter, or a lowered one, only where no slot is empty."""
    counters = draw(st.dictionaries(keys, st.just(0) | positive, max_size=12))
    empty_slots = 0 if 0 in counters.values() else draw(st.integers(0, 5))
    k = len(counters) + empty_slots or 1
    lowered = draw(tallies if len(counters) == k else st.sampled_from([None, 0]))
    return StreamSketch(k, counters, draw(orders), lowered)


@st.composite
def compact_sketches(draw: st.DrawFn) -> CompactSketch:
    counters = draw(st.dictionaries(keys, positive, max_size=12))
    return CompactSketch(len(counters) + draw(st.integers(0, 5)) or 1, counters, draw(tallies), draw(tallies))


@st.composite
def summed_sketches(draw: st.DrawFn) -> SummedSketch:
    """More keys than counters, as a sum may have."""
    counters = draw(st.dictionaries(keys, positive, max_size=12))
    k = draw(st.integers(1, 4))
    sources = max(1, -(-len(counters) // k)) + draw(st.integers(0, 1000))
    return SummedSketch(k, sources, counters, draw(tallies), draw(tallies))


sketches = stream_sketches() | compact_sketches() | summed_sketches()


# What is written is read


@settings(max_examples=200, deadline=None)
@given(sketches)
def test_a_stored_sketch_is_read_back_exactly(sketch: Sketch) -> None:
    read = decode(encode(sketch))
    assert type(read) is type(sketch)  # the family decides what may release it
    assert read == sketch  # the order too


@settings(max_examples=200, deadline=None)
@given(sketches, st.randoms(use_true_random=False))
def test_the_bytes_do_not_tell_in_which_order_keys_arrived(sketch: Sketch, shuffle: random.Random) -> None:
    items = list(sketch.counters.items())
    shuffle.shuffle(items)
    assert encode(replace(sketch, counters=dict(items))) == encode(sketch)


def test_the_largest_counters_and_the_longest_keys_are_kept() -> None:
    counters = {"é" * 256: 2**128 - 1, "x" * 512: LARGEST_NARROW, "y": 0}
    assert decode(encode(StreamSketch(3, counters))) == StreamSketch(3, counters)
    assert encode(StreamSketch(1, {"a": LARGEST_NARROW}))[6] == 8
    assert encode(StreamSketch(1, {"a": LARGEST_NARROW + 1}))[6] == 16


@pytest.mark.parametrize(("sketch", "stored"), GOLDENS.values(), ids=GOLDENS)
def test_what_is_written_never_changes(sketch: Sketch, stored: bytes) -> None:
    """Databases hold these bytes. A change of the format takes the next version and keeps reading this one."""
    assert encode(sketch) == stored
    assert decode(stored) == sketch


@pytest.mark.parametrize(
    ("sketch", "stored"),
    [(GOLDEN_OFFSET_SKETCH, GOLDEN_OFFSET), (GOLDEN_HOLES_SKETCH, GOLDEN_HOLES)],
    ids=["stream", "compact"],
)
def test_a_counter_is_its_entry_minus_the_offset_wherever_its_key_lies(sketch: Sketch, stored: bytes) -> None:
    assert decode(stored) == sketch
    assert decode(encode(sketch)) == sketch


@pytest.mark.parametrize("beyond", [1, 2, 2**70])
def test_a_tally_too_large_for_its_field_becomes_unknown_and_never_wrong(beyond: int) -> None:
    large = LARGEST_TALLY + beyond
    assert decode(encode(StreamSketch(1, {"a": 1}, lowered=large))) == StreamSketch(1, {"a": 1})
    compact = CompactSketch(1, {"a": 1}, lowered=large, items=LARGEST_TALLY)
    assert decode(encode(compact)) == CompactSketch(1, {"a": 1}, lowered=None, items=LARGEST_TALLY)
    summed = SummedSketch(1, 1, {"a": 1}, reduction=LARGEST_TALLY, events=large)
    assert decode(encode(summed)) == SummedSketch(1, 1, {"a": 1}, reduction=LARGEST_TALLY, events=None)


@pytest.mark.parametrize("family", [1, 2])
def test_a_tally_is_unknown_too_where_it_becomes_too_large_with_the_offset(family: int) -> None:
    states = (raw(b"a", k=1, family=family, entry=8, offset=7, lowered=LARGEST_TALLY - less) for less in (8, 7, 6, 0))
    assert [lowered_of(stored) for stored in states] == [LARGEST_TALLY - 1, LARGEST_TALLY, None, None]


def lowered_of(stored: bytes) -> int | None:
    sketch = decode(stored)
    assert not isinstance(sketch, SummedSketch)
    return sketch.lowered


def test_a_sketch_is_read_only_as_what_it_is() -> None:
    """Whoever loads a sketch for a mechanism gets the family that the mechanism's proof is about, or nothing."""
    for sketch, stored in (*GOLDENS.values(), *EARLIER.values()):
        assert decode(stored) == sketch
        assert type(decode(stored)) is type(sketch) is family(stored)


# What the size tells


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 40), st.data())
def test_the_size_does_not_depend_on_how_many_short_keys_are_stored(k: int, data: st.DataObject) -> None:
    """Of a stream, and of a compact sketch."""
    short = st.text(min_size=1, max_size=16).filter(lambda key: len(key.encode()) <= ROOM)
    counters = data.draw(st.dictionaries(short, st.integers(1, 100), max_size=k))
    assert len(encode(StreamSketch(k, counters, lowered=0))) == len(encode(StreamSketch(k, counters))) == 80 + 32 * k
    assert len(encode(StreamSketch(k, counters))) == len(encode(StreamSketch.empty(k))) == 80 + 32 * k
    assert len(encode(CompactSketch(k, counters))) == len(encode(CompactSketch.empty(k))) == 80 + 32 * k


def test_longer_keys_show_in_the_size_only_once_they_fill_the_text() -> None:
    """The limit of that promise: a key of 17 bytes takes two rooms."""
    long = {f"a key of 17 bytes {number}": 1 for number in range(4)}
    assert len(encode(StreamSketch(8, long))) == len(encode(StreamSketch.empty(8)))
    assert len(encode(StreamSketch(8, long | {"one more key of 17 bytes": 1}))) > len(encode(StreamSketch.empty(8)))


# Which states the kernel works in


def test_the_kernel_gets_the_secret_of_narrow_keyed_streams_alone() -> None:
    narrow = GOLDEN, GOLDEN_OFFSET, GOLDEN_UNKNOWN
    for stored in EVERY_STATE:
        assert narrow_stream_secret(stored) == (SECRET if stored in narrow else None)
    assert narrow_stream_secret(encode(replace(GOLDEN_SKETCH, order=BY_BYTES))) is None  # kept since version 1
    assert all(narrow_stream_secret(GOLDEN[:length]) is None for length in range(80))


def test_the_kernel_works_in_narrow_compact_sketches_of_this_version_alone() -> None:
    for stored in EVERY_STATE:
        assert is_narrow_compact(stored) == (stored in (GOLDEN_COMPACT, GOLDEN_HOLES))
    assert not is_narrow_compact(encode(CompactSketch(1, {"a": LARGEST_NARROW + 1})))
    assert not any(is_narrow_compact(GOLDEN_COMPACT[:length]) for length in range(80))


# How it is laid out where it is stored


def _columns(*columns: list[int]) -> bytes:
    return b"".join(struct.pack(f"<{len(column)}I", *column) for column in columns)


def test_columns_that_batches_seldom_change_come_last() -> None:
    """Databases hold these bytes, too."""
    sketch = StreamSketch(3, {"b": 7, "é" * 9: 5 * 2**32 + 1}, Order(SECRET))
    state = encode(sketch)
    header = state[:7] + b"\x01" + state[8:80]
    lower, upper, starts, sizes = [7, 1, 0], [0, 5, 0], [0, 16, 0], [1 | 16 << 16, 18 | 32 << 16, 0]
    assert by_column(state) == header + _columns(lower) + state[-48:] + _columns(upper, starts, sizes)


@settings(max_examples=200, deadline=None)
@given(sketches)
def test_what_is_laid_out_by_column_is_read_back_exactly(sketch: Sketch) -> None:
    state = encode(sketch)
    stored = by_column(state)
    assert by_slot(stored) == by_slot(state) == state
    assert by_column(stored) == stored
    assert (stored != state) == (narrow_stream_secret(state) is not None or is_narrow_compact(state))


def test_only_who_asks_for_slots_reads_columns() -> None:
    """What took them for slots would read other counters."""
    for state in (GOLDEN, GOLDEN_OFFSET, GOLDEN_UNKNOWN, GOLDEN_COMPACT, GOLDEN_HOLES):
        assert refused(by_column(state))
        assert narrow_stream_secret(by_column(state)) is None
        assert not is_narrow_compact(by_column(state))


def test_columns_that_end_early_or_go_on_are_refused() -> None:
    def refused_by_slot(stored: bytes) -> bool:
        try:
            return refused(by_slot(stored))
        except BadState:
            return True

    for stored in (by_column(GOLDEN), by_column(GOLDEN_COMPACT)):
        assert not refused_by_slot(stored)
        assert all(refused_by_slot(stored[:length]) for length in range(len(stored)))
        assert all(refused_by_slot(stored + more) for more in (b"\0", b"a", bytes(16), bytes(64), stored))
        for k in (0, 2, 4, 2**32 - 1):
            assert refused_by_slot(stored[:8] + struct.pack("<I", k) + stored[12:])


# What is refused


def refused(state: bytes) -> bool:
    try:
        decode(state)
    except BadState:
        return True
    return False


@EACH_STATE
def test_bytes_that_end_early_or_go_on_are_refused(stored: bytes) -> None:
    assert not refused(stored)
    assert all(refused(stored[:length]) for length in range(len(stored)))
    assert all(refused(stored + more) for more in (b"\0", b"a", bytes(16), bytes(64), stored))


@EACH_STATE
def test_another_magic_version_or_family_is_refused(stored: bytes) -> None:
    for position, right in enumerate(b"DSCR"):
        for value in set(range(256)) - {right}:
            assert refused(stored[:position] + bytes([value]) + stored[position + 1 :]), (position, value)
    assert all(refused(stored[:4] + bytes([value]) + stored[5:]) for value in set(range(256)) - {stored[4]})
    assert all(refused(stored[:5] + bytes([value]) + stored[6:]) for value in set(range(256)) - {1, 2, 3})


def raw(
    *texts: bytes,
    magic: bytes = b"DSCR",
    version: int = 4,
    family: int = 1,
    width: int = 8,
    zero: int = 0,
    k: int = 3,
    stored: int | None = None,
    sources: int = 1,
    size: int | None = None,
    used: int | None = None,
    zeros: int = 0,
    offset: int = 0,
    secret: bytes = bytes(16),
    lowered: int = UNKNOWN,
    second: int | None = None,
    end: int = 0,
    entry: int = 1,
    slots: list[tuple[int, int, int]] | None = None,
    unused: int | None = None,
) -> bytes:
    """By hand, so that it can be written wrongly: each key in a room of 16 bytes, all entries equal."""
    fixed = family == 1 or (family == 2 and version > 2)  # k slots
    places = [(ROOM * at, len(text), ROOM) for at, text in enumerate(texts)] if slots is None else slots
    text = b"".join(text.ljust(ROOM, b"\0") for text in texts)
    used = len(text) if used is None else used
    size = (max(len(text), k * ROOM) if fixed else len(text)) if size is None else size
    header = struct.pack(
        "<4sBBBBIIIIIIQ16s",
        *(magic, version, family, width, zero, k, len(places) if stored is None else stored),
        *(sources, size, used, zeros, offset, secret),
    )
    second = (0 if family == 1 else UNKNOWN) if second is None else second
    header += struct.pack("<Q", end) if version in (2, 3) else struct.pack("<QQQ", lowered, second, end)
    filled = b"".join(entry.to_bytes(width, "little") + struct.pack("<IHH", *place) for place in places)
    unused = (max(k - len(places), 0) if fixed else 0) if unused is None else unused
    return header + filled + bytes((width + 8) * unused) + text.ljust(size, b"\0")


def test_what_is_written_by_hand_is_read_when_it_is_right() -> None:
    """Otherwise the refusals below would show nothing."""
    abc = {"a": 1, "b": 1, "c": 1}
    zeros = dict.fromkeys(abc, 0)
    assert decode(raw(b"a", b"b", b"c")) == decode(raw(b"c", b"a", b"b")) == StreamSketch(3, abc)
    assert decode(raw(b"a", b"b", b"c", width=16)) == StreamSketch(3, abc)
    assert decode(raw(b"a", b"b", b"c", entry=0)) == StreamSketch(3, zeros)
    assert decode(raw(b"a", b"b", b"c", entry=5, offset=5)) == StreamSketch(3, zeros)
    assert decode(raw(b"a", b"b", b"c", entry=6, offset=5, secret=SECRET)) == StreamSketch(3, abc, Order(SECRET))
    assert decode(raw(b"a", b"b", b"c", family=2)) == CompactSketch(3, abc)
    assert decode(raw(b"a", b"b", b"c", family=2, lowered=3, second=9)) == CompactSketch(3, abc, lowered=3, items=9)
    for version in (3, 4):
        of_version = partial(raw, family=2, version=version)
        assert decode(of_version(b"a", b"b", b"c", k=5)) == CompactSketch(5, abc)
        assert decode(of_version(b"a", b"b", b"c", entry=6, offset=5)) == CompactSketch(3, abc)
        holes = of_version(b"a", b"b", slots=[(16, 0, 16), (0, 1, 16), (0, 0, 0)], stored=1)
        assert decode(holes) == CompactSketch(3, {"a": 1})
        assert decode(of_version(offset=LARGEST_NARROW)) == CompactSketch(3, {})
    assert decode(raw(b"a", b"b", b"c", family=2, version=2, k=5)) == CompactSketch(5, abc)
    assert decode(raw(b"a", b"b", b"c", lowered=0, entry=6, offset=5)) == StreamSketch(3, abc, lowered=5)
    assert decode(raw(b"a", b"b", b"c", width=16, lowered=7)) == StreamSketch(3, abc, lowered=7)
    assert decode(raw(b"a", lowered=0)) == decode(raw(b"a", version=2)) == StreamSketch(3, {"a": 1}, lowered=0)
    assert decode(raw(b"a", b"b", b"c", family=3, k=2, sources=2)) == SummedSketch(2, 2, abc)
    known = raw(b"a", b"b", b"c", family=3, k=2, sources=2, lowered=4, second=8)
    assert decode(known) == SummedSketch(2, 2, abc, reduction=4, events=8)
    assert decode(raw(b"a", b"b", k=4)) == decode(raw(b"a", b"b", k=4, size=128)) == StreamSketch(4, {"a": 1, "b": 1})
    assert decode(raw(b"a", slots=[(15, 1, 1)])) == StreamSketch(3, {"\0": 1})
    assert decode(raw(b"ab", slots=[(0, 1, 1), (1, 1, 15)])) == StreamSketch(3, {"a": 1, "b": 1})
    assert decode(raw(b"a" * 16, entry=LARGEST_NARROW)) == StreamSketch(3, {"a" * 16: LARGEST_NARROW})
    assert decode(raw(b"a", width=16, entry=2**128 - 1)) == StreamSketch(3, {"a": 2**128 - 1})
    longest = raw(*[b"a" * ROOM] * 32, k=32, slots=[(0, 512, 512)], unused=31)
    assert decode(longest) == StreamSketch(32, {"a" * 512: 1})


def old(*texts: bytes, stored: int | None = None, width: int = 8, count: int = 1, zero: int = 0, k: int = 3) -> bytes:
    """A stream in version 1 written by hand."""
    header = struct.pack("<4sBBBBII", b"DSCR", 1, 1, width, zero, k, len(texts) if stored is None else stored)
    counters = count.to_bytes(width, "little") * len(texts) if width else b""
    return header + counters + struct.pack(f"<{len(texts)}H", *map(len, texts)) + b"".join(texts)


def test_what_is_written_by_hand_in_version_1_is_read_when_it_is_right() -> None:
    assert decode(old(b"a", b"b", b"c")) == StreamSketch(3, {"a": 1, "b": 1, "c": 1})
    assert decode(old(b"a", b"b", width=9, count=2**64)) == StreamSketch(3, {"a": 2**64, "b": 2**64}, lowered=0)


def wrong(*, before: bool) -> dict[str, bytes]:
    """In this version, or in the one before it."""

    def of(*texts: bytes, family: int = 1, version: int | None = None, **more: Any) -> bytes:
        usual = {1: 2, 2: 3}.get(family, 2) if before else 4
        return raw(*texts, family=family, version=usual if version is None else version, **more)

    return {
        # The header
        "a wrong magic": of(b"a", magic=b"DSCS"),
        "version 0": of(b"a", version=0),
        "version 3 of a stream": of(b"a", version=3),
        "version 5": of(b"a", version=5),
        "family 0": of(b"a", family=0),
        "family 4": of(b"a", family=4),
        "entries of 9 bytes": of(b"a", width=9),
        "entries without bytes": of(b"a", width=0, entry=0),
        "a byte that must be zero": of(b"a", zero=1),
        "a word that must be zero": of(b"a", zeros=1),
        "an end that must be zero": of(b"a", end=1),
        "no counters": of(k=0),
        "too many counters": of(k=MAX_K + 1),
        "too many counters of a compact sketch": of(b"a", family=2, k=MAX_K + 1),
        "too many counters of a summed sketch": of(b"a", family=3, k=MAX_K + 1),
        "a stream of no source": of(b"a", sources=0),
        "a stream of two sources": of(b"a", sources=2),
        "a compact sketch of two sources": of(b"a", family=2, sources=2),
        "a summed sketch of no source": of(b"a", family=3, sources=0),
        "a compact sketch with a secret": of(b"a", family=2, secret=SECRET),
        "a summed sketch with a secret": of(b"a", family=3, secret=SECRET),
        "a wide compact sketch with an offset": of(b"a", family=2, width=16, entry=2, offset=1),
        "a compact sketch with a counter at the offset": of(b"a", family=2, entry=2, offset=2),
        "version 3 of a sum": of(b"a", family=3, version=3),
        "a compact sketch with a slot too few": of(b"a", family=2, unused=1),
        "a compact sketch with fewer keys than announced": of(b"a", family=2, stored=2),
        "a compact sketch with more keys than announced": of(b"a", b"b", family=2, stored=1),
        "a compact sketch with a text without room for each slot": of(b"a", family=2, size=32),
        "a summed sketch with an offset": of(b"a", family=3, entry=2, offset=1),
        "a wide stream with an offset": of(b"a", k=1, width=16, entry=2, offset=1),
        "an offset while a slot is empty": of(b"a", entry=2, offset=1),
        "an offset without a key": of(offset=1),
        # Lengths
        "more keys than slots": of(b"a", b"b", k=1),
        "more keys than counters of a compact sketch": of(b"a", b"b", family=2, k=1),
        "more keys than counters of all sources": of(b"a", b"b", b"c", family=3, k=1, sources=2),
        "a slot too many": of(b"a", unused=3),
        "a slot too few": of(b"a", unused=1),
        "more used text than text": of(b"a", used=64, size=48),
        "a text without room for each slot": of(b"a", size=32),
        "an empty text": of(k=1, size=0),
        # Keys
        "a slot without a key": of(b"a", stored=2),
        "a key of no length": of(b"a", slots=[(0, 0, 16)]),
        "a key longer than its room": of(b"a" * 16, slots=[(0, 16, 15)]),
        "a key of 513 bytes": of(*[b"a" * ROOM] * 33, k=33, slots=[(0, 513, 528)], unused=32),
        "a key that starts outside the text": of(b"a", slots=[(16, 1, 16)]),
        "a room that ends outside the text": of(b"a", slots=[(1, 1, 16)]),
        "a key at the end of 32 bits": of(b"a", slots=[(2**32 - 1, 1, 16)]),
        "a key outside what is used": of(b"a", slots=[(0, 1, 16)], used=15),
        "two keys in one room": of(b"ab", slots=[(0, 1, 16), (1, 1, 15)]),
        "a key within another": of(b"abc", slots=[(0, 3, 3), (1, 1, 1)]),
        "rooms that overlap by a byte": of(b"a", b"b", slots=[(0, 1, 17), (16, 1, 16)]),
        "a free slot with the room of a key": of(b"a", family=2, slots=[(0, 1, 16), (0, 0, 16)], stored=1),
        "two free slots with one room": of(b"", family=2, slots=[(0, 0, 16), (8, 0, 8)], stored=0),
        "a free slot with a room outside the text": of(b"a", family=2, slots=[(1, 0, 16)], stored=0),
        "a free slot without room outside the text": of(b"a", family=2, slots=[(17, 0, 0)], stored=0),
        "a key twice": of(b"a", b"a"),
        "a key three times": of(b"a", b"a", b"a", entry=0),
        "a key that is not UTF-8": of(b"\xff"),
        "half a character": of("é".encode()[:1]),
        "a lone surrogate": of(b"\xed\xa0\x80"),
        # Counters
        "an entry below the offset": of(b"a", k=1, entry=4, offset=5),
        "an offset that had to be wide": of(family=2, offset=LARGEST_NARROW + 1),
        "a narrow entry that had to be wide": of(b"a", entry=LARGEST_NARROW + 1),
        "a zero counter and an empty slot": of(b"a", entry=0),
        "a wide zero counter and an empty slot": of(b"a", entry=0, width=16),
        "a zero counter of a compact sketch": of(b"a", b"b", b"c", family=2, entry=0),
        "a zero counter of a summed sketch": of(b"a", family=3, entry=0),
    }


WRONG = {
    **wrong(before=False),
    **{f"before: {name}": stored for name, stored in wrong(before=True).items()},
    # Tallies
    "a stream with a second tally": raw(b"a", second=1),
    "a stream with a second tally that is not known": raw(b"a", second=UNKNOWN),
    "a stream that was lowered while a slot was empty": raw(b"a", lowered=1),
    "a wide stream that was lowered while a slot was empty": raw(b"a", width=16, lowered=1),
    "a stream that was lowered without a key": raw(lowered=LARGEST_TALLY),
    # Version 2 of compact sketches
    "packed: an offset": raw(b"a", family=2, version=2, entry=2, offset=1),
    "packed: laid out by column": raw(b"a", family=2, version=2, zero=1),
    "packed: too many counters": raw(b"a", family=2, version=2, k=MAX_K + 1),
    "packed: billions of counters": raw(b"a", family=2, version=2, k=2**32 - 1),  # refused at once
    "packed: entries of 9 bytes": raw(b"a", family=2, version=2, width=9),
    "packed: more keys than counters": raw(b"a", b"b", family=2, version=2, k=1),
    "packed: a key that is not announced": raw(b"a", b"b", family=2, version=2, stored=1),
    "packed: a key that is missing": raw(b"a", b"b", family=2, version=2, stored=3),
    "packed: a free slot": raw(b"a", family=2, version=2, slots=[(0, 0, 16)]),
    "packed: more used text than text": raw(b"a", family=2, version=2, used=32),
    "packed: a secret": raw(b"a", family=2, version=2, secret=SECRET),
    "packed: two sources": raw(b"a", family=2, version=2, sources=2),
    "packed: a zero counter": raw(b"a", family=2, version=2, entry=0),
    # Version 1
    "old: descending keys": old(b"b", b"a"),
    "old: a key twice": old(b"a", b"a"),
    "old: not UTF-8": old(b"\xff"),
    "old: more keys than counters": old(b"a", b"b", k=1),
    "old: a key that is not announced": old(b"a", b"b", stored=1),
    "old: a key that is missing": old(b"a", b"b", stored=3),
    "old: billions of keys that are missing": old(b"a", stored=2**32 - 1),  # refused at once, without counting them
    "old: counters without bytes": old(b"a", width=0),
    "old: counters that are too wide": old(b"a", width=9),
    "old: a byte that must be zero": old(b"a", zero=1),
    "old: a zero counter and an empty slot": old(b"a", count=0),
    "old: no counters": old(k=0),
}


@pytest.mark.parametrize("state", WRONG.values(), ids=WRONG)
def test_a_state_that_no_sketch_has_is_refused(state: bytes) -> None:
    with pytest.raises(BadState):
        decode(state)


@st.composite
def damaged_states(draw: st.DrawFn) -> bytes:
    """Valid states with bytes changed, put in, taken out or repeated, where headers and slots are most of all."""
    state = bytearray(draw(st.sampled_from(EVERY_STATE) | sketches.map(encode)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(state) - 1, 0)) | st.integers(0, min(100, max(len(state) - 1, 0))))
        change = draw(st.sampled_from(["set", "insert", "delete", "repeat"]))
        if change == "set" and state:
            state[at] = draw(st.sampled_from([0, 1, 2, 8, 16, 127, 128, 255]) | st.integers(0, 255))
        elif change == "insert":
            state[at:at] = draw(st.binary(min_size=1, max_size=20))
        else:
            piece = state[at : at + draw(st.integers(1, 20))]
            state[at : at + len(piece)] = b"" if change == "delete" else 2 * piece
    return bytes(state)


@settings(max_examples=300, deadline=None)
@given(
    damaged_states() | st.binary(max_size=200) | st.binary(max_size=200).map(lambda rest: b"DSCR\x04\x01\x08" + rest)
)
def test_any_bytes_are_a_sketch_or_a_bad_state(state: bytes) -> None:
    """And what is taken for a sketch in this version is one that can be stored again."""
    try:
        sketch = decode(state)
    except BadState:
        return
    assert state[4] == 1 or decode(encode(sketch)) == sketch


def test_a_printed_sketch_shows_no_key_no_counter_and_no_secret() -> None:
    sketch = StreamSketch(2, {"a private key": 31_337}, Order(SECRET), lowered=31_337)
    assert repr(sketch) == str(sketch) == "StreamSketch(k=2)"
    assert repr(sketch.order) == "Order()"
