"""Are the sketches still what their ledgers' entries say: the same parameters, paid for by the same ledgers?

Whenever a sketch is made, merged into or released, each ledger that pays for it gets an entry with the facts of that
moment. None of them may change in between. A sketch of an earlier version has no such entry until its next release or
merge; of it only that can be said which must hold of any sketch.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict

from sqlalchemy.orm import Session

from app.core.ledger.chain import Entry
from app.store import lineage, sketches
from app.store.sketches import SketchOutline

_WORDS = {
    "universe_digest": "universe",
    "ledgers_digest": "the set of ledgers that pay for it",
    "origins_digest": "the set of sketches whose events it holds",
}


def sketch_faults(session: Session, entries: Mapping[str, Iterable[Entry]]) -> list[str]:
    """Everything about sketches that is not as the entries say; `entries` are those of each ledger."""
    newest: dict[str, dict[str, Entry]] = {}  # by sketch, then by ledger
    for entry in (entry for found in entries.values() for entry in found):
        if entry.basis and "sketch" in entry.basis:
            newest.setdefault(str(entry.basis["sketch"]), {})[entry.ledger] = entry
    faults = []
    for sketch in sketches.outlines(session):
        told = newest.pop(sketch.name, {})
        faults += [f"sketch {sketch.name}: {fault}" for fault in _faults_of(session, sketch, told)]
    for name, told in newest.items():
        faults.append(f"sketch {name}: {_entry_name(next(iter(told.values())))} tells of it, and it is missing")
    return faults


def _faults_of(session: Session, sketch: SketchOutline, told: Mapping[str, Entry]) -> Iterator[str]:
    paid_by = set(lineage.payer_names(session, sketch.id))
    for name in sorted(lineage.owed_names(session, sketch.id) - paid_by):
        yield f"it holds data of ledger {name}, which does not pay for it"
    if not told:
        return
    if sketch.ledger is None or sketch.ledger not in told:
        oldest = min(told.values(), key=lambda entry: entry.created_at)
        yield f"its ledger is not the one that it was made with: {_entry_name(oldest)} tells of it"
        return
    newest = told[sketch.ledger]
    said = newest.basis or {}
    for name, value in asdict(sketches.basis(session, sketch.id)).items():
        if value != said.get(name):
            yield f"{_WORDS.get(name, name)} is not what {_entry_name(newest)} says"
    yield from _payer_faults(paid_by, told, newest)


def _payer_faults(paid_by: set[str], told: Mapping[str, Entry], newest: Entry) -> Iterator[str]:
    """Every payer must have told of the sketch, at the same moment as its own ledger, and nobody else."""
    for name in sorted(told.keys() - paid_by):
        yield f"ledger {name} no longer pays for it, although {_entry_name(told[name])} says so"
    for name in sorted(paid_by - told.keys()):
        yield f"ledger {name} pays for it, and has no entry that says so"
    for name in sorted(paid_by & told.keys()):
        if told[name].created_at != newest.created_at:
            yield f"the newest entries about it differ: {_entry_name(newest)}, and {_entry_name(told[name])}"


def _entry_name(entry: Entry) -> str:
    return f"ledger {entry.ledger}, entry {entry.sequence},"
