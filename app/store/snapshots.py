"""Stored releases."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import Select, Text, cast, select
from sqlalchemy.orm import Session

from app.core.basis import snapshot_digest
from app.core.guarantee import with_exception
from app.core.histogram import Snapshot
from app.store.rows import moment
from app.store.tables import SketchRow, SnapshotRow


def add(session: Session, snapshot: Snapshot, sketch_id: int) -> str:
    """Store it; its digest, for the entries that pay for it."""
    document = snapshot.document()
    row = SnapshotRow(
        id=snapshot.id,
        sketch_id=sketch_id,
        created_at=snapshot.created_at,
        histogram=document.pop("histogram"),
        document=document,
    )
    session.add(row)
    session.flush()
    return _digest(row, snapshot.sketch, row.histogram)


def read_digest(session: Session, snapshot_id: str) -> str | None:
    """The digest of what is stored; None where it is missing. A histogram may be large, so it is read bar by bar."""
    query = select(SnapshotRow, SketchRow.name, cast(SnapshotRow.histogram, Text)).where(SnapshotRow.id == snapshot_id)
    found = session.execute(query.join(SketchRow, SketchRow.id == SnapshotRow.sketch_id)).one_or_none()
    return None if found is None else _digest(found[0], found[1], _parsed(found[2]))


def _parsed(histogram: str) -> Iterator[dict[str, Any]]:
    """The objects in a JSON array, one after the other."""
    decode, at = json.JSONDecoder().raw_decode, _end_of_gap(histogram, 1)
    while histogram[at] != "]":
        bar, end = decode(histogram, at)
        yield bar
        at = _end_of_gap(histogram, end)


def _end_of_gap(text: str, at: int) -> int:
    while text[at] in " ,\n":
        at += 1
    return at


def _digest(row: SnapshotRow, sketch: str, histogram: Iterable[dict[str, Any]]) -> str:
    bars = ((bar["key"], bar["count"], bar["low"], bar["high"]) for bar in histogram)
    return snapshot_digest(
        snapshot=row.id, sketch=sketch, created_at=moment(row.created_at), document=row.document, bars=bars
    )


def find(session: Session, snapshot_id: str) -> Snapshot | None:
    found = session.execute(_query().where(SnapshotRow.id == snapshot_id)).one_or_none()
    return None if found is None else _snapshot(*found, found[0].histogram)


def newest(session: Session, sketch: SketchRow) -> Snapshot | None:
    query = _query().where(SnapshotRow.sketch_id == sketch.id).order_by(SnapshotRow.number.desc()).limit(1)
    found = session.execute(query).one_or_none()
    return None if found is None else _snapshot(*found, found[0].histogram)


def page(session: Session, sketch: SketchRow, before: int | None, limit: int) -> list[tuple[int, Snapshot]]:
    """Newest first, each with its number and without its histogram."""
    query = _query().where(SnapshotRow.sketch_id == sketch.id)
    if before is not None:
        query = query.where(SnapshotRow.number < before)
    rows = session.execute(query.order_by(SnapshotRow.number.desc()).limit(limit)).all()
    return [(found[0].number, _snapshot(*found, [])) for found in rows]


def _query() -> Select[SnapshotRow, str, int | None]:
    joined = select(SnapshotRow, SketchRow.name, SketchRow.last_doubtful_snapshot)
    return joined.join(SketchRow, SketchRow.id == SnapshotRow.sketch_id)


def _snapshot(
    row: SnapshotRow, sketch_name: str, last_doubtful: int | None, histogram: list[dict[str, Any]]
) -> Snapshot:
    """As it was answered; but for what an earlier version did not know and left out of the guarantee."""
    document = row.document | {"histogram": histogram}
    if last_doubtful is not None and row.number <= last_doubtful:
        document |= {"guarantee": with_exception(document.get("guarantee", ""))}
    return Snapshot.of(document, id=row.id, sketch=sketch_name, created_at=row.created_at)
