"""Ledgers and their entries. Every change of a ledger goes through `_append`, together with its entry."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from sqlalchemy import Select, Text, case, cast, select, update
from sqlalchemy.orm import Session

from app.core.ledger.account import Account
from app.core.ledger.accountants import ACCOUNTANTS, Accountant, Price
from app.core.ledger.budget import Budget
from app.core.ledger.chain import START, Entry
from app.core.mechanisms import COUNTED_BY_RHO
from app.core.people import Unit
from app.core.planner import Offer
from app.refusals import Unavailable, UnknownLedger
from app.store.dialects import inserted, like, moment
from app.store.tables import EntryRow, LedgerRow, LineageRow

_AT_ONCE = 1000  # entries of a report in memory

Contributions = tuple[Unit, int]  # the most that one person contributes to all sketches of a ledger


def create(
    session: Session,
    name: str,
    accountant_name: str,
    total: Budget,
    now: datetime,
    contributions: Contributions | None = None,
) -> bool:
    """Make the ledger; False, and nothing changed, where the name is taken."""
    values = {
        "name": name,
        "accountant": accountant_name,
        "epsilon_total": 0,
        "delta_total": 0,
        "spendable": 0,
        "delta_spendable": 0,
        "spent": 0,
        "delta_spent": 0,
        "created_at": now,
        "entries": 0,
        "head": START,
    }
    if not inserted(session, LedgerRow, values):
        return False
    (row,) = lock(session, [get(session, name).id])
    if contributions:
        row.contribution_unit, row.max_contributions = contributions
        session.flush()
    _set_total(session, row, total, kind="open", reason="", basis=basis(row), now=now)
    return True


def basis(row: LedgerRow) -> dict[str, object]:
    """What of a ledger never changes, besides its name."""
    bound = {"unit": row.contribution_unit, "max": row.max_contributions}
    return {"accountant": row.accountant, "contributions": bound if row.contribution_unit else None}


def bound_contributions(session: Session, row: LedgerRow, scope_id: int) -> None:
    """A person's contributions to all sketches of a new ledger count together, in this scope."""
    row.scope_id = scope_id
    session.flush()


def get(session: Session, name: str) -> LedgerRow:
    row = session.scalar(select(LedgerRow).where(LedgerRow.name == name))
    if row is None:
        raise UnknownLedger(f"There is no ledger named {name!r}.")
    return row


def read(session: Session, ledger_id: int) -> LedgerRow:
    return session.scalars(select(LedgerRow).where(LedgerRow.id == ledger_id)).one()


def read_all(session: Session, ledger_ids: Collection[int]) -> Sequence[LedgerRow]:
    return session.scalars(select(LedgerRow).where(LedgerRow.id.in_(ledger_ids))).all()


def page(session: Session, pattern: str, after: str, limit: int) -> Sequence[LedgerRow]:
    query = select(LedgerRow).where(LedgerRow.name > after, like(LedgerRow.name, pattern))
    return session.scalars(query.order_by(LedgerRow.name).limit(limit)).all()


def lock(session: Session, ledger_ids: Sequence[int]) -> Sequence[LedgerRow]:
    """The ledgers, held until the commit, in the order of their ids, so that two callers cannot wait for each other.

    Rows that refer to a ledger may be added meanwhile (key_share): on PostgreSQL two callers that have added one would
    otherwise wait for each other here.
    """
    query = select(LedgerRow).where(LedgerRow.id.in_(ledger_ids)).order_by(LedgerRow.id)
    return session.scalars(query.with_for_update(key_share=True).execution_options(populate_existing=True)).all()


def payers(session: Session, sketch_id: int) -> Sequence[LedgerRow]:
    """The ledgers whose data the sketch holds."""
    return session.scalars(_payers(sketch_id)).all()


def lock_payers(session: Session, sketch_id: int, offer: Offer) -> Sequence[LedgerRow]:
    """The same, held until the commit, in the order of `lock`; each covers the release, else NotCovered is raised.

    The sketch is held too, so no merge adds to them.
    """
    held = _payers(sketch_id).with_for_update(of=LedgerRow, key_share=True)
    rows = session.scalars(held.execution_options(populate_existing=True)).all()
    if not rows:
        raise RuntimeError("a sketch without its ledgers cannot be released")
    accounts = [account(row) for row in rows]
    if not all(each.covers(offer) for each in accounts):
        raise NotCovered(accounts, offer)
    return rows


def _payers(sketch_id: int) -> Select[LedgerRow]:
    joined = select(LedgerRow).join(LineageRow, LineageRow.ledger_id == LedgerRow.id)
    return joined.where(LineageRow.sketch_id == sketch_id).order_by(LedgerRow.id)


def account(row: LedgerRow) -> Account:
    return Account(row.name, accountant(row), row.total, row.paid, row.left)


@dataclass(frozen=True, slots=True)
class Payment:
    """What one ledger paid for a release, and what it had left after."""

    ledger: str
    charged: dict[str, str]
    remaining: dict[str, str]


class NotCovered(Exception):
    """Some of the ledgers cannot pay. Say why after the transaction: what would fit may take long to find."""

    def __init__(self, accounts: Sequence[Account], offer: Offer) -> None:
        self.accounts, self.offer = accounts, offer


