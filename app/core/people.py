"""People behind the events: how they are told apart, and how much each may contribute.

A person is known by a fingerprint: a keyed BLAKE2b of the name that senders give, 96 bits, with a key that is in no
database, and another one for each scope (a sketch, or the sketches of a ledger). Without the key a stored fingerprint
neither gives back a name nor lets a guess be tested, and two scopes cannot be compared.

What is kept of a person's items depends on that person's items alone: the first ones, up to the allowance. So taking a
person out of the data takes out what was kept of them and changes nothing else. (Two people with equal fingerprints
would share one allowance. Among ten million that happens to a given person with probability 10^7 · 2^-96 < 10^-21.)
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal, NamedTuple

from app.core.errors import MAX_REPORTED, BadBatch
from app.core.kernel import Batch, fingerprints

FINGERPRINT_BYTES = 12
KEY_BYTES = 32

Unit = Literal["event", "user"]
Enforcement = Literal["enforced", "declared"]
OnExcess = Literal["drop", "refuse"]
UserSet = tuple[str | None, Sequence[str]]  # who, and their keys


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
    """Public parameters of a sketch that say what a batch for it must be."""

    unit: Unit
    max_contributions: int
    enforced: bool
    on_excess: OnExcess

    @property
    def allowance(self) -> int:
        """How many items a person has in all: events, or one set of keys."""
        return self.max_contributions if self.unit == "event" else 1


@dataclass(frozen=True, slots=True)
class UserSets:
    """A batch for a sketch of users: each person's set of keys, at most m of them."""

    sets: Sequence[UserSet] = field(repr=False)
    most_keys: int

    def __len__(self) -> int:
        return len(self.sets)

    @property
    def events(self) -> int:
        """What a receipt counts."""
        return len(self.sets)

    @property
    def nbytes(self) -> int:
        return 200 * len(self.sets) + 150 * sum(len(keys) for _, keys in self.sets)

    def kept(self, granted: Sequence[bool]) -> Iterator[Sequence[str]]:
        """The sets that count, each cut to its first m different keys."""
        for (_, keys), share in zip(self.sets, granted, strict=True):
            if share:
                yield list(dict.fromkeys(keys))[: self.most_keys]


def people_of_events(batch: Batch, prints: Fingerprints, rules: Rules, multipliers: bytes) -> People:
    """Who is named in the batch, which must name somebody in every item."""
    _refuse(
        batch.unnamed(MAX_REPORTED),
        f'name the user: {{"user": …, "key": …}}; this sketch counts at most {rules.max_contributions} events of each.',
    )
    names, indexes = batch.people(multipliers)
    if rules.on_excess == "refuse":
        wanted = (count for _, count in batch.pairs())
        _refuse(
            _beyond(indexes, wanted, rules.allowance), f"the user has more than {rules.allowance} events in this batch."
        )
    return People(indexes, prints.of(names))


def people_of_sets(batch: UserSets, prints: Fingerprints, rules: Rules) -> People:
    unnamed = [at for at, (user, _) in enumerate(batch.sets) if user is None]
    _refuse(unnamed[:MAX_REPORTED], 'name the user: {"user": …, "keys": […]}; this sketch counts each once.')
    places: dict[str, int] = {}
    indexes = [places.setdefault(user or "", len(places)) for user, _ in batch.sets]
    packed = b"".join(index.to_bytes(4, "little") for index in indexes)
    if rules.on_excess == "refuse":
        _refuse(_beyond(packed, [1] * len(indexes), 1), "the user is in this batch already.")
        large = [at for at, (_, keys) in enumerate(batch.sets) if len(set(keys)) > batch.most_keys]
        _refuse(large[:MAX_REPORTED], f"a user has at most {batch.most_keys} different keys.")
    return People(packed, prints.of([user.encode() for user in places]))


def _beyond(indexes: bytes, wanted: Iterable[int], allowance: int) -> list[int]:
    """Where items are with which a user passes the allowance within this batch alone."""
    used: dict[bytes, int] = {}
    found = []
    for at, want in enumerate(wanted):
        who = indexes[4 * at : 4 * at + 4]
        used[who] = used.get(who, 0) + want
        if used[who] > allowance:
            found.append(at)
    return found[:MAX_REPORTED]


def _refuse(positions: Sequence[int], detail: str) -> None:
    if positions:
        raise BadBatch(f"Item {positions[0]}: {detail}", [(at, detail) for at in positions])
