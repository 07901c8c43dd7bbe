"""Stored stream and compact sketches in the narrow form, as the kernel leaves them, and damaged ones."""

import struct
from random import Random

from app.core.sketches.compact import CompactSketch
from app.core.sketches.old_state import upgraded
from app.core.sketches.order import Order
from app.core.sketches.state import LARGEST_NARROW, decode, encode
from app.core.sketches.stream import StreamSketch
from tests.fuzz import bodies
from tests.fuzz.damage import damaged
from tests.fuzz.outcomes import require

Pairs = list[tuple[str, int]]
People = list[tuple[str | None, list[str]]]

HEADER_BYTES = 80
SLOT_BYTES = 16
_LOWERED, _ITEMS = 56, 64  # where the header has them
_UNKNOWN = 2**64 - 1
_PIECES = (
    bytes(1),
    bytes(4),
    bytes(16),
    b"\x01",
    b"\x10\x00",
    b"\xff" * 4,
    b"\xff" * 8,
    b"\x00\x02",
    b"\x01\x02",
    b"a",
)


def secret(rng: Random) -> bytes:
    return rng.randbytes(16) if rng.random() < 0.7 else bytes(16)


def pairs(rng: Random, most: int = 60) -> Pairs:
    """Checked events; a few keys come again and again."""
    pool = [text for text in (bodies.key(rng) for _ in range(rng.randint(1, 20))) if len(text.encode()) <= 512]
    return [(rng.choice(pool), bodies.count(rng)) for _ in range(rng.randint(0, most))] if pool else []


def people(rng: Random, most: int = 40) -> People:
    """Checked sets; some list a key twice."""
    pool = [text for text in (bodies.key(rng) for _ in range(rng.randint(1, 20))) if len(text.encode()) <= 512]
    sizes = [rng.choice((0, 1, 2, 3, 3, 25)) for _ in range(rng.randint(0, most))] if pool else []
    return [(rng.choice((None, "u", "v")), [rng.choice(pool) for _ in range(size)]) for size in sizes]


def state(rng: Random, k: int, order: Order) -> bytes:
    """After some events; a full one may have an offset, and may be close to where the narrow form ends."""
    stored = encode(StreamSketch.empty(k, order).extended(pairs(rng)))
    (found,) = struct.unpack_from("<I", stored, 12)
    return stored if found < k else _perhaps_before(rng, _with_tally(rng, _perhaps_with_offset(rng, stored), _LOWERED))


def compact_state(rng: Random, k: int) -> bytes:
    """After some events and people; it may have an offset, full or not."""
    sketch = CompactSketch.empty(k).extended(pairs(rng)) if rng.random() < 0.5 else CompactSketch.empty(k)
    stored = _perhaps_with_offset(rng, encode(sketch.extended_by_people(keys for _, keys in people(rng))))
    return _perhaps_before(rng, _with_tally(rng, _with_tally(rng, stored, _LOWERED), _ITEMS))


def _with_tally(rng: Random, stored: bytes, at: int) -> bytes:
    """Now and then with another number, one that is not known, or one that will soon be too large."""
    number = rng.choice(
        (rng.randrange(1000), _UNKNOWN, _UNKNOWN - rng.randint(1, 2 ** rng.randrange(64)), rng.randrange(_UNKNOWN))
    )
    return stored if rng.random() < 0.5 else stored[:at] + struct.pack("<Q", number) + stored[at + 8 :]


def _perhaps_before(rng: Random, stored: bytes) -> bytes:
    """Now and then as it is after it was stored in the version before this one and opened again."""
    if rng.random() < 0.8:
        return stored
    version = 3 if stored[5] == 2 else 2
    before = stored[:4] + bytes([version]) + stored[5:_LOWERED] + stored[_LOWERED + 16 :]
    opened = upgraded(before)
    require(decode(opened) == decode(before), "a state of the version before is the same in this one")
    require(opened[4] == stored[4] and len(opened) == len(stored), "it has the form of this version")
    return opened


def _perhaps_with_offset(rng: Random, stored: bytes) -> bytes:
    if stored[6] != 8 or rng.random() < 0.3:
        return stored
    (k,) = struct.unpack_from("<I", stored, 8)
    largest = max(struct.unpack_from("<Q", stored, HEADER_BYTES + SLOT_BYTES * slot)[0] for slot in range(k))
    room = LARGEST_NARROW - largest
    return with_offset(stored, rng.choice((1, rng.randint(0, 1000), rng.randint(0, room), room - rng.randint(0, 9))))


def with_offset(stored: bytes, offset: int) -> bytes:
    """The same counters, written with this offset: so much more often they were lowered. A stream must be full."""
    changed = bytearray(stored)
    (number,) = struct.unpack_from("<I", stored, 12)  # of keys, which `encode` leaves in the first slots
    struct.pack_into("<Q", changed, 32, offset)
    for slot in range(number):
        at = HEADER_BYTES + SLOT_BYTES * slot
        (entry,) = struct.unpack_from("<Q", stored, at)
        struct.pack_into("<Q", changed, at, entry + offset)
    return bytes(changed)


def _with_text(stored: bytes, size: int) -> bytes:
    """With a text of another size, so that the lengths still add up."""
    changed = bytearray(stored)
    (k,) = struct.unpack_from("<I", stored, 8)
    struct.pack_into("<I", changed, 20, size)
    end = HEADER_BYTES + SLOT_BYTES * k + size
    return bytes(changed[:end].ljust(end, b"\0"))


def damaged_state(rng: Random, stored: bytes) -> bytes:
    """Most often one field of the header or of a slot, which random bytes would seldom meet."""
    if rng.random() < 0.1:
        return _with_text(stored, rng.choice((0, 1, 15, rng.randint(0, 40), rng.randint(0, 1000))))
    if rng.random() < 0.4:
        return damaged(rng, stored, _PIECES, within=rng.choice((0, HEADER_BYTES, HEADER_BYTES + 3 * SLOT_BYTES)))
    changed = bytearray(stored)
    (k,) = struct.unpack_from("<I", stored, 8)
    slot = HEADER_BYTES + SLOT_BYTES * rng.randrange(k)
    kind, at = rng.choice(
        [("<I", 8), ("<I", 12), ("<I", 16), ("<I", 20), ("<I", 24), ("<Q", 32), ("<Q", _LOWERED), ("<Q", _ITEMS)]
        + 2 * [("<Q", slot), ("<I", slot + 8), ("<H", slot + 12), ("<H", slot + 14)]
    )
    (value,) = struct.unpack_from(kind, changed, at)
    top = 2 ** (8 * struct.calcsize(kind))
    new = rng.choice(
        (0, 1, value + 1, value - 1, value + 16, 2 * value, 512, 513, top // 2, top - 1, rng.randrange(top))
    )
    struct.pack_into(kind, changed, at, new % top)
    return bytes(changed)