def payments(payers: Sequence[LedgerRow], offer: Offer) -> list[Payment]:
    """What each of these ledgers pays, in the order of their names."""
    return [_payment(row, offer) for row in sorted(payers, key=lambda row: row.name)]


def _payment(row: LedgerRow, offer: Offer) -> Payment:
    price = account(row).price(offer)
    rho = accountant(row).rho(price)
    charged = offer.cost.as_strings() | ({"rho": rho} if rho else {})
    left = row.total.minus(accountant(row).converted(row.total, row.paid.plus(price)))
    return Payment(row.name, charged, left.as_strings())


def charge(
    session: Session,
    payers: Sequence[LedgerRow],
    offer: Offer,
    *,
    snapshot_id: str,
    basis: Mapping[str, object],
    now: datetime,
) -> None:
    """Pay for the snapshot from every one of the locked ledgers."""
    for row in payers:
        _pay(session, row, offer, snapshot_id, basis, now)


def _pay(
    session: Session, row: LedgerRow, offer: Offer, snapshot_id: str, basis: Mapping[str, object], now: datetime
) -> None:
    price = account(row).price(offer)
    entry = Entry(
        ledger=row.name,
        sequence=row.entries + 1,
        kind="release",
        created_at=moment(now),
        reason="",
        snapshot=snapshot_id,
        mechanism=offer.mechanism,
        mechanism_version=offer.version,
        parameters=offer.calibrated.parameters(),
        epsilon_units=offer.cost.epsilon_units,
        delta_units=offer.cost.delta_units,
        price=price.main,
        basis=basis,
    )
    _append(session, row, entry, total=row.total, spent=row.paid.plus(price), now=now)


def accountant(row: LedgerRow) -> Accountant:
    return ACCOUNTANTS[row.accountant]


def spent(row: LedgerRow) -> Budget:
    """What the ledger has paid, as (ε, δ): proven for `basic`, bookkeeping for `zcdp` (`core/ledger/proven.py`)."""
    return accountant(row).converted(row.total, row.paid)


def remaining(row: LedgerRow) -> Budget:
    return account(row).remaining()


def change_total(session: Session, row: LedgerRow, total: Budget, reason: str, now: datetime) -> None:
    """Give the locked ledger another total; it must cover what is spent."""
    _set_total(session, row, total, kind="budget", reason=reason, basis=None, now=now)


def _set_total(
    session: Session,
    row: LedgerRow,
    total: Budget,
    *,
    kind: str,
    reason: str,
    basis: Mapping[str, object] | None,
    now: datetime,
) -> None:
    entry = _unpaid(row, kind=kind, reason=reason, amount=total, basis=basis, now=now)
    _append(session, row, entry, total=total, spent=row.paid, now=now)


def note(
    session: Session,
    ledger_ids: Sequence[int],
    kind: Literal["sketch", "merge"],
    basis: Mapping[str, object],
    now: datetime,
) -> None:
    """Say in each of the ledgers what a sketch that it pays for was made from, or is now. It costs nothing."""
    for row in lock(session, ledger_ids):
        entry = _unpaid(row, kind=kind, reason="", amount=Budget(0, 0), basis=basis, now=now)
        _append(session, row, entry, total=row.total, spent=row.paid, now=now)


def _unpaid(
    row: LedgerRow, *, kind: str, reason: str, amount: Budget, basis: Mapping[str, object] | None, now: datetime
) -> Entry:
    """The next entry of the ledger, of a kind that spends nothing."""
    return Entry(
        ledger=row.name,
        sequence=row.entries + 1,
        kind=kind,
        created_at=moment(now),
        reason=reason,
        snapshot=None,
        mechanism=None,
        mechanism_version=None,
        parameters=None,
        epsilon_units=amount.epsilon_units,
        delta_units=amount.delta_units,
        price=0,
        basis=basis,
    )


def _append(session: Session, row: LedgerRow, entry: Entry, *, total: Budget, spent: Price, now: datetime) -> None:
    """Write the entry and move the locked ledger with it.

    The statement repeats what the lock promises: it finds no row if another entry came in between or if the total does
    not cover what is spent, whatever the database makes of the lock.
    """
    digest, limit = entry.hash(row.head), accountant(row).limit(total)
    values = {
        LedgerRow.epsilon_total: total.epsilon_units,
        LedgerRow.delta_total: total.delta_units,
        LedgerRow.spendable: limit.main,
        LedgerRow.delta_spendable: limit.delta,
        LedgerRow.spent: spent.main,
        LedgerRow.delta_spent: spent.delta,
        LedgerRow.entries: entry.sequence,
        LedgerRow.head: digest,
    }
    unmoved = (LedgerRow.id == row.id, LedgerRow.entries == entry.sequence - 1, LedgerRow.head == row.head)
    moved = session.connection().execute(update(LedgerRow).where(*unmoved).values(values))
    if moved.rowcount != 1 or not limit.covers(spent):
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
        price=entry.price,
        hash=digest,
        form=entry.form,
        basis=entry.basis,
    )


def as_entry(row: EntryRow, ledger: str) -> Entry:
    """The stored line as it was hashed."""
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


def entries(session: Session, ledger_id: int, after: int, limit: int | None = None) -> Sequence[EntryRow]:
    query = select(EntryRow).where(EntryRow.ledger_id == ledger_id, EntryRow.sequence > after)
    return session.scalars(query.order_by(EntryRow.sequence).limit(limit)).all()


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
