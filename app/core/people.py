"""People behind the events: how they are told apart, and how much each may contribute.

A person is known by a fingerprint: a keyed BLAKE2b of the name that senders give, 96 bits. Its key is derived from the
user key, which is in no database, and differs for each register (of a sketch, or of all the sketches of a ledger).
Without the key a stored fingerprint neither gives back a name nor lets a guess be tested, and two registers cannot be
compared.

What is kept of a person's items depends on that person's items alone: the first ones, up to the allowance; of a set,
its first different keys. Neither depends on how items were cut into requests, nor on who else was in a request, and no
batch is refused because somebody in it goes beyond their allowance. So taking a person out of the data takes out what
was kept of them and changes nothing else. (Two people with equal fingerprints would share one allowance. Among ten
million that happens to a given person with probability 10^7 · 2^-96 < 10^-21.)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal, NamedTuple

from app.core.errors import MAX_REPORTED, BadBatch
from app.core.kernel import Batch, fingerprints, table_multipliers

FINGERPRINT_BYTES = 12
KEY_BYTES = 32

Unit = Literal["event", "user"]
Enforcement = Literal["enforced", "declared"]


class Fingerprints:
    """How the names of one register become fingerprints."""

    def __init__(self, user_key: bytes, register: str) -> None:
        self._key = blake2b(register.encode(), key=user_key, digest_size=KEY_BYTES).digest()

    def of(self, names: Sequence[bytes]) -> bytes:
        """The fingerprints of these names, one after the other."""
        return fingerprints(names, self._key)

    @property
    def check(self) -> bytes:
        """Tells whether another user key is the same, and nothing else: no name is empty."""
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
    register: str = ""  # within which a person's items are added up; empty where the senders are trusted
    key_check: bytes = b""  # of the register: `Fingerprints.check`
    fingerprints: Fingerprints | None = field(default=None, compare=False, repr=False)  # to name people, where known

    @property
    def allowance(self) -> int:
        """How many items a person has in all: events, or one set of event keys."""
        return self.max_contributions if self.unit == "event" else 1

    def people_in(self, batch: Batch) -> People | None:
        """Who is behind the items; None where senders are trusted. A batch that leaves somebody unnamed is refused."""
        if self.fingerprints is None:
            return None
        unnamed = batch.unnamed(MAX_REPORTED)
        if unnamed:
            detail = _NAME_EVENTS.format(self.max_contributions) if self.unit == "event" else _NAME_SETS
            raise BadBatch(f"Item {unnamed[0]}: {detail}", [(at, detail) for at in unnamed])
        names, indexes = batch.people(table_multipliers())
        return People(indexes, self.fingerprints.of(names))


_NAME_EVENTS = 'name the user: {{"user": …, "key": …}}; this sketch counts at most {} events of each.'
_NAME_SETS = 'name the user: {"user": …, "keys": […]}; this sketch counts each once.'
