"""Ledgers. Every change of a ledger goes through `_append`, together with its entry (`store/entries.py`)."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from sqlalchemy import Select, bindparam, select, update
from sqlalchemy.orm import Session

from app.core.ledger.accountants import Price
from app.core.ledger.basis import ledger_basis
from app.core.ledger.budget import Budget
from app.core.ledger.chain import START, ChainedEntry, Entry
from app.core.planner import Offer
from app.core.sketches.parameters import Contributions
from app.refusals import Unavailable, UnknownLedger
from app.store import entries
from app.store.dialects import insert_if_absent, like, moment
from app.store.records import LedgerRecord
from app.store.tables import LedgerRow, LineageRow

_MOVE = (
    update(LedgerRow)
    .where(
        LedgerRow.id == bindparam("ledger"),
        LedgerRow.entries == bindparam("entries_before"),
        LedgerRow.head == bindparam("head_before"),
    )
    .values(
        {
            LedgerRow.epsilon_total: bindparam("new_epsilon_total"),
            LedgerRow.delta_total: bindparam("new_delta_total"),
            LedgerRow.spendable: bindparam("new_spendable"),
            LedgerRow.delta_spendable: bindparam("new_delta_spendable"),
            LedgerRow.spent: bindparam("new_spent"),
            LedgerRow.delta_spent: bindparam("new_delta_spent"),
            LedgerRow.entries: bindparam("new_entries"),
            LedgerRow.head: bindparam("new_head"),
        }
    )
)


def create(
    session: Session,
    name: str,
    accountant: str,
    total: Budget,
    now: datetime,
    contributions: Contributions | None = None,
) -> bool:
    """Make the ledger; False, and nothing changed, where the name is taken."""
    values = {
        "name": name,
        "accountant": accountant,
        "epsilon_total": 0,
        "delta_total": 0,
        "spendable": 0,
        "delta_spendable": 0,
        "spent": 0,
        "delta_spent": 0,
        "created_at": now,
        "entries": 0,
        "head": START,
        "contribution_unit": contributions.unit if contributions else None,
        "max_contributions": contributions.most if contributions else None,
    }
    if not insert_if_absent(session, LedgerRow, values):
        return False
    ledger = get(session, name)
    basis = ledger_basis(accountant, contributions)
    entry = _free_entry(ledger, kind="open", reason="", amount=total, basis=basis, now=now)
    _append(session, [_Step(ledger, entry, total, ledger.paid)], now)
    return True


def bound_contributions(session: Session, ledger_id: int, register_id: int) -> None:
    """A person's contributions to all sketches of a new ledger are added up in this register."""
    statement = update(LedgerRow).where(LedgerRow.id == ledger_id).values({LedgerRow.register_id: register_id})
    session.connection().execute(statement)


def get(session: Session, name: str) -> LedgerRecord:
    """The ledger of this name, or UnknownLedger."""
    found = _read(session, select(LedgerRow).where(LedgerRow.name == name))
    if not found:
        raise UnknownLedger(f"There is no ledger named {name!r}.")
    return found[0]


def read(session: Session, ledger_ids: Collection[int]) -> list[LedgerRecord]:
    """The ledgers of these ids, in one statement."""
    return _read(session, select(LedgerRow).where(LedgerRow.id.in_(ledger_ids)))


def read_all(session: Session) -> list[LedgerRecord]:
    """Every ledger, in the order of their names."""
    return _read(session, select(LedgerRow).order_by(LedgerRow.name))


def page(session: Session, pattern: str, after: str, limit: int) -> list[LedgerRecord]:
    """The first ledgers after this name that the pattern fits, in the order of their names."""
    query = select(LedgerRow).where(LedgerRow.name > after, like(LedgerRow.name, pattern))
    return _read(session, query.order_by(LedgerRow.name).limit(limit))


def lock(session: Session, ledger_ids: Collection[int]) -> list[LedgerRecord]:
    """The ledgers, held until the commit, in the order of their ids, so that two callers cannot wait for each other.

    Rows that refer to a ledger may be added meanwhile (key_share): on PostgreSQL two callers that have added one would
    otherwise wait for each other here.
    """
    query = select(LedgerRow).where(LedgerRow.id.in_(ledger_ids)).order_by(LedgerRow.id)
    return _read(session, query.with_for_update(key_share=True))


def payers(session: Session, sketch_ids: Collection[int]) -> list[LedgerRecord]:
    """The ledgers whose data these sketches hold, each once, in the order of their ids."""
    return _read(session, _payers(sketch_ids))


def lock_payers(session: Session, sketch_ids: Collection[int]) -> list[LedgerRecord]:
    """The same, held until the commit, in the order of `lock`. The caller holds the sketches, so no merge adds any."""
    found = _read(session, _payers(sketch_ids).with_for_update(of=LedgerRow, key_share=True))
    if not found:
        raise RuntimeError("a sketch without its ledgers cannot be released")
    return found


