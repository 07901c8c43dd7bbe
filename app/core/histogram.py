"""What leaves the service: private counts, and how wrong they can be."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
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
    """The so many largest, in key order; of equal counts the smaller keys."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One stored release. Everything in it is public: it went through the ledger."""

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
    histogram: Sequence[Bar]
    guarantee: str = ""  # in words
    charged: Sequence[Mapping[str, str]]
    remaining: Sequence[Mapping[str, str]]  # right after this release

    def document(self) -> dict[str, Any]:
        """The part that is stored as one value; the rest are columns."""
        # Not asdict for the bars: there may be 65,536 of them, and it copies every value.
        bars = [{"key": bar.key, "count": bar.count, "low": bar.low, "high": bar.high} for bar in self.histogram]
        others = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in _COLUMNS}
        return others | {"error_bound": asdict(self.error_bound), "histogram": bars}

    @classmethod
    def of(cls, document: dict[str, Any], *, id: str, sketch: str, created_at: datetime) -> Self:  # noqa: A002
        parts = document | {
            "error_bound": ErrorBound(**document["error_bound"]),
            "histogram": [Bar(**bar) for bar in document["histogram"]],
        }
        return cls(id=id, sketch=sketch, created_at=created_at, **parts)

    def selected(self, *, top: int | None, min_count: int | None) -> Self:
        """The largest `top` bars with at least `min_count`, still in key order."""
        bars = [bar for bar in self.histogram if min_count is None or bar.count >= min_count]
        kept = largest({bar.key: bar.count for bar in bars}, len(bars) if top is None else top)
        return replace(self, histogram=[bar for bar in bars if bar.key in kept])


_COLUMNS = ("id", "sketch", "created_at")
