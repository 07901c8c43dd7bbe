"""Earlier versions of the stored form of a sketch, which are read and no longer written.

Version 1, little-endian: magic "DSCR", version u8, family u8, counter width in bytes u8, zero u8, k u32, number of
stored keys u32; for a summed sketch the number of its sources u32; then the counters, the key lengths (u16) and the
UTF-8 keys, each in ascending key order. Stream sketches of that time evict in the plain order of keys.

Versions 2, and 3 of compact sketches, are version 4 without the two tallies in the header. In version 2 a compact
sketch had no more slots and text than it used.
"""

import struct
from itertools import pairwise

from app.core.errors import BadState
from app.core.sketches.stream import MAX_K

VERSION = 1
_HEADER = struct.Struct("<4sBBBBII")
_SOURCES = struct.Struct("<I")
_SMALLEST_WIDTH = 8
_STREAM, _COMPACT, _SUMMED = 1, 2, 3

_UPGRADED_VERSION = 4
_WITHOUT_TALLIES = struct.Struct("<4sBBBBIIIIIIQ16sQ")  # the header of versions 2 and 3
_TALLIES = struct.Struct("<QQ")
_TALLIES_AT = 56
_UNKNOWN = 2**64 - 1
_ROOM = 16
_PACKED = b"DSCR\2\2"


def read(state: bytes) -> tuple[int, int, int, dict[str, int]]:
    """Family, k, sources and counters of bytes that begin with the magic and this version."""
    _magic, _version, family, width, zero, k, stored = _HEADER.unpack_from(state)
    if zero:
        raise BadState("A byte that must be zero is not.")
    if family != _SUMMED:
        return family, k, 1, _counters(state, _HEADER.size, stored, width)
    (sources,) = _SOURCES.unpack_from(state, _HEADER.size)
    return family, k, sources, _counters(state, _HEADER.size + _SOURCES.size, stored, width)


def _counters(state: bytes, at: int, stored: int, width: int) -> dict[str, int]:
    if stored * (width + 2) > len(state):
        raise BadState("The bytes end early.")
    counters = [int.from_bytes(state[i : i + width], "little") for i in range(at, at + stored * width, width or 1)]
    at += stored * width
    lengths = struct.unpack_from(f"<{stored}H", state, at)
    at += 2 * stored
    keys = []
    for length in lengths:
        keys.append(state[at : at + length].decode())
        at += length
    if at != len(state) or any(left >= right for left, right in pairwise(keys)):
        raise BadState("The keys are not in ascending order, or bytes are missing or left over.")
    if width != max(_SMALLEST_WIDTH, (max(counters, default=0).bit_length() + 7) // 8):
        raise BadState("The counters are not as wide as that version wrote them.")
    return dict(zip(keys, counters, strict=True))


def upgraded(state: bytes) -> bytes:
    """Bytes of version 2 or 3 as they are in version 4; any others unchanged, to be refused by whoever reads them.

    What was not stored then is unknown now.
    """
    if len(state) < _WITHOUT_TALLIES.size or not state.startswith((b"DSCR\2\1", _PACKED, b"DSCR\3\2", b"DSCR\2\3")):
        return state
    whole = _with_all_slots(state) if state.startswith(_PACKED) else state
    if whole is None:
        return state
    _magic, _version, family, _width, _mark, k, stored, *_ = _WITHOUT_TALLIES.unpack_from(state)
    lowered = 0 if has_lowered_nothing(family, k, stored) else _UNKNOWN
    tallies = _TALLIES.pack(lowered, 0 if family == _STREAM else _UNKNOWN)
    return whole[:4] + bytes([_UPGRADED_VERSION]) + whole[5:_TALLIES_AT] + tallies + whole[_TALLIES_AT:]


def has_lowered_nothing(family: int, k: int, stored: int) -> bool:
    """Whether it is certain that counters were never lowered: a stream lowers none while a slot is empty."""
    return family == _STREAM and stored < k


def _with_all_slots(state: bytes) -> bytes | None:
    """A compact sketch of version 2 with a slot, and room in the text, for each of its k keys; None where its lengths
    do not add up."""
    _magic, _version, _family, width, mark, k, stored, _sources, size, used, _zeros, offset, *_ = (
        _WITHOUT_TALLIES.unpack_from(state)
    )
    text_at = _WITHOUT_TALLIES.size + stored * (width + 8)
    if width not in (8, 16) or mark or offset or not stored <= k <= MAX_K or used > size:
        return None
    if len(state) != text_at + size:
        return None
    grown = max(size, k * _ROOM)
    head = state[:20] + struct.pack("<I", grown) + state[24:text_at]
    return head + bytes((k - stored) * (width + 8)) + state[text_at:].ljust(grown, b"\0")
