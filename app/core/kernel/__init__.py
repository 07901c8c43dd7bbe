"""Compiled code that reads bodies of events and of people's sets, and folds them into sketches.

`scanning.pyx` and `sets.pyx` read bodies; `folding.pyx` and `compact.pyx` fold batches into stream and compact
sketches; `allowances.pyx` counts what each person has contributed. They are compiled when the package is installed.
Where they are not, `twin.py` does the same in plain Python. Callers need not know which runs: a scanner that answers
None gave up, and the caller then reads the body with the careful decoder; a fold gives the same state either way.
"""

from collections.abc import Sequence
from functools import lru_cache
from secrets import token_bytes
from typing import Any, Protocol

from app.core.kernel import twin
from app.core.sketches import old_state, state
from app.core.sketches.compact import CompactSketch
from app.core.sketches.order import SECRET_BYTES, multipliers

try:
    from app.core.kernel import allowances, compact, folding, scanning, sets

    NATIVE = True
except ImportError:
    NATIVE = False


class Batch(Protocol):
    """Checked items in arrival order: events, or people with their sets of keys."""

    def __len__(self) -> int: ...

    @property
    def events(self) -> int:
        """What a receipt counts: events, or people."""
        ...

    @property
    def nbytes(self) -> int:
        """About how much memory the batch takes."""
        ...

    def keys(self) -> list[list[str]]:
        """The keys of each item."""
        ...

    def users(self) -> list[str | None]:
        """Who is named in each item: a name, or None."""
        ...

    def unnamed(self, most: int) -> list[int]:
        """The positions of the first items that name no user, at most `most` of them."""
        ...

    def people(self, multipliers: bytes) -> tuple[list[bytes], bytes]:
        """Each user once, in order of first occurrence; and for each item the index of its user, as u32.

        `multipliers` key the hash table that finds users which occur again (`table_multipliers`).
        """
        ...

    def counts(self) -> bytes:
        """How much of a user's allowance each item takes, as u32: its count, or one set."""
        ...

    def limited(self, granted: bytes) -> "Batch":
        """The batch with these counts, as u32; without the items that are granted nothing."""
        ...


class Events(Batch, Protocol):
    """For each item a key and how many events in a row."""

    def pairs(self) -> list[tuple[str, int]]:
        """The key of each item, and its count."""
        ...

    def limited(self, granted: bytes) -> "Events":
        """See `Batch.limited`."""
        ...


class Sets(Batch, Protocol):
    """For each person the keys that they listed, of which the first `most_keys` different ones count, each once."""

    @property
    def most_keys(self) -> int:
        """How many different keys of a person count."""
        ...

    def kept(self) -> list[list[str]]:
        """The keys of each person that count."""
        ...

    def limited(self, granted: bytes) -> "Sets":
        """See `Batch.limited`."""
        ...


class Allowances(Protocol):
    """How much of their allowance people have used, by fingerprint.

    A usage, as it is stored, is a fingerprint of 12 bytes and a u16: how much that person has used.
    """

    def __len__(self) -> int: ...

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        ...

    def learn(self, usages: bytes) -> None:
        """Take over these usages. Of a person who is known already, the larger figure stays."""
        ...

    def usages(self) -> bytes:
        """Everything that is known, as usages that `learn` takes."""
        ...

    def grant(self, indexes: bytes, wanted: bytes, fingerprints: bytes, limit: int) -> tuple[bytes, bytes]:
        """Use up allowances for a batch, item by item in order, and return what each item is granted, as u32.

        Item i belongs to the person whose fingerprint is at `indexes[i]` of `fingerprints`, and wants `wanted[i]`. It
        is granted what its person has left of `limit`, at most that. The second value is the usages that changed.
        """
        ...


def fingerprints(names: Sequence[bytes], key: bytes) -> bytes:
    """A fingerprint of 12 bytes for each name, joined: BLAKE2b under the user key of 32 bytes. No name is empty."""
    return allowances.fingerprints(names, key) if NATIVE else twin.fingerprints(names, key)


def new_allowances() -> Allowances:
    """Allowances of which nobody has used anything."""
    return allowances.Allowances() if NATIVE else twin.Allowances()


def batch_of(pairs: Sequence[tuple[str, int]], users: Sequence[str | None] | None = None) -> Events:
    """A batch of events from keys, counts and users that were checked already."""
    return scanning.Batch.of(pairs, users) if NATIVE else twin.Batch(pairs, users)


def sets_of(people: Sequence[tuple[str | None, Sequence[str]]], most_keys: int) -> Sets:
    """A batch of people, named or not, from lists of keys that were checked already."""
    return sets.Sets.of(people, most_keys) if NATIVE else twin.Sets(people, most_keys)


def scan_json(body: bytes, max_items: int) -> Events | None:
    """The events of a JSON body; None where the careful decoder must read it."""
    return scanning.scan_json(body, max_items) if NATIVE else None


def scan_ndjson(body: bytes, max_items: int) -> Events | None:
    """The events of a body with one JSON object a line; None where the careful decoder must read it."""
    return scanning.scan_ndjson(body, max_items) if NATIVE else None


def scan_lines(body: bytes, max_items: int) -> Events | None:
    """The events of a body with one key a line; None where the careful decoder must read it."""
    return scanning.scan_lines(body, max_items) if NATIVE else None


def scan_json_sets(body: bytes, max_items: int, most_keys: int) -> Sets | None:
    """The people of a JSON body; None where the careful decoder must read it."""
    return sets.scan_json(body, max_items, most_keys) if NATIVE else None


def scan_ndjson_sets(body: bytes, max_items: int, most_keys: int) -> Sets | None:
    """The people of a body with one JSON object a line; None where the careful decoder must read it."""
    return sets.scan_ndjson(body, max_items, most_keys) if NATIVE else None


class Fold:
    """A stream or compact sketch that takes batches.

    It is for one thread at a time. Once `add` has raised, throw it away: part of a batch may have been counted.
    """

    def __init__(self, now: bytes) -> None:
        """Open a state in the form that `state` returns."""
        self._fold: Any = _opened(now)

    def add(self, *batches: Batch) -> None:
        """Count these batches, one after the other."""
        try:
            self._fold.add(*batches)
        except OverflowError:  # raised before anything changed: the counters need the wide form
            self._fold = twin.Fold(self._fold.state())
            self._fold.add(*batches)

    def state(self) -> bytes:
        """The sketch as bytes from which another `Fold` can go on."""
        now: bytes = self._fold.state()
        return now

    def stored(self) -> bytes:
        """The same sketch laid out as it is stored (`state.by_column`)."""
        now: bytes = self._fold.stored()
        return now

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        size: int = self._fold.nbytes
        return size


@lru_cache(maxsize=1)
def table_multipliers() -> bytes:
    """Random multipliers of this process, for hash tables of keys or names.

    Nobody who chooses keys knows them, so nobody can make many keys meet in a table. Nothing that is stored depends on
    them.
    """
    return multipliers(token_bytes(SECRET_BYTES))


def _opened(now: bytes) -> Any:
    """The compiled fold where it can work in this state, else the twin, which takes any."""
    if not NATIVE:
        return twin.Fold(now)
    now = old_state.upgraded(now)
    if state.family(now) is CompactSketch:
        whole = now if state.is_narrow_compact(now) else state.encode(state.decode(now))  # of version 1, or once wide
        return compact.Fold(whole, table_multipliers()) if state.is_narrow_compact(whole) else twin.Fold(now)
    secret = state.narrow_stream_secret(now)
    return folding.Fold(now, multipliers(secret)) if secret else twin.Fold(now)
