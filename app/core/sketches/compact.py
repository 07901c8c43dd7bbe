"""Merged sketches and sketches of people's sets: k positive counters, made by the k+1'th-largest rule.

Neighbours differ by one in up to k counters, all in the same direction (`corol:merged-sensitivity`,
`lem:user-level-sketch-sensitivity`, `cor:merged-user-level`). That is weaker than what a `StreamSketch` promises, so
mechanisms whose proofs need `lem:nb-cases` do not take this type.

One step is one person, or one event: `alg:user-level-sketch` exactly, in order of arrival. `lem:merge-step-sensitivity`
compares two worlds step by step, so a step must not depend on how items were grouped into requests: a sender that cuts
its requests by count moves every later cut when one person is added. `(key, count)` is that many events in a row.

A person adds 1 to each key of their set. If more than k keys are stored then, all counters fall by one and those at
zero are forgotten. (That is the k+1'th-largest rule: only keys that were stored before, at most k, count more than 1,
so the k+1'th largest counter is 1.) An event is a person with a set of one key. The error is at most M/(k+1) for M
elements in all (`lem:user-level-sketch-error`, `lem:user-level-merge-error`): what lowers takes 1 from more than k
counters.

The sketch knows its own error: `lowered` is all that steps and merges have subtracted, in the sources of a merge too,
and no counter is more than that too low. Of two neighbours either `lowered` is the same and counters are higher by 0
or 1 with the person more, or `lowered` is higher by one and counters are lower by 0 or 1.

This is the definition, in plain Python. `app/core/kernel` does the same in compiled code and is tested against it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from app.core.sketches.stream import Events, StreamSketch, sum_if_known

_LARGEST_IN_NUMPY = 2**62  # so that the sum of two fits into 64 bits


@dataclass(frozen=True, slots=True)
class CompactSketch:
    """At most k positive counters. Estimates lie in [f(x) − lowered, f(x)], and lowered ≤ M/(k+1)."""

    k: int
    counters: Mapping[str, int] = field(repr=False)  # private data: never in a log
    lowered: int | None = field(default=None, repr=False)  # private too; None where it is not known
    items: int | None = field(default=None, repr=False)  # events or people that were counted, likewise

    @classmethod
    def empty(cls, k: int) -> Self:
        """The sketch of nothing."""
        return cls(k, {}, lowered=0, items=0)

    @classmethod
    def of_stream(cls, sketch: StreamSketch) -> Self:
        """The same counts. Zero counters are dropped: the lemma speaks of counts, and an absent key counts zero."""
        positive = {key: count for key, count in sketch.counters.items() if count > 0}
        return cls(sketch.k, positive, sketch.lowered, sketch.events)

    def extended(self, events: Events) -> "CompactSketch":
        """The sketch after these events too."""
        fold = _Fold(self.k, self.counters)
        for key, count in events:
            fold.add_event(key, count)
        return self._after(fold)

    def extended_by_people(self, sets: Iterable[Collection[str]]) -> "CompactSketch":
        """The sketch after these people too. A person adds 1 to each key of their set, however often it is listed."""
        fold = _Fold(self.k, self.counters)
        for keys in sets:
            fold.add_person(set(keys))
        return self._after(fold)

    def merged(self, other: "CompactSketch") -> "CompactSketch":
        """Both added up, less the k+1'th largest sum; what is not positive then is forgotten (sec:merge)."""
        if self.k != other.k:
            raise ValueError("merged sketches must have the same k")
        total = dict(self.counters)
        for key, count in other.counters.items():
            total[key] = total.get(key, 0) + count
        lowered, items = sum_if_known(self.lowered, other.lowered), sum_if_known(self.items, other.items)
        if len(total) <= self.k:
            return CompactSketch(self.k, total, lowered, items)
        dtype: type = np.int64 if max(total.values()) < _LARGEST_IN_NUMPY else object  # unbounded where one needs it
        values: NDArray[Any] = np.fromiter(total.values(), dtype=dtype, count=len(total))
        cut = int(np.partition(values, len(total) - self.k - 1)[len(total) - self.k - 1])  # the k+1'th largest
        kept = np.flatnonzero(values > cut).tolist()
        keys = list(total)
        counters = {keys[at]: int(values[at]) - cut for at in kept}
        return CompactSketch(self.k, counters, sum_if_known(lowered, cut), items)

    def _after(self, fold: "_Fold") -> "CompactSketch":
        """What a fold that began with these counters has led to."""
        lowered, items = sum_if_known(self.lowered, fold.offset), sum_if_known(self.items, fold.items)
        return CompactSketch(self.k, fold.counters(), lowered, items)


class _Fold:
    """`alg:user-level-sketch` with one shared offset in place of "decrement all".

    A counter's value is its entry minus `offset`. The heap holds one (entry, key) per stored key; an entry there that
    has grown since is put right when it comes up.
    """

    __slots__ = ("entries", "heap", "items", "k", "offset")

    def __init__(self, k: int, counters: Mapping[str, int]) -> None:
        self.k = k
        self.entries = dict(counters)
        self.offset = self.items = 0
        self.heap = [(entry, key) for key, entry in self.entries.items()]
        heapify(self.heap)

    def add_person(self, keys: Collection[str]) -> None:
        """Count one person, who adds 1 to each of these keys."""
        self.items += 1
        new = [key for key in keys if key not in self.entries]
        for key in keys:
            if key in self.entries:
                self.entries[key] += 1
        if len(self.entries) + len(new) <= self.k:
            for key in new:
                self._store(key, 1)
        else:  # the new keys would fall from 1 to 0 at once
            self._lower(1)

    def add_event(self, key: str, count: int) -> None:
        """Count so many events of this key in a row."""
        self.items += count
        if key in self.entries:
            self.entries[key] += count
            return
        if len(self.entries) == self.k:  # as many events at once as all counters can pay for
            paid = min(count, self._smallest() - self.offset)
            self._lower(paid)
            count -= paid
        if count > 0:  # so the smallest counter fell to zero, and there is room
            self._store(key, count)

    def _store(self, key: str, count: int) -> None:
        self.entries[key] = self.offset + count
        heappush(self.heap, (self.offset + count, key))

    def _lower(self, by: int) -> None:
        """Take this from every counter, and forget the keys whose counters are zero then."""
        self.offset += by
        while self.heap and self._smallest() <= self.offset:
            _, key = heappop(self.heap)
            del self.entries[key]

    def _smallest(self) -> int:
        """The smallest entry, which is at the top of the heap then."""
        while True:
            entry, key = self.heap[0]
            current = self.entries[key]
            if entry == current:
                return entry
            heapreplace(self.heap, (current, key))

    def counters(self) -> dict[str, int]:
        """The counters, all of them positive."""
        return {key: entry - self.offset for key, entry in self.entries.items()}
