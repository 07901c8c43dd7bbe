"""Read the bars of stored releases, piece by piece. Reading is free.

Each piece is read in short transactions of its own, which are over before the piece is handed out: whoever is slow to
take the next one holds no connection. That is safe because a stored release never changes.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from app.core.histogram import Bar
from app.core.selection import Figures, Places, Selection
from app.store import bars
from app.store.bars import Layout
from app.usecases.context import Context

_PORTION_BYTES = 4 * 1024 * 1024  # of memory, for bars that are read in another order than they are stored in
_PIECE_BARS = 100


def read_bars(context: Context, snapshot_id: str, wanted: Selection) -> Iterator[Sequence[Bar]]:
    """The wanted bars of a stored release, in the wanted order.

    Where they are stored in this order, they are read row by row, up to the last that is wanted. Otherwise the figures
    of all bars say where the wanted ones are; then these are gathered, some megabytes at a time.
    """
    with context.database.reading() as session:
        stored = bars.outline(session, snapshot_id)
    if stored.order == wanted.order and (wanted.is_all or (stored.order == "count" and not wanted.keys)):
        yield from wanted.beginning(_rows(context, snapshot_id, stored.numbers))
        return
    with context.database.reading() as session:
        figures, layout = bars.figures(session, snapshot_id)
    if wanted.keys:
        places = figures.arranged(list(_named(context, snapshot_id, wanted.keys, figures, layout)), wanted.order)
    else:
        places = figures.arranged(figures.largest(wanted), wanted.order)
    portions = list(figures.portions(places, _PORTION_BYTES))
    del figures  # there may be many, and the reader slow
    for portion in portions:
        gathered = _gather(context, snapshot_id, portion, layout)
        yield from (gathered[begin : begin + _PIECE_BARS] for begin in range(0, len(gathered), _PIECE_BARS))


def read_stored(context: Context, snapshot_id: str) -> Iterator[Sequence[Bar]]:
    """All bars of a stored release, in the order in which they are stored, row by row."""
    with context.database.reading() as session:
        stored = bars.outline(session, snapshot_id)
    yield from _rows(context, snapshot_id, stored.numbers)


def _rows(context: Context, snapshot_id: str, numbers: list[int]) -> Iterator[Sequence[Bar]]:
    for number in numbers:
        with context.database.reading() as session:
            piece = bars.read(session, snapshot_id, number)
        yield piece


def _gather(context: Context, snapshot_id: str, places: Places, layout: Layout) -> list[Bar]:
    """The bars at these places, in their order."""
    found: dict[int, Bar] = {}
    for number, inside, chosen in layout.by_row(places):
        with context.database.reading() as session:
            found.update(zip(inside.tolist(), bars.read(session, snapshot_id, number, chosen), strict=True))
    return [found[place] for place in places.tolist()]


def _named(context: Context, snapshot_id: str, keys: Iterable[str], figures: Figures, layout: Layout) -> Iterator[int]:
    """The places of those of the keys that are listed. Each is looked for by halves, so that few others are read."""
    by_key = figures.arranged(range(len(figures.counts)), "key")
    for key in keys:
        with context.database.reading() as session:

            def key_at(place: int) -> str:
                number, offset = layout.of_key(place, figures.key_lengths)
                length = int(figures.key_lengths[place])
                return bars.read_key(session, snapshot_id, number, offset=offset, length=length)

            at = bisect_left(by_key, key, key=key_at)
            is_listed = at < len(by_key) and key_at(by_key[at]) == key
        if is_listed:
            yield int(by_key[at])
