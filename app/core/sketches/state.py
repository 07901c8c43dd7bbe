"""A sketch as one versioned binary value, laid out so that compiled code works in it and a database rewrites little.

Version 2, little-endian. A header of 64 bytes: magic "DSCR", version u8, family u8, width of an entry in bytes u8, zero
u8, k u32, number of stored keys u32, sources u32, size of the text u32, used text u32, zero u32, offset u64, secret of
the eviction order (16 bytes), 8 zeros. Then the slots (entry, start of the key in the text u32, its length u16, the
room that it has u16), and the text: UTF-8 keys, each in a room of whole 16 bytes.

The counter of a slot is its entry minus the offset, so "decrement all" changes the header alone. A stream sketch has k
slots from the start, used or not, and a text that grows in steps: its size tells nothing about how many keys are stored
(only that some were longer than 16 bytes), and a database that replaces a value by one of the same size writes only the
pages that changed. Entries have 8 bytes; 16, with an offset of 0, where a counter needs it, so no stream is too long.
"""

import struct
from itertools import pairwise
from typing import TypeVar

from app.core.errors import BadState
from app.core.sketches import old_state
from app.core.sketches.compact import CompactSketch
from app.core.sketches.order import MAX_KEY_BYTES, SECRET_BYTES, Order
from app.core.sketches.stream import MAX_K, StreamSketch
from app.core.sketches.summed import SummedSketch

Sketch = StreamSketch | CompactSketch | SummedSketch
Family = TypeVar("Family", StreamSketch, CompactSketch, SummedSketch)

VERSION = 2
ROOM = 16  # a key's room is a multiple of this
NARROW, WIDE = 8, 16
_LOWER_HALF = 2**64 - 1
LARGEST_NARROW = 2**62  # so that what a batch adds still fits into 63 bits

_MAGIC = b"DSCR"
_HEADER = struct.Struct(f"<4sBBBBIIIIIIQ{SECRET_BYTES}sQ")
_SLOTS = {NARROW: struct.Struct("<QIHH"), WIDE: struct.Struct("<QQIHH")}
_STREAM = 1
_FAMILIES: dict[type[Sketch], int] = {StreamSketch: _STREAM, CompactSketch: 2, SummedSketch: 3}


