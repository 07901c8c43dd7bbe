"""Read stored releases. Reading is free."""

from sqlalchemy.orm import Session

from app.core.access import Principal
from app.core.errors import NoSnapshot, UnknownSnapshot
from app.core.histogram import Snapshot
from app.store import sketches, snapshots
from app.usecases.context import Context
from app.usecases.paging import Page, paged


def get_snapshot(context: Context, caller: Principal, snapshot_id: str) -> Snapshot:
    """The snapshot, unless it is of a sketch that the caller may not touch, which looks the same as none."""
    with context.database.reading() as session:
        snapshot = load(session, snapshot_id)
    if not caller.may_touch(snapshot.sketch):
        raise _unknown(snapshot_id)
    return snapshot


def list_snapshots(context: Context, name: str, before: int | None, limit: int) -> Page[tuple[int, Snapshot]]:
    """Newest first, each with its number and without its histogram; of a deleted sketch too."""
    with context.database.reading() as session:
        rows = snapshots.page(session, sketches.get(session, name), before, limit + 1)
        return paged(rows, limit, lambda last: str(last[0]))


def newest_snapshot(context: Context, name: str) -> Snapshot:
    with context.database.reading() as session:
        newest = snapshots.newest(session, sketches.get(session, name))
    if newest is None:
        raise NoSnapshot(f"Release one with POST /v1/sketches/{name}/snapshots; reading never spends.")
    return newest


def load(session: Session, snapshot_id: str) -> Snapshot:
    snapshot = snapshots.find(session, snapshot_id)
    if snapshot is None:
        raise _unknown(snapshot_id)
    return snapshot


def _unknown(snapshot_id: str) -> UnknownSnapshot:
    return UnknownSnapshot(f"There is no snapshot {snapshot_id!r}.")
