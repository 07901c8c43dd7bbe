"""Valid bytes made slightly wrong."""

from collections.abc import Sequence
from random import Random

_EDGES = (0x00, 0x01, 0x08, 0x09, 0x0A, 0x0D, 0x10, 0x1F, 0x20, 0x22, 0x2C, 0x5C, 0x7F, 0x80, 0xC3, 0xED, 0xFF)


def damaged(rng: Random, data: bytes, pieces: Sequence[bytes], within: int = 0) -> bytes:
    """A few bytes flipped, set, put in, taken out or repeated, in the first `within` bytes if that is given."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        end = min(len(changed), within) if within else len(changed)
        at = rng.randrange(end) if end else 0
        length = rng.choice((1, 1, 1, 2, 8, rng.randint(1, 40)))
        match rng.randrange(7):
            case 0 if changed:
                changed[at] ^= 1 << rng.randrange(8)
            case 1 if changed:
                changed[at] = rng.choice(_EDGES)
            case 2:
                changed[at:at] = rng.choice(pieces)
            case 3:
                changed[at : at + length] = b""
            case 4:
                changed[at:at] = changed[at : at + length]
            case 5:
                changed[at : at + length] = rng.choice(pieces)
            case _:
                changed = changed[:at] if rng.random() < 0.3 else changed
    return bytes(changed)
