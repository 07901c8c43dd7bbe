"""Reduced counters of one or more stream sketches, added up key by key and never cut back.

`alg:MG-pure-DP` subtracts γ = Σc/(k+1) from each counter and drops what is not positive. Everything here is scaled by
k + 1, so that it stays whole: the reduced counter of x is (k+1)·c_x − Σc where that is positive.

Neighbours, with one event more or less in one source, are at most 2k − 1 apart in ℓ1, whatever the number of sources.
By `lem:nb-cases` there are two cases. One counter is higher by one: its own reduced counter rises by at most
(k+1) − 1 = k, and the at most k − 1 others fall by at most 1 each. Or all k counters are lower by one: each reduced
counter falls by at most (k+1) − k = 1, together k. Taking positive parts does not enlarge a difference. (The proof of
`lem:pure-dp-postprocessing-sensitivity` has the sign of the second effect turned; its bound of 2 holds all the same.)

Estimates lie in [f(x) − n/(k+1), f(x)], n over all sources (`lem:pure-dp-postprocessing-error`).

A sum also knows Σγ, its `reduction`, and n, its `events`, each in steps of 1/(k+1): a reduced counter and `reduction`
are at least all that the sources have counted of a key, and a reduced counter and `events` at least (k+1)·f(x). Of
neighbours, Σc and n of the source with the event more are higher by one, or Σc is lower by k and n higher by one. So
the reduced counters with both are at most 2k + 1 apart in ℓ1, with n alone at most 2k; and the square of their ℓ2
distance, with both, is at most k² + k + 1.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from app.core.sketches.stream import StreamSketch, sum_if_known


@dataclass(frozen=True, slots=True)
class SummedSketch:
    """Positive reduced counters, in units of 1/(k+1) events."""

    k: int
    sources: int  # how many stream sketches were added: public, and it bounds the number of keys
    counters: Mapping[str, int] = field(repr=False)  # private data: never in a log
    reduction: int | None = field(default=None, repr=False)  # Σc over all sources, private too; None where not known
    events: int | None = field(default=None, repr=False)  # n over all sources, likewise

    @classmethod
    def empty(cls, k: int, sources: int) -> Self:
        """The sum of so many streams without events."""
        return cls(k, sources, {}, 0, 0)

    @classmethod
    def of_stream(cls, sketch: StreamSketch) -> Self:
        """The positive reduced counters of one stream."""
        total = sum(sketch.counters.values())
        scaled = {key: (sketch.k + 1) * count - total for key, count in sketch.counters.items()}
        return cls(sketch.k, 1, {key: count for key, count in scaled.items() if count > 0}, total, sketch.events)

    def plus(self, other: "SummedSketch") -> "SummedSketch":
        """The sum of both, key by key."""
        return sum_of([self, other])

    @property
    def most_keys(self) -> int:
        """A public bound on how many keys can be stored."""
        return self.sources * self.k


def sum_of(sketches: Iterable[SummedSketch]) -> SummedSketch:
    """The sum of one or more, key by key. They may be large, so they are asked for one at a time."""
    remaining = iter(sketches)
    first = next(remaining)
    counters, sources, reduction, events = Counter(first.counters), first.sources, first.reduction, first.events
    for sketch in remaining:
        if sketch.k != first.k:
            raise ValueError("summed sketches must have the same k")
        counters.update(sketch.counters)
        sources += sketch.sources
        reduction, events = sum_if_known(reduction, sketch.reduction), sum_if_known(events, sketch.events)
    return SummedSketch(first.k, sources, dict(counters), reduction, events)


def as_sum(sketch: StreamSketch | SummedSketch) -> SummedSketch:
    """A stream sketch as a sum of one; a sum as it is."""
    return SummedSketch.of_stream(sketch) if isinstance(sketch, StreamSketch) else sketch


def whole_counts(steps: int, k: int) -> int:
    """Steps of 1/(k+1) as whole counts, rounded up."""
    return -(-steps // (k + 1))


def beside(sources: int) -> int:
    """How many numbers get noise beside the counters of a sum: n, and Σc where it has one source.

    In one source a key's counter is its reduced counter and Σc/(k+1). In several it is not: where a source has no
    counter of the key, or reduced it to zero, the Σc/(k+1) of that source must not be added.
    """
    return 2 if sources == 1 else 1


def sensitivity(k: int, max_contributions: int, sources: int) -> int:
    """ℓ1 distance of neighbours, of the reduced counters with what is `beside` them, in the units of a SummedSketch.

    A counter higher: k for its key, k − 1 for the others, 1 for n and 1 for Σc. All counters lower: k for the keys, 1
    for n and k for Σc. Together at most 2k + 1 with Σc and 2k without; m contributions are m neighbours in a row.
    """
    return (2 * k - 1 + beside(sources)) * max_contributions


def squared_distance(k: int, max_contributions: int, sources: int) -> int:
    """The square of the ℓ2 distance of neighbours, of the same numbers.

    A counter higher: k² for its key, k − 1 for the others, 1 for n and 1 for Σc. All counters lower: k for the keys, 1
    for n and k² for Σc. Together at most k² + k + 1 with Σc and k² + k without.
    """
    return (k * k + k - 1 + beside(sources)) * max_contributions**2
