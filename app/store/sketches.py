"""Sketches: their public parameters. Whose data they hold: `lineage.py`. What is in them: `states.py`."""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Select, select, update
from sqlalchemy.orm import Session

from app.core.ledger.basis import SketchBasis, digest
from app.core.planner import Family
from app.core.sketches.parameters import SketchParameters
from app.core.sketches.universe import as_document, of_document
from app.refusals import UnknownSketch
from app.store import lineage, states
from app.store.dialects import insert_if_absent, like
from app.store.records import SketchRecord
from app.store.tables import LedgerRow, SketchRow, StateRow


def create(
    session: Session,
    *,
    name: str,
    ledger_id: int,
    parameters: SketchParameters,
    register_id: int | None,
    description: str,
    now: datetime,
) -> bool:
    """Make the sketch, empty; False, and nothing changed, where the name is taken."""
    values = {
        "name": name,
        "ledger_id": ledger_id,
        "k": parameters.k,
        "unit": parameters.unit,
        "max_contributions": parameters.max_contributions,
        "enforcement": parameters.enforcement,
        "scope_id": register_id,
        "family": parameters.first_family,
        "description": description,
        "universe": as_document(parameters.universe) if parameters.universe else None,
        "created_at": now,
    }
    if not insert_if_absent(session, SketchRow, values):
        return False
    sketch = get(session, name)
    states.create(session, sketch)
    lineage.begin(session, sketch.id, ledger_id)
    return True


def find(session: Session, name: str) -> SketchRecord | None:
    """The sketch of this name, deleted or not; None where there never was one."""
    found = _read(session, select(SketchRow).where(SketchRow.name == name))
    return found[0] if found else None


def get(session: Session, name: str) -> SketchRecord:
    """The sketch of this name, deleted or not, or UnknownSketch."""
    sketch = find(session, name)
    if sketch is None:
        raise _unknown(name)
    return sketch


def get_live(session: Session, name: str) -> SketchRecord:
    """The sketch of this name, or UnknownSketch where there is none or it was deleted."""
    sketch = get(session, name)
    if sketch.deleted_at is not None:
        raise UnknownSketch(f"The sketch {name!r} was deleted; its snapshots and ledger stay.")
    return sketch


def get_id(session: Session, name: str) -> int:
    """The id of the sketch of this name, deleted or not, or UnknownSketch. Reads no parameters."""
    sketch_id = session.scalar(select(SketchRow.id).where(SketchRow.name == name))
    if sketch_id is None:
        raise _unknown(name)
    return sketch_id


def _unknown(name: str) -> UnknownSketch:
    return UnknownSketch(f"There is no sketch named {name!r}.")


def page(session: Session, pattern: str, after: str, limit: int) -> list[SketchRecord]:
    """The first live sketches after this name that the pattern fits, in the order of their names."""
    query = select(SketchRow).where(
        SketchRow.name > after, like(SketchRow.name, pattern), SketchRow.deleted_at.is_(None)
    )
    return _read(session, query.order_by(SketchRow.name).limit(limit))


def read_live(session: Session, names: Collection[str]) -> list[SketchRecord]:
    """The sketches of these names in the order of their ids, or UnknownSketch where one is missing or was deleted."""
    found = _read(session, _live(names))
    _require_all(session, names, found)
    return found


def lock(session: Session, names: Collection[str]) -> dict[str, SketchRecord]:
    """The live sketches of these names, held still until the commit: no merge, no release, no deletion in between.

    In the order of their ids, so that two callers cannot wait for each other.
    """
    return {sketch.name: sketch for sketch in _read(session, _live(names).with_for_update(key_share=True))}


def lock_live(session: Session, names: Collection[str]) -> list[SketchRecord]:
    """The sketches of these names in the order of their ids, held still until the commit, or UnknownSketch."""
    held = list(lock(session, names).values())
    _require_all(session, names, held)
    return held


def _live(names: Collection[str]) -> Select[SketchRow]:
    return select(SketchRow).where(SketchRow.name.in_(names), SketchRow.deleted_at.is_(None)).order_by(SketchRow.id)


