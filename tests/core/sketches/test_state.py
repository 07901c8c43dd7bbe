"""The stored form of a sketch: one value for one sketch, read back exactly, and refused when damaged."""

import random
import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.errors import BadState
from app.core.sketches.compact import CompactSketch
from app.core.sketches.state import Sketch, decode, decode_as, encode
from app.core.sketches.stream import MAX_K, StreamSketch
from app.core.sketches.summed import SummedSketch

GOLDEN_SKETCH = StreamSketch(3, {"b": 7, "é": 300, "\0": 0})
GOLDEN = (
    b"DSCR\x01\x01\x08\x00"  # magic, version, family, width, zero
    b"\x03\x00\x00\x00\x03\x00\x00\x00"  # k, stored keys
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x2c\x01\x00\x00\x00\x00\x00\x00"
    b"\x01\x00\x01\x00\x02\x00"  # key lengths
    b"\x00b\xc3\xa9"
)
GOLDEN_WIDE_SKETCH = StreamSketch(65_536, {"a": 2**64 + 1})
GOLDEN_WIDE = (
    b"DSCR\x01\x01\x09\x00"
    b"\x00\x00\x01\x00\x01\x00\x00\x00"
    b"\x01\x00\x00\x00\x00\x00\x00\x00\x01"  # nine bytes, because eight do not hold it
    b"\x01\x00"
    b"a"
)

GOLDEN_COMPACT_SKETCH = CompactSketch(3, {"b": 7, "é": 300})
GOLDEN_COMPACT = (
    b"DSCR\x01\x02\x08\x00"
    b"\x03\x00\x00\x00\x02\x00\x00\x00"
    b"\x07\x00\x00\x00\x00\x00\x00\x00\x2c\x01\x00\x00\x00\x00\x00\x00"
    b"\x01\x00\x02\x00"
    b"b\xc3\xa9"
)
GOLDEN_SUMMED_SKETCH = SummedSketch(1, 513, {"b": 2**64, "é": 300})
GOLDEN_SUMMED = (
    b"DSCR\x01\x03\x09\x00"
    b"\x01\x00\x00\x00\x02\x00\x00\x00"
    b"\x01\x02\x00\x00"  # sources
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x01\x2c\x01\x00\x00\x00\x00\x00\x00\x00"
    b"\x01\x00\x02\x00"
    b"b\xc3\xa9"
)
GOLDENS = {
    "narrow": (GOLDEN_SKETCH, GOLDEN),
    "wide": (GOLDEN_WIDE_SKETCH, GOLDEN_WIDE),
    "compact": (GOLDEN_COMPACT_SKETCH, GOLDEN_COMPACT),
    "summed": (GOLDEN_SUMMED_SKETCH, GOLDEN_SUMMED),
}
keys = st.text(max_size=20)
positive = st.integers(1, 3) | st.integers(1, 2**200)


@st.composite
def stream_sketches(draw: st.DrawFn) -> StreamSketch:
    """States that a stream can lead to: a zero counter only where no slot is empty."""
    counters = draw(st.dictionaries(keys, st.just(0) | positive, max_size=12))
    empty_slots = 0 if 0 in counters.values() else draw(st.integers(0, 5))
    return StreamSketch(len(counters) + empty_slots or 1, counters)


@st.composite
def compact_sketches(draw: st.DrawFn) -> CompactSketch:
    counters = draw(st.dictionaries(keys, positive, max_size=12))
    return CompactSketch(len(counters) + draw(st.integers(0, 5)) or 1, counters)


