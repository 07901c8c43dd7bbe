"""Make, read, close and delete sketches.

Closing or deleting one takes locks in this order: the sketch, its state, the register where its people are counted.
"""

from dataclasses import asdict, dataclass

from sqlalchemy.orm import Session

from app.core.errors import InvalidNumber
from app.core.ledger.budget import Budget
from app.core.sketches.parameters import SketchParameters
from app.refusals import Conflict
from app.store import allowances, ledger, sketches, states
from app.store.records import LedgerRecord, SketchRecord
from app.usecases.context import Context
from app.usecases.ingest.people import create_register
from app.usecases.paging import Page, paged
from app.usecases.views import SketchView, sketch_view, sketch_views


@dataclass(frozen=True, slots=True)
class OwnBudget:
    """A ledger of the sketch's own, named after it."""

    total: Budget
    accountant: str


@dataclass(frozen=True, slots=True)
class SketchSpec:
    """What a sketch is made from. `ledger` is the name of a shared one, or a budget of its own."""

    parameters: SketchParameters
    ledger: str | OwnBudget
    description: str = ""


def create_sketch(context: Context, name: str, spec: SketchSpec, *, by: str | None = None) -> tuple[SketchView, bool]:
    """Make the sketch, for the caller with the API key `by`; gives it, and whether it is new. Asking again in the same
    words is fine."""
    if spec.parameters.k > context.max_k:
        raise InvalidNumber(f"k may be at most {context.max_k} on this server.")
    with context.writing(by) as session:
        created = sketches.find(session, name) is None and _insert(context, session, name, spec)
        record = sketches.find(session, name)
        if record is None:
            raise Conflict(f"A ledger named {name!r} exists: name it as `ledger`, or choose another sketch name.")
        if record.deleted_at is not None:
            raise Conflict(f"A deleted sketch was named {name!r}; its name stays taken.")
        (paid_by,) = ledger.read(session, [record.ledger_id])
        if not _is_same(record, paid_by, spec):
            raise Conflict(f"A sketch named {name!r} exists with other parameters.")
        return sketch_view(session, record), created


def _insert(context: Context, session: Session, name: str, spec: SketchSpec) -> bool:
    """Make the sketch, and its own ledger if it gets one; False where one of the names is taken."""
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
        parameters=spec.parameters,
        register_id=_register(context, session, name, spec.parameters, paid_by),
        description=spec.description,
        now=now,
    )
    if created:
        (basis,) = sketches.bases(session, [sketches.get_id(session, name)])
        ledger.note(session, [paid_by.id], "sketch", asdict(basis), now)
    return created


def _register(
    context: Context, session: Session, name: str, parameters: SketchParameters, paid_by: LedgerRecord
) -> int | None:
    """Where a person's contributions are added up: the ledger's register, where it bounds them, or the sketch's own."""
    if paid_by.register_id is not None:
        bound = paid_by.contributions
        if bound is None:
            raise RuntimeError("a ledger has a register and bounds nobody")
        if parameters.contributions != bound:
            raise Conflict(
                f"The ledger {paid_by.name!r} bounds what a person contributes to all its sketches: make this one with "
                f"unit {bound.unit!r} and max_contributions {bound.most}."
            )
        if parameters.enforcement == "declared":
            raise Conflict(f"The ledger {paid_by.name!r} bounds contributions, so its sketches cannot be declared.")
        if allowances.lock(session, paid_by.register_id).dropped:
            raise Conflict(f"All sketches of the ledger {paid_by.name!r} were closed, and its people are forgotten.")
        return paid_by.register_id
    if parameters.enforcement == "declared":
        return None
    return create_register(context, session, f"sketch/{name}")


def _is_same(record: SketchRecord, paid_by: LedgerRecord, spec: SketchSpec) -> bool:
    """Whether the sketch is what somebody asks for once more."""
    if (record.parameters, record.description) != (spec.parameters, spec.description):
        return False
    if isinstance(spec.ledger, OwnBudget):
        own = paid_by.name == record.name
        return own and (paid_by.accountant, paid_by.total) == (spec.ledger.accountant, spec.ledger.total)
    return paid_by.name == spec.ledger


def get_sketch(context: Context, name: str) -> SketchView:
    """What is shown of the sketch, or UnknownSketch."""
    with context.database.reading() as session:
        return sketch_view(session, sketches.get_live(session, name))


def list_sketches(context: Context, names: str, after: str | None, limit: int) -> Page[SketchView]:
    """The first sketches after this name that the pattern `names` fits, in the order of their names."""
    with context.database.reading() as session:
        records = sketches.page(session, names, after or "", limit + 1)
        return paged(sketch_views(session, records), limit, lambda last: last.name)


def delete_sketch(context: Context, name: str, *, by: str | None = None) -> None:
    """Erase the data, for the caller with the API key `by`. The ledger's history, the snapshots and the claim on the
    name stay."""
    with context.writing(by) as session:
        (held,) = sketches.lock_live(session, [name])
        sketches.erase(session, held, context.now())
        _forget_people(context, session, held)


def close_sketch(context: Context, name: str, *, by: str | None = None) -> SketchView:
    """Take no more events, for good, and forget who sent them, for the caller with the API key `by`. Closing again
    changes nothing."""
    with context.writing(by) as session:
        close(context, session, *sketches.lock_live(session, [name]))
        return sketch_view(session, sketches.get(session, name))


def close(context: Context, session: Session, sketch: SketchRecord) -> None:
    """Close the locked sketch, unless it is closed, and forget its people if no other sketch needs them."""
    held = states.lock(session, sketch.name)  # a batch that is being counted comes before this
    if held is not None and not held.closed:
        states.close(session, held)
        sketches.close(session, sketch.id, context.now())
        _forget_people(context, session, sketch)


def _forget_people(context: Context, session: Session, sketch: SketchRecord) -> None:
    """Once no sketch of the register takes events, nobody needs to know who sent them."""
    if sketch.register_id is not None:
        allowances.lock(session, sketch.register_id)
        if not allowances.takes_events(session, sketch.register_id):
            allowances.drop(session, sketch.register_id, context.now())