def _require_all(session: Session, names: Collection[str], found: Collection[SketchRecord]) -> None:
    missing = set(names) - {sketch.name for sketch in found}
    if missing:
        get_live(session, min(missing))  # says why there is none
        raise UnknownSketch(f"There was no sketch named {min(missing)!r} a moment ago. Try again.")


def _read(session: Session, query: Select[SketchRow]) -> list[SketchRecord]:
    """As the database has them now: statements here change rows without telling the session."""
    return [_record(row) for row in session.scalars(query.execution_options(populate_existing=True))]


def _record(row: SketchRow) -> SketchRecord:
    return SketchRecord(
        id=row.id,
        name=row.name,
        ledger_id=row.ledger_id,
        parameters=SketchParameters(
            k=row.k,
            unit=row.unit,
            max_contributions=row.max_contributions,
            enforcement=row.enforcement,
            universe=None if row.universe is None else of_document(row.universe),
        ),
        register_id=row.register_id,
        family=row.family,
        sources=row.sources,
        counted_by_request=row.counted_by_request,
        description=row.description,
        created_at=row.created_at,
        closed_at=row.closed_at,
        deleted_at=row.deleted_at,
    )


def note_merge(session: Session, sketch_id: int, *, family: Family, sources: int, counted_by_request: bool) -> None:
    """Say of the locked sketch what it is after a merge."""
    values = {"family": family, "sources": sources, "counted_by_request": counted_by_request}
    session.connection().execute(update(SketchRow).where(SketchRow.id == sketch_id).values(values))


def close(session: Session, sketch_id: int, now: datetime) -> None:
    """Say of the locked sketch that it is closed. Its state must say so too: `states.close`."""
    session.connection().execute(update(SketchRow).where(SketchRow.id == sketch_id).values(closed_at=now))


def erase(session: Session, sketch: SketchRecord, now: datetime) -> None:
    """Forget the data of the locked sketch; its row stays, because its name must not come back with a fresh budget."""
    states.erase(session, sketch)
    session.connection().execute(update(SketchRow).where(SketchRow.id == sketch.id).values(deleted_at=now))


def bases(session: Session, sketch_ids: Collection[int]) -> list[SketchBasis]:
    """What releases of these sketches rest on, as they are now, in the order of their ids. Of a universe the bytes that
    are stored, whatever they are, so that an audit notices when they were changed."""
    query = select(SketchRow).where(SketchRow.id.in_(sketch_ids)).order_by(SketchRow.id)
    payers, origins = lineage.payer_names(session, sketch_ids), lineage.origin_names(session, sketch_ids)
    return [
        SketchBasis(
            sketch=row.name,
            k=row.k,
            unit=row.unit,
            max_contributions=row.max_contributions,
            enforcement=row.enforcement,
            universe_digest=None if row.universe is None else digest(row.universe),
            family=row.family,
            sources=row.sources,
            counted_by_request=row.counted_by_request,
            ledgers_digest=digest(sorted(payers[row.id])),
            origins_digest=digest(sorted(origins[row.id])),
        )
        for row in session.scalars(query.execution_options(populate_existing=True))
    ]


class SketchOutline(NamedTuple):
    """What audits and the doctor compare: the columns of a sketch as they are, even where they make no sense."""

    id: int
    name: str
    ledger: str | None  # its name; None where it is gone
    k: int
    family: str
    sources: int
    is_deleted: bool
    is_closed: bool
    state_is_closed: bool | None  # as its state says; None where it has none


def outlines(session: Session) -> list[SketchOutline]:
    """All sketches, deleted ones too, in the order of their names, in one statement."""
    query = (
        select(
            *(SketchRow.id, SketchRow.name, LedgerRow.name, SketchRow.k, SketchRow.family, SketchRow.sources),
            *(SketchRow.deleted_at.is_not(None), SketchRow.closed_at.is_not(None), StateRow.closed),
        )
        .join(LedgerRow, LedgerRow.id == SketchRow.ledger_id, isouter=True)
        .join(StateRow, StateRow.sketch_id == SketchRow.id, isouter=True)
    )
    rows = session.connection().execute(query.order_by(SketchRow.name))
    return [SketchOutline(*row) for row in rows]
