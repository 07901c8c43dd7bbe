"""Replay the ledgers, and say everything that does not hold.

Of each ledger the hash chain and the sums; for each charge its snapshot, as it was paid for, and for each snapshot its
charges; and what the releases rest on: the parameters and payers of the sketches (`audit_sketches.py`), and the schema.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from sqlalchemy.orm import Session

from app.core.ledger.accountants import ACCOUNTANTS
from app.core.ledger.basis import digest, ledger_basis
from app.core.ledger.chain import ChainedEntry, Entry, replay
from app.store import entries, ledger, migrate, schema, snapshots
from app.store.records import LedgerRecord
from app.usecases.audit_sketches import sketch_faults
from app.usecases.context import Context

Entries = dict[str, list[Entry]]  # by ledger


def export_ledgers(context: Context) -> Iterator[str]:
    """All entries of all ledgers as JSON lines, each with its hash."""
    with _one_moment(context) as session:
        for record in ledger.read_all(session):
            for entry, hashed in entries.page(session, record.id, record.name, after=0):
                yield json.dumps({**entry.document(), "hash": hashed.hex()}, sort_keys=True)


def verify_ledgers(context: Context, kept: Iterable[str] = ()) -> list[str]:
    """Everything that is wrong, in sentences; nothing where all holds.

    `kept` are lines of an earlier export: each must still stand, or the database was put back or rewritten since.
    """
    with _one_moment(context) as session:
        faults = schema.faults(session.connection())
        if not schema.can_be_read(session.connection()):
            return faults
        of_ledgers: Entries = {}
        for record in ledger.read_all(session):
            found = entries.page(session, record.id, record.name, after=0)
            faults += [f"ledger {record.name}: {fault}" for fault in _ledger_faults(record, found)]
            of_ledgers[record.name] = [entry for entry, _digest in found]
        faults += _snapshot_faults(session, of_ledgers)
        faults += sketch_faults(session, of_ledgers)
    now = set(export_ledgers(context))
    lost = [json.loads(line) for line in (line.strip() for line in kept) if line and line not in now]
    return faults + [
        f"ledger {entry['ledger']}: entry {entry['sequence']} of the export is not in the database as it was"
        for entry in lost
    ]


@contextmanager
def _one_moment(context: Context) -> Iterator[Session]:
    """All statements see the database as it was at the first, so a release that comes in between is no fault."""
    with context.database.reading(one_moment=True) as session:
        migrate.require_current(session.connection())
        yield session


def _ledger_faults(record: LedgerRecord, chained: list[ChainedEntry]) -> list[str]:
    if record.accountant not in ACCOUNTANTS:
        return ["there is no such accountant as it names"]
    accountant = record.account.accountant
    totals, faults = replay(accountant, chained)
    if totals.total != record.total or accountant.limit(record.total) != record.left.plus(record.paid):
        faults.append("the budget is not what the entries say")
    if totals.spent != record.paid:
        faults.append("what is spent is not the sum of the entries")
    if (totals.entries, totals.head) != (record.entries, record.head):
        faults.append("the last entries are missing")
    opened = next((entry.basis for entry, _digest in chained if entry.kind == "open"), None)
    if opened is not None and opened != ledger_basis(record.accountant, record.contributions):
        faults.append("its accountant, or its bound on contributions, is not what its first entry says")
    return faults


def _snapshot_faults(session: Session, of_ledgers: Entries) -> list[str]:
    """Each snapshot must be as it was paid for, by the ledgers that it names."""
    paid: dict[str, list[Entry]] = defaultdict(list)
    for entry in (entry for found in of_ledgers.values() for entry in found if entry.snapshot is not None):
        paid[str(entry.snapshot)].append(entry)
    faults = []
    for snapshot_id in snapshots.read_ids(session):
        payments = paid.pop(snapshot_id, [])
        try:
            faults += [f"snapshot {snapshot_id}: {fault}" for fault in _faults_of(session, snapshot_id, payments)]
        except (ValueError, TypeError, LookupError, AttributeError):
            faults.append(f"snapshot {snapshot_id}: it is no document any more")
    return faults + [f"snapshot {snapshot_id} was paid for and is missing" for snapshot_id in paid]


def _faults_of(session: Session, snapshot_id: str, payments: list[Entry]) -> Iterator[str]:
    """One snapshot at a time, because each may be large."""
    document = snapshots.read_document(session, snapshot_id)
    charged = {(each["ledger"], each.get("epsilon") or each["rho"], each["delta"]) for each in document["charged"]}
    costs = [(entry.ledger, entry.cost().as_strings()) for entry in payments]
    if {(ledger, cost.get("epsilon") or cost["rho"], cost["delta"]) for ledger, cost in costs} != charged:
        yield "what it says was paid is not what the ledgers say"
    digests = {entry.basis["snapshot_digest"] for entry in payments if entry.basis}
    if digests and digests != {snapshots.read_digest(session, snapshot_id)}:
        yield "it is not as it was released and paid for"
    bases = {entry.basis["bases_digest"] for entry in payments if entry.basis and "together" in entry.basis}
    if bases and bases != {digest(list(snapshots.read_bases(session, snapshot_id).values()))}:
        yield "what its sketches were is not what the ledgers say"