def encode(sketch: Sketch) -> bytes:
    keys = sorted(sketch.counters)
    width = NARROW if max(sketch.counters.values(), default=0) <= LARGEST_NARROW else WIDE
    slots, rooms, used = [], [], 0
    for key in keys:
        text = key.encode()
        room = -(-len(text) // ROOM) * ROOM
        slots.append(_slot(width, sketch.counters[key], used, len(text), room))
        rooms.append(text.ljust(room, b"\0"))
        used += room
    stream = isinstance(sketch, StreamSketch)
    unused = sketch.k - len(keys) if stream else 0
    size = max(used, sketch.k * ROOM) if stream else used
    header = _HEADER.pack(
        *(_MAGIC, VERSION, _FAMILIES[type(sketch)], width, 0, sketch.k, len(keys)),
        *(sketch.sources if isinstance(sketch, SummedSketch) else 1, size, used, 0, 0),
        *(sketch.order.secret if isinstance(sketch, StreamSketch) else bytes(SECRET_BYTES), 0),
    )
    return b"".join((header, *slots, bytes(unused * _SLOTS[width].size), *rooms, bytes(size - used)))


def _slot(width: int, counter: int, start: int, length: int, room: int) -> bytes:
    entry = (counter,) if width == NARROW else (counter & _LOWER_HALF, counter >> 64)
    return _SLOTS[width].pack(*entry, start, length, room)


def decode(state: bytes) -> Sketch:
    try:
        return _decode(state)
    except (struct.error, ValueError) as error:
        raise BadState("The bytes end early, or their lengths do not add up.") from error


def family(state: bytes) -> type[Sketch]:
    """What the bytes say they are, in any version."""
    for kind, number in _FAMILIES.items():
        if state[:4] == _MAGIC and state[5:6] == bytes([number]):
            return kind
    raise BadState("There is no such family of sketches.")


def narrow_stream_secret(state: bytes) -> bytes | None:
    """The secret of a stream sketch that the kernel can work in; none of one in an older or wider form."""
    if len(state) < _HEADER.size:
        return None
    magic, version, family, width, *_, secret, _end = _HEADER.unpack_from(state)
    return secret if (magic, version, family, width) == (_MAGIC, VERSION, _STREAM, NARROW) and any(secret) else None


def decode_as(family: type[Family], state: bytes) -> Family:
    """The sketch, which must be of the given family."""
    sketch = decode(state)
    if not isinstance(sketch, family):
        raise BadState(f"Expected a {family.__name__}.")
    return sketch


def _decode(state: bytes) -> Sketch:
    if state[:5] == _MAGIC + bytes([old_state.VERSION]):
        family, k, sources, counters = old_state.read(state)
        return _sketch(family, k, sources, counters, Order())
    family, k, sources, counters, order = _read(state)
    return _sketch(family, k, sources, counters, order)


def _read(state: bytes) -> tuple[int, int, int, dict[str, int], Order]:
    magic, version, family, width, zero, k, stored, sources, size, used, zeros, offset, secret, end = (
        _HEADER.unpack_from(state)
    )
    if (magic, version, zero, zeros, end) != (_MAGIC, VERSION, 0, 0, 0):
        raise BadState(f"Expected a sketch in version {VERSION} of the format.")
    if width not in _SLOTS:
        raise BadState("An entry has 8 or 16 bytes.")
    stream = family == _STREAM
    slots, least = (k, k * ROOM) if stream else (stored, 0)
    text_at = _HEADER.size + slots * _SLOTS[width].size
    if stored > slots or max(used, least) > size or len(state) != text_at + size:
        raise BadState("The bytes end early, or their lengths do not add up.")
    if (any(secret) and not stream) or (offset and not (stream and width == NARROW and stored == k)):
        raise BadState("Only a full stream sketch in the narrow form has an offset, and only stream sketches a secret.")
    entries, references = _slots(state, stored, width)
    if min(entries, default=offset) < offset or (width == NARROW and max(entries, default=0) > LARGEST_NARROW):
        raise BadState("No stream leads to these counters.")
    keys = _keys(references, state[text_at : text_at + used])
    counters = dict(zip(keys, (entry - offset for entry in entries), strict=True))
    if len(counters) != stored:
        raise BadState("A key is stored twice.")
    return family, k, sources, counters, Order(secret)


def _slots(state: bytes, stored: int, width: int) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Entries, and where their keys are: start, length, room."""
    form = _SLOTS[width]
    slots = form.iter_unpack(state[_HEADER.size : _HEADER.size + stored * form.size])
    if width == NARROW:
        split = [(entry, reference) for entry, *reference in slots]
    else:
        split = [(low + (high << 64), reference) for low, high, *reference in slots]
    return [entry for entry, _ in split], [(start, length, room) for _, (start, length, room) in split]


def _keys(references: list[tuple[int, int, int]], text: bytes) -> list[str]:
    if any(
        not 1 <= length <= min(room, MAX_KEY_BYTES) or start + room > len(text) for start, length, room in references
    ):
        raise BadState("A key lies outside the text, or has no length that a key may have.")
    rooms = sorted((start, start + room) for start, _length, room in references)
    if any(end > start for (_, end), (start, _) in pairwise(rooms)):
        raise BadState("Two keys overlap.")
    return [text[start : start + length].decode() for start, length, _room in references]


def _sketch(family: int, k: int, sources: int, counters: dict[str, int], order: Order) -> Sketch:
    if not 1 <= k <= MAX_K or sources < 1 or (sources > 1 and family != _FAMILIES[SummedSketch]):
        raise BadState("The number of counters or of sources is out of range.")
    match family:
        case 1:
            return _checked(StreamSketch(k, counters, order))
        case 2:
            return _checked(CompactSketch(k, counters))
        case 3:
            return _checked(SummedSketch(k, sources, counters))
    raise BadState("There is no such family of sketches.")


def _checked(sketch: Sketch) -> Sketch:
    """No stream leads to a sketch with more keys than slots, or with a zero counter where a slot is empty."""
    most = sketch.most_keys if isinstance(sketch, SummedSketch) else sketch.k
    zeros = isinstance(sketch, StreamSketch) and len(sketch.counters) == sketch.k
    if len(sketch.counters) > most or (0 in sketch.counters.values() and not zeros):
        raise BadState("No stream leads to these counters.")
    return sketch
