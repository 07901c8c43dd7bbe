"""Read stored releases, without their bars: those are read in `read_bars.py`. Reading is free."""

from sqlalchemy.orm import Session

from app.core.histogram import Snapshot
from app.refusals import NoSnapshot, UnknownSnapshot
from app.store import sketches, snapshots
from app.usecases.access import Principal
from app.usecases.context import Context
from app.usecases.paging import Page, paged


def get_snapshot(context: Context, caller: Principal, snapshot_id: str) -> Snapshot:
    """The snapshot, unless the caller may not touch all its sketches, which looks the same as none."""
    with context.database.reading() as session:
        return load_for(session, caller, snapshot_id)


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


def load_for(session: Session, caller: Principal, snapshot_id: str) -> Snapshot:
    """The snapshot of this id, or UnknownSnapshot, also where the caller may not touch all its sketches."""
    snapshot = load(session, snapshot_id)
    if not all(map(caller.may_touch, snapshot.sketches)):
        raise _unknown(snapshot_id)
    return snapshot


def load(session: Session, snapshot_id: str) -> Snapshot:
    """The snapshot of this id, or UnknownSnapshot."""
    snapshot = snapshots.find(session, snapshot_id)
    if snapshot is None:
        raise _unknown(snapshot_id)
    return snapshot


def _unknown(snapshot_id: str) -> UnknownSnapshot:
    return UnknownSnapshot(f"There is no snapshot {snapshot_id!r}.")
