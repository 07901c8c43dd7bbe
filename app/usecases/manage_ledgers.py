"""Make and read budgets."""

from app.core.ledger.budget import Budget
from app.core.ledger.chain import ChainedEntry
from app.core.sketches.parameters import Contributions
from app.refusals import Conflict
from app.store import entries, ledger
from app.usecases.context import Context
from app.usecases.ingest.people import create_register
from app.usecases.paging import Page, paged
from app.usecases.views import LedgerView, ledger_view, ledger_views


def create_ledger(
    context: Context,
    name: str,
    accountant: str,
    total: Budget,
    contributions: Contributions | None,
    *,
    by: str | None = None,
) -> tuple[LedgerView, bool]:
    """Make the ledger, for the caller with the API key `by`; gives it, and whether it is new. Asking again in the same
    words is fine."""
    with context.writing(by) as session:
        created = ledger.create(session, name, accountant, total, context.now(), contributions)
        record = ledger.get(session, name)
        if created and contributions is not None:
            ledger.bound_contributions(session, record.id, create_register(context, session, f"ledger/{name}"))
        if (record.accountant, record.total, record.contributions) != (accountant, total, contributions):
            raise Conflict(f"A ledger named {name!r} exists with another budget, accountant or bound on contributions.")
        return ledger_view(session, record), created


def get_ledger(context: Context, name: str) -> LedgerView:
    """What is shown of the ledger, or UnknownLedger."""
    with context.database.reading() as session:
        return ledger_view(session, ledger.get(session, name))


def list_ledgers(context: Context, names: str, after: str | None, limit: int) -> Page[LedgerView]:
    """The first ledgers after this name that the pattern `names` fits, in the order of their names."""
    with context.database.reading() as session:
        records = ledger.page(session, names, after or "", limit + 1)
        return paged(ledger_views(session, records), limit, lambda last: last.name)


def list_entries(context: Context, name: str, after: int, limit: int) -> Page[ChainedEntry]:
    """The first entries of the ledger after this sequence, in order."""
    with context.database.reading() as session:
        found = entries.page(session, ledger.get(session, name).id, name, after, limit + 1)
        return paged(found, limit, lambda last: str(last.entry.sequence))


def set_budget(context: Context, name: str, total: Budget, reason: str, *, by: str | None = None) -> LedgerView:
    """Raise or lower the total, as an entry of its own, for the caller with the API key `by`. Never below what is
    spent."""
    with context.writing(by) as session:
        (held,) = ledger.lock(session, [ledger.get(session, name).id])
        if not held.account.allows(total):
            raise Conflict("The budget cannot be lower than what is spent.")
        ledger.change_total(session, held, total, reason, context.now())
        return ledger_view(session, ledger.get(session, name))
