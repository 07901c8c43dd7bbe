"""The entries of ledgers: how they are stored, and how reports, lists and audits read them.

Only `store/ledger.py` adds entries, because a ledger moves together with each.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Text, case, cast, func, insert, select
from sqlalchemy.orm import Session

from app.core.ledger.accountants import Price
from app.core.ledger.chain import ChainedEntry, Entry
from app.core.mechanisms import COUNTED_BY_RHO
from app.store.dialects import moment
from app.store.tables import EntryRow, LedgerRow

_AT_ONCE = 1000  # entries of a report in memory

_PARAMETERS = case((EntryRow.mechanism.in_(COUNTED_BY_RHO), cast(EntryRow.parameters, Text)))
_LINE = (
    *(EntryRow.sequence, EntryRow.kind, EntryRow.epsilon, EntryRow.delta, EntryRow.price),
    *(EntryRow.mechanism, _PARAMETERS),
)


class Line(NamedTuple):
    """What a report needs of an entry."""

    sequence: int
    kind: str
    epsilon_units: int
    delta_units: int
    price: int
    mechanism: str | None
    parameters: str | None  # of a mechanism that is counted by its ρ, as JSON


def add(session: Session, new: Sequence[tuple[int, ChainedEntry]], now: datetime) -> None:
    """Store the entries, each with the id of its ledger, in one statement."""
    rows = [
        {
            "ledger_id": ledger_id,
            "sequence": entry.sequence,
            "kind": entry.kind,
            "snapshot_id": entry.snapshot,
            "created_at": now,
            "reason": entry.reason,
            "mechanism": entry.mechanism,
            "mechanism_version": entry.mechanism_version,
            "parameters": entry.parameters,
            "epsilon": entry.epsilon_units,
            "delta": entry.delta_units,
            "price": entry.price,
            "hash": digest,
            "form": entry.form,
            "basis": entry.basis,
        }
        for ledger_id, (entry, digest) in new
    ]
    session.connection().execute(insert(EntryRow), rows)


def page(session: Session, ledger_id: int, ledger: str, after: int, limit: int | None = None) -> list[ChainedEntry]:
    """The entries of the ledger of this id and name after this sequence, in order, as they were hashed."""
    query = select(EntryRow).where(EntryRow.ledger_id == ledger_id, EntryRow.sequence > after)
    rows = session.scalars(query.order_by(EntryRow.sequence).limit(limit))
    return [ChainedEntry(_entry(row, ledger), row.hash) for row in rows]


def _entry(row: EntryRow, ledger: str) -> Entry:
    return Entry(
        ledger=ledger,
        sequence=row.sequence,
        kind=row.kind,
        created_at=moment(row.created_at),
        reason=row.reason,
        snapshot=row.snapshot_id,
        mechanism=row.mechanism,
        mechanism_version=row.mechanism_version,
        parameters=row.parameters,
        epsilon_units=row.epsilon,
        delta_units=row.delta,
        price=row.price,
        basis=row.basis,
        form=row.form,
    )


def lines(session: Session, ledger_id: int, until: int) -> Iterator[Line]:
    """The entries up to this one, in order, read by one statement and a few at a time: there may be very many."""
    query = select(*_LINE).where(EntryRow.ledger_id == ledger_id, EntryRow.sequence <= until)
    rows = session.connection().execute(query.order_by(EntryRow.sequence), execution_options={"yield_per": _AT_ONCE})
    return map(Line._make, rows)


def last_releases(session: Session, ledger_ids: Sequence[int]) -> dict[int, Price]:
    """What the newest release of each ledger cost, where there is one. One statement, which reads no other entries."""
    newest = (
        select(EntryRow.number)
        .where(EntryRow.ledger_id == LedgerRow.id, EntryRow.kind == "release")
        .order_by(EntryRow.sequence.desc())
        .limit(1)
        .correlate(LedgerRow)
        .scalar_subquery()
    )
    found = select(LedgerRow.id, newest.label("number")).where(LedgerRow.id.in_(ledger_ids)).subquery()
    query = select(EntryRow.ledger_id, EntryRow.price, EntryRow.delta).join(found, found.c.number == EntryRow.number)
    return {ledger_id: Price(main, delta) for ledger_id, main, delta in session.connection().execute(query)}


def newest_moment(session: Session) -> datetime | None:
    """When the newest entry of all ledgers was made; None where there is none."""
    return session.scalar(select(func.max(EntryRow.created_at)))
