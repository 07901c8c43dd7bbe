"""Many clients compete for small budgets, under idempotency keys that they share.

An arena is two sketches, each with a ledger of its own, and the sum of both, which both pay for. The requests that may
be made in it are drawn beforehand and cost several times what the ledgers have: one that is charged twice, or besides
another, would pass the budget. Once the budget has been gone for a while the next arena is opened.
"""

import random
from collections import Counter
from dataclasses import dataclass
from threading import Lock

from tests.soak.calls import Call, Caller
from tests.soak.merging import reduced
from tests.soak.truth import Refused, Truth

_K = 64
_BUDGET = {"epsilon": "1", "delta": "1e-4"}
_DELTA = "1e-6"
_TICKETS = 60
_REFUSALS = 40  # until the next arena
_COUNTS = Counter({f"/page/{number}": 1000 * (number + 1) for number in range(5)})
_EVENTS = [{"key": key, "count": count} for key, count in _COUNTS.items()]


@dataclass(frozen=True)
class Ticket:
    """One of the releases that may be asked for in an arena."""

    key: str
    sketch: str
    ledgers: frozenset[str]
    epsilon: str


class Arena:
    def __init__(self, number: int) -> None:
        choice = random.Random(number)
        self.name = f"arena-{number}"
        self.first, self.second, self.both = f"{self.name}-a", f"{self.name}-b", f"{self.name}-both"
        self._payers = {
            self.first: frozenset({self.first}),
            self.second: frozenset({self.second}),
            self.both: frozenset({self.first, self.second}),
        }
        self.tickets = [self._ticket(at, choice) for at in range(_TICKETS)]
        self.refusals = 0

    def _ticket(self, at: int, choice: random.Random) -> Ticket:
        sketch = choice.choice(list(self._payers))
        return Ticket(f"{self.name}-{at}", sketch, self._payers[sketch], choice.choice(("0.05", "0.1", "0.2")))

    def open(self, caller: Caller, truth: Truth) -> None:
        for name in (self.first, self.second):
            body = {"k": _K, "budget": _BUDGET}
            caller.call(Call.of("setup", "PUT", f"/v1/sketches/{name}", body, expected=("200", "201")))
            path = f"/v1/sketches/{name}/events"
            caller.call(Call.of("ingest", "POST", path, {"events": _EVENTS}, key=f"{name}-events"))
            truth.count(name, _COUNTS)
            truth.count(self.both, reduced(_COUNTS, _K))
        caller.call(
            Call.of(
                "merge",
                "POST",
                f"/v1/sketches/{self.both}/merges",
                {"sources": [self.first, self.second], "mode": "summed"},
                expected=("201",),
                expected_of_a_repetition=("409 incompatible-sketches",),
            )
        )


class Arenas:
    """The one in which clients compete now. Shared by all of them."""

    def __init__(self, caller: Caller, truth: Truth) -> None:
        self._lock = Lock()
        self._opened = 1
        self._opening = False
        self.current = Arena(0)
        self.current.open(caller, truth)

    def renew(self, caller: Caller, truth: Truth) -> None:
        """Open the next one if it is time; the others go on in the old one meanwhile."""
        with self._lock:
            if self._opening or self.current.refusals < _REFUSALS:
                return
            self._opening = True
            arena = Arena(self._opened)
            self._opened += 1
        try:
            arena.open(caller, truth)
            self.current = arena
        finally:
            self._opening = False


class Releaser:
    def __init__(self, arenas: Arenas, caller: Caller, truth: Truth, choice: random.Random) -> None:
        self._arenas, self._caller, self._truth, self._choice = arenas, caller, truth, choice

    def release(self) -> None:
        self._arenas.renew(self._caller, self._truth)
        arena = self._arenas.current
        ticket = self._choice.choice(arena.tickets)
        known = ticket.key in self._truth.releases
        self._caller.tally.replayed += known
        answer = self._caller.call(
            Call.of(
                "release",
                "POST",
                f"/v1/sketches/{ticket.sketch}/snapshots",
                {"epsilon": ticket.epsilon, "delta": _DELTA},
                key=ticket.key,
                expected=("201",) if known else ("201", "409 budget-exhausted"),  # one that was paid is there for good
            )
        )
        if answer.status == 201:
            fault = self._truth.release(ticket.key, answer.document)
            if fault:
                self._caller.fault(fault)
        else:
            arena.refusals += 1  # may miss one now and then, which does no harm
            self._caller.tally.refused += 1
            self._truth.refuse(Refused(ticket.ledgers, ticket.epsilon, _DELTA))
