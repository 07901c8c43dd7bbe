"""Read the bars of stored releases, piece by piece. Reading is free.

Each piece is read in short transactions of its own, which are over before the piece is handed out: whoever is slow to
take the next one holds no connection. That is safe because a stored release never changes.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence, Set

from app.core.histogram import Bar
from app.core.selection import Selection
from app.store import bars
from app.usecases.context import Context

_PORTION_BYTES = 2 * 1024 * 1024  # of memory, for bars that are read in another order than they are stored in
_ROWS_TOGETHER = 16  # a megabyte
_PROBES = 16  # about as many keys are read to find one by halves, each about as fast as a row of others
_PIECE_BARS = 100

_Chosen = Sequence[tuple[int, Sequence[int] | None]]  # rows by number, and which of their bars; None: all


def read_bars(context: Context, snapshot_id: str, wanted: Selection) -> Iterator[Sequence[Bar]]:
    """The wanted bars of a stored release, in the wanted order.

    Where they are stored in this order, they are read row by row, up to the last that is wanted. Otherwise the figures
    of all bars say where the wanted ones are; then these are gathered, some megabytes at a time.
    """
    with context.database.reading() as session:
        stored = bars.outline(session, snapshot_id)
    if wanted.keys:
        named = sorted(_named(context, snapshot_id, wanted.keys, stored.numbers), key=lambda bar: bar.key)
        yield named if wanted.order == "key" else sorted(named, key=lambda bar: -bar.count)
    elif stored.order == wanted.order and (stored.order == "count" or wanted.is_all):
        yield from wanted.beginning(_read(context, snapshot_id, _whole(stored.numbers), rows_together=1))
    else:
        yield from _gathered(context, snapshot_id, wanted)


def _gathered(context: Context, snapshot_id: str, wanted: Selection) -> Iterator[Sequence[Bar]]:
    with context.database.reading() as session:
        figures, layout = bars.read_figures(session, snapshot_id)
    places = figures.arranged(figures.largest(wanted), wanted.order)
    portions = list(figures.portions(places, _PORTION_BYTES))
    del figures  # there may be many, and the reader slow
    for portion in portions:
        ascending = [bar for some in _read(context, snapshot_id, layout.chosen(portion)) for bar in some]
        by_place = dict(zip(sorted(portion.tolist()), ascending, strict=True))
        del ascending
        gathered = [by_place.pop(place) for place in portion.tolist()]
        for begin in range(0, len(gathered), _PIECE_BARS):
            yield gathered[begin : begin + _PIECE_BARS]
        del gathered  # before the next portion takes as much


def read_stored(context: Context, snapshot_id: str) -> Iterator[Sequence[Bar]]:
    """All bars of a stored release, in the order in which they are stored, some rows at a time."""
    with context.database.reading() as session:
        stored = bars.outline(session, snapshot_id)
    yield from _read(context, snapshot_id, _whole(stored.numbers))


def _read(
    context: Context, snapshot_id: str, chosen: _Chosen, *, rows_together: int = _ROWS_TOGETHER
) -> Iterator[list[Bar]]:
    """The chosen bars of rows that are read so many at a time."""
    for begin in range(0, len(chosen), rows_together):
        with context.database.reading() as session:
            some = bars.read(session, snapshot_id, dict(chosen[begin : begin + rows_together]))
        yield some


def _whole(numbers: Iterable[int]) -> _Chosen:
    return [(number, None) for number in numbers]


def _named(context: Context, snapshot_id: str, keys: Set[str], numbers: list[int]) -> list[Bar]:
    """The bars of those of the keys that are listed. Few keys among many rows are looked for by halves; else it is
    faster to read all rows."""
    if len(keys) * _PROBES < len(numbers):
        return _looked_up(context, snapshot_id, keys)
    return [bar for some in _read(context, snapshot_id, _whole(numbers)) for bar in some if bar.key in keys]


def _looked_up(context: Context, snapshot_id: str, keys: Set[str]) -> list[Bar]:
    with context.database.reading() as session:
        figures, layout = bars.read_figures(session, snapshot_id)
    by_key = figures.arranged(range(len(figures.counts)), "key")
    places = []
    for key in keys:
        with context.database.reading() as session:

            def key_at(place: int) -> str:
                return bars.read_key(session, snapshot_id, place, figures, layout)

            at = bisect_left(by_key, key, key=key_at)
            if at < len(by_key) and key_at(by_key[at]) == key:
                places.append(by_key[at])
    chosen = layout.chosen(figures.arranged(places, "key"))
    return [bar for some in _read(context, snapshot_id, chosen) for bar in some]
