"""Replay the ledgers: sums, a snapshot for each charge and a charge for each snapshot, the chain intact."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.core.budget import Cost
from app.core.chain import Entry, replay
from app.store import ledger
from app.store.tables import LedgerRow, SnapshotRow
from app.usecases.context import Context


def export_ledgers(context: Context) -> Iterator[str]:
    """All entries of all ledgers as JSON lines, each with its hash."""
    with _one_moment(context) as session:
        for row in _ledgers(session):
            for entry, digest in _entries(session, row):
                yield json.dumps({**asdict(entry), "hash": digest.hex()}, sort_keys=True)


def verify_ledgers(context: Context, kept: Iterable[str] = ()) -> list[str]:
    """Everything that is wrong, in sentences; nothing where all holds.

    `kept` are lines of an earlier export: each must still stand, or the database was put back or rewritten since.
    """
    with _one_moment(context) as session:
        faults = [fault for row in _ledgers(session) for fault in _ledger_faults(session, row)]
        faults += _snapshot_faults(session)
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
        yield session


def _ledgers(session: Session) -> list[LedgerRow]:
    return list(session.scalars(select(LedgerRow).order_by(LedgerRow.name)))


def _entries(session: Session, row: LedgerRow) -> list[tuple[Entry, bytes]]:
    return [(ledger.as_entry(entry, row.name), entry.hash) for entry in ledger.entries(session, row.id, after=0)]


def _ledger_faults(session: Session, row: LedgerRow) -> list[str]:
    totals, faults = replay(ledger.accountant(row), _entries(session, row))
    if totals.total != row.total or ledger.accountant(row).limit(row.total) != row.left.plus(row.paid):
        faults.append("the budget is not what the entries say")
    if totals.spent != row.paid:
        faults.append("what is spent is not the sum of the entries")
    if (totals.entries, totals.head) != (row.entries, row.head):
        faults.append("the last entries are missing")
    return [f"ledger {row.name}: {fault}" for fault in faults]


def _snapshot_faults(session: Session) -> list[str]:
    """Each snapshot says which ledgers paid what; the ledgers must say the same."""
    paid: dict[str, set[tuple[str, str, str]]] = {}
    for row in _ledgers(session):
        for entry, _digest in _entries(session, row):
            if entry.snapshot is not None:
                cost = Cost(entry.epsilon_units, entry.delta_units).as_strings()
                paid.setdefault(entry.snapshot, set()).add((row.name, cost["epsilon"], cost["delta"]))
    faults = []
    for snapshot_id, document in session.execute(select(SnapshotRow.id, SnapshotRow.document)):
        charged = {(each["ledger"], each["epsilon"], each["delta"]) for each in document["charged"]}
        if paid.pop(snapshot_id, set()) != charged:
            faults.append(f"snapshot {snapshot_id}: what it says was paid is not what the ledgers say")
    return faults + [f"snapshot {snapshot_id} was paid for and is missing" for snapshot_id in paid]
