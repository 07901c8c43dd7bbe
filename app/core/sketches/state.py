"""A sketch as one compact, versioned binary value. The same sketch always gives the same bytes.

Version 1, little-endian: magic "DSCR", version u8, family u8, counter width in bytes u8, zero u8, k u32, number of
stored keys u32; for a summed sketch the number of its sources u32; then the counters, the key lengths (u16) and the
UTF-8 keys, each in ascending key order. The width grows with the largest counter, so no stream is too long to store.
"""

import struct
from itertools import pairwise
from typing import TypeVar

from app.core.errors import BadState
from app.core.sketches.compact import CompactSketch
from app.core.sketches.stream import MAX_K, StreamSketch
from app.core.sketches.summed import SummedSketch

Sketch = StreamSketch | CompactSketch | SummedSketch
Family = TypeVar("Family", StreamSketch, CompactSketch, SummedSketch)

VERSION = 1
_MAGIC = b"DSCR"
_HEADER = struct.Struct("<4sBBBBII")
_SOURCES = struct.Struct("<I")
_SMALLEST_WIDTH = 8
_FAMILIES: dict[type[Sketch], int] = {StreamSketch: 1, CompactSketch: 2, SummedSketch: 3}


def encode(sketch: Sketch) -> bytes:
    keys = sorted(sketch.counters)
    raw_keys = [key.encode() for key in keys]
    counters = [sketch.counters[key] for key in keys]
    width = _width(counters)
    return b"".join(
        (
            _HEADER.pack(_MAGIC, VERSION, _FAMILIES[type(sketch)], width, 0, sketch.k, len(keys)),
            _SOURCES.pack(sketch.sources) if isinstance(sketch, SummedSketch) else b"",
            *(counter.to_bytes(width, "little") for counter in counters),
            struct.pack(f"<{len(keys)}H", *map(len, raw_keys)),
            *raw_keys,
        )
    )


def _width(counters: list[int]) -> int:
    return max(_SMALLEST_WIDTH, (max(counters, default=0).bit_length() + 7) // 8)


def decode(state: bytes) -> Sketch:
    try:
        return _decode(state)
    except (struct.error, ValueError) as error:
        raise BadState("The bytes end early, or their lengths do not add up.") from error


def decode_as(family: type[Family], state: bytes) -> Family:
    """The sketch, which must be of the given family."""
    sketch = decode(state)
    if not isinstance(sketch, family):
        raise BadState(f"Expected a {family.__name__}.")
    return sketch


def _decode(state: bytes) -> Sketch:
    magic, version, family, width, zero, k, stored = _HEADER.unpack_from(state)
    if (magic, version, zero) != (_MAGIC, VERSION, 0) or family not in _FAMILIES.values():
        raise BadState(f"Expected a sketch in version {VERSION} of the format.")
    if not 1 <= k <= MAX_K:
        raise BadState("The number of counters is out of range.")
    at = _HEADER.size
    if family == _FAMILIES[SummedSketch]:
        (sources,) = _SOURCES.unpack_from(state, at)
        return _checked(SummedSketch(k, sources, _counters(state, at + _SOURCES.size, stored, width)))
    counters = _counters(state, at, stored, width)
    return _checked(StreamSketch(k, counters) if family == _FAMILIES[StreamSketch] else CompactSketch(k, counters))


def _counters(state: bytes, at: int, stored: int, width: int) -> dict[str, int]:
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
    if width != _width(counters):
        raise BadState("The counters are not as wide as this version writes them.")
    return dict(zip(keys, counters, strict=True))


def _checked(sketch: Sketch) -> Sketch:
    """No stream leads to a sketch with more keys than slots, or with a zero counter where a slot is empty."""
    most = sketch.most_keys if isinstance(sketch, SummedSketch) else sketch.k
    zeros = isinstance(sketch, StreamSketch) and len(sketch.counters) == sketch.k
    if len(sketch.counters) > most or (0 in sketch.counters.values() and not zeros):
        raise BadState("No stream leads to these counters.")
    return sketch
