"""Make and read budgets."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from app.core.ledger.accountants import Price
from app.core.ledger.budget import Budget
from app.core.ledger.chain import Entry
from app.core.people import Unit
from app.refusals import Conflict
from app.store import ledger
from app.store.tables import LedgerRow
from app.usecases.context import Context
from app.usecases.ingest.people import create_register
from app.usecases.paging import Page, paged


@dataclass(frozen=True, slots=True)
class Contributions:
    """The most that one person contributes to all sketches of a ledger together."""

    unit: Unit
    most: int


@dataclass(frozen=True, slots=True)
class LedgerView:
    """The public state of a ledger. It moves with releases, never with events."""

    name: str
    accountant: str
    total: Budget
    spent: Budget
    remaining: Budget
    rho: str | None  # spent, where the accountant counts it
    releases_like_the_last: int | None
    contributions: Contributions | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class EntryView:
    """One line of a ledger, with the hash that chains it to the one before."""

    entry: Entry
    hash: bytes


def create_ledger(
    context: Context,
    name: str,
    accountant: str,
    total: Budget,
    contributions: Contributions | None,
    *,
    by: str | None = None,
) -> tuple[LedgerView, bool]:
    """The ledger, and whether it is new, for the caller with the key `by`. Asking again in the same words is fine."""
    with context.writing(by) as session:
        bound = (contributions.unit, contributions.most) if contributions else None
        created = ledger.create(session, name, accountant, total, context.now(), bound)
        row = ledger.get(session, name)
        if created and contributions is not None:
            scope_id = create_register(context, session, f"ledger/{name}")
            ledger.bound_contributions(session, row, scope_id)
        if not same_ledger(row, accountant, total) or _contributions(row) != contributions:
            raise Conflict(f"A ledger named {name!r} exists with another budget, accountant or bound on contributions.")
        return view(session, row), created


def same_ledger(row: LedgerRow, accountant: str, total: Budget) -> bool:
    return row.accountant == accountant and row.total == total


def _contributions(row: LedgerRow) -> Contributions | None:
    if row.contribution_unit is None or row.max_contributions is None:
        return None
    return Contributions(row.contribution_unit, row.max_contributions)


def get_ledger(context: Context, name: str) -> LedgerView:
    with context.database.reading() as session:
        return view(session, ledger.get(session, name))


def list_ledgers(context: Context, names: str, after: str | None, limit: int) -> Page[LedgerView]:
    with context.database.reading() as session:
        rows = ledger.page(session, names, after or "", limit + 1)
        return paged(views(session, rows), limit, lambda last: last.name)


def list_entries(context: Context, name: str, after: int, limit: int) -> Page[EntryView]:
    with context.database.reading() as session:
        rows = ledger.entries(session, ledger.get(session, name).id, after, limit + 1)
        views = [EntryView(ledger.as_entry(row, name), row.hash) for row in rows]
        return paged(views, limit, lambda last: str(last.entry.sequence))


def set_budget(context: Context, name: str, total: Budget, reason: str, *, by: str | None = None) -> LedgerView:
    """Raise or lower the total, as an entry of its own, for the caller with the key `by`. Never below what is spent."""
    with context.writing(by) as session:
        (row,) = ledger.lock(session, [ledger.get(session, name).id])
        if not ledger.accountant(row).limit(total).covers(row.paid):
            raise Conflict("The budget cannot be lower than what is spent.")
        ledger.change_total(session, row, total, reason, context.now())
        return view(session, row)


def view(session: Session, row: LedgerRow) -> LedgerView:
    (only,) = views(session, [row])
    return only


def views(session: Session, rows: Sequence[LedgerRow]) -> list[LedgerView]:
    """What is shown of each, with one statement for all of them."""
    last = ledger.last_releases(session, [row.id for row in rows])
    return [_view(row, last.get(row.id)) for row in rows]


def _view(row: LedgerRow, last: Price | None) -> LedgerView:
    return LedgerView(
        name=row.name,
        accountant=row.accountant,
        total=row.total,
        spent=ledger.spent(row),
        remaining=ledger.remaining(row),
        rho=ledger.accountant(row).rho(row.paid),
        releases_like_the_last=row.left.how_many(last) if last else None,
        contributions=_contributions(row),
        created_at=row.created_at,
    )
