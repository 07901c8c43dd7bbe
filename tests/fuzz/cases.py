"""One case of each kind from a seed. A case knows its input, which `repr` shows, and checks the kernel on it.

Those of people's sets and of compact sketches are in `compact_cases`.
"""

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from app.core import kernel
from app.core.errors import BadState
from app.core.kernel import allowances, folding, scanning, twin
from app.core.sketches.order import Order, multipliers
from app.core.sketches.state import NARROW, by_slot, decode, encode
from app.core.sketches.stream import StreamSketch
from tests.core.kernel.reading import named_in
from tests.fuzz import bodies, states
from tests.fuzz.compact_cases import DamagedCompact, FoldedCompact, SetsBody
from tests.fuzz.outcomes import Outcomes, require
from tests.fuzz.states import Pairs
from tests.states import decode_as

_SCANNERS: dict[str, Callable[[bytes, int], scanning.Batch | None]] = {
    "json": scanning.scan_json,
    "ndjson": scanning.scan_ndjson,
    "lines": scanning.scan_lines,
}


_Grant = tuple[bytes, bytes, bytes, int]  # indexes, wanted, fingerprints, limit
Step = _Grant | bytes  # or entries

_LIMITS = (1, 2, 5, 1000, 65_535)
_WANTED = (0, 1, 1, 2, 3, 1000, 65_535, 65_536, 2**31 - 1, 2**32 - 1)


@dataclass(frozen=True)
class Body:
    """Whatever a scanner takes means what the reference says, and is folded as the twin folds it."""

    kind: str
    bodies: list[bytes]
    max_items: int
    k: int
    secret: bytes

    @classmethod
    def drawn(cls, rng: Random) -> "Body":
        kind = rng.choice(list(_SCANNERS))
        most = rng.choice((1, 3, 30, 1000))
        return cls(kind, bodies.variants(rng, kind, 30), most, rng.randint(1, 12), states.secret(rng))

    def check(self) -> Outcomes:
        scanned = list(self._scanned())
        _check_fold(encode(StreamSketch.empty(self.k, Order(self.secret))), self.secret, scanned)
        left = len(self.bodies) - len(scanned)
        return Counter({"bodies scanned and folded": len(scanned), "bodies left to the careful decoder": left})

    def _scanned(self) -> Iterator[scanning.Batch]:
        for body in self.bodies:
            batch = _SCANNERS[self.kind](body, self.max_items)
            if batch is not None:
                found = batch.pairs()
                named = [(*pair, user) for pair, user in zip(found, batch.users(), strict=True)]
                require(named == named_in(self.kind, body, self.max_items), f"the scanner reads what is in {body!r}")
                require(len(batch) == len(found), "a batch knows its length")
                require(batch.events == sum(count for _, count in found), "a batch knows its events")
                yield _check_people(batch, self.secret, self.k)


@dataclass(frozen=True)
class Folded:
    """Batches into a stored sketch, stored and opened again between them."""

    state: bytes
    secret: bytes
    batches: tuple[Pairs, ...]

    @classmethod
    def drawn(cls, rng: Random) -> "Folded":
        secret = states.secret(rng)
        stored = states.state(rng, rng.randint(1, 16), Order(secret))
        return cls(stored, secret, tuple(states.pairs(rng, 100) for _ in range(rng.randint(1, 3))))

    def check(self) -> Outcomes:
        stored = self.state
        for pairs in self.batches:
            if stored[6] == NARROW:
                stored = _check_fold(stored, self.secret, [scanning.Batch.of(pairs)])
        return Counter({"batches folded": len(self.batches)})


@dataclass(frozen=True)
class Damaged:
    """The kernel takes every stream that `decode` takes, and whatever else it takes, it survives."""

    states: list[bytes]
    secret: bytes
    pairs: Pairs

    @classmethod
    def drawn(cls, rng: Random) -> "Damaged":
        secret = states.secret(rng)
        stored = states.state(rng, rng.randint(1, 12), Order(secret))
        return cls([states.damaged_state(rng, stored) for _ in range(12)], secret, states.pairs(rng))

    def check(self) -> Outcomes:
        batch = scanning.Batch.of(self.pairs)
        return Counter(self._outcome(stored, batch) for stored in self.states)

    def _outcome(self, stored: bytes, batch: scanning.Batch) -> str:
        try:
            sketch = decode_as(StreamSketch, stored)
        except BadState:
            return self._survived(stored, batch)
        if stored[4:7] != b"\x04\x01\x08":
            return "damaged states not for the kernel"
        _check_fold(stored, sketch.order.secret, [batch])
        return "damaged states that are states too"

    def _survived(self, stored: bytes, batch: scanning.Batch) -> str:
        try:
            fold = folding.Fold(stored, multipliers(self.secret))
        except ValueError:
            return "damaged states refused"
        try:
            fold.add(batch)
            fold.add(batch)
        except OverflowError:
            pass
        require(len(fold.state()) >= len(stored), "a state does not shrink")
        return "damaged states survived"


