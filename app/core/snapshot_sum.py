"""Released histograms, added up: post-processing, so it is free.

A key that a part lists has a true count from low to high there; one that it does not list has at most the part's
`unlisted`. So the sums of these bound the true count of all parts together, while the statements of all parts hold.
The noise of a release is drawn for it alone: whatever came before, its statement fails with probability β at most. So
all of them hold together with probability Π(1 − β) at least.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import reduce
from typing import Self

from app.core.errors import InvalidRequest
from app.core.histogram import Bar, Snapshot, TotalCount
from app.core.ledger.budget import decimal_text

_PRODUCTS = Context(prec=60, rounding=ROUND_FLOOR)
_DIGITS = Decimal("1e-9")
_BAR_BYTES = 300  # about what a bar takes in memory, besides the letters of its key


@dataclass(frozen=True, slots=True)
class SumBound:
    """What is known of all keys that no part lists."""

    unlisted: int | None  # the most that such a key counts; None where a part does not know it


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSum:
    """Several releases as one, without its bars, of which there may be many."""

    snapshots: Sequence[str]
    sketches: Sequence[str]
    unit: str
    beta: str  # of all statements together
    error_bound: SumBound
    total: TotalCount | None  # where every part has one
    truncated: bool  # some part left out its smallest counts

    @classmethod
    def of(cls, parts: Sequence[Snapshot], unit: str) -> Self:
        """The sum of these parts, which are of different data and all of this unit."""
        return cls(
            snapshots=[part.id for part in parts],
            sketches=[name for part in parts for name in part.sketches],
            unit=unit,
            beta=_beta_of_all(parts),
            error_bound=SumBound(_sum_if_known(part.error_bound.unlisted for part in parts)),
            total=_total_of_all(parts, unit),
            truncated=any(part.truncated for part in parts),
        )


def _total_of_all(parts: Sequence[Snapshot], unit: str) -> TotalCount | None:
    known = [part.total for part in parts if part.total is not None]
    if len(known) < len(parts):
        return None
    return TotalCount(
        sum(total.count for total in known),
        sum(total.low for total in known),
        sum(total.high for total in known),
        unit=unit,
    )


def _beta_of_all(parts: Sequence[Snapshot]) -> str:
    """1 − Π(1 − β), rounded up."""
    hold = reduce(_PRODUCTS.multiply, (_PRODUCTS.subtract(Decimal(1), Decimal(part.beta)) for part in parts))
    return decimal_text((1 - hold).quantize(_DIGITS, ROUND_CEILING))


def _sum_if_known(numbers: Iterable[int | None]) -> int | None:
    given = list(numbers)
    known = [number for number in given if number is not None]
    return sum(known) if len(known) == len(given) else None


class Adder:
    """Adds up the bars of parts, in memory of about so many bytes at most."""

    def __init__(self, added: SnapshotSum, most_bytes: int) -> None:
        self._unlisted = added.error_bound.unlisted
        self._room = most_bytes
        self._sums: dict[str, tuple[int, int, int]] = {}  # count, low, and by how much high is above all `unlisted`

    def take(self, part: Snapshot, bars: Iterable[Bar]) -> None:
        """Add the bars of one part; InvalidRequest where there is no room for all keys."""
        unlisted = part.error_bound.unlisted or 0
        for bar in bars:
            before = self._sums.get(bar.key)
            if before is None:
                before = 0, 0, 0
                self._require_room(bar.key)
            count, low, beyond = before
            high = (bar.high or 0) - unlisted  # one that is not known is not shown in the end
            self._sums[bar.key] = count + bar.count, low + bar.low, beyond + high

    def _require_room(self, key: str) -> None:
        self._room -= len(key.encode()) + _BAR_BYTES
        if self._room < 0:
            raise InvalidRequest(
                f"These snapshots list more than {len(self._sums):,} keys together, for which there is no room. "
                "Add up fewer of them."
            )

    def bars(self) -> list[Bar]:
        """All sums, the largest count first, of equal counts the smaller key first."""
        unlisted = self._unlisted
        found = [
            Bar(key, count, low, None if unlisted is None else unlisted + beyond)
            for key, (count, low, beyond) in self._sums.items()
        ]
        return sorted(found, key=lambda bar: (-bar.count, bar.key))
