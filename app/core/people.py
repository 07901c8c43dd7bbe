"""People behind the events: how they are told apart, and how much each may contribute.

A person is known by a fingerprint: a keyed BLAKE2b of the name that senders give, 96 bits, with a key that is in no
database, and another one for each scope (a sketch, or the sketches of a ledger). Without the key a stored fingerprint
neither gives back a name nor lets a guess be tested, and two scopes cannot be compared.

What is kept of a person's items depends on that person's items alone: the first ones, up to the allowance; of a set,
its first different keys. Neither depends on how items were cut into requests, nor on who else was in a request, and no
batch is refused because somebody in it goes beyond their allowance. So taking a person out of the data takes out what
was kept of them and changes nothing else. (Two people with equal fingerprints would share one allowance. Among ten
million that happens to a given person with probability 10^7 · 2^-96 < 10^-21.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, NamedTuple

from app.core.errors import MAX_REPORTED, BadBatch
from app.core.kernel import Batch, fingerprints

FINGERPRINT_BYTES = 12
KEY_BYTES = 32

Unit = Literal["event", "user"]
Enforcement = Literal["enforced", "declared"]


class Fingerprints:
    """Those of one scope."""

    def __init__(self, key: bytes, scope: str) -> None:
        self._key = blake2b(scope.encode(), key=key, digest_size=KEY_BYTES).digest()

    def of(self, names: Sequence[bytes]) -> bytes:
        """One after the other."""
        return fingerprints(names, self._key)

    @property
    def check(self) -> bytes:
        """Tells whether another key is the same, and nothing else: no name is empty."""
        return blake2b(key=self._key, digest_size=FINGERPRINT_BYTES).digest()


class People(NamedTuple):
    """Who sent the items of a batch: fingerprints, each once, and for each item which of them, as u32."""

    indexes: bytes
    fingerprints: bytes


@dataclass(frozen=True, slots=True)
class Rules:
    """Public parameters of a sketch that say what a batch for it must be, and under which key its people are known."""

    unit: Unit
    max_contributions: int
    scope: str = ""  # within which a person's items are added up; empty where the senders are trusted
    key_check: bytes = b""  # of the scope: `Fingerprints.check`

    @property
    def allowance(self) -> int:
        """How many items a person has in all: events, or one set of keys."""
        return self.max_contributions if self.unit == "event" else 1


def people_of(batch: Batch, prints: Fingerprints, rules: Rules, multipliers: bytes) -> People:
    """Who is named in the batch, which must name somebody in every item."""
    unnamed = batch.unnamed(MAX_REPORTED)
    if unnamed:
        detail = _NAME_EVENTS.format(rules.max_contributions) if rules.unit == "event" else _NAME_SETS
        raise BadBatch(f"Item {unnamed[0]}: {detail}", [(at, detail) for at in unnamed])
    names, indexes = batch.people(multipliers)
    return People(indexes, prints.of(names))


_NAME_EVENTS = 'name the user: {{"user": …, "key": …}}; this sketch counts at most {} events of each.'
_NAME_SETS = 'name the user: {"user": …, "keys": […]}; this sketch counts each once.'