def _payers(sketch_ids: Collection[int]) -> Select[LedgerRow]:
    paying = select(LineageRow.ledger_id).where(LineageRow.sketch_id.in_(sketch_ids))
    return select(LedgerRow).where(LedgerRow.id.in_(paying)).order_by(LedgerRow.id)


def _read(session: Session, query: Select[LedgerRow]) -> list[LedgerRecord]:
    """As the database has them now: statements here change rows without telling the session."""
    return [_record(row) for row in session.scalars(query.execution_options(populate_existing=True))]


def _record(row: LedgerRow) -> LedgerRecord:
    paid, unit, most = Price(row.spent, row.delta_spent), row.contribution_unit, row.max_contributions
    return LedgerRecord(
        id=row.id,
        name=row.name,
        accountant=row.accountant,
        total=Budget(row.epsilon_total, row.delta_total),
        paid=paid,
        left=Price(row.spendable, row.delta_spendable).minus(paid),
        entries=row.entries,
        head=row.head,
        contributions=None if unit is None or most is None else Contributions(unit, most),
        register_id=row.register_id,
        created_at=row.created_at,
    )


def charge(
    session: Session,
    payers: Sequence[LedgerRecord],
    offer: Offer,
    *,
    snapshot_id: str,
    basis: Mapping[str, object],
    now: datetime,
) -> None:
    """Pay for the snapshot from every one of the locked ledgers."""
    _append(session, [_release(ledger, offer, snapshot_id, basis, now) for ledger in payers], now)


def change_total(session: Session, ledger: LedgerRecord, total: Budget, reason: str, now: datetime) -> None:
    """Give the locked ledger another total; it must cover what is spent."""
    entry = _free_entry(ledger, kind="budget", reason=reason, amount=total, basis=None, now=now)
    _append(session, [_Step(ledger, entry, total, ledger.paid)], now)


def note(
    session: Session,
    ledger_ids: Collection[int],
    kind: Literal["sketch", "merge"],
    basis: Mapping[str, object],
    now: datetime,
) -> None:
    """Lock the ledgers, and say in each what a sketch that it pays for was made from, or is now. It costs nothing."""
    steps = []
    for ledger in lock(session, ledger_ids):
        entry = _free_entry(ledger, kind=kind, reason="", amount=Budget(0, 0), basis=basis, now=now)
        steps.append(_Step(ledger, entry, ledger.total, ledger.paid))
    _append(session, steps, now)


class _Step(NamedTuple):
    """The next entry of a ledger, and where the ledger stands after it."""

    ledger: LedgerRecord
    entry: Entry
    total: Budget
    spent: Price


def _release(ledger: LedgerRecord, offer: Offer, snapshot_id: str, basis: Mapping[str, object], now: datetime) -> _Step:
    price = ledger.account.price(offer)
    entry = Entry(
        ledger=ledger.name,
        sequence=ledger.entries + 1,
        kind="release",
        created_at=moment(now),
        reason="",
        snapshot=snapshot_id,
        mechanism=offer.mechanism,
        mechanism_version=offer.version,
        parameters=offer.parameters(),
        epsilon_units=offer.cost.epsilon_units,
        delta_units=offer.cost.delta_units,
        price=price.main,
        basis=basis,
    )
    return _Step(ledger, entry, ledger.total, ledger.paid.plus(price))


def _free_entry(
    ledger: LedgerRecord,
    *,
    kind: str,
    reason: str,
    amount: Budget,
    basis: Mapping[str, object] | None,
    now: datetime,
) -> Entry:
    """The next entry of the ledger, of a kind that spends nothing."""
    return Entry(
        ledger=ledger.name,
        sequence=ledger.entries + 1,
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


def _append(session: Session, steps: Sequence[_Step], now: datetime) -> None:
    """Write the entries and move the locked ledgers with them: one statement for each of the two.

    The statement repeats what the lock promises: it finds no row if another entry came in between, and the check of
    the table refuses a total that does not cover what is spent, whatever the database makes of the lock.
    """
    moves, chained, covered = [], [], True
    for ledger, entry, total, spent in steps:
        digest, limit = entry.hash(ledger.head), ledger.account.accountant.limit(total)
        covered = covered and limit.covers(spent)
        chained.append((ledger.id, ChainedEntry(entry, digest)))
        moves.append(
            {
                "ledger": ledger.id,
                "entries_before": entry.sequence - 1,
                "head_before": ledger.head,
                "new_epsilon_total": total.epsilon_units,
                "new_delta_total": total.delta_units,
                "new_spendable": limit.main,
                "new_delta_spendable": limit.delta,
                "new_spent": spent.main,
                "new_delta_spent": spent.delta,
                "new_entries": entry.sequence,
                "new_head": digest,
            }
        )
    moved = session.connection().execute(_MOVE, moves)
    if moved.rowcount != len(steps) or not covered:
        raise Unavailable("The ledger changed under the request; nothing was charged. Try again.")
    entries.add(session, chained, now)
