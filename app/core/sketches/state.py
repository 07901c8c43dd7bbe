"""A sketch as one compact, versioned binary value. The same sketch always gives the same bytes.

Version 1, little-endian: magic "DSCR", version u8, family u8, counter width in bytes u8, zero u8, k u32, number
of stored keys u32; then the counters, the key lengths (u16) and the UTF-8 keys, each in ascending key order.
The width grows with the largest counter, so no stream is too long to be stored.
"""

import struct
from itertools import pairwise

from app.core.errors import BadState
from app.core.sketches.stream import MAX_K, StreamSketch

VERSION = 1
_STREAM_FAMILY = 1
_HEADER = struct.Struct("<4sBBBBII")
_MAGIC = b"DSCR"
_SMALLEST_WIDTH = 8


def encode(sketch: StreamSketch) -> bytes:
    keys = sorted(sketch.counters)
    raw_keys = [key.encode() for key in keys]
    counters = [sketch.counters[key] for key in keys]
    width = _width(counters)
    return b"".join(
        (
            _HEADER.pack(_MAGIC, VERSION, _STREAM_FAMILY, width, 0, sketch.k, len(keys)),
            *(counter.to_bytes(width, "little") for counter in counters),
            struct.pack(f"<{len(keys)}H", *map(len, raw_keys)),
            *raw_keys,
        )
    )


def _width(counters: list[int]) -> int:
    return max(_SMALLEST_WIDTH, (max(counters, default=0).bit_length() + 7) // 8)


def decode(state: bytes) -> StreamSketch:
    try:
        return _decode(state)
    except (struct.error, ValueError) as error:
        raise BadState("The bytes end early, or their lengths do not add up.") from error


def _decode(state: bytes) -> StreamSketch:
    magic, version, family, width, zero, k, stored = _HEADER.unpack_from(state)
    if (magic, version, family, zero) != (_MAGIC, VERSION, _STREAM_FAMILY, 0):
        raise BadState(f"Expected a stream sketch in version {VERSION} of the format.")
    if not (1 <= k <= MAX_K and stored <= k):
        raise BadState("The number of counters is out of range.")
    at = _HEADER.size
    counters = [int.from_bytes(state[i : i + width], "little") for i in range(at, at + stored * width, width)]
    at += stored * width
    lengths = struct.unpack_from(f"<{stored}H", state, at)
    at += 2 * stored
    keys = []
    for length in lengths:
        keys.append(state[at : at + length].decode())
        at += length
    if at != len(state) or any(left >= right for left, right in pairwise(keys)):
        raise BadState("The keys are not in ascending order, or bytes are missing or left over.")
    if width != _width(counters) or (stored < k and 0 in counters):
        raise BadState("The counters are not written as this version writes them, or no stream leads to them.")
    return StreamSketch(k, dict(zip(keys, counters, strict=True)))
