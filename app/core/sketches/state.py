"""A sketch as one versioned binary value, laid out so that compiled code works in it and a database rewrites little.

Version 4, little-endian. A header of 80 bytes: magic "DSCR", version u8, family u8, width of an entry in bytes u8, zero
u8, k u32, number of stored keys u32, sources u32, size of the text u32, used text u32, zero u32, offset u64, secret of
the eviction order (16 bytes), two tallies u64, 8 zeros. Then the slots (entry, start of the key in the text u32, its
length u16, the room that it has u16), and the text: UTF-8 keys, each in a room of whole 16 bytes.

The tallies are, of a stream, `lowered` less the offset, and 0; of a compact sketch, `lowered` less the offset, and
`items`; of a sum, `reduction` and `events`. All ones stand for a number that is not known. One that is too large for
its field is stored as that.

To be stored, the narrow form of a stream or compact sketch is laid out by column (`by_column`; a 1 for the zero u8):
header, lower halves of the entries, text, upper halves, references. A batch changes most of the first and hardly any of
the last, so that a database which writes what changed writes a third less.

The counter of a slot is its entry minus the offset, so "decrement all" changes the header alone. A stream or compact
sketch has k slots from the start, used or not, and a text that grows in steps: its size tells nothing about how many
keys are stored (only that some were longer than 16 bytes), and a database that replaces a value by one of the same size
writes only the pages that changed. A stream sketch uses its first slots; in a compact sketch, which forgets keys, a
slot whose key has no length is free. Entries have 8 bytes; 16, with an offset of 0, where a counter needs it, so no
stream is too long. Sums have no more slots and text than they use. Earlier versions are still read (`old_state`).
"""

import struct

import numpy as np
from numpy.typing import NDArray

from app.core.errors import BadState
from app.core.sketches import old_state
from app.core.sketches.compact import CompactSketch
from app.core.sketches.order import MAX_KEY_BYTES, SECRET_BYTES, Order
from app.core.sketches.stream import MAX_K, StreamSketch
from app.core.sketches.summed import SummedSketch

Sketch = StreamSketch | CompactSketch | SummedSketch
Tallies = tuple[int | None, int | None]  # None where it is not known

ROOM = 16  # a key's room is a multiple of this
NARROW, WIDE = 8, 16
_LOWER_HALF = 2**64 - 1
LARGEST_NARROW = 2**62  # so that what a batch adds still fits into 63 bits

_MAGIC = b"DSCR"
_HEADER = struct.Struct(f"<4sBBBBIIIIIIQ{SECRET_BYTES}sQQQ")
_REFERENCE = [("start", "<u4"), ("length", "<u2"), ("room", "<u2")]
_SLOTS = {
    NARROW: np.dtype([("entry", "<u8"), *_REFERENCE]),
    WIDE: np.dtype([("entry", "<u8"), ("upper_half", "<u8"), *_REFERENCE]),
}
_STREAM, _COMPACT, _SUMMED = 1, 2, 3
_FAMILIES: dict[type[Sketch], int] = {StreamSketch: _STREAM, CompactSketch: _COMPACT, SummedSketch: _SUMMED}
_VERSION = 4  # that is written
_UNKNOWN = 2**64 - 1  # a tally
_MARK = 7  # where the header says how the slots are laid out
_BY_SLOT, _BY_COLUMN = b"\0", b"\1"
_NARROW_STREAM, _NARROW_COMPACT = (_MAGIC + bytes([_VERSION, family, NARROW]) for family in (_STREAM, _COMPACT))


def encode(sketch: Sketch) -> bytes:
    """The sketch as bytes, slot by slot, in the newest version. The same sketch always gives the same bytes."""
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
    family = _FAMILIES[type(sketch)]
    unused = 0 if family == _SUMMED else sketch.k - len(keys)
    size = used if family == _SUMMED else max(used, sketch.k * ROOM)
    header = _HEADER.pack(
        *(_MAGIC, _VERSION, family, width, 0, sketch.k, len(keys)),
        *(sketch.sources if isinstance(sketch, SummedSketch) else 1, size, used, 0, 0),
        *(sketch.order.secret if isinstance(sketch, StreamSketch) else bytes(SECRET_BYTES), *_tallies(sketch), 0),
    )
    rooms = (text.ljust(room, b"\0") for text, room in zip(texts, slots["room"].tolist(), strict=True))
    return b"".join((header, slots.tobytes(), bytes(unused * slots.itemsize), *rooms, bytes(size - used)))


