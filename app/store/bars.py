"""The bars of stored releases, cut into rows of some 64 KB by count, so that a reader needs little memory.

A release never changes, so its rows may be read one by one, each in a transaction of its own. Earlier versions stored
bars by key; such rows have no ranks, and are read as they are (`docs/decisions/bars-by-count.md`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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

    def chosen(self, places: Places) -> list[tuple[int, list[int]]]:
        """The rows that hold some of these places: the number of each, and which of its bars they are, ascending."""
        ascending = np.sort(places)
        rows = np.searchsorted(self.begins, ascending, side="right") - 1
        firsts = np.flatnonzero(np.diff(rows, prepend=-1))
        inside = np.split(ascending - self.begins[rows], firsts[1:])
        return [(self.numbers[row], bars.tolist()) for row, bars in zip(rows[firsts], inside, strict=False)]


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


def read_figures(session: Session, snapshot_id: str) -> tuple[Figures, Layout]:
    """The figures of all bars of the snapshot, and which row holds which; no key is read."""
    query = select(BarsRow.number, BarsRow.counts, BarsRow.key_lengths, BarsRow.key_ranks)
    numbers, counts, lengths, ranks = [], [], [], []
    for number, its_counts, its_lengths, its_ranks in session.connection().execute(  # which takes one row at a time
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


def read(session: Session, snapshot_id: str, chosen: Mapping[int, Sequence[int] | None]) -> list[Bar]:
    """The bars of some rows of the snapshot, given by their numbers, in ascending order of these; of each row those
    whose numbers in it are chosen, or all."""
    query = select(BarsRow.number, BarsRow.counts, BarsRow.lows, BarsRow.highs, BarsRow.key_lengths, BarsRow.keys)
    query = query.where(BarsRow.snapshot_id == snapshot_id, BarsRow.number.in_(chosen)).order_by(BarsRow.number)
    found = []
    for number, counts, lows, highs, lengths, keys in session.connection().execute(query):
        of_row = chosen[number]
        wanted = range(len(lengths)) if of_row is None else of_row
        decoded = _keys(keys, lengths, wanted)
        found += [Bar(key, counts[at], lows[at], highs[at]) for at, key in zip(wanted, decoded, strict=True)]
    return found


def read_key(session: Session, snapshot_id: str, place: int, figures: Figures, layout: Layout) -> str:
    """The key of the bar at this place, without those around it."""
    row = int(np.searchsorted(layout.begins, place, side="right")) - 1
    before = int(figures.key_lengths[layout.begins[row] : place].sum())
    query = select(func.substr(BarsRow.keys, before + 1, int(figures.key_lengths[place]), type_=LargeBinary))
    return session.scalars(query.where(_is_row(snapshot_id, layout.numbers[row]))).one().decode()


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
