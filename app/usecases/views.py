"""What several answers show of sketches and ledgers. A list of them takes as many statements as a single one."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from app.core.guarantee import NOT_COVERED
from app.core.ledger.accountants import Price
from app.core.ledger.budget import Budget
from app.core.planner import Family
from app.core.sketches.parameters import Contributions, SketchParameters
from app.store import entries, ledger, lineage
from app.store.lineage import Lineage
from app.store.records import LedgerRecord, SketchRecord


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
    contributions: Contributions | None  # the bound over all its sketches; None where each has its own
    created_at: datetime


@dataclass(frozen=True, slots=True)
class SketchView:
    """Public parameters and budget state; nothing that depends on the events."""

    name: str
    parameters: SketchParameters
    description: str
    family: Family
    ledger: LedgerView
    ledgers: list[str]  # the oldest of those whose data it holds, by name
    ledger_count: int  # of all whose data it holds
    created_at: datetime
    closed_at: datetime | None
    not_covered: str | None  # by the guarantee of its snapshots


def ledger_view(session: Session, record: LedgerRecord) -> LedgerView:
    """What is shown of one ledger."""
    (only,) = ledger_views(session, [record])
    return only


def ledger_views(session: Session, records: Sequence[LedgerRecord]) -> list[LedgerView]:
    """What is shown of each ledger, with one statement for all of them."""
    last = entries.last_releases(session, [record.id for record in records])
    return [_ledger_view(record, last.get(record.id)) for record in records]


def sketch_view(session: Session, record: SketchRecord) -> SketchView:
    """What is shown of one sketch."""
    (only,) = sketch_views(session, [record])
    return only


def sketch_views(session: Session, records: Sequence[SketchRecord]) -> list[SketchView]:
    """What is shown of each sketch, with three statements for all of them."""
    lineages = lineage.lineages(session, [record.id for record in records])
    paying = ledger.read(session, {record.ledger_id for record in records})
    shown = dict(zip((each.id for each in paying), ledger_views(session, paying), strict=True))
    return [_sketch_view(record, shown[record.ledger_id], lineages[record.id]) for record in records]


def _ledger_view(record: LedgerRecord, last: Price | None) -> LedgerView:
    account = record.account
    return LedgerView(
        name=record.name,
        accountant=record.accountant,
        total=record.total,
        spent=account.spent(),
        remaining=account.remaining(),
        rho=account.rho(),
        releases_like_the_last=account.how_many_at(last) if last else None,
        contributions=record.contributions,
        created_at=record.created_at,
    )


def _sketch_view(record: SketchRecord, paid_by: LedgerView, paying: Lineage) -> SketchView:
    return SketchView(
        name=record.name,
        parameters=record.parameters,
        description=record.description,
        family=record.family,
        ledger=paid_by,
        ledgers=paying.names,
        ledger_count=paying.count,
        created_at=record.created_at,
        closed_at=record.closed_at,
        not_covered=NOT_COVERED if record.counted_by_request else None,
    )