def _tallies(sketch: Sketch) -> list[int]:
    tallies: Tallies
    match sketch:
        case StreamSketch():
            tallies = sketch.lowered, 0
        case CompactSketch():
            tallies = sketch.lowered, sketch.items
        case SummedSketch():
            tallies = sketch.reduction, sketch.events
    return [_UNKNOWN if tally is None else min(tally, _UNKNOWN) for tally in tallies]


def decode(state: bytes) -> Sketch:
    """The sketch that these bytes are, in any version; BadState where they are none."""
    try:
        return _decode(old_state.upgraded(state))
    except (struct.error, ValueError) as error:
        raise BadState("The bytes end early, or their lengths do not add up.") from error


def family(state: bytes) -> type[Sketch]:
    """The type of sketch that the bytes say they are, in any version, without reading the rest."""
    for kind, number in _FAMILIES.items():
        if state[:4] == _MAGIC and state[5:6] == bytes([number]):
            return kind
    raise BadState("There is no such family of sketches.")


def narrow_stream_secret(state: bytes) -> bytes | None:
    """The secret of a stream sketch, if the kernel can work in these bytes; else None.

    It cannot in an older or wider form, in one that is laid out by column, and in a sketch of the plain order.
    """
    if len(state) < _HEADER.size:
        return None
    *_, secret, _first, _second, _end = _HEADER.unpack_from(state)
    return secret if state.startswith(_NARROW_STREAM + _BY_SLOT) and any(secret) else None


def is_narrow_compact(state: bytes) -> bool:
    """Whether this is a compact sketch that the kernel can work in.

    It cannot in an older or wider form, and in one that is laid out by column.
    """
    return len(state) >= _HEADER.size and state.startswith(_NARROW_COMPACT + _BY_SLOT)


def by_column(state: bytes) -> bytes:
    """A state that the kernel can work in, laid out by column as it is stored; any other state unchanged."""
    if narrow_stream_secret(state) is None and not is_narrow_compact(state):
        return state
    text_at = _HEADER.size + _slots_size(state)
    columns = np.frombuffer(state[_HEADER.size : text_at], "<u4").reshape(-1, 4).T.tobytes()
    quarter = len(columns) // 4  # the lower halves of the entries
    return b"".join((_marked(state, _BY_COLUMN), columns[:quarter], state[text_at:], columns[quarter:]))


def by_slot(stored: bytes) -> bytes:
    """The state that `by_column` laid out; any other state unchanged. Those of version 2 and 3 become version 4."""
    stored = old_state.upgraded(stored)
    if not stored.startswith((_NARROW_STREAM + _BY_COLUMN, _NARROW_COMPACT + _BY_COLUMN)):
        return stored
    if len(stored) < _HEADER.size or len(stored) < _HEADER.size + _slots_size(stored):
        raise BadState("The bytes end early, or their lengths do not add up.")
    quarter = _slots_size(stored) // 4
    text_at, upper_at = _HEADER.size + quarter, len(stored) - 3 * quarter
    columns = np.frombuffer(stored[_HEADER.size : text_at] + stored[upper_at:], "<u4").reshape(4, -1)
    return b"".join((_marked(stored, _BY_SLOT), columns.T.tobytes(), stored[text_at:upper_at]))


def _marked(state: bytes, layout: bytes) -> bytes:
    """The header with another layout."""
    return state[:_MARK] + layout + state[_MARK + 1 : _HEADER.size]


def _slots_size(state: bytes) -> int:
    k: int = _HEADER.unpack_from(state)[5]
    return k * _SLOTS[NARROW].itemsize


def _decode(state: bytes) -> Sketch:
    if state[:5] == _MAGIC + bytes([old_state.VERSION]):
        family, k, sources, counters = old_state.read(state)
        lowered = 0 if old_state.has_lowered_nothing(family, k, len(counters)) else None
        return _sketch(family, k, sources, counters, Order(), (lowered, None))
    return _sketch(*_read(state))


