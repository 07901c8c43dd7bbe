"""The private data: does every sketch have its state, whole and readable, and every allowance its log?

Only names are told, and what does not fit; nothing of what the data say.
"""

from collections.abc import Iterator

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.core.errors import BadState
from app.core.sketches import state
from app.core.sketches.compact import CompactSketch
from app.core.sketches.state import Sketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch
from app.doctor.finding import Finding
from app.store import allowances, parts, states
from app.store.tables import ScopeRow, SketchRow, StateRow

_FAMILIES: dict[type[Sketch], str] = {StreamSketch: "stream", CompactSketch: "compact", SummedSketch: "summed"}
_RESTORE = "Find out who wrote to the database, and restore a backup."


def data_findings(session: Session) -> Iterator[Finding]:
    broken = [Finding("problem", "sketches", f"{name}: {fault}.", _RESTORE) for name, fault in _state_faults(session)]
    yield from broken or [Finding("ok", "sketches", "Their data are complete and can be read.")]
    holes = [Finding("problem", "people", f"{name}: {fault}.", _RESTORE) for name, fault in _scope_faults(session)]
    yield from holes or [Finding("ok", "people", "What they have used of their allowances is complete.")]


def _state_faults(session: Session) -> Iterator[tuple[str, str]]:
    """Sketch by sketch, because each may be large."""
    for row in session.scalars(select(SketchRow).order_by(SketchRow.name)):
        fault = _fault_of_deleted(session, row) if row.deleted_at else _fault_of(session, row)
        if fault:
            yield row.name, fault


def _fault_of_deleted(session: Session, row: SketchRow) -> str | None:
    return None if states.read(session, row.id) is None else "it was deleted, and its data are still there"


def _fault_of(session: Session, row: SketchRow) -> str | None:
    stored = states.read(session, row.id)
    if stored is None:
        return "its data are missing"
    try:
        sketch = state.decode(state.by_slot(stored))
    except BadState:
        return "its data are damaged or incomplete"
    if not parts.are_complete(session, row.id):
        return "a part of its data is missing"
    sources = sketch.sources if isinstance(sketch, SummedSketch) else 1
    if (_FAMILIES[type(sketch)], sketch.k, sources) != (row.family, row.k, row.sources):
        return "its data are of another family, k or number of sources than its parameters say"
    closed = session.scalars(select(StateRow.closed).where(StateRow.sketch_id == row.id)).one()
    return None if closed == (row.closed_at is not None) else "it is closed in one place and open in another"


def _scope_faults(session: Session) -> Iterator[tuple[str, str]]:
    open_sketches = select(func.count()).where(
        SketchRow.scope_id == ScopeRow.id, SketchRow.closed_at.is_(None), SketchRow.deleted_at.is_(None)
    )
    for scope, takes_events in session.execute(
        select(ScopeRow, open_sketches.scalar_subquery() > 0).order_by(ScopeRow.name)
    ):
        if scope.dropped_at is not None and takes_events:
            yield scope.name, "its people were forgotten, and a sketch of it still takes events"
        yield from ((scope.name, fault) for fault in allowances.faults(session, scope))
