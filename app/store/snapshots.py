"""Stored releases, without their bars: those are in `bars.py`."""

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from app.core.guarantee import with_exception
from app.core.histogram import Snapshot
from app.store.tables import SketchRow, SnapshotRow


def add(session: Session, snapshot: Snapshot, sketch_id: int) -> None:
    row = SnapshotRow(id=snapshot.id, sketch_id=sketch_id, created_at=snapshot.created_at, document=snapshot.document())
    session.add(row)
    session.flush()


def find(session: Session, snapshot_id: str) -> Snapshot | None:
    found = session.execute(_query().where(SnapshotRow.id == snapshot_id)).one_or_none()
    return None if found is None else _snapshot(*found)


def newest(session: Session, sketch: SketchRow) -> Snapshot | None:
    query = _query().where(SnapshotRow.sketch_id == sketch.id).order_by(SnapshotRow.number.desc()).limit(1)
    found = session.execute(query).one_or_none()
    return None if found is None else _snapshot(*found)


def page(session: Session, sketch: SketchRow, before: int | None, limit: int) -> list[tuple[int, Snapshot]]:
    """Newest first, each with its number."""
    query = _query().where(SnapshotRow.sketch_id == sketch.id)
    if before is not None:
        query = query.where(SnapshotRow.number < before)
    rows = session.execute(query.order_by(SnapshotRow.number.desc()).limit(limit)).all()
    return [(found[0].number, _snapshot(*found)) for found in rows]


def _query() -> Select[SnapshotRow, str, bool]:
    joined = select(SnapshotRow, SketchRow.name, SketchRow.counted_by_request)
    return joined.join(SketchRow, SketchRow.id == SnapshotRow.sketch_id)


def _snapshot(row: SnapshotRow, sketch_name: str, counted_by_request: bool) -> Snapshot:
    """As it was answered; but for what earlier versions did not know and left out of the guarantee."""
    document = row.document
    if "counted_by_request" not in document and counted_by_request:
        document = document | {"guarantee": with_exception(document.get("guarantee", ""))}
    return Snapshot.of(document, id=row.id, sketch=sketch_name, created_at=row.created_at)
