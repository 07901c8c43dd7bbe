"""Cases of people's sets and of compact sketches: read, folded, and opened from damaged states."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from app.core import kernel
from app.core.errors import BadState
from app.core.kernel import compact, scanning, sets, twin
from app.core.sketches.compact import CompactSketch
from app.core.sketches.order import multipliers
from app.core.sketches.state import by_slot, encode, is_narrow_compact
from tests.core.kernel.reading import people_in
from tests.fuzz import bodies, states
from tests.fuzz.outcomes import Outcomes, require
from tests.fuzz.states import Pairs, People
from tests.states import decode_as

_SCANNERS: dict[str, Callable[[bytes, int, int], sets.Sets | None]] = {
    "json": sets.scan_json,
    "ndjson": sets.scan_ndjson,
}
_MOST_KEYS = (1, 2, 3, 1000)

Batches = tuple[Pairs | tuple[People, int], ...]  # events; or people, and how many keys of each count


@dataclass(frozen=True)
class SetsBody:
    """Whatever a scanner takes means what the reference says, and is folded as the twin folds it."""

    kind: str
    bodies: list[bytes]
    max_items: int
    most_keys: int
    k: int
    secret: bytes

    @classmethod
    def drawn(cls, rng: Random) -> "SetsBody":
        kind = rng.choice(list(_SCANNERS))
        limits = rng.choice((1, 6, 200, 1000)), rng.choice(_MOST_KEYS)
        return cls(kind, bodies.variants_of_sets(rng, kind, 30), *limits, rng.randint(1, 12), states.secret(rng))

    def check(self) -> Outcomes:
        scanned = list(self._scanned())
        _check_fold(encode(CompactSketch.empty(self.k)), self.secret, scanned)
        left = len(self.bodies) - len(scanned)
        return Counter({"bodies of sets scanned and folded": len(scanned), "bodies of sets left": left})

    def _scanned(self) -> Iterator[sets.Sets]:
        for body in self.bodies:
            batch = _SCANNERS[self.kind](body, self.max_items, self.most_keys)
            if batch is not None:
                found = list(zip(batch.users(), batch.keys(), strict=True))
                require(found == people_in(self.kind, body, self.max_items), f"the scanner reads what is in {body!r}")
                yield _check_people(batch, twin.Sets(found, self.most_keys), self.secret)


def _check_people(batch: sets.Sets, plain: twin.Sets, secret: bytes) -> sets.Sets:
    """Every other person of the batch."""
    require(len(batch) == batch.events == len(plain), "a batch knows its length")
    require(batch.kept() == plain.kept(), "a batch knows which keys count")
    require(batch.unnamed(3) == plain.unnamed(3), "a batch knows who is not named")
    require(batch.people(multipliers(secret)) == plain.people(b""), "a batch knows its people")
    require(batch.counts() == plain.counts(), "a batch knows its counts")
    granted = b"".join(bytes((number % 2, 0, 0, 0)) for number in range(len(batch)))
    kept, expected = batch.limited(granted), plain.limited(granted)
    require((kept.keys(), kept.users()) == (expected.keys(), expected.users()), "what is kept is what the twin keeps")
    return kept if secret[0] % 2 else batch


@dataclass(frozen=True)
class FoldedCompact:
    """Batches of events and of people into a stored sketch, stored and opened again between some of them."""

    state: bytes
    secret: bytes
    groups: tuple[Batches, ...]

    @classmethod
    def drawn(cls, rng: Random) -> "FoldedCompact":
        groups = tuple(_batches(rng) for _ in range(rng.randint(1, 3)))
        return cls(states.compact_state(rng, rng.randint(1, 16)), states.secret(rng), groups)

    def check(self) -> Outcomes:
        stored = self.state
        folded = 0
        for batches in self.groups:
            if is_narrow_compact(stored):
                stored = _check_fold(stored, self.secret, _compiled(batches))
                folded += len(batches)
        return Counter({"batches folded into compact sketches": folded})


@dataclass(frozen=True)
class DamagedCompact:
    """The kernel takes every compact sketch that `decode` takes, and whatever else it takes, it survives."""

    states: list[bytes]
    secret: bytes
    batches: Batches

    @classmethod
    def drawn(cls, rng: Random) -> "DamagedCompact":
        secret = states.secret(rng)
        fold = kernel.Fold(states.compact_state(rng, rng.randint(1, 12)))
        fold.add(*_compiled(_batches(rng)))  # so that some slots are free and have rooms
        return cls([states.damaged_state(rng, fold.state()) for _ in range(12)], secret, _batches(rng))

    def check(self) -> Outcomes:
        batches = _compiled(self.batches)
        return Counter(self._outcome(stored, batches) for stored in self.states)

    def _outcome(self, stored: bytes, batches: Sequence[scanning.Batch | sets.Sets]) -> str:
        try:
            decode_as(CompactSketch, stored)
        except BadState:
            return self._survived(stored, batches)
        if not is_narrow_compact(stored):
            return "damaged compact states not for the kernel"
        _check_fold(stored, self.secret, batches)
        return "damaged compact states that are states too"

    def _survived(self, stored: bytes, batches: Sequence[scanning.Batch | sets.Sets]) -> str:
        try:
            fold = compact.Fold(stored, multipliers(self.secret))
        except ValueError:
            return "damaged compact states refused"
        try:
            fold.add(*batches)
            fold.add(*batches)
        except OverflowError:
            pass
        require(len(fold.state()) == len(fold.stored()) >= len(stored), "a state does not shrink")
        return "damaged compact states survived"


def _batches(rng: Random) -> Batches:
    return tuple(
        states.pairs(rng) if rng.random() < 0.4 else (states.people(rng), rng.choice(_MOST_KEYS))
        for _ in range(rng.randint(1, 3))
    )


def _compiled(batches: Batches) -> list[scanning.Batch | sets.Sets]:
    return [sets.Sets.of(*one) if isinstance(one, tuple) else scanning.Batch.of(one) for one in batches]


def _check_fold(stored: bytes, secret: bytes, batches: Sequence[scanning.Batch | sets.Sets]) -> bytes:
    """The state after the batches."""
    fold: compact.Fold | kernel.Fold = compact.Fold(stored, multipliers(secret))
    expected = twin.Fold(stored)
    expected.add(*batches)
    try:
        fold.add(*batches)
    except OverflowError:
        fold = kernel.Fold(fold.state())  # which hands over
        fold.add(*batches)
    ours, right = (decode_as(CompactSketch, one.state()) for one in (fold, expected))
    require(ours == right, "the fold equals its twin")
    require(by_slot(fold.stored()) == fold.state(), "what is stored is what it works in")
    return fold.state()
