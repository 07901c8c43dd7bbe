"""Bodies of events and of people's sets into sketches, at the speed of the machine where a compiler was at hand.

`scanning.pyx` and `sets.pyx` read bodies, `folding.pyx` and `compact.pyx` fold what they read into stream and compact
sketches. They are compiled when the package is installed; `twin.py` takes over where they are not. Callers need not
know which runs: a scanner that answers None asks for the careful reader, and a fold is a fold.
"""

from collections.abc import Sequence
from functools import lru_cache
from secrets import token_bytes
from typing import Any, Protocol

from app.core.kernel import twin
from app.core.sketches import state
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
    def nbytes(self) -> int: ...

    def keys(self) -> list[list[str]]:
        """The keys of each item."""
        ...

    def users(self) -> list[str | None]:
        """Who is named in each item: a name, or None."""
        ...

    def unnamed(self, most: int) -> list[int]:
        """Where the first items are, at most so many, that name no user."""
        ...

    def people(self, multipliers: bytes) -> tuple[list[bytes], bytes]:
        """Each user once, in order of first occurrence; and for each item which of them, as u32."""
        ...

    def counts(self) -> bytes:
        """How much of a user's allowance each item takes, as u32: its count, or one set."""
        ...

    def limited(self, granted: bytes) -> "Batch":
        """The batch with these counts, as u32; without the items that are granted nothing."""
        ...


class Events(Batch, Protocol):
    """For each item a key and how many events in a row."""

    def pairs(self) -> list[tuple[str, int]]: ...

    def limited(self, granted: bytes) -> "Events": ...


class Sets(Batch, Protocol):
    """For each person the keys that they listed, of which the first `most_keys` different ones count, each once."""

    @property
    def most_keys(self) -> int: ...

    def kept(self) -> list[list[str]]:
        """The keys of each person that count."""
        ...

    def limited(self, granted: bytes) -> "Sets": ...


class Allowances(Protocol):
    """How much of their allowance people have used, by fingerprint of 12 bytes; entries of those and a u16."""

    def __len__(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    def learn(self, entries: bytes) -> None: ...

    def entries(self) -> bytes:
        """All that is known, to be learnt again."""
        ...

    def grant(self, indexes: bytes, wanted: bytes, fingerprints: bytes, limit: int) -> tuple[bytes, bytes]:
        """For each item, in order, what its user may still use of what is wanted; and entries of what changed."""
        ...


def fingerprints(names: Sequence[bytes], key: bytes) -> bytes:
    """Of each name, which is not empty: 12 bytes of BLAKE2b under this key of 32, one after the other."""
    return allowances.fingerprints(names, key) if NATIVE else twin.fingerprints(names, key)


def new_allowances() -> Allowances:
    return allowances.Allowances() if NATIVE else twin.Allowances()


def batch_of(pairs: Sequence[tuple[str, int]], users: Sequence[str | None] | None = None) -> Events:
    """A batch of keys, counts and users that were checked already."""
    return scanning.Batch.of(pairs, users) if NATIVE else twin.Batch(pairs, users)


def sets_of(people: Sequence[tuple[str | None, Sequence[str]]], most_keys: int) -> Sets:
    """A batch of people, named or not, and their keys, that were checked already."""
    return sets.Sets.of(people, most_keys) if NATIVE else twin.Sets(people, most_keys)


def scan_json(body: bytes, max_items: int) -> Events | None:
    return scanning.scan_json(body, max_items) if NATIVE else None


def scan_ndjson(body: bytes, max_items: int) -> Events | None:
    return scanning.scan_ndjson(body, max_items) if NATIVE else None


def scan_lines(body: bytes, max_items: int) -> Events | None:
    return scanning.scan_lines(body, max_items) if NATIVE else None


def scan_json_sets(body: bytes, max_items: int, most_keys: int) -> Sets | None:
    return sets.scan_json(body, max_items, most_keys) if NATIVE else None


def scan_ndjson_sets(body: bytes, max_items: int, most_keys: int) -> Sets | None:
    return sets.scan_ndjson(body, max_items, most_keys) if NATIVE else None


class Fold:
    """A stored sketch, stream or compact, that takes batches. For one thread at a time; worthless once `add` raised."""

    def __init__(self, now: bytes) -> None:
        """As `state` gives it."""
        self._fold: Any = _opened(now)

    def add(self, *batches: Batch) -> None:
        try:
            self._fold.add(*batches)
        except OverflowError:  # raised before anything changed: the counters need the wide form
            self._fold = twin.Fold(self._fold.state())
            self._fold.add(*batches)

    def state(self) -> bytes:
        """The bytes, from which it can go on."""
        now: bytes = self._fold.state()
        return now

    def stored(self) -> bytes:
        """The same as it is stored (`state.by_column`)."""
        now: bytes = self._fold.stored()
        return now

    @property
    def nbytes(self) -> int:
        """The memory that it takes, about."""
        size: int = self._fold.nbytes
        return size


@lru_cache(maxsize=1)
def table_multipliers() -> bytes:
    """For tables of keys or names that nothing stored depends on: nobody can choose what meets in them."""
    return multipliers(token_bytes(SECRET_BYTES))


def _opened(now: bytes) -> Any:
    if not NATIVE:
        return twin.Fold(now)
    if state.family(now) is CompactSketch:
        whole = now if state.is_narrow_compact(now) else state.encode(state.decode(now))  # an older one had fewer slots
        return compact.Fold(whole, table_multipliers()) if state.is_narrow_compact(whole) else twin.Fold(now)
    secret = state.narrow_stream_secret(now)
    return folding.Fold(now, multipliers(secret)) if secret else twin.Fold(now)
