"""The Misra-Gries sketch of one event stream: `alg:MG` of Lebeda & Tětek, exactly.

Neighbouring streams (one event more or less) give sketches that obey `lem:nb-cases`: at most two keys differ
on each side, and either one counter differs by one or all do. `mechanisms/pmg.py` rests on that. The lemma needs three
rules, which a faster fold must keep too:

- events are folded in arrival order; `(key, count)` is that many events in a row;
- a counter that has fallen to zero stays until its slot is needed;
- the slot that is reused is that of the smallest zero key, in an order on keys that does not depend on the stream
  (`order.py`) and stays the same for the life of the sketch.

This is the definition, in plain Python. `app/core/kernel` does the same in compiled code and is tested against it.

The paper fills the sketch with dummy keys that sort after every real key. Here they are the `k - len(counters)`
empty slots. Nothing is decremented while a slot is empty (it counts as zero), so a zero counter and an empty
slot never meet, and which of them would be reused first is never asked.

The sketch knows its own error: `lowered`, how often all counters were lowered. Each time takes one from k counters and
the event that came, so a counter is at most that much too low, and the stream has Σc + (k+1)·lowered events. Of two
neighbours either all counters fall by one and `lowered` rises by one (states S1 and S2 in the proof of `lem:nb-cases`),
or `lowered` is the same (S3 to S6).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from typing import Self

from app.core.sketches.order import BY_BYTES, Order

Events = Iterable[tuple[str, int]]  # key and how many events in a row, in arrival order

MAX_K = 65_536


@dataclass(frozen=True, slots=True)
class StreamSketch:
    """k counters of one stream. Estimates lie in [f(x) − lowered, f(x)], and lowered ≤ n/(k+1) (`fact:MG-error`)."""

    k: int
    counters: Mapping[str, int] = field(repr=False)  # private data: never in a log
    order: Order = field(default=BY_BYTES, repr=False)
    lowered: int | None = field(default=None, repr=False)  # private too; None where it is not known

    @classmethod
    def empty(cls, k: int, order: Order = BY_BYTES) -> Self:
        """The sketch of a stream without events."""
        return cls(k, {}, order, lowered=0)

    def extended(self, events: Events) -> "StreamSketch":
        """The sketch after these events too."""
        fold = _Fold(self.k, self.counters, self.order)
        for key, count in events:
            fold.add(key, count)
        return StreamSketch(self.k, fold.counters(), self.order, sum_if_known(self.lowered, fold.offset))

    @property
    def events(self) -> int | None:
        """How many events the stream has; None where it is not known. Private, as the counters are."""
        return None if self.lowered is None else sum(self.counters.values()) + (self.k + 1) * self.lowered


def sum_if_known(*numbers: int | None) -> int | None:
    """Their sum; None, which is not known, where one of them is not."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


class _Fold:
    """`alg:MG` with one shared offset in place of "decrement all".

    A counter's value is its entry minus `offset`. The heap holds one (entry, hash, key) per stored key, so its top is
    the first key in order of the smallest counter; an entry there that has grown since is put right when it comes up.
    That is at most one correction for each increment, so an item costs O(log k) whatever its count.
    """

    __slots__ = ("empty_slots", "entries", "hash_of", "heap", "offset")

    def __init__(self, k: int, counters: Mapping[str, int], order: Order) -> None:
        self.entries = dict(counters)
        self.offset = 0
        self.empty_slots = k - len(self.entries)
        self.hash_of = order.hash_of
        self.heap: list[tuple[int, int, str]] = []
        if not self.empty_slots:
            self._fill_heap()

    def add(self, key: str, count: int) -> None:
        """Count so many events of this key in a row."""
        entry = self.entries.get(key)
        if entry is not None:  # branch 1
            self.entries[key] = entry + count
        elif self.empty_slots:  # branch 3: nothing was ever decremented, so the zero slots are the empty ones
            self.empty_slots -= 1
            self.entries[key] = self.offset + count
            if not self.empty_slots:
                self._fill_heap()
        else:
            self._add_unstored(key, count)

    def _add_unstored(self, key: str, count: int) -> None:
        smallest, evicted = self._smallest()
        if smallest > self.offset:  # branch 2, as many events at once as all counters can pay for
            decrement = min(count, smallest - self.offset)
            self.offset += decrement
            count -= decrement
        if count > 0:  # branch 3: the smallest counter is zero by now
            del self.entries[evicted]
            self.entries[key] = self.offset + count
            heapreplace(self.heap, (self.offset + count, self.hash_of(key), key))

    def _fill_heap(self) -> None:
        """As soon as the sketch is full, needed or not: the time must not tell whether a key was stored."""
        self.heap = [(entry, self.hash_of(key), key) for key, entry in self.entries.items()]
        heapify(self.heap)

    def _smallest(self) -> tuple[int, str]:
        """The smallest entry, and of equal ones that of the first key in order."""
        while True:
            entry, hashed, key = self.heap[0]
            current = self.entries[key]
            if entry == current:
                return entry, key
            heapreplace(self.heap, (current, hashed, key))

    def counters(self) -> dict[str, int]:
        """The counters, zeros among them."""
        return {key: entry - self.offset for key, entry in self.entries.items()}
