"""The kernel in plain Python, for machines without a compiler and for counters of more than 62 bits.

It scans nothing: the careful readers read every body, and `StreamSketch` folds.
"""

from collections.abc import Sequence
from typing import Protocol

from app.core.sketches import state
from app.core.sketches.stream import StreamSketch


class Batch:
    def __init__(self, pairs: Sequence[tuple[str, int]]) -> None:
        self._pairs = list(pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    @property
    def events(self) -> int:
        return sum(count for _, count in self._pairs)

    @property
    def nbytes(self) -> int:
        return 200 * len(self._pairs)

    def pairs(self) -> list[tuple[str, int]]:
        return self._pairs


class _Pairs(Protocol):
    def pairs(self) -> list[tuple[str, int]]: ...


class Fold:
    def __init__(self, stored: bytes) -> None:
        self._sketch = state.decode_as(StreamSketch, stored)

    def add(self, batch: _Pairs) -> None:
        self._sketch = self._sketch.extended(batch.pairs())

    def state(self) -> bytes:
        return state.encode(self._sketch)

    @property
    def nbytes(self) -> int:
        """About what a dictionary of k short keys takes."""
        return 250 * self._sketch.k
