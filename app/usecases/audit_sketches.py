"""Are the sketches still what their ledgers' entries say: the same parameters, paid for by the same ledgers?

Whenever a sketch is made, merged into or released, each ledger that pays for it gets an entry with the facts of that
moment. Of sketches that were released together the facts lie beside the snapshot, and the entries have their digest.
None of them may change in between. A sketch of an earlier version has no such entry until its next release or merge; of
it only that can be said which must hold of any sketch.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import NamedTuple

from sqlalchemy.orm import Session

from app.core.ledger.chain import Entry
from app.store import lineage, sketches, snapshots
from app.store.sketches import SketchOutline

_WORDS = {
    "universe_digest": "universe",
    "ledgers_digest": "the set of ledgers that pay for it",
    "origins_digest": "the set of sketches whose events it holds",
}


class _Told(NamedTuple):
    """What an entry tells of a sketch."""

    entry: Entry
    basis: Mapping[str, object]


Newest = dict[str, dict[str, _Told]]  # by sketch, then by ledger


def sketch_faults(session: Session, entries: Mapping[str, Iterable[Entry]]) -> list[str]:
    """Everything about sketches that is not as the entries say; `entries` are those of each ledger."""
    alone, together = _newest(session, entries)
    faults = []
    for sketch in sketches.outlines(session):
        told, beside = alone.pop(sketch.name, {}), together.pop(sketch.name, {})
        faults += [f"sketch {sketch.name}: {fault}" for fault in _faults_of(session, sketch, told, beside)]
    for name, told in (alone | together).items():
        faults.append(f"sketch {name}: {_entry_name(next(iter(told.values())).entry)} tells of it, and it is missing")
    return faults


def _newest(session: Session, entries: Mapping[str, Iterable[Entry]]) -> tuple[Newest, Newest]:
    """The newest entries that tell of a sketch alone, and those of releases of several together."""
    alone: Newest = defaultdict(dict)
    together: Newest = defaultdict(dict)
    bases: dict[str, Mapping[str, Mapping[str, object]]] = {}  # by snapshot, which several ledgers have paid for
    for entry in (entry for found in entries.values() for entry in found if entry.basis):
        basis = entry.basis or {}
        if "sketch" in basis:
            alone[str(basis["sketch"])][entry.ledger] = _Told(entry, basis)
        elif "together" in basis and entry.snapshot:
            if entry.snapshot not in bases:
                bases[entry.snapshot] = snapshots.read_bases(session, entry.snapshot)
            for name, of_sketch in bases[entry.snapshot].items():
                together[name][entry.ledger] = _Told(entry, of_sketch)
    return alone, together


def _faults_of(
    session: Session, sketch: SketchOutline, told: Mapping[str, _Told], together: Mapping[str, _Told]
) -> Iterator[str]:
    paid_by = lineage.payer_names(session, [sketch.id])[sketch.id]
    for name in sorted(lineage.owed_names(session, sketch.id) - paid_by):
        yield f"it holds data of ledger {name}, which does not pay for it"
    told = _with_later(told, {name: each for name, each in together.items() if name in paid_by})
    if not told:
        return
    if sketch.ledger is None or sketch.ledger not in told:
        oldest = min((each.entry for each in told.values()), key=lambda entry: entry.created_at)
        yield f"its ledger is not the one that it was made with: {_entry_name(oldest)} tells of it"
        return
    newest = told[sketch.ledger]
    (basis,) = sketches.bases(session, [sketch.id])
    for name, value in asdict(basis).items():
        if value != newest.basis.get(name):
            yield f"{_WORDS.get(name, name)} is not what {_entry_name(newest.entry)} says"
    yield from _payer_faults(paid_by, told, newest.entry)


def _with_later(told: Mapping[str, _Told], others: Mapping[str, _Told]) -> dict[str, _Told]:
    """For each ledger the later of both. A ledger that does not pay for the sketch has paid for another of those that
    were released together, so its entry tells nothing here, and the caller leaves it out."""
    found = dict(told)
    for name, other in others.items():
        if name not in found or found[name].entry.sequence < other.entry.sequence:
            found[name] = other
    return found


def _payer_faults(paid_by: set[str], told: Mapping[str, _Told], newest: Entry) -> Iterator[str]:
    """Every payer must have told of the sketch, at the same moment as its own ledger, and nobody else."""
    for name in sorted(told.keys() - paid_by):
        yield f"ledger {name} no longer pays for it, although {_entry_name(told[name].entry)} says so"
    for name in sorted(paid_by - told.keys()):
        yield f"ledger {name} pays for it, and has no entry that says so"
    for name in sorted(paid_by & told.keys()):
        if told[name].entry.created_at != newest.created_at:
            yield f"the newest entries about it differ: {_entry_name(newest)}, and {_entry_name(told[name].entry)}"


def _entry_name(entry: Entry) -> str:
    return f"ledger {entry.ledger}, entry {entry.sequence},"
