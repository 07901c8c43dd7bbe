"""What exists before an attack: without it, most requests would only find out that there is nothing.

Each test has a world of its own, on a server that several share: some operations use up what they find.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, cycle
from typing import Any

import httpx2
from schemathesis.core.parameters import ParameterLocation

from tests.api.calls import merge, post_events, release
from tests.attack.cases import Case

_BUDGET = {"epsilon": "1000", "delta": "0.9"}
_SKETCHES: dict[str, dict[str, Any]] = {
    "events": {},
    "sums": {"budget": {**_BUDGET, "accountant": "zcdp"}},
    "people": {"unit": "user", "max_contributions": 2},
    "few": {"max_contributions": 2},
    "known": {"universe": {"values": ["a", "b", "c"]}},
    "digits": {"universe": {"range": [0, 9]}},
    "other": {},
}


@dataclass(frozen=True)
class World:
    sketches: list[str]
    ledgers: list[str]
    snapshots: list[str]
    keys: list[str]
    prefix: str

    @classmethod
    def made(cls, client: httpx2.Client, prefix: str) -> "World":
        ledger = f"{prefix}-shared"
        bound = {"contributions": {"unit": "event", "max": 2}}
        _accepted(client.put(f"/v1/ledgers/{ledger}", json=_BUDGET))
        _accepted(client.put(f"/v1/ledgers/{ledger}-bound", json=_BUDGET | bound))
        names = [f"{prefix}-{name}" for name in _SKETCHES]
        for name, parameters in zip(names, _SKETCHES.values(), strict=True):
            own = {"ledger": ledger} if name.endswith("-events") else {"budget": _BUDGET}
            _accepted(client.put(f"/v1/sketches/{name}", json={"k": 8, **own, **parameters}))
        _accepted(post_events(client, ["a", {"key": "b", "count": 1000}], names[0]))
        for mode in ("compact", "summed"):
            names.append(f"{prefix}-{mode}")
            _accepted(merge(client, names[-1], names[0], mode=mode))
        other = f"{prefix}-other"
        released = [_accepted(release(client, name))["id"] for name in (names[0], *names[-2:], other)]
        keys = [_accepted(client.post("/v1/keys", json={"name": "spare", "scopes": ["read"]}))["id"] for _ in range(3)]
        return cls(names, [ledger, f"{ledger}-bound", *names[1:4]], released, keys, prefix)

    def settled(self, cases: list[Case]) -> Iterator[Case]:
        """The same cases, most of them about what exists; now and then as they were drawn, or about something new."""
        names = count()
        found = {kind: cycle(getattr(self, kind)) for kind in ("sketches", "ledgers", "snapshots", "keys")}
        for number, case in enumerate(cases):
            if number % 4 < 3 and case.path_parameters and _asks_for_something(case):
                creates = case.method == "PUT" or case.path.endswith("/merges")
                new = f"{self.prefix}-new-{next(names)}" if creates and number % 4 else None
                kind = case.path.split("/")[2]
                case.path_parameters = dict.fromkeys(case.path_parameters, new or next(found[kind]))
            self._mention(case, number)
            yield case

    def _mention(self, case: Case, number: int) -> None:
        """In its body, what exists."""
        body = case.body
        if not isinstance(body, dict) or number % 4 == 3:
            return
        if isinstance(body.get("ledger"), str) and body.get("budget") is None:
            body = body | {"ledger": self.ledgers[number % 2]}
        elif isinstance(body.get("budget"), dict) and body.get("ledger") is not None:
            body = {name: value for name, value in body.items() if name != "ledger"}
        if isinstance(body.get("sources"), list) and body["sources"]:
            body = body | {"sources": [self.sketches[number % len(self.sketches)]]}
        if isinstance(body.get("sketches"), list):
            body = body | {"sketches": [f"{self.prefix}-events", f"{self.prefix}-other"]}
        if isinstance(body.get("snapshots"), list):
            body = body | {"snapshots": [self.snapshots[number % 3], self.snapshots[3]]}
        if body is not case.body:
            case.body = body


def _asks_for_something(case: Case) -> bool:
    """Not where what stands in the path is the fault that was put in."""
    return case.meta is None or not case.meta.is_negative_at(ParameterLocation.PATH)


def _accepted(response: httpx2.Response) -> Any:
    assert response.is_success, response.text
    return response.json()
