"""Whose data a sketch holds: the ledgers that pay for its releases, and the sketches whose events are in it."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import and_, func, insert, literal, or_, select
from sqlalchemy.orm import Session, aliased

from app.store.dialects import insert_missing
from app.store.tables import LedgerRow, LineageRow, OriginRow, SketchRow

MOST_NAMED = 100  # ledgers of a sketch


@dataclass(frozen=True, slots=True)
class Lineage:
    """The ledgers whose data a sketch holds: how many, and the names of the oldest `MOST_NAMED` of them."""

    count: int
    names: list[str]


def begin(session: Session, sketch_id: int, ledger_id: int) -> None:
    """A new sketch holds its own events, for which its ledger pays."""
    session.connection().execute(insert(LineageRow), {"sketch_id": sketch_id, "ledger_id": ledger_id})
    session.connection().execute(insert(OriginRow), {"sketch_id": sketch_id, "origin_id": sketch_id})


def inherit(session: Session, target_id: int, source_ids: Collection[int]) -> None:
    """The target holds the data of the sources from now on, and answers for them to their ledgers."""
    ledgers = select(literal(target_id), LineageRow.ledger_id).where(LineageRow.sketch_id.in_(source_ids)).distinct()
    origins = select(literal(target_id), OriginRow.origin_id).where(OriginRow.sketch_id.in_(source_ids)).distinct()
    insert_missing(session, LineageRow, ["sketch_id", "ledger_id"], ledgers)
    insert_missing(session, OriginRow, ["sketch_id", "origin_id"], origins)


def ledger_ids(session: Session, sketch_id: int) -> list[int]:
    """The ledgers whose data the sketch holds."""
    return list(session.scalars(select(LineageRow.ledger_id).where(LineageRow.sketch_id == sketch_id)))


def payer_names(session: Session, sketch_ids: Collection[int]) -> dict[int, set[str]]:
    """For each of the sketches, the names of the ledgers whose data it holds. One statement."""
    query = select(LineageRow.sketch_id, LedgerRow.name).join(LedgerRow, LedgerRow.id == LineageRow.ledger_id)
    found: dict[int, set[str]] = defaultdict(set)
    for sketch_id, name in session.connection().execute(query.where(LineageRow.sketch_id.in_(sketch_ids))):
        found[sketch_id].add(name)
    return found


def owed_names(session: Session, sketch_id: int) -> set[str]:
    """The names of the ledgers that must pay for the sketch: those of the sketches whose events it holds, and its own.

    It is what `payer_names` gives, unless somebody changed one of the tables.
    """
    origin = aliased(SketchRow)
    held = select(LedgerRow.name).join(origin, origin.ledger_id == LedgerRow.id)
    held = held.join(OriginRow, OriginRow.origin_id == origin.id).where(OriginRow.sketch_id == sketch_id)
    own = select(LedgerRow.name).join(SketchRow, SketchRow.ledger_id == LedgerRow.id).where(SketchRow.id == sketch_id)
    return {*session.scalars(held), *session.scalars(own)}


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


def origin_names(session: Session, sketch_ids: Collection[int]) -> dict[int, set[str]]:
    """For each of the sketches, the names of those whose own events it holds, itself included. One statement."""
    query = select(OriginRow.sketch_id, SketchRow.name).join(SketchRow, SketchRow.id == OriginRow.origin_id)
    found: dict[int, set[str]] = defaultdict(set)
    for sketch_id, name in session.connection().execute(query.where(OriginRow.sketch_id.in_(sketch_ids))):
        found[sketch_id].add(name)
    return found


def holds_marked(session: Session, ledger_id: int) -> bool:
    """Whether a sketch for which the ledger pays holds what an earlier version counted, request by request."""
    joined = select(SketchRow.id).join(LineageRow, LineageRow.sketch_id == SketchRow.id)
    query = joined.where(LineageRow.ledger_id == ledger_id, SketchRow.counted_by_request)
    return session.scalar(query.limit(1)) is not None
