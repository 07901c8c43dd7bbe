"""One case of each kind from a seed. A case knows its input, which `repr` shows, and checks the kernel on it."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from app.core import kernel
from app.core.errors import BadState
from app.core.kernel import folding, scanning
from app.core.sketches.order import Order, multipliers
from app.core.sketches.state import NARROW, decode_as, encode
from app.core.sketches.stream import StreamSketch
from tests.core.kernel.reading import events_in
from tests.fuzz import bodies, states
from tests.fuzz.states import Pairs

_SCANNERS: dict[str, Callable[[bytes, int], scanning.Batch | None]] = {
    "json": scanning.scan_json,
    "ndjson": scanning.scan_ndjson,
    "lines": scanning.scan_lines,
}


Outcomes = Counter[str]


class Mismatch(Exception):
    """The kernel and what it is compared with disagree."""


def require(holds: bool, claim: str) -> None:
    if not holds:
        raise Mismatch(claim)


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
        return Counter({"bodies scanned and folded": len(scanned), "bodies left to the careful reader": left})

    def _scanned(self) -> Iterator[scanning.Batch]:
        for body in self.bodies:
            batch = _SCANNERS[self.kind](body, self.max_items)
            if batch is not None:
                found = batch.pairs()
                require(found == events_in(self.kind, body, self.max_items), f"the scanner reads what is in {body!r}")
                require(len(batch) == len(found), "a batch knows its length")
                require(batch.events == sum(count for _, count in found), "a batch knows its events")
                yield batch


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
        if stored[4:7] != b"\x02\x01\x08":
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
    require(decode_as(StreamSketch, fold.state()) == expected, "the fold equals its twin")
    return fold.state()


Case = Body | Folded | Damaged


def case_of(seed: int) -> Case:
    rng = Random(seed)
    kind: type[Body] | type[Folded] | type[Damaged] = rng.choices((Body, Folded, Damaged), (6, 2, 2))[0]
    return kind.drawn(rng)
