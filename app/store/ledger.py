"""Ledgers and their entries. `charge` is the only writer of what is spent."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from app.core.budget import EPSILON_DIGITS, Budget, Cost, decimal_string
from app.core.errors import BudgetExhausted, Unavailable, UnknownLedger
from app.core.planner import Offer
from app.store.rows import inserted, like
from app.store.tables import EntryRow, LedgerRow


def create(session: Session, name: str, accountant: str, total: Budget, now: datetime) -> bool:
    """Make the ledger; False, and nothing changed, where the name is taken."""
    values = {
        "name": name,
        "accountant": accountant,
        "epsilon_total": total.epsilon_units,
        "delta_total": total.delta_units,
        "epsilon_spent": 0,
        "delta_spent": 0,
        "created_at": now,
    }
    return inserted(session, LedgerRow, values)


def get(session: Session, name: str) -> LedgerRow:
    row = session.scalar(select(LedgerRow).where(LedgerRow.name == name))
    if row is None:
        raise UnknownLedger(f"There is no ledger named {name!r}.")
    return row


def page(session: Session, pattern: str, after: str, limit: int) -> Sequence[LedgerRow]:
    query = select(LedgerRow).where(LedgerRow.name > after, like(LedgerRow.name, pattern))
    return session.scalars(query.order_by(LedgerRow.name).limit(limit)).all()


def charge(
    session: Session, ledger_ids: Sequence[int], offer: Offer, snapshot_id: str, now: datetime
) -> list[tuple[str, Budget]]:
    """Pay from every ledger, or raise BudgetExhausted and pay from none; answer what each has left.

    Ledgers are locked in the order of their ids, so two releases cannot wait for each other. The payment repeats
    the check in its own statement, so no race fits between them whatever the database makes of the lock.
    """
    rows, cost = _locked(session, ledger_ids), offer.cost
    if not all(row.remaining.covers(cost) for row in rows):
        raise _exhausted(rows, cost)
    for row in rows:
        _pay(session, row.id, cost)
        session.add(_entry(row.id, offer, snapshot_id, now))
    session.flush()
    return [(row.name, row.remaining.minus(cost)) for row in rows]


def _locked(session: Session, ledger_ids: Sequence[int]) -> Sequence[LedgerRow]:
    query = select(LedgerRow).where(LedgerRow.id.in_(ledger_ids)).order_by(LedgerRow.id)
    return session.scalars(query.with_for_update().execution_options(populate_existing=True)).all()


def _pay(session: Session, ledger_id: int, cost: Cost) -> None:
    after = {
        LedgerRow.epsilon_spent: LedgerRow.epsilon_spent + cost.epsilon_units,
        LedgerRow.delta_spent: LedgerRow.delta_spent + cost.delta_units,
    }
    affordable = (
        after[LedgerRow.epsilon_spent] <= LedgerRow.epsilon_total,
        after[LedgerRow.delta_spent] <= LedgerRow.delta_total,
    )
    statement = update(LedgerRow).where(LedgerRow.id == ledger_id, *affordable).values(after)
    if session.connection().execute(statement).rowcount != 1:
        raise Unavailable("The ledger changed under the release; nothing was charged. Try again.")


def _entry(ledger_id: int, offer: Offer, snapshot_id: str, now: datetime) -> EntryRow:
    return EntryRow(
        ledger_id=ledger_id,
        snapshot_id=snapshot_id,
        created_at=now,
        mechanism=offer.mechanism,
        mechanism_version=offer.version,
        parameters=offer.calibrated.parameters(),
        epsilon=offer.cost.epsilon_units,
        delta=offer.cost.delta_units,
    )


def _exhausted(rows: Sequence[LedgerRow], cost: Cost) -> BudgetExhausted:
    return BudgetExhausted(
        requested=cost.as_strings(),
        remaining=[{"ledger": row.name} | row.remaining.as_strings() for row in rows],
        largest_epsilon=decimal_string(min(row.remaining.epsilon_beside(cost) for row in rows), EPSILON_DIGITS),
        blocking=[row.name for row in rows if not row.remaining.covers(cost)],
    )


def read(session: Session, ledger_id: int) -> LedgerRow:
    return session.scalars(select(LedgerRow).where(LedgerRow.id == ledger_id)).one()


def entries(session: Session, ledger_id: int, after: int, limit: int) -> Sequence[EntryRow]:
    query = select(EntryRow).where(EntryRow.ledger_id == ledger_id, EntryRow.number > after)
    return session.scalars(query.order_by(EntryRow.number).limit(limit)).all()


def last_entry(session: Session, ledger_id: int) -> EntryRow | None:
    query = select(EntryRow).where(EntryRow.ledger_id == ledger_id)
    return session.scalar(query.order_by(EntryRow.number.desc()).limit(1))
