"""The compiled fold opens every narrow compact sketch that `decode` reads, and survives whatever else it is given."""

import struct
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core import kernel
from app.core.errors import BadState
from app.core.sketches.compact import CompactSketch
from app.core.sketches.state import LARGEST_NARROW, by_column, decode, encode
from app.core.sketches.stream import MAX_K, StreamSketch
from tests.core.kernel.native import EQUAL_HASHES, KEYED, batch, compact, compact_counters, compiled_only, people
from tests.fuzz.states import with_offset

if kernel.NATIVE:
    from tests.fuzz.compact_cases import DamagedCompact

pytestmark = compiled_only

FULL = encode(CompactSketch(3, {"a": 1, "b": 5, "a key of 17 bytes": 7}))
SLOTS = 80


def with_a_hole() -> bytes:
    """As the fold leaves it: the first slot is free and keeps its room, and the offset is 1."""
    fold = compact(3, KEYED, FULL)
    fold.add(people(["c"]))
    return fold.state()


def changed(kind: str, at: int, value: int, stored: bytes = FULL) -> bytes:
    data = bytearray(stored)
    struct.pack_into(kind, data, at, value)
    return bytes(data)


OTHER_FORMS = {
    "version 2": changed("<B", 4, 2),
    "a stream": encode(StreamSketch(3, {"a": 1, "b": 5}, KEYED.order)),
    "the wide form": encode(CompactSketch(1, {"a": 2**64})),
    "what is laid out by column": by_column(FULL),
}
WRONG = {
    "nothing": b"",
    "half a header": FULL[:79],
    "a header alone": FULL[:80],
    "a wrong magic": b"DSCS" + FULL[4:],
    "a byte that must be zero": changed("<B", 7, 2),
    "no slots": changed("<I", 8, 0),
    "more slots": changed("<I", 8, 4),
    "too many slots": changed("<I", 8, MAX_K + 1),
    "more keys than slots": changed("<I", 12, 4),
    "fewer keys than announced": changed("<H", SLOTS + 12, 0),
    "more keys than announced": changed("<I", 12, 2),
    "a longer text": changed("<I", 20, 96),
    "a shorter text": changed("<I", 20, 48),
    "more used text than text": changed("<I", 24, 65),
    "text that is used and not counted": changed("<I", 24, 63),
    "an empty text": bytes(changed("<I", 20, 0, encode(CompactSketch.empty(1)))[:96]),
    "an offset above a counter": changed("<Q", 32, 2),
    "an offset at a counter": changed("<Q", 32, 1),
    "an offset beyond 62 bits": with_offset(FULL, LARGEST_NARROW),
    "an offset beyond 62 bits without a key": changed("<Q", 32, LARGEST_NARROW + 1, encode(CompactSketch.empty(2))),
    "the largest offset": changed("<Q", 32, 2**64 - 1),
    "an entry beyond 62 bits": changed("<Q", SLOTS, LARGEST_NARROW + 1),
    "a key outside the text": changed("<I", SLOTS + 8, 64),
    "a key at the end of 32 bits": changed("<I", SLOTS + 8, 2**32 - 1),
    "a key longer than its room": changed("<H", SLOTS + 12, 17),
    "a key of 513 bytes": changed("<H", SLOTS + 12, 513),
    "a room of no size": changed("<H", SLOTS + 14, 0),
    "a room that reaches outside": changed("<H", SLOTS + 14, 80),
    "a byte too few": FULL[:-1],
    "a byte too many": FULL + b"\0",
}


@pytest.mark.parametrize("stored", (WRONG | OTHER_FORMS).values(), ids=WRONG | OTHER_FORMS)
def test_a_state_that_would_lead_outside_its_bytes_is_refused(stored: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - that it is refused is what counts
        compact(3, KEYED, stored or b"\0")


def test_the_states_that_these_were_made_from_are_taken() -> None:
    for stored in (FULL, with_offset(FULL, 7), with_a_hole()):
        assert compact(3, KEYED, stored).state() == stored


def test_whatever_the_kernel_refuses_of_these_the_definition_refuses_too() -> None:
    """So a state that one takes is never refused by the other, but for what only `decode` looks at."""
    for stored in WRONG.values():
        with pytest.raises(BadState):
            decode(stored)


def test_the_room_of_a_free_slot_that_reaches_outside_is_refused_by_both() -> None:
    stored = with_a_hole()
    assert compact_counters(stored) == {"b": 4, "a key of 17 bytes": 6}
    (free,) = (at for at in range(3) if struct.unpack_from("<H", stored, SLOTS + 16 * at + 12) == (0,))
    for kind, at, value in (("<I", 8, 64), ("<I", 8, 2**32 - 1), ("<H", 14, 80), ("<H", 14, 2**16 - 1)):
        damaged = changed(kind, SLOTS + 16 * free + at, value, stored)
        with pytest.raises(ValueError, match="outside"):
            compact(3, KEYED, damaged)
        with pytest.raises(BadState):
            decode(damaged)


def test_every_truncation_is_refused() -> None:
    for stored in (FULL, with_a_hole()):
        for length in range(1, len(stored)):
            with pytest.raises(ValueError):  # noqa: PT011
                compact(3, KEYED, stored[:length])


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**64))
def test_damaged_states_are_refused_or_survived_and_sound_ones_folded_as_by_the_twin(seed: int) -> None:
    """Twelve in each; `DamagedCompact.check` says what must hold."""
    assert DamagedCompact.drawn(Random(seed)).check().total() == 12


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300), st.booleans(), st.integers(0, 1))
def test_any_bytes_are_refused_or_survived(rest: bytes, plain: bool, stored: int) -> None:
    """With the right beginning, k = 1 and a text that fills the rest."""
    size = max(len(rest) - 16, 16)
    header = struct.pack(
        "<8sIIIIIIQ16sQQQ", b"DSCR\x04\x02\x08\0", 1, stored, 1, size, min(size, 64), 0, 0, bytes(16), 0, 0, 0
    )
    try:
        fold = compact(1, EQUAL_HASHES if plain else KEYED, header + rest.ljust(16 + size, b"\0"))
    except ValueError:
        return
    fold.add(batch([("a", 1), ("b" * 512, 3), ("c", 2)]), people(["abc", "a", ["d" * 300, "e"]]))
    assert len(fold.state()) >= 80 + 16 + size
