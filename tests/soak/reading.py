"""Whatever may be read, while it changes."""

import random
from decimal import Decimal

from tests.soak.calls import Answer, Call, Caller
from tests.soak.releasing import Arenas
from tests.soak.sending import VIEWS
from tests.soak.truth import Truth


class Reader:
    def __init__(self, arenas: Arenas, caller: Caller, truth: Truth, choice: random.Random) -> None:
        self._arenas, self._caller, self._truth, self._choice = arenas, caller, truth, choice

    def read(self) -> None:
        reads = (self._sketch, self._ledger, self._histogram, self._snapshots, self._snapshot, self._plan, self._server)
        self._choice.choice(reads)()

    def _get(self, path: str, *expected: str) -> Answer:
        return self._caller.call(Call("read", "GET", path, expected=("200", *expected)))

    def _sketch(self) -> None:
        self._get(f"/v1/sketches/{self._choice.choice([*VIEWS, self._arenas.current.both])}")

    def _ledger(self) -> None:
        arena = self._arenas.current
        path = f"/v1/ledgers/{self._choice.choice((arena.first, arena.second))}"
        ledger = self._get(path).document
        for amount in ("epsilon", "delta"):
            if Decimal(ledger["spent"][amount]) > Decimal(ledger["total"][amount]):
                self._caller.fault(f"{path} shows more spent than there is")
        self._get(f"{path}/entries")

    def _histogram(self) -> None:
        """Once a release was acknowledged there is one."""
        sketch = self._arenas.current.both
        known = any(released.sketch == sketch for released in self._truth.newest_releases())
        self._get(f"/v1/sketches/{sketch}/histogram", *(() if known else ("404 no-snapshot",)))

    def _snapshots(self) -> None:
        self._get(f"/v1/sketches/{self._arenas.current.first}/snapshots")

    def _snapshot(self) -> None:
        """Whatever was released stays as it was."""
        releases = self._truth.newest_releases()
        if releases:
            released = self._choice.choice(releases)
            if self._get(f"/v1/snapshots/{released.id}").document["histogram"] != released.histogram:
                self._caller.fault(f"snapshot {released.id} is not what it was")

    def _plan(self) -> None:
        path = f"/v1/sketches/{self._choice.choice(VIEWS)}/plan"
        self._caller.call(Call.of("read", "POST", path, {"epsilon": "0.5", "delta": "1e-6"}))

    def _server(self) -> None:
        self._get(self._choice.choice(("/metrics", "/readyz", "/v1/sketches?limit=10")))
