"""The bars of stored releases, cut into rows of some 64 KB in key order, so that a reader needs little memory.

A release never changes, so its rows may be read one by one, each in a transaction of its own.
"""

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from app.core.histogram import Bar
from app.store.tables import BarsRow

_PIECE_BYTES = 64 * 1024
_FIGURES_BYTES = 32  # about what the numbers of a bar take


def rows(snapshot_id: str, bars: Iterable[Bar]) -> Iterator[dict[str, object]]:
    """The bars, which are in key order, as values of `BarsRow`."""
    for number, piece in enumerate(_pieces(bars)):
        encoded = [bar.key.encode() for bar in piece]
        yield {
            "snapshot_id": snapshot_id,
            "number": number,
            "first_key": encoded[0],
            "counts": [bar.count for bar in piece],
            "lows": [bar.low for bar in piece],
            "highs": [bar.high for bar in piece],
            "key_lengths": [len(key) for key in encoded],
            "keys": b"".join(encoded),
        }


def _pieces(bars: Iterable[Bar]) -> Iterator[list[Bar]]:
    piece: list[Bar] = []
    size = 0
    for bar in bars:
        piece.append(bar)
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


def counts(session: Session, snapshot_id: str) -> dict[int, list[int]]:
    """All counts of the snapshot, by the number of the row that holds them."""
    query = select(BarsRow.number, BarsRow.counts).where(BarsRow.snapshot_id == snapshot_id).order_by(BarsRow.number)
    return {number: values for number, values in session.execute(query).all()}  # noqa: C416  # for the types


def numbers(session: Session, snapshot_id: str) -> list[int]:
    """The numbers of the rows that hold the bars of the snapshot, in key order."""
    return list(
        session.scalars(select(BarsRow.number).where(BarsRow.snapshot_id == snapshot_id).order_by(BarsRow.number))
    )


def read(session: Session, snapshot_id: str, number: int) -> list[Bar]:
    """The bars of one row of the snapshot, in key order."""
    query = select(BarsRow.counts, BarsRow.lows, BarsRow.highs, BarsRow.key_lengths, BarsRow.keys)
    values, lows, highs, lengths, keys = session.execute(
        query.where(BarsRow.snapshot_id == snapshot_id, BarsRow.number == number)
    ).one()
    return list(map(Bar, _keys(keys, lengths), values, lows, highs))


def _keys(joined: bytes, lengths: Iterable[int]) -> Iterator[str]:
    begin = 0
    for length in lengths:
        yield joined[begin : begin + length].decode()
        begin += length
