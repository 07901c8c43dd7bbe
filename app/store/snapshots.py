"""Stored releases, without their bars: those are in `bars.py`."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from app.core.guarantee import with_exception
from app.core.histogram import Bar, Snapshot
from app.core.ledger.basis import HashedBar, snapshot_digest
from app.core.selection import ranked
from app.store import bars
from app.store.dialects import moment
from app.store.tables import SketchRow, SnapshotRow


def add(session: Session, snapshot: Snapshot, listed: Sequence[Bar], sketch_id: int) -> str:
    """Store the snapshot with its bars; gives its digest, for the entries that pay for it."""
    row = SnapshotRow(id=snapshot.id, sketch_id=sketch_id, created_at=snapshot.created_at, document=snapshot.document())
    session.add(row)
    session.flush()
    by_count = ranked(listed)
    bars.add(session, list(bars.rows(snapshot.id, by_count)))
    hashed = ((bar.key, bar.count, bar.low, bar.high, rank) for bar, rank in by_count)
    return _digest(row, snapshot.sketch, hashed)


def read_digest(session: Session, snapshot_id: str) -> str | None:
    """The digest of what is stored; None where it is missing. A histogram may be large, so it is read row by row."""
    query = select(SnapshotRow, SketchRow.name).where(SnapshotRow.id == snapshot_id)
    found = session.execute(query.join(SketchRow, SketchRow.id == SnapshotRow.sketch_id)).one_or_none()
    if found is None:
        return None
    row, sketch = found
    return _digest(row, sketch, bars.read_hashed(session, snapshot_id))


def _digest(row: SnapshotRow, sketch: str, hashed: Iterable[HashedBar]) -> str:
    return snapshot_digest(
        snapshot=row.id, sketch=sketch, created_at=moment(row.created_at), document=row.document, bars=hashed
    )


def find(session: Session, snapshot_id: str) -> Snapshot | None:
    """The snapshot of this id; None where there is none."""
    found = session.execute(_query().where(SnapshotRow.id == snapshot_id)).one_or_none()
    return None if found is None else _snapshot(*found)


def newest(session: Session, sketch_id: int) -> Snapshot | None:
    """The last snapshot of the sketch; None where there is none yet."""
    query = _query().where(SnapshotRow.sketch_id == sketch_id).order_by(SnapshotRow.number.desc()).limit(1)
    found = session.execute(query).one_or_none()
    return None if found is None else _snapshot(*found)


def page(session: Session, sketch_id: int, before: int | None, limit: int) -> list[tuple[int, Snapshot]]:
    """The snapshots of the sketch before this number, newest first, each with its number."""
    query = _query().where(SnapshotRow.sketch_id == sketch_id)
    if before is not None:
        query = query.where(SnapshotRow.number < before)
    rows = session.execute(query.order_by(SnapshotRow.number.desc()).limit(limit)).all()
    return [(found[0].number, _snapshot(*found)) for found in rows]


def read_ids(session: Session) -> list[str]:
    """The ids of all snapshots, in the order in which they were made."""
    return list(session.scalars(select(SnapshotRow.id).order_by(SnapshotRow.number)))


def read_document(session: Session, snapshot_id: str) -> dict[str, Any]:
    """What is stored of the snapshot as one value, whatever it is."""
    query = select(SnapshotRow.document).where(SnapshotRow.id == snapshot_id)
    document: dict[str, Any] = session.scalars(query).one()
    return document


def _query() -> Select[SnapshotRow, str, int | None]:
    joined = select(SnapshotRow, SketchRow.name, SketchRow.last_doubtful_snapshot)
    return joined.join(SketchRow, SketchRow.id == SnapshotRow.sketch_id)


def _snapshot(row: SnapshotRow, sketch_name: str, last_doubtful: int | None) -> Snapshot:
    """The snapshot as it was answered. But if an earlier version made it, its guarantee gets the exception that was not
    known then."""
    document = row.document
    if last_doubtful is not None and row.number <= last_doubtful:
        document = document | {"guarantee": with_exception(document.get("guarantee", ""))}
    return Snapshot.of(document, id=row.id, sketch=sketch_name, created_at=row.created_at)
