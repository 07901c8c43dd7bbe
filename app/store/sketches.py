"""Sketches: their public parameters, and whose data they hold. What is in them: `states.py`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, func, or_, select
from sqlalchemy.orm import Session

from app.core.ledger.basis import SketchBasis, digest
from app.core.people import Enforcement, Unit
from app.core.sketches.universe import Universe, as_document, of_document, size_of_document
from app.refusals import UnknownSketch
from app.store import states
from app.store.dialects import inserted, like
from app.store.tables import LedgerRow, LineageRow, OriginRow, SketchRow

MOST_NAMED = 100  # ledgers of a sketch


def create(
    session: Session,
    *,
    name: str,
    ledger_id: int,
    k: int,
    unit: Unit,
    max_contributions: int,
    enforcement: Enforcement,
    scope_id: int | None,
    description: str,
    universe: Universe | None,
    now: datetime,
) -> bool:
    """Make the sketch, empty; False, and nothing changed, where the name is taken."""
    values = {
        "name": name,
        "ledger_id": ledger_id,
        "k": k,
        "unit": unit,
        "max_contributions": max_contributions,
        "enforcement": enforcement,
        "scope_id": scope_id,
        "family": "stream" if unit == "event" else "compact",
        "description": description,
        "universe": as_document(universe) if universe else None,
        "created_at": now,
    }
    if not inserted(session, SketchRow, values):
        return False
    row = get(session, name)
    states.create(session, row)
    session.add(LineageRow(sketch_id=row.id, ledger_id=ledger_id))
    session.add(OriginRow(sketch_id=row.id, origin_id=row.id))
    session.flush()
    return True


def find(session: Session, name: str) -> SketchRow | None:
    """The row of this name, deleted or not."""
    return session.scalar(select(SketchRow).where(SketchRow.name == name))


def get(session: Session, name: str) -> SketchRow:
    row = find(session, name)
    if row is None:
        raise UnknownSketch(f"There is no sketch named {name!r}.")
    return row


def get_live(session: Session, name: str) -> SketchRow:
    row = get(session, name)
    if row.deleted_at is not None:
        raise UnknownSketch(f"The sketch {name!r} was deleted; its snapshots and ledger stay.")
    return row


def lock(session: Session, names: Sequence[str]) -> dict[str, SketchRow]:
    """The live sketches of these names, held still until the commit: no merge, no release, no deletion in between.

    In the order of their ids, so that two callers cannot wait for each other.
    """
    query = select(SketchRow).where(SketchRow.name.in_(names), SketchRow.deleted_at.is_(None)).order_by(SketchRow.id)
    held = query.with_for_update(key_share=True).execution_options(populate_existing=True)
    return {row.name: row for row in session.scalars(held)}


def lock_live(session: Session, name: str) -> SketchRow:
    """One live sketch, held still until the commit."""
    held = lock(session, [name])
    if name not in held:
        get_live(session, name)  # says why there is none
        raise UnknownSketch(f"There was no sketch named {name!r} a moment ago. Try again.")
    return held[name]


def ledger_ids(session: Session, row: SketchRow) -> list[int]:
    """The ledgers whose data the sketch holds."""
    return list(session.scalars(select(LineageRow.ledger_id).where(LineageRow.sketch_id == row.id)))


@dataclass(frozen=True, slots=True)
class Lineage:
    """The ledgers whose data a sketch holds: how many, and the names of the oldest `MOST_NAMED` of them."""

    count: int
    names: list[str]


def lineages(session: Session, sketch_ids: Sequence[int]) -> dict[int, Lineage]:
    """For each of the sketches, in one statement that reads no more ledgers than are named."""
    own = select(LineageRow.ledger_id).where(LineageRow.sketch_id == SketchRow.id).correlate(SketchRow)
    beyond = own.order_by(LineageRow.ledger_id).offset(MOST_NAMED).limit(1).scalar_subquery()
    count = own.with_only_columns(func.count()).scalar_subquery()
    sizes = select(SketchRow.id, count.label("count"), beyond.label("beyond")).where(SketchRow.id.in_(sketch_ids))
    held = sizes.limit(len(sketch_ids)).subquery()  # with a limit it is worked out once, and not for every ledger
    named = or_(held.c.beyond.is_(None), LineageRow.ledger_id < held.c.beyond)
    query = (
        select(held.c.id, held.c.count, LedgerRow.name)
        .join(LineageRow, and_(LineageRow.sketch_id == held.c.id, named))
        .join(LedgerRow, LedgerRow.id == LineageRow.ledger_id)
    )
    found: dict[int, Lineage] = {}
    for sketch_id, number, name in session.connection().execute(query.order_by(LedgerRow.name)):
        found.setdefault(sketch_id, Lineage(number, [])).names.append(name)
    return found


def origin_names(session: Session, row: SketchRow) -> set[str]:
    """The sketches whose own events the sketch holds, itself included."""
    query = select(SketchRow.name).join(OriginRow, OriginRow.origin_id == SketchRow.id)
    return set(session.scalars(query.where(OriginRow.sketch_id == row.id)))


def holds_marked(session: Session, ledger_id: int) -> bool:
    """Whether a sketch for which the ledger pays holds what an earlier version counted, request by request."""
    joined = select(SketchRow.id).join(LineageRow, LineageRow.sketch_id == SketchRow.id)
    query = joined.where(LineageRow.ledger_id == ledger_id, SketchRow.counted_by_request)
    return session.scalar(query.limit(1)) is not None


def inherit(session: Session, target: SketchRow, source: SketchRow) -> None:
    """The target holds the source's data from now on, and answers for it to the source's ledgers."""
    for ledger_id in ledger_ids(session, source):
        inserted(session, LineageRow, {"sketch_id": target.id, "ledger_id": ledger_id})
    for origin_id in session.scalars(select(OriginRow.origin_id).where(OriginRow.sketch_id == source.id)).all():
        inserted(session, OriginRow, {"sketch_id": target.id, "origin_id": origin_id})


def basis(session: Session, row: SketchRow) -> SketchBasis:
    """What its releases rest on, as it is now."""
    paid_by = select(LedgerRow.name).join(LineageRow, LineageRow.ledger_id == LedgerRow.id)
    return SketchBasis(
        sketch=row.name,
        k=row.k,
        unit=row.unit,
        max_contributions=row.max_contributions,
        enforcement=row.enforcement,
        universe_digest=None if row.universe is None else digest(row.universe),
        family=row.family,
        sources=row.sources,
        counted_by_request=row.counted_by_request,
        ledgers_digest=digest(sorted(session.scalars(paid_by.where(LineageRow.sketch_id == row.id)))),
        origins_digest=digest(sorted(origin_names(session, row))),
    )


def page(session: Session, pattern: str, after: str, limit: int) -> Sequence[SketchRow]:
    query = select(SketchRow).where(
        SketchRow.name > after, like(SketchRow.name, pattern), SketchRow.deleted_at.is_(None)
    )
    return session.scalars(query.order_by(SketchRow.name).limit(limit)).all()


def universe_size(row: SketchRow) -> int | None:
    return None if row.universe is None else size_of_document(row.universe)


def universe(row: SketchRow) -> Universe | None:
    return None if row.universe is None else of_document(row.universe)


def erase(session: Session, row: SketchRow, now: datetime) -> None:
    """Forget the data; the row stays, because its name must not come back with a fresh budget."""
    states.erase(session, row)
    row.deleted_at = now
    session.flush()
