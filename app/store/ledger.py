"""Ledgers and their entries. Every change of a ledger goes through `_append`, together with its entry."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from app.core.budget import EPSILON_DIGITS, Budget, Cost, decimal_string
from app.core.chain import START, Entry
from app.core.errors import BudgetExhausted, Unavailable, UnknownLedger
from app.core.planner import Offer
from app.store.rows import inserted, like
from app.store.tables import EntryRow, LedgerRow


def create(session: Session, name: str, accountant: str, total: Budget, now: datetime) -> bool:
    """Make the ledger; False, and nothing changed, where the name is taken."""
    values = {
        "name": name,
        "accountant": accountant,
        "epsilon_total": 0,
        "delta_total": 0,
        "epsilon_spent": 0,
        "delta_spent": 0,
        "created_at": now,
        "entries": 0,
        "head": START,
    }
    if not inserted(session, LedgerRow, values):
        return False
    (row,) = lock(session, [get(session, name).id])
    set_total(session, row, total, kind="open", reason="", now=now)
    return True


def get(session: Session, name: str) -> LedgerRow:
    row = session.scalar(select(LedgerRow).where(LedgerRow.name == name))
    if row is None:
        raise UnknownLedger(f"There is no ledger named {name!r}.")
    return row


def read(session: Session, ledger_id: int) -> LedgerRow:
    return session.scalars(select(LedgerRow).where(LedgerRow.id == ledger_id)).one()


def page(session: Session, pattern: str, after: str, limit: int) -> Sequence[LedgerRow]:
    query = select(LedgerRow).where(LedgerRow.name > after, like(LedgerRow.name, pattern))
    return session.scalars(query.order_by(LedgerRow.name).limit(limit)).all()


def lock(session: Session, ledger_ids: Sequence[int]) -> Sequence[LedgerRow]:
    """The ledgers, held until the commit, in the order of their ids, so that two callers cannot wait for each other."""
    query = select(LedgerRow).where(LedgerRow.id.in_(ledger_ids)).order_by(LedgerRow.id)
    return session.scalars(query.with_for_update().execution_options(populate_existing=True)).all()


def charge(
    session: Session, ledger_ids: Sequence[int], offer: Offer, snapshot_id: str, now: datetime
) -> list[tuple[str, Budget]]:
    """Pay from every ledger, or raise BudgetExhausted and pay from none; answer what each has left."""
    rows, cost = lock(session, ledger_ids), offer.cost
    if not rows or len(rows) != len(set(ledger_ids)):
        raise RuntimeError("a sketch without all its ledgers cannot be released")
    if not all(row.remaining.covers(cost) for row in rows):
        raise _exhausted(rows, cost)
    for row in rows:
        after = Budget(row.epsilon_spent + cost.epsilon_units, row.delta_spent + cost.delta_units)
        entry = Entry(
            ledger=row.name,
            sequence=row.entries + 1,
            kind="release",
            created_at=_moment(now),
            reason="",
            snapshot=snapshot_id,
            mechanism=offer.mechanism,
            mechanism_version=offer.version,
            parameters=offer.calibrated.parameters(),
            epsilon_units=cost.epsilon_units,
            delta_units=cost.delta_units,
        )
        _append(session, row, entry, total=row.total, spent=after, now=now)
    return sorted(((row.name, row.remaining) for row in rows), key=lambda left: left[0])


def set_total(session: Session, row: LedgerRow, total: Budget, *, kind: str, reason: str, now: datetime) -> None:
    """Give the locked ledger another total; it must cover what is spent."""
    entry = Entry(
        ledger=row.name,
        sequence=row.entries + 1,
        kind=kind,
        created_at=_moment(now),
        reason=reason,
        snapshot=None,
        mechanism=None,
        mechanism_version=None,
        parameters=None,
        epsilon_units=total.epsilon_units,
        delta_units=total.delta_units,
    )
    _append(session, row, entry, total=total, spent=row.spent, now=now)


def _append(session: Session, row: LedgerRow, entry: Entry, *, total: Budget, spent: Budget, now: datetime) -> None:
    """Write the entry and move the locked ledger with it.

    The statement repeats what the lock promises: it finds no row if another entry came in between or if the total does
    not cover what is spent, whatever the database makes of the lock.
    """
    digest = entry.hash(row.head)
    values = {
        LedgerRow.epsilon_total: total.epsilon_units,
        LedgerRow.delta_total: total.delta_units,
        LedgerRow.epsilon_spent: spent.epsilon_units,
        LedgerRow.delta_spent: spent.delta_units,
        LedgerRow.entries: entry.sequence,
        LedgerRow.head: digest,
    }
    unmoved = (LedgerRow.id == row.id, LedgerRow.entries == entry.sequence - 1, LedgerRow.head == row.head)
    moved = session.connection().execute(update(LedgerRow).where(*unmoved).values(values))
    if moved.rowcount != 1 or not total.holds(spent):
        raise Unavailable("The ledger changed under the request; nothing was charged. Try again.")
    session.add(_row(row.id, entry, digest, now))
    session.flush()
    session.refresh(row)


def _row(ledger_id: int, entry: Entry, digest: bytes, now: datetime) -> EntryRow:
    return EntryRow(
        ledger_id=ledger_id,
        sequence=entry.sequence,
        kind=entry.kind,
        snapshot_id=entry.snapshot,
        created_at=now,
        reason=entry.reason,
        mechanism=entry.mechanism,
        mechanism_version=entry.mechanism_version,
        parameters=entry.parameters,
        epsilon=entry.epsilon_units,
        delta=entry.delta_units,
        hash=digest,
    )


def as_entry(row: EntryRow, ledger: str) -> Entry:
    """The stored line as it was hashed."""
    return Entry(
        ledger=ledger,
        sequence=row.sequence,
        kind=row.kind,
        created_at=_moment(row.created_at),
        reason=row.reason,
        snapshot=row.snapshot_id,
        mechanism=row.mechanism,
        mechanism_version=row.mechanism_version,
        parameters=row.parameters,
        epsilon_units=row.epsilon,
        delta_units=row.delta,
    )


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def _exhausted(rows: Sequence[LedgerRow], cost: Cost) -> BudgetExhausted:
    return BudgetExhausted(
        requested=cost.as_strings(),
        remaining=sorted(
            ({"ledger": row.name, **row.remaining.as_strings()} for row in rows), key=lambda r: r["ledger"]
        ),
        largest_epsilon=decimal_string(min(row.remaining.epsilon_beside(cost) for row in rows), EPSILON_DIGITS),
        blocking=sorted(row.name for row in rows if not row.remaining.covers(cost)),
    )


def entries(session: Session, ledger_id: int, after: int, limit: int | None = None) -> Sequence[EntryRow]:
    query = select(EntryRow).where(EntryRow.ledger_id == ledger_id, EntryRow.sequence > after)
    return session.scalars(query.order_by(EntryRow.sequence).limit(limit)).all()


def last_release(session: Session, ledger_id: int) -> Cost | None:
    """What the newest release cost."""
    query = select(EntryRow).where(EntryRow.ledger_id == ledger_id, EntryRow.kind == "release")
    row = session.scalar(query.order_by(EntryRow.sequence.desc()).limit(1))
    return None if row is None else Cost(row.epsilon, row.delta)
