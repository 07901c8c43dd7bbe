"""Version 1 of the stored form of a sketch, which is read and no longer written.

Little-endian: magic "DSCR", version u8, family u8, counter width in bytes u8, zero u8, k u32, number of stored keys
u32; for a summed sketch the number of its sources u32; then the counters, the key lengths (u16) and the UTF-8 keys,
each in ascending key order. Stream sketches of that time evict in the plain order of keys.
"""

import struct
from itertools import pairwise

from app.core.errors import BadState

VERSION = 1
_HEADER = struct.Struct("<4sBBBBII")
_SOURCES = struct.Struct("<I")
_SMALLEST_WIDTH = 8
_SUMMED = 3


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
