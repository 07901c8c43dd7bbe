"""Make, read, close and delete sketches."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from app.core.errors import InvalidNumber
from app.core.guarantee import NOT_COVERED
from app.core.ledger.budget import Budget
from app.core.people import Enforcement, Unit
from app.core.sketches.universe import Universe
from app.refusals import Conflict
from app.store import allowances, ledger, sketches, states
from app.store.sketches import Lineage
from app.store.tables import LedgerRow, SketchRow
from app.usecases import manage_ledgers
from app.usecases.context import Context
from app.usecases.ingest.people import create_register
from app.usecases.manage_ledgers import LedgerView
from app.usecases.paging import Page, paged


@dataclass(frozen=True, slots=True)
class OwnBudget:
    """A ledger of the sketch's own, named after it."""

    total: Budget
    accountant: str


@dataclass(frozen=True, slots=True)
class SketchSpec:
    """What a sketch is made from. `ledger` is the name of a shared one, or a budget of its own."""

    k: int
    unit: Unit
    max_contributions: int
    ledger: str | OwnBudget
    description: str
    universe: Universe | None
    enforcement: Enforcement = "declared"


@dataclass(frozen=True, slots=True)
class SketchView:
    """Public parameters and budget state; nothing that depends on the events."""

    name: str
    k: int
    unit: Unit
    max_contributions: int
    enforcement: Enforcement
    description: str
    family: str
    universe_size: int | None
    ledger: LedgerView
    ledgers: list[str]  # the oldest of those whose data it holds, by name
    ledger_count: int  # of all whose data it holds
    created_at: datetime
    closed_at: datetime | None
    not_covered: str | None  # by the guarantee of its snapshots


def create_sketch(context: Context, name: str, spec: SketchSpec, *, by: str | None = None) -> tuple[SketchView, bool]:
    """The sketch, and whether it is new, for the caller with the key `by`. Asking again in the same words is fine."""
    if spec.k > context.max_k:
        raise InvalidNumber(f"k may be at most {context.max_k} on this server.")
    with context.writing(by) as session:
        created = sketches.find(session, name) is None and _insert(context, session, name, spec)
        row = sketches.find(session, name)
        if row is None:
            raise Conflict(f"A ledger named {name!r} exists: name it as `ledger`, or choose another sketch name.")
        if row.deleted_at is not None:
            raise Conflict(f"A deleted sketch was named {name!r}; its name stays taken.")
        paid_by = ledger.read(session, row.ledger_id)
        if not _same(row, paid_by, spec):
            raise Conflict(f"A sketch named {name!r} exists with other parameters.")
        return view(session, row), created


def _insert(context: Context, session: Session, name: str, spec: SketchSpec) -> bool:
    now = context.now()
    if isinstance(spec.ledger, OwnBudget):
        if not ledger.create(session, name, spec.ledger.accountant, spec.ledger.total, now):
            return False
        paid_by = ledger.get(session, name)
    else:
        paid_by = ledger.get(session, spec.ledger)
    created = sketches.create(
        session,
        name=name,
        ledger_id=paid_by.id,
        k=spec.k,
        unit=spec.unit,
        max_contributions=spec.max_contributions,
        enforcement=spec.enforcement,
        scope_id=_scope(context, session, name, spec, paid_by),
        description=spec.description,
        universe=spec.universe,
        now=now,
    )
    if created:
        basis = sketches.basis(session, sketches.get(session, name))
        ledger.note(session, [paid_by.id], "sketch", asdict(basis), now)
    return created


