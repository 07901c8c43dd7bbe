"""The compiled folds and their orders, opened the way tests want them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from app.core import kernel
from app.core.sketches.compact import CompactSketch
from app.core.sketches.order import BY_BYTES, Order, multipliers
from app.core.sketches.state import decode, encode
from app.core.sketches.stream import StreamSketch
from tests.states import decode_as

if kernel.NATIVE:
    from app.core.kernel import compact as compact_fold
    from app.core.kernel import folding, scanning, sets

Events = list[tuple[str, int]]

compiled_only = pytest.mark.skipif(not kernel.NATIVE, reason="the kernel is not compiled here: no C compiler was found")


@dataclass(frozen=True)
class Ordering:
    """Where the kernel places a key, and the multipliers that make it do so."""

    order: Order
    multipliers: bytes
    place: Callable[[str], int]

    def opened(self, k: int, stored: bytes = b"") -> "folding.Fold":
        return folding.Fold(stored or encode(StreamSketch.empty(k, self.order)), self.multipliers)


KEYED = Ordering(Order(bytes(range(16))), multipliers(bytes(range(16))), Order(bytes(range(16))).hash_of)
EQUAL_HASHES = Ordering(BY_BYTES, multipliers(bytes(16)), BY_BYTES.hash_of)
"""All multipliers zero, so every hash is the same and only the keys themselves tell keys apart."""

_length_alone = multipliers(bytes(range(16)))[:16] + bytes(64 * 16)


def _place_by_length(key: str) -> int:
    value = int.from_bytes(_length_alone[:16], "little") * len(key.encode()) >> 64 & 2**64 - 1
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & 2**64 - 1
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & 2**64 - 1
    return value ^ value >> 33


EQUAL_LENGTHS_COLLIDE = Ordering(BY_BYTES, _length_alone, _place_by_length)
"""Only the length is hashed: several keys on each of several places."""

ORDERINGS = {"keyed": KEYED, "equal hashes": EQUAL_HASHES, "equal lengths collide": EQUAL_LENGTHS_COLLIDE}


def batch(events: Events) -> "scanning.Batch":
    return scanning.Batch.of(events)


def counters(stored: bytes) -> dict[str, int]:
    return dict(decode_as(StreamSketch, stored).counters)


def lowered(stored: bytes) -> int | None:
    """How often all counters were lowered, in a stream or a compact sketch."""
    sketch = decode(stored)
    assert isinstance(sketch, StreamSketch | CompactSketch)
    return sketch.lowered


# Compact sketches

People = Sequence[Sequence[str]]  # the keys that each lists


def compact(k: int, ordering: Ordering = KEYED, stored: bytes = b"") -> "compact_fold.Fold":
    """The compiled fold of a compact sketch. Its order does not matter, so any multipliers will do."""
    return compact_fold.Fold(stored or encode(CompactSketch.empty(k)), ordering.multipliers)


def people(listed: People, most_keys: int = 1000) -> "sets.Sets":
    return sets.Sets.of([(None, keys) for keys in listed], most_keys)


def compact_counters(stored: bytes) -> dict[str, int]:
    return dict(decode_as(CompactSketch, stored).counters)
