"""Events into sketches that all clients share, in batches of many sizes. Some name users, whose allowance runs out."""

import json
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tests.soak.calls import Call, Caller
from tests.soak.truth import Truth

K = 512
KEYS = [f"/page/{number}" for number in range(200)]  # fewer than k, so that no counter is ever evicted
VIEWS = ["views-0", "views-1", "views-2"]
BOUNDED, SETS = "bounded", "sets"  # events of named users; sets of keys of named users
ALLOWANCE = 3

_SIZES = (1, 8, 64, 512)
_USERS = 100_000
_REPLAYED = 0.05
_BUDGET = {"epsilon": "1", "delta": "1e-5"}


def prepare(caller: Caller) -> None:
    for name in VIEWS:
        _create(caller, name, {"k": K, "budget": _BUDGET})
    _create(caller, BOUNDED, {"k": K, "budget": _BUDGET, "max_contributions": ALLOWANCE})
    _create(caller, SETS, {"k": K, "budget": _BUDGET, "unit": "user", "max_contributions": 2})


def _create(caller: Caller, name: str, body: object) -> None:
    caller.call(Call.of("setup", "PUT", f"/v1/sketches/{name}", body, expected=("200", "201")))


def key_of(user: str) -> str:
    """A user always looks at the same page, so that the order of batches does not matter to what counts."""
    return KEYS[_number(user) % len(KEYS)]


def set_of(user: str) -> list[str]:
    half = len(KEYS) // 2
    return [KEYS[_number(user) % half], KEYS[half + _number(user) % half]]


def _number(user: str) -> int:
    return int(user.rpartition("-")[2])


def counts_of_people(sketch: str, sent: Counter[str]) -> Counter[str]:
    """What must be counted of users who were sent so often: events up to the allowance, a set once."""
    counts: Counter[str] = Counter()
    for user, times in sent.items():
        if sketch == BOUNDED:
            counts[key_of(user)] += min(times, ALLOWANCE)
        else:
            counts.update(set_of(user))
    return counts


class Sender:
    def __init__(self, name: str, caller: Caller, truth: Truth, choice: random.Random) -> None:
        self._name, self._caller, self._truth, self._choice = name, caller, truth, choice
        self._sent = 0

    def send(self) -> None:
        """One batch, of one kind or another."""
        self._choice.choice((self._views, self._views, self._views, self._bounded, self._sets))()

    def _views(self) -> None:
        self.count(self._choice.choice(VIEWS), self.some_events())

    def some_events(self) -> list[tuple[str, int]]:
        keys = self._choice.choices(KEYS, k=self._choice.choice(_SIZES))
        return [(key, self._choice.choice((1, 1, 1, 7))) for key in keys]

    def count(self, sketch: str, events: Sequence[tuple[str, int]]) -> None:
        counts = total(events)
        items = [key if times == 1 else {"key": key, "count": times} for key, times in events]
        self._post(sketch, "events", items, counts.total())
        self._truth.count(sketch, counts)

    def _bounded(self) -> None:
        users = self._some_users()
        self._post(BOUNDED, "events", [{"user": user, "key": key_of(user)} for user in users], len(users))
        self._truth.meet(BOUNDED, users)

    def _sets(self) -> None:
        users = sorted(set(self._some_users()))
        self._post(SETS, "users", [{"user": user, "keys": set_of(user)} for user in users], len(users))
        self._truth.meet(SETS, users)

    def _some_users(self) -> list[str]:
        """Some of them come again and again, and new ones to the end."""
        return [f"user-{int(_USERS * self._choice.random() ** 4)}" for _ in range(self._choice.choice(_SIZES[:3]))]

    def _post(self, sketch: str, member: str, items: Sequence[Any], accepted: int) -> None:
        """Until it is acknowledged, and now and then once more."""
        self._sent += 1
        if self._choice.random() < 0.5:
            content_type, body = "application/json", json.dumps({member: items})
        else:
            content_type, body = "application/x-ndjson", "\n".join(json.dumps(item) for item in items)
        path = f"/v1/sketches/{sketch}/events"
        call = Call("ingest", "POST", path, body.encode(), content_type, key=f"{self._name}-{self._sent}")
        self._acknowledged(call, accepted)
        self._caller.tally.events += accepted
        if self._choice.random() < _REPLAYED:
            self._caller.tally.replayed += 1
            self._acknowledged(call, accepted)

    def _acknowledged(self, call: Call, accepted: int) -> None:
        answer = self._caller.call(call)
        if answer.document != {"accepted": accepted}:
            self._caller.fault(f"a batch of {accepted} was acknowledged as {answer.document}")


def total(events: Iterable[tuple[str, int]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for key, times in events:
        counts[key] += times
    return counts
