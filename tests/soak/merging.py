"""Sketches that get their events, are merged, and get no more: what the target must hold is known exactly."""

import itertools
import random
from collections import Counter

from tests.soak.calls import Call, Caller
from tests.soak.sending import K, Sender, total
from tests.soak.truth import Truth

LEDGER = "parts"  # of all parts, and so of what is made of them

_ROUNDS_PER_TARGET = 6  # by different clients, at the same time


def prepare(caller: Caller) -> None:
    body = {"epsilon": "1", "delta": "1e-5"}
    caller.call(Call.of("setup", "PUT", f"/v1/ledgers/{LEDGER}", body, expected=("200", "201")))


def reduced(counts: Counter[str], k: int) -> Counter[str]:
    """What a sum holds of a sketch with these counts, in units of 1/(k+1) (`app/core/sketches/summed.py`)."""
    return +Counter({key: (k + 1) * count - counts.total() for key, count in counts.items()})  # positive ones


class Merger:
    def __init__(
        self, rounds: "itertools.count[int]", sender: Sender, caller: Caller, truth: Truth, choice: random.Random
    ) -> None:
        """`rounds` is shared by all clients."""
        self._rounds, self._sender, self._caller, self._truth, self._choice = rounds, sender, caller, truth, choice

    def merge(self) -> None:
        number = next(self._rounds)
        generation = number // _ROUNDS_PER_TARGET
        mode = "compact" if generation % 2 else "summed"
        target = f"whole-{generation}"
        parts = {f"part-{number}-{side}": self._sender.some_events() for side in ("a", "b")}
        for name, events in parts.items():
            body = {"k": K, "ledger": LEDGER}
            self._caller.call(Call.of("merge", "PUT", f"/v1/sketches/{name}", body, expected=("200", "201")))
            self._sender.count(name, events)
        for sources in self._choice.choice(([["a", "b"]], [["a"], ["b"]])):
            self._merge(target, [f"part-{number}-{side}" for side in sources], mode)
        for events in parts.values():
            counts = total(events)
            self._truth.count(target, counts if mode == "compact" else reduced(counts, K))
        if mode == "compact":
            self._sender.count(target, self._sender.some_events())

    def _merge(self, target: str, sources: list[str], mode: str) -> None:
        """Merges have no idempotency key: one that was made says so by refusing to be made again."""
        self._caller.call(
            Call.of(
                "merge",
                "POST",
                f"/v1/sketches/{target}/merges",
                {"sources": sources, "mode": mode},
                expected=("201",),
                expected_of_a_repetition=("409 incompatible-sketches",),
            )
        )
