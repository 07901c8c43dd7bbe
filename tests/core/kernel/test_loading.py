"""The compiled fold opens every narrow stream that `decode` reads, and survives whatever else it is given."""

import struct
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core import kernel
from app.core.errors import BadState
from app.core.sketches.order import multipliers
from app.core.sketches.state import LARGEST_NARROW, decode, encode
from app.core.sketches.stream import MAX_K, StreamSketch
from tests.core.kernel.native import EQUAL_HASHES, KEYED, compiled_only
from tests.fuzz.states import with_offset

if kernel.NATIVE:
    from app.core.kernel import folding
    from tests.fuzz.cases import Damaged

pytestmark = compiled_only

STORED = encode(StreamSketch(3, {"a": 1, "b": 5, "a key of 17 bytes": 7}, KEYED.order))
SLOTS = 80


def changed(kind: str, at: int, value: int, stored: bytes = STORED) -> bytes:
    data = bytearray(stored)
    struct.pack_into(kind, data, at, value)
    return bytes(data)


WRONG = {
    "nothing": b"",
    "half a header": STORED[:79],
    "a header alone": STORED[:80],
    "a wrong magic": b"DSCS" + STORED[4:],
    "version 1": changed("<B", 4, 1),
    "a compact sketch": changed("<B", 5, 2),
    "the wide form": encode(StreamSketch(1, {"a": 2**64}, KEYED.order)),
    "a byte that must be zero": changed("<B", 7, 1),
    "no slots": changed("<I", 8, 0),
    "more slots": changed("<I", 8, 4),
    "too many slots": changed("<I", 8, MAX_K + 1),
    "more keys than slots": changed("<I", 12, 4),
    "a longer text": changed("<I", 20, 96),
    "a shorter text": changed("<I", 20, 48),
    "more used text than text": changed("<I", 24, 65),
    "text that is used and not counted": changed("<I", 24, 63),
    "an empty text": bytes(changed("<I", 20, 0, encode(StreamSketch.empty(1, KEYED.order)))[:96]),
    "an offset above a counter": changed("<Q", 32, 2),
    "an offset while a slot is empty": changed("<Q", 32, 1, encode(StreamSketch.empty(2, KEYED.order))),
    "lowered while a slot is empty": changed("<Q", 56, 1, encode(StreamSketch.empty(2, KEYED.order))),
    "an offset beyond 62 bits": with_offset(STORED, LARGEST_NARROW),
    "an entry beyond 62 bits": changed("<Q", SLOTS, LARGEST_NARROW + 1),
    "a key outside the text": changed("<I", SLOTS + 8, 64),
    "a key at the end of 32 bits": changed("<I", SLOTS + 8, 2**32 - 1),
    "a key of no length": changed("<H", SLOTS + 12, 0),
    "a key longer than its room": changed("<H", SLOTS + 12, 17),
    "a key of 513 bytes": changed("<H", SLOTS + 12, 513),
    "a room of no size": changed("<H", SLOTS + 14, 0),
    "a room that reaches outside": changed("<H", SLOTS + 14, 80),
    "a byte too few": STORED[:-1],
    "a byte too many": STORED + b"\0",
}


@pytest.mark.parametrize("stored", WRONG.values(), ids=WRONG)
def test_a_state_that_would_lead_outside_its_bytes_is_refused(stored: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - that it is refused is what counts
        folding.Fold(stored, KEYED.multipliers)


def test_the_state_that_these_were_made_from_is_taken() -> None:
    assert folding.Fold(STORED, KEYED.multipliers).state() == STORED
    assert folding.Fold(with_offset(STORED, 7), KEYED.multipliers).state() == with_offset(STORED, 7)


@pytest.mark.parametrize("length", [0, 16, 1039, 1041])
def test_multipliers_of_another_length_are_refused(length: int) -> None:
    with pytest.raises(ValueError, match="multipliers"):
        folding.Fold(STORED, bytes(length))


def test_every_truncation_is_refused() -> None:
    for length in range(len(STORED)):
        with pytest.raises(ValueError):  # noqa: PT011
            folding.Fold(STORED[:length], KEYED.multipliers)


def test_whatever_the_kernel_refuses_of_these_the_definition_refuses_too() -> None:
    """So a state that one takes is never refused by the other, but for what only `decode` looks at."""
    for name, stored in WRONG.items():
        if name in ("version 1", "a compact sketch", "the wide form"):
            continue
        with pytest.raises(BadState):
            decode(stored)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**64))
def test_damaged_states_are_refused_or_survived_and_sound_ones_folded_as_by_the_twin(seed: int) -> None:
    """Twelve in each; `Damaged.check` says what must hold."""
    assert Damaged.drawn(Random(seed)).check().total() == 12


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_refused_or_survived(rest: bytes, plain: bool) -> None:
    """With the right beginning, k = 1 and a text that fills the rest."""
    size = max(len(rest) - 16, 16)
    header = struct.pack(
        "<8sIIIIIIQ16sQQQ", b"DSCR\x04\x01\x08\0", 1, 1, 1, size, min(size, 64), 0, 0, bytes(16), 0, 0, 0
    )
    ordering = EQUAL_HASHES if plain else KEYED
    try:
        fold = folding.Fold(header + rest.ljust(16 + size, b"\0"), ordering.multipliers)
    except ValueError:
        return
    fold.add(kernel.batch_of([("a", 1), ("b" * 512, 3), ("c", 2)]))  # type: ignore[arg-type]
    assert len(fold.state()) >= 80 + 16 + size


def test_what_is_no_bytes_is_refused_by_its_type() -> None:
    for wrong in (None, "text", bytearray(STORED), memoryview(STORED)):
        with pytest.raises(TypeError):
            folding.Fold(wrong, KEYED.multipliers)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        folding.Fold(STORED, multipliers(KEYED.order.secret)).add(None)  # type: ignore[arg-type]