@st.composite
def summed_sketches(draw: st.DrawFn) -> SummedSketch:
    """More keys than counters, as a sum may have."""
    counters = draw(st.dictionaries(keys, positive, max_size=12))
    k = draw(st.integers(1, 4))
    return SummedSketch(k, max(1, -(-len(counters) // k)) + draw(st.integers(0, 1000)), counters)


sketches = stream_sketches() | compact_sketches() | summed_sketches()


@settings(max_examples=500, deadline=None)
@given(sketches)
def test_a_stored_sketch_is_read_back_exactly(sketch: Sketch) -> None:
    read = decode(encode(sketch))
    assert type(read) is type(sketch)  # the family decides what may release it
    assert read == sketch


@settings(max_examples=200, deadline=None)
@given(sketches, st.randoms(use_true_random=False))
def test_the_bytes_do_not_tell_in_which_order_keys_arrived(sketch: Sketch, shuffle: random.Random) -> None:
    items = list(sketch.counters.items())
    shuffle.shuffle(items)
    assert encode(replace(sketch, counters=dict(items))) == encode(sketch)


@pytest.mark.parametrize(("sketch", "stored"), GOLDENS.values(), ids=GOLDENS)
def test_version_1_never_changes(sketch: Sketch, stored: bytes) -> None:
    """Databases hold these bytes. A change of the format takes the next version and keeps reading this one."""
    assert encode(sketch) == stored
    assert decode(stored) == sketch


@pytest.mark.parametrize("stored", [stored for _, stored in GOLDENS.values()], ids=GOLDENS)
def test_bytes_that_end_early_or_go_on_are_refused(stored: bytes) -> None:
    damaged = [stored[:length] for length in range(len(stored))] + [stored + b"\0", stored + b"a", stored * 2]
    for state in damaged:
        with pytest.raises(BadState):
            decode(state)


def test_a_sketch_is_read_only_as_what_it_is() -> None:
    """Whoever loads a sketch for a mechanism gets the family that the mechanism's proof is about, or nothing."""
    assert decode_as(StreamSketch, GOLDEN) == GOLDEN_SKETCH
    assert decode_as(CompactSketch, GOLDEN_COMPACT) == GOLDEN_COMPACT_SKETCH
    assert decode_as(SummedSketch, GOLDEN_SUMMED) == GOLDEN_SUMMED_SKETCH
    for sketch, stored in GOLDENS.values():
        if not isinstance(sketch, StreamSketch):
            with pytest.raises(BadState, match="StreamSketch"):
                decode_as(StreamSketch, stored)
        if not isinstance(sketch, CompactSketch):
            with pytest.raises(BadState, match="CompactSketch"):
                decode_as(CompactSketch, stored)
        if not isinstance(sketch, SummedSketch):
            with pytest.raises(BadState, match="SummedSketch"):
                decode_as(SummedSketch, stored)


@pytest.mark.parametrize("position", range(6), ids=["D", "S", "C", "R", "version", "family"])
def test_another_magic_version_or_family_is_refused(position: int) -> None:
    for value in set(range(256)) - {GOLDEN[position]}:
        with pytest.raises(BadState):
            decode(GOLDEN[:position] + bytes([value]) + GOLDEN[position + 1 :])


def raw(
    *keys: bytes,
    family: int = 1,
    k: int = 3,
    sources: int | None = None,
    stored: int | None = None,
    width: int = 8,
    count: int = 1,
) -> bytes:
    """Version 1 written by hand, so that it can be written wrongly. All counters are equal."""
    header = struct.pack("<4sBBBxII", b"DSCR", 1, family, width, k, len(keys) if stored is None else stored)
    added = b"" if sources is None else struct.pack("<I", sources)
    counters = count.to_bytes(width, "little") * len(keys) if width else b""
    return header + added + counters + struct.pack(f"<{len(keys)}H", *map(len, keys)) + b"".join(keys)


def test_what_is_written_by_hand_is_read_when_it_is_right() -> None:
    """Otherwise the refusals below would show nothing."""
    assert decode(raw(b"a", b"b", b"c")) == StreamSketch(3, {"a": 1, "b": 1, "c": 1})
    assert decode(raw(b"a", b"b", b"c", count=0)) == StreamSketch(3, {"a": 0, "b": 0, "c": 0})
    assert decode(raw(b"a", b"b", b"c", family=2)) == CompactSketch(3, {"a": 1, "b": 1, "c": 1})
    assert decode(raw(b"a", b"b", b"c", family=3, k=2, sources=2)) == SummedSketch(2, 2, {"a": 1, "b": 1, "c": 1})


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(raw(b"b", b"a"), id="descending keys"),
        pytest.param(raw(b"a", b"c", b"b"), id="one key out of order"),
        pytest.param(raw(b"a", b"a"), id="a key twice"),
        pytest.param(raw(b"\xff"), id="a key that is not UTF-8"),
        pytest.param(raw(b"\xed\xa0\x80"), id="a lone surrogate"),
        pytest.param(raw(k=0), id="no counters"),
        pytest.param(raw(k=MAX_K + 1), id="too many counters"),
        pytest.param(raw(b"a", b"b", k=1), id="more keys than counters"),
        pytest.param(raw(b"a", b"b", stored=1), id="a key that is not announced"),
        pytest.param(raw(b"a", b"b", stored=3), id="a key that is missing"),
        pytest.param(raw(b"a", width=0), id="counters without bytes"),
        pytest.param(raw(b"a", b"b", b"c", family=2, count=0), id="a zero counter of a compact sketch"),
        pytest.param(raw(b"a", b"b", family=2, k=1), id="more keys than counters of a compact sketch"),
        pytest.param(raw(b"b", b"a", family=2), id="descending keys of a compact sketch"),
        pytest.param(raw(b"a", family=2, sources=1), id="a compact sketch with sources"),
        pytest.param(raw(b"a", b"b", b"c", family=3, sources=1, count=0), id="a zero counter of a summed sketch"),
        pytest.param(raw(b"a", b"b", b"c", family=3, k=1, sources=2), id="more keys than counters of all sources"),
        pytest.param(raw(b"a", family=3, sources=0), id="a key from no source"),
        pytest.param(raw(b"a", family=3), id="a summed sketch without its sources"),
        pytest.param(raw(b"b", b"a", family=3, sources=1), id="descending keys of a summed sketch"),
        pytest.param(raw(b"a", family=3, k=MAX_K + 1, sources=1), id="too many counters of a summed sketch"),
    ],
)
def test_a_state_that_no_sketch_has_is_refused(state: bytes) -> None:
    with pytest.raises(BadState):
        decode(state)


def test_a_printed_sketch_shows_no_key_and_no_counter() -> None:
    sketch = StreamSketch(2, {"a private key": 31_337})
    assert repr(sketch) == str(sketch) == "StreamSketch(k=2)"


@pytest.mark.parametrize(
    "damaged",
    [
        GOLDEN[:7] + b"\x01" + GOLDEN[8:],  # the byte that must be zero
        b"DSCR\x01\x01\x09\x00\x01\x00\x00\x00\x01\x00\x00\x00" + b"\x01" + 8 * b"\x00" + b"\x01\x00a",  # too wide
        b"DSCR\x01\x01\x08\x00\x02\x00\x00\x00\x01\x00\x00\x00" + 8 * b"\x00" + b"\x01\x00a",  # zero, and an empty slot
    ],
    ids=["padding", "width", "unreachable"],
)
def test_bytes_that_encode_would_not_write_are_refused(damaged: bytes) -> None:
    with pytest.raises(BadState):
        decode(damaged)
