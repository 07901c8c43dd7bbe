"""Are the sketches still what their ledgers' entries say: the same parameters, paid for by the same ledgers?

Whenever a sketch is made, merged into or released, each ledger that pays for it gets an entry with the facts of that
moment. None of them may change in between. A sketch of an earlier version has no such entry until its next release or
merge; of it only that can be said which must hold of any sketch.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from app.core.ledger.chain import Entry
from app.store import sketches
from app.store.tables import LedgerRow, LineageRow, OriginRow, SketchRow

_WORDS = {
    "universe_digest": "universe",
    "ledgers_digest": "the set of ledgers that pay for it",
    "origins_digest": "the set of sketches whose events it holds",
}


def sketch_faults(session: Session, entries: Mapping[str, Iterable[Entry]]) -> list[str]:
    """`entries` are those of each ledger."""
    newest: dict[str, dict[str, Entry]] = {}  # by sketch, then by ledger
    for entry in (entry for found in entries.values() for entry in found):
        if entry.basis and "sketch" in entry.basis:
            newest.setdefault(str(entry.basis["sketch"]), {})[entry.ledger] = entry
    faults = []
    for row in session.scalars(select(SketchRow).order_by(SketchRow.name)):
        told = newest.pop(row.name, {})
        faults += [f"sketch {row.name}: {fault}" for fault in _faults_of(session, row, told)]
    for name, told in newest.items():
        faults.append(f"sketch {name}: {_place(next(iter(told.values())))} tells of it, and it is missing")
    return faults


def _faults_of(session: Session, row: SketchRow, told: Mapping[str, Entry]) -> Iterator[str]:
    paid_by = set(_payers(session, row))
    yield from (f"it holds data of ledger {name}, which does not pay for it" for name in _unpaid(session, row, paid_by))
    if not told:
        return
    home = session.scalars(select(LedgerRow.name).where(LedgerRow.id == row.ledger_id)).one()
    if home not in told:
        yield f"its ledger is not the one that it was made with: {_place(min(told.values(), key=_age))} tells of it"
        return
    basis, newest = asdict(sketches.basis(session, row)), told[home]
    said = newest.basis or {}
    for name in (name for name in basis if basis[name] != said.get(name)):
        yield f"{_WORDS.get(name, name)} is not what {_place(newest)} says"
    for name in sorted(told.keys() - paid_by):
        yield f"ledger {name} no longer pays for it, although {_place(told[name])} says so"
    for name in sorted(paid_by - told.keys()):
        yield f"ledger {name} pays for it, and has no entry that says so"
    for name in sorted(paid_by & told.keys()):
        if told[name].created_at != newest.created_at:
            yield f"the newest entries about it differ: {_place(newest)}, and {_place(told[name])}"


def _payers(session: Session, row: SketchRow) -> Iterable[str]:
    query = select(LedgerRow.name).join(LineageRow, LineageRow.ledger_id == LedgerRow.id)
    return session.scalars(query.where(LineageRow.sketch_id == row.id))


def _unpaid(session: Session, row: SketchRow, paid_by: set[str]) -> list[str]:
    """The ledgers of the sketches whose events it holds, its own included, that do not pay for it."""
    origin = aliased(SketchRow)
    query = select(LedgerRow.name).join(origin, origin.ledger_id == LedgerRow.id)
    held = query.join(OriginRow, OriginRow.origin_id == origin.id).where(OriginRow.sketch_id == row.id)
    own = select(LedgerRow.name).where(LedgerRow.id == row.ledger_id)
    return sorted({*session.scalars(held), *session.scalars(own)} - paid_by)


def _age(entry: Entry) -> str:
    return entry.created_at


def _place(entry: Entry) -> str:
    return f"ledger {entry.ledger}, entry {entry.sequence},"
