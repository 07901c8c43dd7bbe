"""Replay the ledgers: the chain, the sums, a snapshot for each charge and a charge for each snapshot; and what the
releases rest on: the snapshots as they were paid for, parameters and payers of the sketches, and the schema."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.core.ledger.accountants import ACCOUNTANTS
from app.core.ledger.budget import Cost
from app.core.ledger.chain import Entry, replay
from app.store import ledger, migrate, schema, snapshots
from app.store.tables import LedgerRow, SnapshotRow
from app.usecases.audit_sketches import sketch_faults
from app.usecases.context import Context

Entries = dict[str, list[Entry]]  # by ledger


def export_ledgers(context: Context) -> Iterator[str]:
    """All entries of all ledgers as JSON lines, each with its hash."""
    with _one_moment(context) as session:
        for row in _ledgers(session):
            for entry, digest in _entries(session, row):
                yield json.dumps({**entry.document(), "hash": digest.hex()}, sort_keys=True)


def verify_ledgers(context: Context, kept: Iterable[str] = ()) -> list[str]:
    """Everything that is wrong, in sentences; nothing where all holds.

    `kept` are lines of an earlier export: each must still stand, or the database was put back or rewritten since.
    """
    with _one_moment(context) as session:
        faults = schema.faults(session.connection())
        if not schema.can_be_read(session.connection()):
            return faults
        entries: Entries = {}
        for row in _ledgers(session):
            found = _entries(session, row)
            faults += [f"ledger {row.name}: {fault}" for fault in _ledger_faults(row, found)]
            entries[row.name] = [entry for entry, _digest in found]
        faults += _snapshot_faults(session, entries)
        faults += sketch_faults(session, entries)
    now = set(export_ledgers(context))
    lost = [json.loads(line) for line in (line.strip() for line in kept) if line and line not in now]
    return faults + [
        f"ledger {entry['ledger']}: entry {entry['sequence']} of the export is not in the database as it was"
        for entry in lost
    ]


@contextmanager
def _one_moment(context: Context) -> Iterator[Session]:
    """All statements see the database as it was at the first: a release that comes in between is no fault.

    SQLite does so by itself; PostgreSQL's default shows each statement what was committed before it.
    """
    with context.database.reading() as session:
        if session.get_bind().dialect.name == "postgresql":
            session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
        migrate.require_current(session.connection())
        yield session


def _ledgers(session: Session) -> list[LedgerRow]:
    return list(session.scalars(select(LedgerRow).order_by(LedgerRow.name)))


def _entries(session: Session, row: LedgerRow) -> list[tuple[Entry, bytes]]:
    return [(ledger.as_entry(entry, row.name), entry.hash) for entry in ledger.entries(session, row.id, after=0)]


def _ledger_faults(row: LedgerRow, entries: list[tuple[Entry, bytes]]) -> list[str]:
    if row.accountant not in ACCOUNTANTS:
        return ["there is no such accountant as it names"]
    totals, faults = replay(ledger.accountant(row), entries)
    if totals.total != row.total or ledger.accountant(row).limit(row.total) != row.left.plus(row.paid):
        faults.append("the budget is not what the entries say")
    if totals.spent != row.paid:
        faults.append("what is spent is not the sum of the entries")
    if (totals.entries, totals.head) != (row.entries, row.head):
        faults.append("the last entries are missing")
    opened = next((entry.basis for entry, _digest in entries if entry.kind == "open"), None)
    if opened is not None and opened != ledger.basis(row):
        faults.append("its accountant, or its bound on contributions, is not what its first entry says")
    return faults


def _snapshot_faults(session: Session, entries: Entries) -> list[str]:
    """Each snapshot must be as it was paid for, by the ledgers that it names."""
    paid: dict[str, list[Entry]] = defaultdict(list)
    for entry in (entry for found in entries.values() for entry in found if entry.snapshot is not None):
        paid[str(entry.snapshot)].append(entry)
    faults = []
    for snapshot_id in session.scalars(select(SnapshotRow.id).order_by(SnapshotRow.number)).all():
        payments = paid.pop(snapshot_id, [])
        try:
            faults += [f"snapshot {snapshot_id}: {fault}" for fault in _faults_of(session, snapshot_id, payments)]
        except (ValueError, TypeError, LookupError, AttributeError):
            faults.append(f"snapshot {snapshot_id}: it is no document any more")
    return faults + [f"snapshot {snapshot_id} was paid for and is missing" for snapshot_id in paid]


def _faults_of(session: Session, snapshot_id: str, payments: list[Entry]) -> Iterator[str]:
    """One snapshot at a time, because each may be large."""
    document: dict[str, Any] = session.scalars(select(SnapshotRow.document).where(SnapshotRow.id == snapshot_id)).one()
    charged = {(each["ledger"], each["epsilon"], each["delta"]) for each in document["charged"]}
    costs = [(entry, Cost(entry.epsilon_units, entry.delta_units).as_strings()) for entry in payments]
    if {(entry.ledger, cost["epsilon"], cost["delta"]) for entry, cost in costs} != charged:
        yield "what it says was paid is not what the ledgers say"
    digests = {entry.basis["snapshot_digest"] for entry in payments if entry.basis}
    if digests and digests != {snapshots.read_digest(session, snapshot_id)}:
        yield "it is not as it was released and paid for"
