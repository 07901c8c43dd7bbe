"""Read stored releases. Reading is free."""

from collections.abc import Iterator, Sequence

from sqlalchemy.orm import Session

from app.core.histogram import Bar, Selection, Snapshot
from app.refusals import NoSnapshot, UnknownSnapshot
from app.store import bars, sketches, snapshots
from app.usecases.access import Principal
from app.usecases.context import Context
from app.usecases.paging import Page, paged


def get_snapshot(context: Context, caller: Principal, snapshot_id: str) -> Snapshot:
    """The snapshot, unless the caller may not touch all its sketches, which looks the same as none."""
    with context.database.reading() as session:
        snapshot = load(session, snapshot_id)
    if not all(map(caller.may_touch, snapshot.sketches)):
        raise _unknown(snapshot_id)
    return snapshot


def list_snapshots(context: Context, name: str, before: int | None, limit: int) -> Page[tuple[int, Snapshot]]:
    """The snapshots of the sketch alone, deleted or not, newest first, each with its number."""
    with context.database.reading() as session:
        found = snapshots.page(session, sketches.get_id(session, name), before, limit + 1)
        return paged(found, limit, lambda last: str(last[0]))


def newest_snapshot(context: Context, name: str) -> Snapshot:
    """The last snapshot of the sketch, deleted or not; NoSnapshot where there is none yet."""
    with context.database.reading() as session:
        newest = snapshots.newest(session, sketches.get_id(session, name))
    if newest is None:
        raise NoSnapshot(f"Release one with POST /v1/sketches/{name}/snapshots; reading never spends.")
    return newest


def read_bars(context: Context, snapshot_id: str, wanted: Selection) -> Iterator[Sequence[Bar]]:
    """The bars of a stored release in key order, piece by piece.

    Each piece is read in a short transaction of its own, which is over before the piece is handed out: whoever is slow
    to take the next one holds no connection. That is safe because a stored release never changes.
    """
    if wanted.is_all:
        with context.database.reading() as session:
            numbers = bars.numbers(session, snapshot_id)
        yield from _pieces(context, snapshot_id, numbers)
        return
    with context.database.reading() as session:
        counts = bars.counts(session, snapshot_id)
    cut = wanted.cut(count for piece in counts.values() for count in piece)
    if cut is None:
        return
    numbers = cut.places(counts)
    del counts  # there may be many, and the reader slow
    yield from cut.applied(_pieces(context, snapshot_id, numbers))


def _pieces(context: Context, snapshot_id: str, numbers: list[int]) -> Iterator[Sequence[Bar]]:
    for number in numbers:
        with context.database.reading() as session:
            piece = bars.read(session, snapshot_id, number)
        yield piece


def load(session: Session, snapshot_id: str) -> Snapshot:
    """The snapshot of this id, or UnknownSnapshot."""
    snapshot = snapshots.find(session, snapshot_id)
    if snapshot is None:
        raise _unknown(snapshot_id)
    return snapshot


def _unknown(snapshot_id: str) -> UnknownSnapshot:
    return UnknownSnapshot(f"There is no snapshot {snapshot_id!r}.")
