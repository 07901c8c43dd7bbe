"""Budgets."""

from fastapi import APIRouter, Response

from app.api.dependencies import AdminOfName, AppContext, LedgerName, Paging, Reader, ReaderOfName, sealed
from app.api.errors import Responses, responses
from app.api.inputs import BudgetChangeIn, LedgerIn, example
from app.api.outputs import EntryOut, LedgerOut, PageOut
from app.api.reports import ReportOut
from app.core.errors import InvalidNumber
from app.refusals import Conflict, UnknownLedger
from app.usecases import manage_ledgers
from app.usecases.report_ledger import report_ledger

router = APIRouter(tags=["ledgers"])

_CREATED: Responses = {
    200: {"description": "The same ledger exists already"},
    201: {"model": LedgerOut, "description": "Created"},
}


@router.put(
    "/v1/ledgers/{name}",
    openapi_extra=example({"epsilon": "2", "delta": "1e-5", "accountant": "basic"}),
    responses=_CREATED | responses(InvalidNumber, Conflict),
)
def create_ledger(
    name: LedgerName, body: LedgerIn, app: AppContext, caller: AdminOfName, response: Response
) -> LedgerOut:
    """Make a budget that several sketches may share; 200 if the same one exists already. Needs `admin`.

    With `contributions` it also bounds what one person contributes to all its sketches together.
    """
    bound = body.contributions.contributions() if body.contributions else None
    ledger, created = manage_ledgers.create_ledger(
        app, name, body.accountant, body.total(), bound, by=caller.api_key_id
    )
    response.status_code = 201 if created else 200
    return LedgerOut.of(ledger)


@router.post(
    "/v1/ledgers/{name}/budget",
    status_code=201,
    openapi_extra=example({"epsilon": "3", "delta": "1e-5", "reason": "Approved for the second quarter"}),
    responses=responses(InvalidNumber, UnknownLedger, Conflict),
)
def set_budget(name: LedgerName, body: BudgetChangeIn, app: AppContext, caller: AdminOfName) -> LedgerOut:
    """Give a ledger another total, never below what is spent. An entry of its own, with its reason. Needs `admin`.

    At a `zcdp` ledger the total is what is proven. If it is raised after a release, what it allows from then on adds to
    the guarantee; if it is lowered, the guarantee stays as it was. The report says what holds.
    """
    return LedgerOut.of(manage_ledgers.set_budget(app, name, body.total(), body.reason, by=caller.api_key_id))


@router.get("/v1/ledgers", responses=responses())
def list_ledgers(app: AppContext, caller: Reader, paging: Paging) -> PageOut[LedgerOut]:
    """Ledgers by name. Needs `read`."""
    page = manage_ledgers.list_ledgers(app, caller.sketches, paging.after, paging.limit)
    return PageOut(items=[LedgerOut.of(ledger) for ledger in page.items], cursor=sealed(page.next))


@router.get("/v1/ledgers/{name}", responses=responses(UnknownLedger))
def get_ledger(name: LedgerName, app: AppContext, caller: ReaderOfName) -> LedgerOut:
    """Total, spent, remaining, and how many more releases like the last fit. Needs `read`."""
    return LedgerOut.of(manage_ledgers.get_ledger(app, name))


@router.get("/v1/ledgers/{name}/report", responses=responses(UnknownLedger))
def get_ledger_report(name: LedgerName, app: AppContext, caller: ReaderOfName) -> ReportOut:
    """What is proven of all releases together; beside it what is spent, and a tighter numerical figure. Needs `read`.

    Of a `basic` ledger what is spent is proven. Of a `zcdp` ledger the total is, and what is spent is bookkeeping.
    """
    return ReportOut.of(report_ledger(app, name))


@router.get("/v1/ledgers/{name}/entries", responses=responses(UnknownLedger))
def list_ledger_entries(name: LedgerName, app: AppContext, caller: ReaderOfName, paging: Paging) -> PageOut[EntryOut]:
    """The append-only, hash-chained entries, oldest first. The releases add up to what is spent. Needs `read`."""
    page = manage_ledgers.list_entries(app, name, paging.after_number() or 0, paging.limit)
    return PageOut(items=[EntryOut.of(entry) for entry in page.items], cursor=sealed(page.next))