def _scope(context: Context, session: Session, name: str, spec: SketchSpec, paid_by: LedgerRow) -> int | None:
    """Within which a person's contributions are added up: the ledger's, where it bounds them, or the sketch's own."""
    if paid_by.scope_id is not None:
        if (spec.unit, spec.max_contributions) != (paid_by.contribution_unit, paid_by.max_contributions):
            raise Conflict(
                f"The ledger {paid_by.name!r} bounds what a person contributes to all its sketches: make this one with "
                f"unit {paid_by.contribution_unit!r} and max_contributions {paid_by.max_contributions}."
            )
        if spec.enforcement == "declared":
            raise Conflict(f"The ledger {paid_by.name!r} bounds contributions, so its sketches cannot be declared.")
        if allowances.lock(session, paid_by.scope_id).dropped:
            raise Conflict(f"All sketches of the ledger {paid_by.name!r} were closed, and its people are forgotten.")
        return paid_by.scope_id
    if spec.enforcement == "declared":
        return None
    return create_register(context, session, f"sketch/{name}")


def _same(row: SketchRow, paid_by: LedgerRow, spec: SketchSpec) -> bool:
    asked = (spec.k, spec.unit, spec.max_contributions, spec.enforcement, spec.description)
    have = (row.k, row.unit, row.max_contributions, row.enforcement, row.description)
    if have != asked or sketches.universe(row) != spec.universe:
        return False
    if isinstance(spec.ledger, OwnBudget):
        own = paid_by.name == row.name
        return own and manage_ledgers.same_ledger(paid_by, spec.ledger.accountant, spec.ledger.total)
    return paid_by.name == spec.ledger


def get_sketch(context: Context, name: str) -> SketchView:
    with context.database.reading() as session:
        row = sketches.get_live(session, name)
        return view(session, row)


def list_sketches(context: Context, names: str, after: str | None, limit: int) -> Page[SketchView]:
    with context.database.reading() as session:
        rows = sketches.page(session, names, after or "", limit + 1)
        return paged(views(session, rows), limit, lambda last: last.name)


def delete_sketch(context: Context, name: str, *, by: str | None = None) -> None:
    """Erase the data, for the caller with the key `by`. The ledger's history, the snapshots and the claim on the name
    stay."""
    with context.writing(by) as session:
        row = sketches.lock_live(session, name)
        sketches.erase(session, row, context.now())
        _forget_people(context, session, row)


def close_sketch(context: Context, name: str, *, by: str | None = None) -> SketchView:
    """Take no more events, for good, and forget who sent them, for the caller with the key `by`. Closing again changes
    nothing."""
    with context.writing(by) as session:
        row = sketches.lock_live(session, name)
        close(context, session, row)
        return view(session, row)


def close(context: Context, session: Session, row: SketchRow) -> None:
    held = states.lock(session, row.name)  # a batch that is being counted comes before this
    if held is not None and not held.closed:
        states.close(session, held)
        row.closed_at = context.now()
        session.flush()
        _forget_people(context, session, row)


def _forget_people(context: Context, session: Session, row: SketchRow) -> None:
    """Once no sketch of the scope takes events, nobody needs to know who sent them."""
    if row.scope_id is not None:
        allowances.lock(session, row.scope_id)
        if not allowances.has_open_sketches(session, row.scope_id):
            allowances.drop(session, row.scope_id, context.now())


def view(session: Session, row: SketchRow) -> SketchView:
    (only,) = views(session, [row])
    return only


def views(session: Session, rows: Sequence[SketchRow]) -> list[SketchView]:
    """What is shown of each, with three statements for all of them."""
    lineages = sketches.lineages(session, [row.id for row in rows])
    paying = ledger.read_all(session, {row.ledger_id for row in rows})
    shown = dict(zip((row.id for row in paying), manage_ledgers.views(session, paying), strict=True))
    return [_view(row, shown[row.ledger_id], lineages[row.id]) for row in rows]


def _view(row: SketchRow, paid_by: LedgerView, lineage: Lineage) -> SketchView:
    return SketchView(
        name=row.name,
        k=row.k,
        unit=row.unit,
        max_contributions=row.max_contributions,
        enforcement=row.enforcement,
        description=row.description,
        family=row.family,
        universe_size=sketches.universe_size(row),
        ledger=paid_by,
        ledgers=lineage.names,
        ledger_count=lineage.count,
        created_at=row.created_at,
        closed_at=row.closed_at,
        not_covered=NOT_COVERED if row.counted_by_request else None,
    )
