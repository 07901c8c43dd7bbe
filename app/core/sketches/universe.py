"""A declared set of possible keys: what pure differential privacy needs, because every key gets noise."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from operator import lt
from typing import Any

from app.core.errors import InvalidRequest

MAX_SIZE = 2**63


@dataclass(frozen=True, slots=True)
class Values:
    """The listed keys, in ascending order."""

    keys: tuple[str, ...]

    @property
    def size(self) -> int:
        """How many keys there are."""
        return len(self.keys)

    def __contains__(self, key: str) -> bool:
        at = bisect_left(self.keys, key)
        return at < len(self.keys) and self.keys[at] == key

    def key(self, index: int) -> str:
        """The key at this place, from 0 on."""
        return self.keys[index]


@dataclass(frozen=True, slots=True)
class Range:
    """The whole numbers from low to high, written in decimal without leading zeros."""

    low: int
    high: int

    @property
    def size(self) -> int:
        """How many keys there are."""
        return self.high - self.low + 1

    def __contains__(self, key: str) -> bool:
        digits = key.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 20):
            return False
        number = int(key)
        return str(number) == key and self.low <= number <= self.high

    def key(self, index: int) -> str:
        """The key at this place, from 0 on."""
        return str(self.low + index)


Universe = Values | Range


def of_values(keys: Sequence[str]) -> Values:
    """The universe of these keys, each once; InvalidRequest where there are none."""
    if not keys:
        raise InvalidRequest("A universe needs at least one value.")
    return Values(tuple(sorted(set(keys))))


def of_range(low: int, high: int) -> Range:
    """The universe of these numbers; InvalidRequest where there are none, or too many."""
    if not low <= high < low + MAX_SIZE:
        raise InvalidRequest("A universe range needs low ≤ high and at most 2^63 numbers.")
    return Range(low, high)


def as_document(universe: Universe) -> dict[str, Any]:
    """The universe as it is stored. Equal universes have equal documents."""
    return {"values": list(universe.keys)} if isinstance(universe, Values) else {"range": [universe.low, universe.high]}


def of_document(document: dict[str, Any]) -> Universe:
    """The universe of a stored document. Its values are in order already, so they are not sorted again."""
    if "values" not in document:
        return of_range(*document["range"])
    keys = tuple(document["values"])
    return Values(keys) if keys and all(map(lt, keys, keys[1:])) else of_values(keys)
