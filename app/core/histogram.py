"""What leaves the service: private counts, and how wrong they can be."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class ErrorBound:
    """With probability 1 − β, for every key at once (an absent key has the released count 0):

    true count − sketch_low − noise_low ≤ released count ≤ true count + noise_high.
    """

    noise_low: int  # noise and threshold together
    noise_high: int
    sketch_low: int | None  # n/(k+1) for the declared n; None where none was declared, never the true n


@dataclass(frozen=True, slots=True)
class Bar:
    """One key of a histogram. With probability 1 − β all true counts lie in their [low, high]."""

    key: str
    count: int
    low: int
    high: int | None  # None where the declared number of events is missing


Counts = Mapping[str, int]  # noisy counts by key: the output of a mechanism, safe to publish


def largest(counts: Counts, number: int) -> Counts:
    """The largest counts, at most `number`, in key order. Of equal counts the smaller keys are taken."""
    if len(counts) <= number:
        return dict(sorted(counts.items()))
    kept = sorted(counts, key=lambda key: (-counts[key], key))[:number]
    return {key: counts[key] for key in sorted(kept)}


def with_bounds(counts: Counts, *, below: int, above: int, sketch_low: int | None, least: int) -> list[Bar]:
    """Bars whose true counts are at most `below` lower or `above` + `sketch_low` higher, and never under `least`."""
    return [
        Bar(
            key,
            count,
            low=max(least, count - below),
            high=None if sketch_low is None else count + above + sketch_low,
        )
        for key, count in counts.items()
    ]


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
    sketch: str
    created_at: datetime
    mechanism: str
    theorem: str
    epsilon: str
    delta: str
    beta: str
    parameters: Mapping[str, object]
    error_bound: ErrorBound
    guarantee: str = ""  # in words
    truncated: bool = False  # the smallest counts were left out, because the keys had too many bytes
    charged: Sequence[Mapping[str, str]]
    remaining: Sequence[Mapping[str, str]]  # right after this release

    def document(self) -> dict[str, Any]:
        """What is stored of it as one JSON value; the rest are columns (`_COLUMNS`)."""
        others = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in _COLUMNS}
        return others | {"error_bound": asdict(self.error_bound)}

    @classmethod
    def of(cls, document: dict[str, Any], *, id: str, sketch: str, created_at: datetime) -> Self:  # noqa: A002
        """The snapshot that was stored as this document and these columns."""
        parts = document | {"error_bound": ErrorBound(**document["error_bound"])}
        return cls(id=id, sketch=sketch, created_at=created_at, **parts)


_COLUMNS = ("id", "sketch", "created_at")
