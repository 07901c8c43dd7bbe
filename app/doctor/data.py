"""The private data: does every sketch have its state, whole and readable, and every allowance its log?

Only names are told, and what does not fit; nothing of what the data say.
"""

from collections.abc import Iterator

from sqlalchemy.orm import Session

from app.core.errors import BadState
from app.core.sketches import state
from app.core.sketches.compact import CompactSketch
from app.core.sketches.state import Sketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch
from app.doctor.finding import Finding
from app.store import allowances, parts, sketches, states
from app.store.sketches import SketchOutline

_FAMILIES: dict[type[Sketch], str] = {StreamSketch: "stream", CompactSketch: "compact", SummedSketch: "summed"}
_RESTORE = "Find out who wrote to the database, and restore a backup."


def data_findings(session: Session) -> Iterator[Finding]:
    """What is wrong with the data of sketches and with the logs of registers, or that nothing is."""
    broken = [Finding("problem", "sketches", f"{name}: {fault}.", _RESTORE) for name, fault in _state_faults(session)]
    yield from broken or [Finding("ok", "sketches", "Their data are complete and can be read.")]
    holes = [Finding("problem", "people", f"{name}: {fault}.", _RESTORE) for name, fault in _register_faults(session)]
    yield from holes or [Finding("ok", "people", "What they have used of their allowances is complete.")]


def _state_faults(session: Session) -> Iterator[tuple[str, str]]:
    """Sketch by sketch, because each may be large."""
    for sketch in sketches.outlines(session):
        fault = _fault_of(session, sketch)
        if fault:
            yield sketch.name, fault


def _fault_of(session: Session, sketch: SketchOutline) -> str | None:
    stored = states.read(session, sketch.id)
    if sketch.is_deleted:
        return None if stored is None else "it was deleted, and its data are still there"
    if stored is None:
        return "its data are missing"
    try:
        found = state.decode(state.by_slot(stored))
    except BadState:
        return "its data are damaged or incomplete"
    if not parts.are_complete(session, sketch.id):
        return "a part of its data is missing"
    sources = found.sources if isinstance(found, SummedSketch) else 1
    if (_FAMILIES[type(found)], found.k, sources) != (sketch.family, sketch.k, sketch.sources):
        return "its data are of another family, k or number of sources than its parameters say"
    return None if sketch.state_is_closed == sketch.is_closed else "it is closed in one place and open in another"


def _register_faults(session: Session) -> Iterator[tuple[str, str]]:
    for register in sorted(allowances.read_all(session), key=lambda register: register.name):
        if register.dropped and allowances.takes_events(session, register.id):
            yield register.name, "its people were forgotten, and a sketch of it still takes events"
        yield from ((register.name, fault) for fault in allowances.faults(session, register))
