"""The order in which a stream sketch evicts its zero counters: by a keyed hash, equal hashes by their bytes.

`lem:nb-cases` allows any total order on keys that does not depend on the stream. The hash is keyed by a secret of the
sketch that no client knows, so nobody can choose keys that are evicted late, or that meet in the kernel's hash table.

The hash of a key is Σ aᵢ·mᵢ mod 2^128, its upper 64 bits, mixed. The mᵢ are the length of the key and its bytes as
words of 64 bits (little-endian, the last one filled up with zeros), the aᵢ 128-bit multipliers made from the secret.
For random multipliers two different keys collide with probability at most 2^-64 (Lemire & Kaser, "Strongly universal
string hashing is fast", multilinear). Mixing is a bijection: it changes no collision, and breaks up runs of keys that
differ by a step.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import shake_128
from operator import mul

SECRET_BYTES = 16
MAX_KEY_BYTES = 512
MULTIPLIERS = 1 + MAX_KEY_BYTES // 8  # one for the length, one for each word
MULTIPLIER_BYTES = 16

_64_BITS = 2**64 - 1
_WORDS = [struct.Struct(f"<{words}Q") for words in range(MULTIPLIERS)]


@dataclass(frozen=True, slots=True)
class Order:
    """One total order on keys. The secret of zeros stands for the order of the bytes: every hash is 0."""

    secret: bytes = field(default=bytes(SECRET_BYTES), repr=False)

    def hash_of(self, key: str) -> int:
        """The hash. Of two keys the one with the smaller hash, and of equal hashes the smaller key, comes first."""
        data = key.encode()
        whole = -(-len(data) // 8)
        words = _WORDS[whole].unpack(data.ljust(8 * whole, b"\0"))
        for_length, for_words = _multipliers(self.secret)
        total = for_length * len(data) + sum(map(mul, for_words, words))
        # Mixed by the finaliser of MurmurHash3, a bijection of 64 bits
        mixed: int = (total >> 64) & _64_BITS
        mixed = ((mixed ^ (mixed >> 33)) * 0xFF51AFD7ED558CCD) & _64_BITS
        mixed = ((mixed ^ (mixed >> 33)) * 0xC4CEB9FE1A85EC53) & _64_BITS
        return mixed ^ (mixed >> 33)


@lru_cache(maxsize=256)
def multipliers(secret: bytes) -> bytes:
    """The multipliers as little-endian numbers of 16 bytes: for the length, then for each word."""
    if not any(secret):
        return bytes(MULTIPLIERS * MULTIPLIER_BYTES)
    return shake_128(b"discreet: eviction order\0" + secret).digest(MULTIPLIERS * MULTIPLIER_BYTES)


@lru_cache(maxsize=256)
def _multipliers(secret: bytes) -> tuple[int, Sequence[int]]:
    raw = multipliers(secret)
    first, *others = (
        int.from_bytes(raw[at : at + MULTIPLIER_BYTES], "little") for at in range(0, len(raw), MULTIPLIER_BYTES)
    )
    return first, others


BY_BYTES = Order()
