"""Sketches that an earlier version stored: read as what they are, folded on, and never given a number nobody stored."""

import pytest

from app.core import kernel
from app.core.errors import BadState
from app.core.kernel import Fold, batch_of, twin
from app.core.sketches.compact import CompactSketch
from app.core.sketches.old_state import upgraded
from app.core.sketches.state import Sketch, by_column, by_slot, decode, encode, is_narrow_compact, narrow_stream_secret
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch
from tests.core.sketches.earlier_states import COMPACT_2, EARLIER, STORED

EACH_EARLIER = pytest.mark.parametrize(("sketch", "stored"), EARLIER.values(), ids=EARLIER)
EACH_STORED = pytest.mark.parametrize(
    ("sketch", "stored"), [*EARLIER.values(), *STORED.values()], ids=[*EARLIER, *STORED]
)
MORE = [("a", 2), ("another", 3), ("b", 1), ("x" * 40, 20)]


@EACH_STORED
def test_every_earlier_version_is_read_and_written_anew_in_this_one(sketch: Sketch, stored: bytes) -> None:
    """Streams of version 1 evict in the plain order, and keep to it when they are stored anew."""
    assert decode(by_slot(stored)) == sketch
    assert encode(sketch)[4] == 4
    assert decode(encode(sketch)) == sketch


@EACH_STORED
def test_what_was_not_stored_is_not_known(sketch: Sketch, stored: bytes) -> None:
    """But for a stream with an empty slot, which never lowered a counter."""
    match decode(by_slot(stored)):
        case StreamSketch() as read:
            has_room = len(read.counters) < read.k
            assert read.lowered == (0 if has_room else None)
            assert read.events == (sum(read.counters.values()) if has_room else None)
        case CompactSketch() as read:
            assert (read.lowered, read.items) == (None, None)
        case SummedSketch() as read:
            assert (read.reduction, read.events) == (None, None)


@EACH_STORED
def test_it_stays_unknown_in_whatever_is_made_of_it(sketch: Sketch, stored: bytes) -> None:
    read = decode(by_slot(stored))
    if isinstance(read, StreamSketch) and read.lowered is None:
        assert read.extended(MORE).lowered is None
        assert CompactSketch.of_stream(read).items is None
        assert SummedSketch.of_stream(read).events is None
        assert SummedSketch.of_stream(read).reduction == sum(read.counters.values())  # that is still there to see
    elif isinstance(read, CompactSketch):
        new = CompactSketch.empty(read.k).extended(MORE)
        for one in (read.extended(MORE), read.extended_by_people(["ab"]), read.merged(new), new.merged(read)):
            assert (one.lowered, one.items) == (None, None)
    elif isinstance(read, SummedSketch):
        new_sum = SummedSketch.of_stream(StreamSketch.empty(read.k))
        for sum_ in (read.plus(new_sum), new_sum.plus(read)):
            assert (sum_.reduction, sum_.events) == (None, None)


@EACH_STORED
def test_batches_are_folded_into_it_as_the_definition_folds_them(sketch: Sketch, stored: bytes) -> None:
    """And the next write is in this version, by column where the kernel works in it."""
    if isinstance(sketch, SummedSketch):
        with pytest.raises(BadState):
            Fold(by_slot(stored))
        return
    fold = Fold(by_slot(stored))
    fold.add(batch_of(MORE))
    assert decode(fold.state()) == sketch.extended(MORE)
    assert decode(by_slot(fold.stored())) == sketch.extended(MORE)
    assert fold.stored() == by_column(fold.state())
    assert fold.stored()[4] == 4


@pytest.mark.skipif(not kernel.NATIVE, reason="the kernel is not compiled here: no C compiler was found")
@EACH_STORED
def test_the_kernel_opens_the_narrow_ones_and_its_twin_the_others(sketch: Sketch, stored: bytes) -> None:
    if isinstance(sketch, SummedSketch):
        return
    fold = Fold(by_slot(stored))._fold
    narrow = max(sketch.counters.values()) < 2**62
    keyed = not isinstance(sketch, StreamSketch) or any(sketch.order.secret)
    assert (type(fold) is not twin.Fold) == (narrow and keyed)
    slots = upgraded(stored)
    assert (narrow_stream_secret(slots) is not None or is_narrow_compact(slots)) <= (narrow and keyed)


@EACH_EARLIER
def test_upgrading_changes_what_is_said_and_not_what_it_says(sketch: Sketch, stored: bytes) -> None:
    changed = upgraded(stored)
    assert (changed == stored) == (stored[4] == 1)  # version 1 is decoded, and encoded anew
    assert upgraded(changed) == changed
    assert decode(changed) == decode(stored) == sketch


def test_a_packed_compact_sketch_gets_a_slot_and_room_for_each_key() -> None:
    """Version 2 had no more slots and text than it used."""
    assert by_column(COMPACT_2) == COMPACT_2
    whole = by_slot(COMPACT_2)
    assert len(whole) == len(encode(CompactSketch.empty(3)))
    assert is_narrow_compact(whole)
    assert not is_narrow_compact(COMPACT_2)


@EACH_STORED
def test_bytes_of_an_earlier_version_that_end_early_or_go_on_are_refused(sketch: Sketch, stored: bytes) -> None:
    def refused(damaged: bytes) -> bool:
        try:
            decode(by_slot(damaged))
        except BadState:
            return True
        return False

    assert all(refused(stored[:length]) for length in range(len(stored)))
    assert all(refused(stored + more) for more in (b"\0", b"a", bytes(16), bytes(64), stored))
