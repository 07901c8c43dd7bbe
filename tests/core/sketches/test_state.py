"""The stored form of a sketch: one value for one sketch, read back exactly, and refused when damaged."""

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.errors import BadState
from app.core.sketches.state import decode, encode
from app.core.sketches.stream import MAX_K, StreamSketch

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


@st.composite
def sketches(draw: st.DrawFn) -> StreamSketch:
    """States that a stream can lead to: a zero counter only where no slot is empty."""
    counters = draw(st.dictionaries(st.text(max_size=20), st.integers(0, 3) | st.integers(0, 2**200), max_size=12))
    empty_slots = 0 if 0 in counters.values() else draw(st.integers(0, 5))
    return StreamSketch(len(counters) + empty_slots or 1, counters)


@settings(max_examples=300, deadline=None)
@given(sketches())
def test_a_stored_sketch_is_read_back_exactly(sketch: StreamSketch) -> None:
    assert decode(encode(sketch)) == sketch


@settings(max_examples=100, deadline=None)
@given(sketches(), st.randoms(use_true_random=False))
def test_the_bytes_do_not_tell_in_which_order_keys_arrived(sketch: StreamSketch, shuffle: random.Random) -> None:
    items = list(sketch.counters.items())
    shuffle.shuffle(items)
    assert encode(StreamSketch(sketch.k, dict(items))) == encode(sketch)


@pytest.mark.parametrize(
    ("sketch", "stored"), [(GOLDEN_SKETCH, GOLDEN), (GOLDEN_WIDE_SKETCH, GOLDEN_WIDE)], ids=["narrow", "wide"]
)
def test_version_1_never_changes(sketch: StreamSketch, stored: bytes) -> None:
    """Databases hold these bytes. A change of the format takes the next version and keeps reading this one."""
    assert encode(sketch) == stored
    assert decode(stored) == sketch


@pytest.mark.parametrize("stored", [GOLDEN, GOLDEN_WIDE], ids=["narrow", "wide"])
def test_bytes_that_end_early_or_go_on_are_refused(stored: bytes) -> None:
    damaged = [stored[:length] for length in range(len(stored))] + [stored + b"\0", stored + b"a", stored * 2]
    for state in damaged:
        with pytest.raises(BadState):
            decode(state)


@pytest.mark.parametrize("position", range(6), ids=["D", "S", "C", "R", "version", "family"])
def test_another_magic_version_or_family_is_refused(position: int) -> None:
    for value in set(range(256)) - {GOLDEN[position]}:
        with pytest.raises(BadState):
            decode(GOLDEN[:position] + bytes([value]) + GOLDEN[position + 1 :])


def raw(*keys: bytes, k: int = 3, stored: int | None = None, width: int = 8) -> bytes:
    """Version 1 written by hand, so that it can be written wrongly. Every counter is 1."""
    header = struct.pack("<4sBBBxII", b"DSCR", 1, 1, width, k, len(keys) if stored is None else stored)
    counters = (1).to_bytes(width, "little") * len(keys) if width else b""
    return header + counters + struct.pack(f"<{len(keys)}H", *map(len, keys)) + b"".join(keys)


def test_what_is_written_by_hand_is_read_when_it_is_right() -> None:
    """Otherwise the refusals below would show nothing."""
    assert decode(raw(b"a", b"b", b"c")) == StreamSketch(3, {"a": 1, "b": 1, "c": 1})


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
