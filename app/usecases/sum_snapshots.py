"""Add up released histograms. It is post-processing: free, nothing is charged, and nothing is stored."""

from collections.abc import Iterator, Sequence

from sqlalchemy.orm import Session

from app.core.errors import IncompatibleSketches, InvalidRequest
from app.core.histogram import Bar, Snapshot
from app.core.selection import Selection
from app.core.snapshot_sum import Adder, SnapshotSum
from app.store import snapshots
from app.usecases import read_snapshots
from app.usecases.access import Principal
from app.usecases.context import Context
from app.usecases.read_bars import read_stored

_MOST_BYTES = 64 * 1024 * 1024  # of memory, for the bars of a sum
_PIECE_BARS = 100


class Sum:
    """Snapshots that are added up when their bars are asked for."""

    def __init__(self, parts: Sequence[Snapshot], unit: str) -> None:
        self.about = SnapshotSum.of(parts, unit)
        self._parts = parts

    def bars(self, context: Context, wanted: Selection) -> Iterator[Sequence[Bar]]:
        """The wanted bars of the sum, in the wanted order, piece by piece; InvalidRequest where there are too many.

        The parts are read one after the other, row by row. A reader needs memory for the keys of all of them.
        """
        adder = Adder(self.about, _MOST_BYTES)
        for part in self._parts:
            for piece in read_stored(context, part.id):
                adder.take(part, piece)
        listed = wanted.of(adder.bars())
        yield from (listed[begin : begin + _PIECE_BARS] for begin in range(0, len(listed), _PIECE_BARS))


def sum_snapshots(context: Context, caller: Principal, ids: Sequence[str]) -> Sum:
    """The sum of the snapshots of these ids, each of which the caller may read; IncompatibleSketches where they are not
    of one unit, or an event may be in two of them."""
    if len(set(ids)) != len(ids):
        raise InvalidRequest("Name each snapshot once.")
    with context.database.reading() as session:
        parts = [read_snapshots.load_for(session, caller, snapshot_id) for snapshot_id in ids]
        return Sum(parts, _require_disjoint(session, ids))


def _require_disjoint(session: Session, ids: Sequence[str]) -> str:
    """The unit of all these snapshots. Which events a sketch holds is looked up as it is now: a merge since the release
    can only have added to them."""
    units, holders = set[str](), dict[str, str]()
    for snapshot_id, origin, unit in snapshots.origins(session, ids):
        units.add(unit)
        other = holders.setdefault(origin, snapshot_id)
        if other != snapshot_id:
            raise IncompatibleSketches(
                "sources",
                f"The snapshots {other} and {snapshot_id} may both hold events of {origin!r}, which would count twice.",
            )
    if len(units) != 1:
        raise IncompatibleSketches("unit", "Some of the snapshots count events, and others people.")
    return units.pop()
