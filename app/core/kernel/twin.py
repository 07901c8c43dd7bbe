"""The kernel in plain Python, for machines without a compiler and for counters of more than 62 bits.

It has no scanners: here the careful decoders read every body, and `StreamSketch` and `CompactSketch` fold. What each
method promises is said at its protocol in `__init__.py`.
"""

import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol

from app.core.errors import BadState
from app.core.sketches import state
from app.core.sketches.compact import CompactSketch
from app.core.sketches.stream import StreamSketch

_FINGERPRINT = struct.Struct("12s")
_USAGE = struct.Struct("<12sH")


class Batch:
    """`kernel.Events` from lists."""

    def __init__(self, pairs: Sequence[tuple[str, int]], users: Sequence[str | None] | None = None) -> None:
        self._pairs = list(pairs)
        self._users: list[str | None] = list(users) if users else [None] * len(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    @property
    def events(self) -> int:
        """What a receipt counts: here the counts of all items together."""
        return sum(count for _, count in self._pairs)

    @property
    def nbytes(self) -> int:
        """About how much memory the lists take."""
        return 200 * len(self._pairs)

    def pairs(self) -> list[tuple[str, int]]:
        """The key of each item, and its count."""
        return self._pairs

    def keys(self) -> list[list[str]]:
        """The key of each item, alone in a list."""
        return [[key] for key, _ in self._pairs]

    def users(self) -> list[str | None]:
        """Who is named in each item: a name, or None."""
        return self._users

    def unnamed(self, most: int) -> list[int]:
        """The positions of the first items that name no user, at most `most` of them."""
        return _unnamed(self._users, most)

    def people(self, _multipliers: bytes) -> tuple[list[bytes], bytes]:
        """Each user once, in order of first occurrence; and for each item the index of its user, as u32."""
        return _people(self._users)

    def counts(self) -> bytes:
        """The count of each item, as u32: so much of a user's allowance it takes."""
        return _packed([count for _, count in self._pairs])

    def limited(self, granted: bytes) -> "Batch":
        """The batch with these counts, as u32; without the items that are granted nothing."""
        counts = _unpacked(granted)
        kept = [at for at, count in enumerate(counts) if count]
        return Batch([(self._pairs[at][0], counts[at]) for at in kept], [self._users[at] for at in kept])


class Sets:
    """`kernel.Sets` from lists."""

    def __init__(self, people: Sequence[tuple[str | None, Sequence[str]]], most_keys: int) -> None:
        self._users = [user for user, _ in people]
        self._keys = [list(keys) for _, keys in people]
        self.most_keys = most_keys

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def events(self) -> int:
        """What a receipt counts: here people."""
        return len(self._keys)

    @property
    def nbytes(self) -> int:
        """About how much memory the lists take."""
        return 200 * len(self._keys) + 150 * sum(map(len, self._keys))

    def keys(self) -> list[list[str]]:
        """The keys that each person listed, repeated ones too."""
        return self._keys

    def kept(self) -> list[list[str]]:
        """The keys of each person that count: the first `most_keys` different ones."""
        return [list(dict.fromkeys(keys))[: self.most_keys] for keys in self._keys]

    def users(self) -> list[str | None]:
        """The name of each person, or None."""
        return self._users

    def unnamed(self, most: int) -> list[int]:
        """The positions of the first people without a name, at most `most` of them."""
        return _unnamed(self._users, most)

    def people(self, _multipliers: bytes) -> tuple[list[bytes], bytes]:
        """Each name once, in order of first occurrence; and for each person the index of their name, as u32."""
        return _people(self._users)

    def counts(self) -> bytes:
        """One for each person, as u32: a set takes one of their allowance."""
        return _packed([1] * len(self._keys))

    def limited(self, granted: bytes) -> "Sets":
        """The people who are granted anything, each with the whole set."""
        shares = zip(self._users, self._keys, _unpacked(granted), strict=True)
        return Sets([(user, keys) for user, keys, share in shares if share], self.most_keys)


def _unnamed(users: Sequence[str | None], most: int) -> list[int]:
    return [at for at, user in enumerate(users) if not user][:most]


def _people(users: Sequence[str | None]) -> tuple[list[bytes], bytes]:
    numbers: dict[str, int] = {}
    indexes = [numbers.setdefault(user or "", len(numbers)) for user in users]
    return [user.encode() for user in numbers], _packed(indexes)


def _packed(numbers: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def _unpacked(numbers: bytes) -> Sequence[int]:
    return struct.unpack(f"<{len(numbers) // 4}I", numbers)


class _Events(Protocol):
    def pairs(self) -> list[tuple[str, int]]: ...


class _People(Protocol):
    def kept(self) -> list[list[str]]: ...


class Fold:
    """`kernel.Fold` by the sketches' own definition. It takes its own batches and those of the compiled scanners."""

    def __init__(self, now: bytes) -> None:
        sketch = state.decode(now)
        if not isinstance(sketch, StreamSketch | CompactSketch):
            raise BadState("Expected a sketch that takes batches.")
        self._sketch = sketch

    def add(self, *batches: _Events | _People) -> None:
        """Count these batches, one after the other."""
        for batch in batches:
            self._sketch = self._with(batch)

    def _with(self, batch: _Events | _People) -> StreamSketch | CompactSketch:
        if isinstance(self._sketch, CompactSketch) and hasattr(batch, "kept"):
            return self._sketch.extended_by_people(batch.kept())
        if not hasattr(batch, "pairs"):
            raise TypeError("a stream sketch takes events, not people")
        return self._sketch.extended(batch.pairs())

    def state(self) -> bytes:
        """The sketch as bytes from which another fold can go on."""
        return state.encode(self._sketch)

    def stored(self) -> bytes:
        """The same sketch laid out as it is stored (`state.by_column`)."""
        return state.by_column(self.state())

    @property
    def nbytes(self) -> int:
        """About what a dictionary of k short keys takes."""
        return 250 * self._sketch.k


def fingerprints(names: Sequence[bytes], key: bytes) -> bytes:
    """See `kernel.fingerprints`."""
    keyed = blake2b(key=key, digest_size=_FINGERPRINT.size)
    found = []
    for name in names:
        one = keyed.copy()
        one.update(name)
        found.append(one.digest())
    return b"".join(found)


class Allowances:
    """`kernel.Allowances` as a dictionary from fingerprint to what was used."""

    def __init__(self) -> None:
        self._used: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._used)

    @property
    def nbytes(self) -> int:
        """About how much memory the dictionary takes."""
        return 150 * len(self._used)

    def learn(self, usages: bytes) -> None:
        """Take over these usages. Of a person who is known already, the larger figure stays."""
        for fingerprint, used in _USAGE.iter_unpack(usages):
            self._used[fingerprint] = max(used, self._used.get(fingerprint, 0))

    def usages(self) -> bytes:
        """Everything that is known, as usages that `learn` takes."""
        return b"".join(_USAGE.pack(fingerprint, used) for fingerprint, used in self._used.items())

    def grant(self, indexes: bytes, wanted: bytes, fingerprints: bytes, limit: int) -> tuple[bytes, bytes]:
        """Use up allowances, item by item in order: what each is granted, as u32, and the usages that changed."""
        people = [one for (one,) in _FINGERPRINT.iter_unpack(fingerprints)]
        granted, changed = [], {}
        for index, want in zip(_unpacked(indexes), _unpacked(wanted), strict=True):
            used = self._used.get(people[index], 0)
            share = max(0, min(want, limit - used))
            granted.append(share)
            if share:
                self._used[people[index]] = used + share
                changed[index] = people[index]
        return _packed(granted), b"".join(_USAGE.pack(one, self._used[one]) for _, one in sorted(changed.items()))