def _read(state: bytes) -> tuple[int, int, int, dict[str, int], Order, Tallies]:
    magic, version, family, width, zero, k, stored, sources, size, used, zeros, offset, secret, *tallies, end = (
        _HEADER.unpack_from(state)
    )
    if (magic, version, zero, zeros, end) != (_MAGIC, _VERSION, 0, 0, 0):
        raise BadState("Expected a sketch in a version of the format that this program knows.")
    if width not in _SLOTS:
        raise BadState("An entry has 8 or 16 bytes.")
    slots, least = (stored, 0) if family == _SUMMED else (k, k * ROOM)
    text_at = _HEADER.size + slots * _SLOTS[width].itemsize
    if stored > slots or max(used, least) > size or len(state) != text_at + size:
        raise BadState("The bytes end early, or their lengths do not add up.")
    if any(secret) if family != _STREAM else tallies[1]:
        raise BadState("Only a stream sketch has a secret, and it has no second tally.")
    if offset and (width != NARROW or family == _SUMMED or (family == _STREAM and stored < k)):
        raise BadState("Only the narrow form of a full stream sketch, or of a compact one, has an offset.")
    read = np.frombuffer(state, _SLOTS[width], slots, _HEADER.size)
    read = read if family == _COMPACT else read[:stored]
    _check_rooms(read, used)
    read = read[read["length"] > 0] if family == _COMPACT else read
    keys = _keys(read, state[text_at : text_at + used])
    counters = dict(zip(keys, _counters(read, width, offset), strict=True))
    if len(counters) != stored:
        raise BadState("A key is stored twice, or there are not as many as the header says.")
    return family, k, sources, counters, Order(secret), (_known(tallies[0] + offset), _known(tallies[1]))


def _known(tally: int) -> int | None:
    return tally if tally < _UNKNOWN else None


def _counters(slots: NDArray[np.void], width: int, offset: int) -> list[int]:
    entries: list[int] = slots["entry"].tolist()
    if width == WIDE:
        entries = [low + (high << 64) for low, high in zip(entries, slots["upper_half"].tolist(), strict=True)]
    if min(entries, default=offset) < offset or (width == NARROW and max(entries, default=offset) > LARGEST_NARROW):
        raise BadState("No stream leads to these counters.")
    return [entry - offset for entry in entries]


def _check_rooms(slots: NDArray[np.void], used: int) -> None:
    """No room overlaps another or the end of the text. Free slots count too: the next keys are written there."""
    start = slots["start"].astype(np.int64)
    end = start + slots["room"]
    if np.any(end > used):
        raise BadState("A key lies outside the text.")
    start, end = start[end > start], end[end > start]
    order = np.argsort(start)
    if np.any(end[order][:-1] > start[order][1:]):
        raise BadState("Two keys overlap.")


def _keys(slots: NDArray[np.void], text: bytes) -> list[str]:
    start, length, room = (slots[name].astype(np.int64) for name in ("start", "length", "room"))
    if np.any((length < 1) | (length > np.minimum(room, MAX_KEY_BYTES))):
        raise BadState("A key has no length that a key may have.")
    return [text[at:end].decode() for at, end in zip(start.tolist(), (start + length).tolist(), strict=True)]


def _sketch(family: int, k: int, sources: int, counters: dict[str, int], order: Order, tallies: Tallies) -> Sketch:
    if not 1 <= k <= MAX_K or sources < 1 or (sources > 1 and family != _SUMMED):
        raise BadState("The number of counters or of sources is out of range.")
    if family == _STREAM:
        return _checked(StreamSketch(k, counters, order, tallies[0]))
    if family == _COMPACT:
        return _checked(CompactSketch(k, counters, *tallies))
    if family == _SUMMED:
        return _checked(SummedSketch(k, sources, counters, *tallies))
    raise BadState("There is no such family of sketches.")


def _checked(sketch: Sketch) -> Sketch:
    """The sketch, if a stream can lead to it: not one with more keys than slots, or a zero beside an empty slot, or one
    that lowered its counters while a slot was empty."""
    most = sketch.most_keys if isinstance(sketch, SummedSketch) else sketch.k
    zeros = isinstance(sketch, StreamSketch) and len(sketch.counters) == sketch.k
    if len(sketch.counters) > most or (0 in sketch.counters.values() and not zeros):
        raise BadState("No stream leads to these counters.")
    if isinstance(sketch, StreamSketch) and sketch.lowered and not zeros:
        raise BadState("No stream leads to these counters.")
    return sketch