def _check_fold(stored: bytes, secret: bytes, batches: list[scanning.Batch]) -> bytes:
    """The state after the batches."""
    fold: folding.Fold | kernel.Fold = folding.Fold(stored, multipliers(secret))
    expected = decode_as(StreamSketch, stored).extended(pair for batch in batches for pair in batch.pairs())
    for batch in batches:
        try:
            fold.add(batch)
        except OverflowError:
            fold = kernel.Fold(fold.state())  # which hands over
            fold.add(batch)
    right = decode(encode(expected))  # what is too large to be stored is not known then
    require(decode(fold.state()) == right, "the fold equals its twin")
    require(by_slot(fold.stored()) == fold.state(), "what is stored is what it works in")
    return fold.state()


def _check_people(batch: scanning.Batch, secret: bytes, limit: int) -> scanning.Batch:
    """What counts of the batch if a person has so many events; all of it if it does not name everybody."""
    plain = twin.Batch(batch.pairs(), batch.users())
    require(batch.unnamed(3) == plain.unnamed(3), "a batch knows who is not named")
    names, indexes = batch.people(multipliers(secret))
    require((names, indexes) == plain.people(b""), "a batch knows its people")
    require(batch.counts() == plain.counts(), "a batch knows its counts")
    if batch.unnamed(1):
        return batch
    found = allowances.fingerprints(names, 2 * secret)
    require(found == twin.fingerprints(names, 2 * secret), "fingerprints are those of the twin")
    granted, _ = allowances.Allowances().grant(indexes, batch.counts(), found, limit)
    require(granted == twin.Allowances().grant(indexes, batch.counts(), found, limit)[0], "grants are the twin's")
    kept, expected = batch.limited(granted), plain.limited(granted)
    require((kept.pairs(), kept.users()) == (expected.pairs(), expected.users()), "what is kept is what the twin keeps")
    return kept


@dataclass(frozen=True)
class Granted:
    """Grants and what is learnt between them, as the twin does it."""

    steps: list[Step]

    @classmethod
    def drawn(cls, rng: Random) -> "Granted":
        return cls([_step(rng) for _ in range(rng.randint(1, 12))])

    def check(self) -> Outcomes:
        ours, plain = allowances.Allowances(), twin.Allowances()
        return Counter(self._outcome(step, ours, plain) for step in self.steps)

    def _outcome(self, step: Step, ours: allowances.Allowances, plain: twin.Allowances) -> str:
        try:
            if isinstance(step, bytes):
                ours.learn(step)
                plain.learn(step)
                outcome = "entries learnt"
            else:
                require(ours.grant(*step) == plain.grant(*step), "grants are the twin's")
                outcome = "allowances granted"
        except ValueError:
            outcome = "wrong numbers refused"
        require(_known(ours) == _known(plain), "both know the same")
        require(len(ours) == len(_known(plain)), "a table knows its length")
        return outcome


def _step(rng: Random) -> Step:
    number = rng.choice((1, 3, 10, 1500))
    if rng.random() < 0.4:
        entries = b"".join(_person(rng) + struct.pack("<H", rng.choice((1, 5, 65_535))) for _ in range(number))
        return entries[: rng.randint(0, len(entries))] if rng.random() < 0.1 else entries
    people = [_person(rng) for _ in range(number)]
    items = rng.randint(0, 2 * number)
    beyond = number + 1 if rng.random() < 0.05 else number
    indexes = struct.pack(f"<{items}I", *(rng.randrange(beyond) for _ in range(items)))
    wanted = struct.pack(f"<{items}I", *(rng.choice(_WANTED) for _ in range(items)))
    if rng.random() < 0.05:
        wanted = wanted[4:]
    return indexes, wanted, b"".join(people), rng.choice(_LIMITS)


def _person(rng: Random) -> bytes:
    """One of a few; one that meets others in the table; or anybody."""
    kind = rng.random()
    if kind < 0.4:
        return Random(rng.randrange(12)).randbytes(12)
    return bytes(8) + rng.randbytes(4) if kind < 0.6 else rng.randbytes(12)


def _known(table: kernel.Allowances) -> dict[bytes, int]:
    return dict(struct.iter_unpack("<12sH", table.usages()))


Case = Body | Folded | Damaged | Granted | SetsBody | FoldedCompact | DamagedCompact

_KINDS: dict[Callable[[Random], Case], int] = {  # and how often each is drawn
    Body.drawn: 6,
    Folded.drawn: 2,
    Damaged.drawn: 2,
    Granted.drawn: 2,
    SetsBody.drawn: 4,
    FoldedCompact.drawn: 3,
    DamagedCompact.drawn: 2,
}


def case_of(seed: int) -> Case:
    rng = Random(seed)
    (drawn,) = rng.choices(list(_KINDS), list(_KINDS.values()))
    return drawn(rng)
