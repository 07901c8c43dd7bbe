"""A sketch as one versioned binary value, laid out so that compiled code works in it and a database rewrites little.

Version 2, little-endian. A header of 64 bytes: magic "DSCR", version u8, family u8, width of an entry in bytes u8, zero
u8, k u32, number of stored keys u32, sources u32, size of the text u32, used text u32, zero u32, offset u64, secret of
the eviction order (16 bytes), 8 zeros. Then the slots (entry, start of the key in the text u32, its length u16, the
room that it has u16), and the text: UTF-8 keys, each in a room of whole 16 bytes.

To be stored, the narrow form of a stream sketch is laid out by column (`by_column`; a 1 for the zero u8): header, lower
halves of the entries, text, upper halves, references. A batch changes most of the first and hardly any of the last, so
that a database which writes what changed writes a third less.

The counter of a slot is its entry minus the offset, so "decrement all" changes the header alone. A stream sketch has k
slots from the start, used or not, and a text that grows in steps: its size tells nothing about how many keys are stored
(only that some were longer than 16 bytes), and a database that replaces a value by one of the same size writes only the
pages that changed. Entries have 8 bytes; 16, with an offset of 0, where a counter needs it, so no stream is too long.
"""

import struct
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

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
_REFERENCE = [("start", "<u4"), ("length", "<u2"), ("room", "<u2")]
_SLOTS = {
    NARROW: np.dtype([("entry", "<u8"), *_REFERENCE]),
    WIDE: np.dtype([("entry", "<u8"), ("upper_half", "<u8"), *_REFERENCE]),
}
_STREAM = 1
_BY_SLOT, _BY_COLUMN = (_MAGIC + bytes([VERSION, _STREAM, NARROW, mark]) for mark in (0, 1))  # how headers begin
_FAMILIES: dict[type[Sketch], int] = {StreamSketch: _STREAM, CompactSketch: 2, SummedSketch: 3}


def encode(sketch: Sketch) -> bytes:
    keys = sorted(sketch.counters)
    width = NARROW if max(sketch.counters.values(), default=0) <= LARGEST_NARROW else WIDE
    texts = [key.encode() for key in keys]
    slots = np.zeros(len(keys), _SLOTS[width])
    slots["length"] = [len(text) for text in texts]
    slots["room"] = -(-slots["length"].astype(np.uint32) // ROOM) * ROOM
    slots["start"] = np.cumsum(slots["room"], dtype=np.uint64) - slots["room"]
    slots["entry"] = [sketch.counters[key] & _LOWER_HALF for key in keys]
    if width == WIDE:
        slots["upper_half"] = [sketch.counters[key] >> 64 for key in keys]
    used = int(slots["room"].sum(dtype=np.uint64))
    stream = isinstance(sketch, StreamSketch)
    unused = sketch.k - len(keys) if stream else 0
    size = max(used, sketch.k * ROOM) if stream else used
    header = _HEADER.pack(
        *(_MAGIC, VERSION, _FAMILIES[type(sketch)], width, 0, sketch.k, len(keys)),
        *(sketch.sources if isinstance(sketch, SummedSketch) else 1, size, used, 0, 0),
        *(sketch.order.secret if isinstance(sketch, StreamSketch) else bytes(SECRET_BYTES), 0),
    )
    rooms = (text.ljust(room, b"\0") for text, room in zip(texts, slots["room"].tolist(), strict=True))
    return b"".join((header, slots.tobytes(), bytes(unused * slots.itemsize), *rooms, bytes(size - used)))


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
    """The secret of a stream sketch that the kernel can work in; none of one in an older, wider or laid out form."""
    if len(state) < _HEADER.size:
        return None
    *_, secret, _end = _HEADER.unpack_from(state)
    return secret if state.startswith(_BY_SLOT) and any(secret) else None


def by_column(state: bytes) -> bytes:
    """The narrow form of a stream sketch as it is stored; anything else as it is."""
    if narrow_stream_secret(state) is None:
        return state
    text_at = _HEADER.size + _slots_size(state)
    columns = np.frombuffer(state[_HEADER.size : text_at], "<u4").reshape(-1, 4).T.tobytes()
    quarter = len(columns) // 4  # the lower halves of the entries
    header = _BY_COLUMN + state[len(_BY_SLOT) : _HEADER.size]
    return b"".join((header, columns[:quarter], state[text_at:], columns[quarter:]))


def by_slot(stored: bytes) -> bytes:
    """What `by_column` made of it, undone."""
    if not stored.startswith(_BY_COLUMN):
        return stored
    if len(stored) < _HEADER.size or len(stored) < _HEADER.size + _slots_size(stored):
        raise BadState("The bytes end early, or their lengths do not add up.")
    quarter = _slots_size(stored) // 4
    text_at, upper_at = _HEADER.size + quarter, len(stored) - 3 * quarter
    columns = np.frombuffer(stored[_HEADER.size : text_at] + stored[upper_at:], "<u4").reshape(4, -1)
    header = _BY_SLOT + stored[len(_BY_COLUMN) : _HEADER.size]
    return b"".join((header, columns.T.tobytes(), stored[text_at:upper_at]))


def _slots_size(state: bytes) -> int:
    k: int = _HEADER.unpack_from(state)[5]
    return k * _SLOTS[NARROW].itemsize


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
    text_at = _HEADER.size + slots * _SLOTS[width].itemsize
    if stored > slots or max(used, least) > size or len(state) != text_at + size:
        raise BadState("The bytes end early, or their lengths do not add up.")
    if (any(secret) and not stream) or (offset and not (stream and width == NARROW and stored == k)):
        raise BadState("Only a full stream sketch in the narrow form has an offset, and only stream sketches a secret.")
    read = np.frombuffer(state, _SLOTS[width], stored, _HEADER.size)
    entries = read["entry"].tolist()
    if width == WIDE:
        entries = [low + (high << 64) for low, high in zip(entries, read["upper_half"].tolist(), strict=True)]
    if min(entries, default=offset) < offset or (width == NARROW and max(entries, default=0) > LARGEST_NARROW):
        raise BadState("No stream leads to these counters.")
    keys = _keys(read, state[text_at : text_at + used])
    counters = dict(zip(keys, (entry - offset for entry in entries), strict=True))
    if len(counters) != stored:
        raise BadState("A key is stored twice.")
    return family, k, sources, counters, Order(secret)


def _keys(slots: NDArray[np.void], text: bytes) -> list[str]:
    start, length, room = (slots[name].astype(np.int64) for name in ("start", "length", "room"))
    if np.any((length < 1) | (length > np.minimum(room, MAX_KEY_BYTES)) | (start + room > len(text))):
        raise BadState("A key lies outside the text, or has no length that a key may have.")
    order = np.argsort(start)
    if np.any((start + room)[order][:-1] > start[order][1:]):
        raise BadState("Two keys overlap.")
    return [text[at:end].decode() for at, end in zip(start.tolist(), (start + length).tolist(), strict=True)]


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
