"""Merged sketches and sketches of user sets: k positive counters, made by the k+1'th-largest rule.

Neighbours differ by one in up to k counters, all in the same direction (`corol:merged-sensitivity`,
`lem:user-level-sketch-sensitivity`, `cor:merged-user-level`). That is weaker than what a `StreamSketch` promises, so
PMG does not take this type; `mechanisms/gshm.py` and `mechanisms/laplace_compact.py` do.

A whole batch is one merge: it is counted exactly, added, and cut back once. `lem:merge-step-sensitivity` asks only
that the batch's own counts differ by 0 or 1 in one direction between neighbours: by one event, or by one user who adds
at most 1 to a key. The error stays at most M/(k+1) for M elements in all (`lem:user-level-merge-error`): each cut takes
its value from at least k + 1 counters.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from app.core.sketches.stream import Events, StreamSketch

_LARGEST_IN_NUMPY = 2**62  # so that the sum of two fits into 64 bits


@dataclass(frozen=True, slots=True)
class CompactSketch:
    """At most k positive counters. Estimates lie in [f(x) − M/(k+1), f(x)]."""

    k: int
    counters: Mapping[str, int] = field(repr=False)  # private data: never in a log

    @classmethod
    def empty(cls, k: int) -> Self:
        return cls(k, {})

    @classmethod
    def of_stream(cls, sketch: StreamSketch) -> Self:
        """Zero counters go: the lemma speaks of counts, and an absent key counts zero."""
        return cls(sketch.k, {key: count for key, count in sketch.counters.items() if count > 0})

    def merged(self, other: "CompactSketch") -> "CompactSketch":
        if self.k != other.k:
            raise ValueError("merged sketches must have the same k")
        return self._with(other.counters)

    def extended(self, events: Events) -> "CompactSketch":
        """The sketch after these events too; their order does not matter."""
        batch: Counter[str] = Counter()
        for key, count in events:
            batch[key] += count
        return self._with(batch)

    def extended_by_users(self, users: Iterable[Collection[str]]) -> "CompactSketch":
        """The sketch after these users' sets too. A user adds 1 to each key of the set, however often it is listed."""
        batch: Counter[str] = Counter()
        for keys in users:
            batch.update(set(keys))
        return self._with(batch)

    def _with(self, counts: Mapping[str, int]) -> "CompactSketch":
        total = dict(self.counters)
        for key, count in counts.items():
            total[key] = total.get(key, 0) + count
        if len(total) <= self.k:
            return CompactSketch(self.k, total)
        values: NDArray[Any] = np.fromiter(total.values(), dtype=_dtype(total), count=len(total))
        cut = np.partition(values, len(total) - self.k - 1)[len(total) - self.k - 1]  # the k+1'th largest
        kept = np.flatnonzero(values > cut).tolist()
        keys = list(total)
        return CompactSketch(self.k, {keys[at]: int(values[at] - cut) for at in kept})


def _dtype(total: Mapping[str, int]) -> type:
    """NumPy's integers where all fit, Python's unbounded ones where one does not."""
    return np.int64 if max(total.values()) < _LARGEST_IN_NUMPY else object
