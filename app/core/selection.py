"""Which bars of a released histogram a reader gets, and in which order.

All of it looks at released values alone, so it is free.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from app.core.histogram import Bar

Sorting = Literal["count", "key"]  # by count: the largest first, of equal counts the smaller key first
Places = NDArray[np.uint32]  # of bars, in the order in which they are stored

_BAR_BYTES = 200  # about what a bar takes in memory, besides the letters of its key


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a reader asks for: the largest `top` bars with at least `min_count`, of equal counts the smaller keys; or
    those of the named `keys` that have one."""

    top: int | None = None
    min_count: int | None = None
    keys: frozenset[str] = frozenset()
    order: Sorting = "count"

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self.top is None and self.min_count is None and not self.keys

    def of(self, by_count: Sequence[Bar]) -> list[Bar]:
        """The wanted bars, in the wanted order, of a histogram that is in memory, by count."""
        if self.keys:
            kept = [bar for bar in by_count if bar.key in self.keys]
        else:
            kept = [bar for piece in self.beginning([by_count]) for bar in piece]
        return kept if self.order == "count" else sorted(kept, key=lambda bar: bar.key)

    def beginning(self, pieces: Iterable[Sequence[Bar]]) -> Iterator[Sequence[Bar]]:
        """The wanted bars, without regard to `keys`, of a histogram by count that is given piece by piece. After the
        last of them no further piece is taken."""
        room = self.top
        for piece in pieces:
            kept = piece if self.min_count is None else [bar for bar in piece if bar.count >= self.min_count]
            kept = kept[:room]
            yield kept
            if room is not None:
                room -= len(kept)
            if room == 0 or len(kept) < len(piece):
                return


@dataclass(frozen=True, slots=True)
class Figures:
    """What is known of all bars of a stored histogram without reading their keys, in the order in which they are
    stored. The place of a bar is its number in that order, from 0 on."""

    counts: NDArray[Any]  # whole numbers; as objects where some have more than 64 bits
    key_lengths: NDArray[np.uint16]  # in bytes
    ranks: NDArray[np.uint32] | None  # the numbers of bars that are stored by count, in key order; None: stored by key

    def largest(self, wanted: Selection) -> Places:
        """The places of the largest bars that are wanted, without regard to `keys`."""
        number = len(self.counts)
        if wanted.min_count is not None:
            number = int(np.count_nonzero(self.counts >= wanted.min_count))
        return self.arranged(range(len(self.counts)), "count")[:number][: wanted.top]

    def arranged(self, chosen: Sequence[int] | Places, order: Sorting) -> Places:
        """The chosen places, so that their bars come in this order."""
        places = np.sort(np.asarray(chosen, np.uint32))
        if order == "key":
            return places if self.ranks is None else places[np.argsort(self.ranks[places])]
        return places if self.ranks is not None else places[np.argsort(-self.counts[places], kind="stable")]

    def portions(self, places: Places, most_bytes: int) -> Iterator[Places]:
        """The places, cut into runs whose bars take about so much memory together at most, and at least one."""
        ends = np.cumsum(self.key_lengths[places] + np.int64(_BAR_BYTES))
        begin = 0
        while begin < len(places):
            before = ends[begin - 1] if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, before + most_bytes, side="right")))
            yield places[begin:end]
            begin = end


def ranked(listed: Iterable[Bar]) -> list[tuple[Bar, int]]:
    """The bars by count, each with its number in key order, from 0 on."""
    by_key = sorted(listed, key=lambda bar: bar.key)
    return sorted(zip(by_key, range(len(by_key)), strict=True), key=lambda pair: -pair[0].count)
