"""The bars of stored releases, cut into rows of some 64 KB by count, so that a reader needs little memory.

A release never changes, so its rows may be read one by one, each in a transaction of its own. Earlier versions stored
bars by key; such rows have no ranks, and are read as they are (`docs/decisions/bars-by-count.md`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, LargeBinary, and_, func, insert, select
from sqlalchemy.orm import Session

from app.core.histogram import Bar
from app.core.ledger.basis import HashedBar
from app.core.selection import Figures, Places, Sorting
from app.store.tables import BarsRow

_PIECE_BYTES = 64 * 1024
_FIGURES_BYTES = 32  # about what the numbers of a bar take


@dataclass(frozen=True, slots=True)
class Outline:
    """Which rows hold the bars of a snapshot, in their order, and how the bars are sorted over all of them."""

    numbers: list[int]
    order: Sorting


@dataclass(frozen=True, slots=True)
class Layout:
    """Where in the rows of a snapshot the bars are."""

    numbers: list[int]  # of the rows
    begins: Places  # the place of the first bar of each row

    def of_key(self, place: int, key_lengths: NDArray[np.uint16]) -> tuple[int, int]:
        """The number of the row that holds the bar at this place, and how many bytes of other keys lie before its
        own."""
        row = int(np.searchsorted(self.begins, place, side="right")) - 1
        return self.numbers[row], int(key_lengths[self.begins[row] : place].sum())

    def by_row(self, places: Places) -> Iterator[tuple[int, Places, list[int]]]:
        """Each row that holds some of these places: its number, those places, and which bars of the row they are."""
        places = np.sort(places)
        rows = np.searchsorted(self.begins, places, side="right") - 1
        for row in np.unique(rows):
            inside = places[rows == row]
            yield self.numbers[row], inside, (inside - self.begins[row]).tolist()


def rows(snapshot_id: str, listed: Iterable[tuple[Bar, int]]) -> Iterator[dict[str, object]]:
    """The bars by count, each with its number in key order, as values of `BarsRow`."""
    for number, piece in enumerate(_pieces(listed)):
        encoded = [bar.key.encode() for bar, _rank in piece]
        yield {
            "snapshot_id": snapshot_id,
            "number": number,
            "counts": [bar.count for bar, _rank in piece],
            "lows": [bar.low for bar, _rank in piece],
            "highs": [bar.high for bar, _rank in piece],
            "key_lengths": [len(key) for key in encoded],
            "key_ranks": [rank for _bar, rank in piece],
            "keys": b"".join(encoded),
        }


def _pieces(listed: Iterable[tuple[Bar, int]]) -> Iterator[list[tuple[Bar, int]]]:
    piece: list[tuple[Bar, int]] = []
    size = 0
    for bar, rank in listed:
        piece.append((bar, rank))
        size += len(bar.key.encode()) + _FIGURES_BYTES
        if size >= _PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def add(session: Session, prepared: Sequence[dict[str, object]]) -> None:
    """Store what `rows` gave, after the row of the snapshot."""
    if prepared:
        session.connection().execute(insert(BarsRow), prepared)


def outline(session: Session, snapshot_id: str) -> Outline:
    """The rows that hold the bars of the snapshot."""
    query = select(BarsRow.number, BarsRow.key_ranks.is_(None)).where(BarsRow.snapshot_id == snapshot_id)
    found = session.execute(query.order_by(BarsRow.number)).all()
    return Outline([number for number, _ in found], "key" if any(by_key for _, by_key in found) else "count")


def figures(session: Session, snapshot_id: str) -> tuple[Figures, Layout]:
    """The figures of all bars of the snapshot, and which row holds which; no key is read."""
    query = select(BarsRow.number, BarsRow.counts, BarsRow.key_lengths, BarsRow.key_ranks)
    numbers, counts, lengths, ranks = [], [], [], []
    for number, its_counts, its_lengths, its_ranks in session.execute(
        query.where(BarsRow.snapshot_id == snapshot_id).order_by(BarsRow.number)
    ):
        numbers.append(number)
        counts.append(_whole_numbers(its_counts))
        lengths.append(np.array(its_lengths, np.uint16))
        if its_ranks is not None:
            ranks.append(np.array(its_ranks, np.uint32))
    known = Figures(_joined(counts), _joined(lengths), _joined(ranks) if len(ranks) == len(numbers) else None)
    return known, Layout(numbers, np.cumsum([0, *map(len, lengths)], dtype=np.uint32)[:-1])


def _whole_numbers(values: list[int]) -> NDArray[Any]:
    try:
        return np.array(values, np.int64)
    except OverflowError:
        return np.array(values, object)


def _joined(pieces: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(pieces) if pieces else np.zeros(0, np.uint16)


def read(session: Session, snapshot_id: str, number: int, chosen: Sequence[int] | None = None) -> list[Bar]:
    """The bars of one row of the snapshot; or those of them whose numbers in the row are chosen."""
    query = select(BarsRow.counts, BarsRow.lows, BarsRow.highs, BarsRow.key_lengths, BarsRow.keys)
    counts, lows, highs, lengths, keys = session.execute(query.where(_is_row(snapshot_id, number))).one()
    wanted = range(len(lengths)) if chosen is None else chosen
    return [
        Bar(key, counts[at], lows[at], highs[at]) for at, key in zip(wanted, _keys(keys, lengths, wanted), strict=True)
    ]


def read_key(session: Session, snapshot_id: str, number: int, *, offset: int, length: int) -> str:
    """The key of so many bytes that lies in one row of the snapshot after `offset` others."""
    query = select(func.substr(BarsRow.keys, offset + 1, length, type_=LargeBinary))
    return session.scalars(query.where(_is_row(snapshot_id, number))).one().decode()


def read_hashed(session: Session, snapshot_id: str) -> Iterator[HashedBar]:
    """What is stored of the bars, row by row, in the order in which they are stored. Where lists of a row do not have
    the same length, the missing values are None."""
    query = select(*(BarsRow.counts, BarsRow.lows, BarsRow.highs, BarsRow.key_ranks, BarsRow.key_lengths, BarsRow.keys))
    for number in outline(session, snapshot_id).numbers:
        counts, lows, highs, ranks, lengths, keys = session.execute(query.where(_is_row(snapshot_id, number))).one()
        decoded = _keys(keys, lengths, range(len(lengths)))
        yield from zip_longest(decoded, counts, lows, highs, *(() if ranks is None else (ranks,)))


def _is_row(snapshot_id: str, number: int) -> ColumnElement[bool]:
    return and_(BarsRow.snapshot_id == snapshot_id, BarsRow.number == number)


def _keys(joined: bytes, lengths: Sequence[int], chosen: Iterable[int]) -> list[str]:
    ends = list(accumulate(lengths))
    return [joined[ends[at] - lengths[at] : ends[at]].decode() for at in chosen]
