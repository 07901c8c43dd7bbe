"""What leaves the service: private counts, and how wrong they can be."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Self

Counts = Mapping[str, int]  # noisy counts by key: the output of a mechanism, safe to publish


@dataclass(frozen=True, slots=True)
class Released:
    """The output of a mechanism: private counts, and by how much the sketch itself may be too low. Safe to publish."""

    counts: Counts
    sketch_error: int | None  # with noise, so it may be negative; None where the sketch does not know its own error
    reduction: int = 0  # what listed keys got back, and keys that are not listed may have more; with noise, rounded up


@dataclass(frozen=True, slots=True)
class NoiseBound:
    """What noise and threshold alone do. With probability 1 − β, for all keys at once, S the released sketch error:

    - a listed key has a counter of at least count − below, and a true count of at most count + above + S;
    - a key that is not listed has a true count of at most S + unlisted, and the released reduction more.
    """

    below: int
    above: int
    unlisted: int

    def with_sketch(self, error: int | None, reason: str = "", *, reduction: int = 0) -> "ErrorBound":
        """The bound of a release whose sketch is so much too low itself; `reason` says why that is not known."""
        unlisted = None if error is None else max(0, error + self.unlisted + reduction)
        return ErrorBound(self.below, self.above, error, unlisted, reason)


@dataclass(frozen=True, slots=True)
class ErrorBound:
    """With probability 1 − β, for all keys at once: a listed key has a true count from count − below to
    count + above + sketch, and a key that is not listed one of at most `unlisted`."""

    below: int  # noise
    above: int  # noise
    sketch: int | None  # the sketch's own error, as it was released; in a plan, that of the declared number of events
    unlisted: int | None  # noise, threshold and sketch together
    reason: str = ""  # why the last two are not known

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The bound that was stored as this document, by this version or an earlier one.

        Earlier versions stored that true − sketch_low − noise_low ≤ released ≤ true + noise_high for every key, absent
        ones counting as 0; a bar's upper end was at most 2 more than noise_high and sketch_low above its count.
        """
        if "noise_low" not in document:
            return cls(**document)
        low, high, sketch = document["noise_low"], document["noise_high"], document["sketch_low"]
        reason = _NOT_DECLARED if sketch is None else ""
        return cls(high, high + 2, sketch, None if sketch is None else low + sketch, reason)


_NOT_DECLARED = "Released by an earlier version, without a declared number of events."


@dataclass(frozen=True, slots=True)
class Interval:
    """A noisy number, and where the true one lies."""

    count: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class TotalCount(Interval):
    """How many events, or people, there are in all."""

    unit: str  # "event" or "user"

    def share(self, count: int) -> float | None:
        """A count in percent of the total; None where the total is 0."""
        return round(100 * count / self.count, 2) if self.count else None


@dataclass(frozen=True, slots=True)
class Bar:
    """One key of a histogram. With probability 1 − β all true counts lie in their [low, high]."""

    key: str
    count: int
    low: int
    high: int | None  # None where the sketch's own error is not known


def bars(counts: Counts, bound: ErrorBound, least: int) -> list[Bar]:
    """The released counts with the intervals of their true counts, which are never under `least`."""
    above = None if bound.sketch is None else bound.above + bound.sketch
    listed = []
    for key, count in counts.items():
        low = max(least, count - bound.below)
        listed.append(Bar(key, count, low, None if above is None else max(low, count + above)))
    return listed


class Rest:
    """What the bars that were shown leave of the total: the events of all other keys.

    A person may have several keys, so of people nothing can be said about the others.
    """

    def __init__(self, total: TotalCount | None) -> None:
        self._total = total if total is not None and total.unit == "event" else None
        self._count = self._low = 0
        self._high: int | None = 0

    def take(self, shown: Sequence[Bar]) -> None:
        """These bars were shown too."""
        for bar in shown:
            self._count += bar.count
            self._low += bar.low
            self._high = None if self._high is None or bar.high is None else self._high + bar.high

    def interval(self) -> Interval | None:
        """How many events are left, and where their true number lies if all bars and the total hold; None: unknown."""
        if self._total is None:
            return None
        high = max(0, self._total.high - self._low)
        low = 0 if self._high is None else max(0, self._total.low - self._high)
        return Interval(max(0, self._total.count - self._count), min(low, high), high)


def largest(counts: Counts, number: int) -> Counts:
    """The largest counts, at most `number`, in key order. Of equal counts the smaller keys are taken."""
    if len(counts) <= number:
        return dict(sorted(counts.items()))
    kept = sorted(counts, key=lambda key: (-counts[key], key))[:number]
    return {key: counts[key] for key in sorted(kept)}


def within_bytes(counts: Counts, most_bytes: int) -> tuple[Counts, int | None]:
    """The largest counts whose keys have at most so many bytes together, in key order; and the largest count that was
    left out, or None where none was. It looks at noisy counts alone, so it costs no privacy."""
    if sum(len(key.encode()) for key in counts) <= most_bytes:
        return counts, None
    ranked = sorted(counts, key=lambda key: (-counts[key], key))
    room = most_bytes
    for place, key in enumerate(ranked):
        room -= len(key.encode())
        if room < 0:
            return {key: counts[key] for key in sorted(ranked[:place])}, counts[key]
    raise AssertionError("the keys were found to be too long")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One stored release without its bars, of which there may be many. Everything in it is public: it went through the
    ledger."""

    id: str
    sketches: Sequence[str]  # one, or several that were released together
    created_at: datetime
    mechanism: str
    theorem: str
    epsilon: str | None = None  # None where the release is stated in ρ
    rho: str | None = None  # None where it is stated in ε
    delta: str
    beta: str
    parameters: Mapping[str, object]
    error_bound: ErrorBound
    total: TotalCount | None = None  # where it was asked for
    guarantee: str = ""  # in words
    truncated: bool = False  # the smallest counts were left out, because the keys had too many bytes
    mode: str | None = None  # how several sketches were taken together; None where there is one
    charged: Sequence[Mapping[str, str]]
    remaining: Sequence[Mapping[str, str]]  # right after this release

    @property
    def title(self) -> str:
        """The names of its sketches, for people; of many only the first and how many more."""
        named, more = self.sketches[:_NAMED_IN_TITLE], len(self.sketches) - _NAMED_IN_TITLE
        return ", ".join(named) + (f" and {more} more" if more > 0 else "")

    def document(self) -> dict[str, Any]:
        """What is stored of it as one JSON value; the rest are columns (`_COLUMNS`)."""
        others = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in _COLUMNS}
        total = None if self.total is None else asdict(self.total)
        return others | {"error_bound": asdict(self.error_bound), "total": total}

    @classmethod
    def of(cls, document: dict[str, Any], *, id: str, sketches: Sequence[str], created_at: datetime) -> Self:  # noqa: A002
        """The snapshot that was stored as this document and these columns."""
        total = document.get("total")
        measured = {
            "error_bound": ErrorBound.of(document["error_bound"]),
            "total": TotalCount(**total) if total else None,
        }
        return cls(id=id, sketches=sketches, created_at=created_at, **(document | measured))


_COLUMNS = ("id", "sketches", "created_at")
_NAMED_IN_TITLE = 3
