"""Sums of snapshots: whatever true counts their parts allow, the sum allows their sums, and nothing less."""

from dataclasses import replace
from itertools import product

from app.core.histogram import Bar, ErrorBound
from app.core.snapshot_sum import Adder, SnapshotSum
from tests.api.large import SNAPSHOT

_KEYS = ("a", "b", "c")
_PARTS = [
    (ErrorBound(1, 1, 0, 1), [Bar("a", 2, 1, 3)]),
    (ErrorBound(1, 1, 0, 2), [Bar("a", 1, 1, 2), Bar("b", 4, 3, 5)]),
    (ErrorBound(1, 1, 0, 0), []),
]


def test_the_ends_of_a_sum_are_the_least_and_the_most_that_its_parts_allow() -> None:
    parts = [replace(SNAPSHOT, id=str(at), error_bound=bound) for at, (bound, _) in enumerate(_PARTS)]
    added = SnapshotSum.of(parts, "event")
    adder = Adder(added, 10**6)
    for part, (_, bars) in zip(parts, _PARTS, strict=True):
        adder.take(part, bars)
    found = {bar.key: (bar.low, bar.high) for bar in adder.bars()}
    for key in _KEYS:
        possible = [
            next(((bar.low, bar.high or 0) for bar in bars if bar.key == key), (0, bound.unlisted or 0))
            for bound, bars in _PARTS
        ]
        sums = {sum(counts) for counts in product(*(range(low, high + 1) for low, high in possible))}
        assert found.get(key, (0, added.error_bound.unlisted)) == (min(sums), max(sums))
