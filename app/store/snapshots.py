"""Stored releases, without their bars: those are in `bars.py`."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Select, insert, select
from sqlalchemy.orm import Session

from app.core.guarantee import with_exception
from app.core.histogram import Bar, Snapshot
from app.core.ledger.basis import HashedBar, SketchBasis, snapshot_digest
from app.core.selection import ranked
from app.store import bars
from app.store.dialects import moment
from app.store.tables import OriginRow, SketchRow, SnapshotRow, SnapshotSketchRow


def add(session: Session, snapshot: Snapshot, listed: Sequence[Bar], bases: Mapping[int, SketchBasis]) -> str:
    """Store the snapshot of these sketches with its bars; gives its digest, for the entries that pay for it.

    `bases` are what the sketches are now, by their ids, in the order of the snapshot's names.
    """
    only = next(iter(bases)) if len(bases) == 1 else None
    row = SnapshotRow(id=snapshot.id, sketch_id=only, created_at=snapshot.created_at, document=snapshot.document())
    session.add(row)
    session.flush()
    if only is None:
        rows = [{"snapshot_id": row.id, "sketch_id": each, "basis": asdict(basis)} for each, basis in bases.items()]
        session.connection().execute(insert(SnapshotSketchRow), rows)
    by_count = ranked(listed)
    bars.add(session, list(bars.rows(snapshot.id, by_count)))
    hashed = ((bar.key, bar.count, bar.low, bar.high, rank) for bar, rank in by_count)
    return _digest(row, snapshot.sketches, hashed)


def read_digest(session: Session, snapshot_id: str) -> str | None:
    """The digest of what is stored; None where it is missing. A histogram may be large, so it is read row by row."""
    found = session.execute(_query().where(SnapshotRow.id == snapshot_id)).one_or_none()
    if found is None:
        return None
    row, sketch, _ = found
    return _digest(row, _names(session, row.id, sketch), bars.read_hashed(session, snapshot_id))


def _digest(row: SnapshotRow, sketches: Sequence[str], hashed: Iterable[HashedBar]) -> str:
    return snapshot_digest(
        snapshot=row.id, sketches=sketches, created_at=moment(row.created_at), document=row.document, bars=hashed
    )


def find(session: Session, snapshot_id: str) -> Snapshot | None:
    """The snapshot of this id; None where there is none."""
    found = session.execute(_query().where(SnapshotRow.id == snapshot_id)).one_or_none()
    return None if found is None else _snapshot(session, *found)


def newest(session: Session, sketch_id: int) -> Snapshot | None:
    """The last snapshot of the sketch alone; None where there is none yet."""
    query = _query().where(SnapshotRow.sketch_id == sketch_id).order_by(SnapshotRow.number.desc()).limit(1)
    found = session.execute(query).one_or_none()
    return None if found is None else _snapshot(session, *found)


def page(session: Session, sketch_id: int, before: int | None, limit: int) -> list[tuple[int, Snapshot]]:
    """The snapshots of the sketch alone before this number, newest first, each with its number."""
    query = _query().where(SnapshotRow.sketch_id == sketch_id)
    if before is not None:
        query = query.where(SnapshotRow.number < before)
    rows = session.execute(query.order_by(SnapshotRow.number.desc()).limit(limit)).all()
    return [(found[0].number, _snapshot(session, *found)) for found in rows]


def read_ids(session: Session) -> list[str]:
    """The ids of all snapshots, in the order in which they were made."""
    return list(session.scalars(select(SnapshotRow.id).order_by(SnapshotRow.number)))


def read_document(session: Session, snapshot_id: str) -> dict[str, Any]:
    """What is stored of the snapshot as one value, whatever it is."""
    query = select(SnapshotRow.document).where(SnapshotRow.id == snapshot_id)
    document: dict[str, Any] = session.scalars(query).one()
    return document


def read_bases(session: Session, snapshot_id: str) -> dict[str, dict[str, Any]]:
    """What the sketches of a snapshot were when they were released together, by their names, in the order of their ids;
    nothing where the snapshot is of one sketch."""
    query = select(SketchRow.name, SnapshotSketchRow.basis).where(SnapshotSketchRow.snapshot_id == snapshot_id)
    joined = query.join(SketchRow, SketchRow.id == SnapshotSketchRow.sketch_id)
    rows = session.connection().execute(joined.order_by(SketchRow.id))
    return {name: basis for name, basis in rows}  # noqa: C416  # for the types


def origins(session: Session, snapshot_ids: Collection[str]) -> Iterable[tuple[str, str, str]]:
    """For each of these snapshots the names of the sketches whose events it may hold, and their unit: id, name, unit.

    In one statement, and of the sketches as they are now.
    """
    alone = select(SnapshotRow.id, SnapshotRow.sketch_id).where(SnapshotRow.id.in_(snapshot_ids))
    together = select(SnapshotSketchRow.snapshot_id, SnapshotSketchRow.sketch_id)
    held = alone.union_all(together.where(SnapshotSketchRow.snapshot_id.in_(snapshot_ids))).subquery()
    query = (
        select(held.c.id, SketchRow.name, SketchRow.unit)
        .join(OriginRow, OriginRow.sketch_id == held.c.sketch_id)
        .join(SketchRow, SketchRow.id == OriginRow.origin_id)
        .distinct()
        .order_by(SketchRow.name, held.c.id)
    )
    return (tuple(row) for row in session.connection().execute(query))


def _query() -> Select[SnapshotRow, str | None, int | None]:
    joined = select(SnapshotRow, SketchRow.name, SketchRow.last_doubtful_snapshot)
    return joined.join(SketchRow, SketchRow.id == SnapshotRow.sketch_id, isouter=True)


def _names(session: Session, snapshot_id: str, only: str | None) -> list[str]:
    """The sketches of the snapshot: the one that its own row names, or those that were released together."""
    if only is not None:
        return [only]
    query = select(SketchRow.name).join(SnapshotSketchRow, SnapshotSketchRow.sketch_id == SketchRow.id)
    return list(session.scalars(query.where(SnapshotSketchRow.snapshot_id == snapshot_id).order_by(SketchRow.id)))


def _snapshot(session: Session, row: SnapshotRow, only: str | None, last_doubtful: int | None) -> Snapshot:
    """The snapshot as it was answered. But if an earlier version made it, its guarantee gets the exception that was not
    known then."""
    document = row.document
    if last_doubtful is not None and row.number <= last_doubtful:
        document = document | {"guarantee": with_exception(document.get("guarantee", ""))}
    return Snapshot.of(document, id=row.id, sketches=_names(session, row.id, only), created_at=row.created_at)
