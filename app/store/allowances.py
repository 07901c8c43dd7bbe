"""What people have used of their allowances: an append-only log of fingerprints, which processes keep in memory.

Each commit adds one row of what it changed. An entry says what is used in all, so reading a row twice does no harm: a
process that remembers everything up to one sequence reads what came after it, rows that were put together included.
Rows are put together by the hundred, so that a scope of many small batches is read back quickly.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from app.core.kernel import new_allowances
from app.store.tables import AllowanceRow, ScopeRow, SketchRow

_TOGETHER = 100
_LEVELS = 2
_LARGEST_ROW = 4 * 1024 * 1024


class HeldScope(NamedTuple):
    """A scope that is locked until the commit."""

    id: int
    sequence: int
    dropped: bool


def create(session: Session, name: str, key_check: bytes) -> int:
    row = ScopeRow(name=name, key_check=key_check, sequence=0)
    session.add(row)
    session.flush()
    return row.id


def get(session: Session, scope_id: int) -> ScopeRow:
    return session.get_one(ScopeRow, scope_id)


def lock(session: Session, scope_id: int) -> HeldScope:
    """Held still until the commit; its sequence as it is now, after any wait."""
    query = select(ScopeRow.id, ScopeRow.sequence, ScopeRow.dropped_at.is_not(None)).where(ScopeRow.id == scope_id)
    return HeldScope(*session.connection().execute(query.with_for_update()).one())


def entries_after(session: Session, scope_id: int, sequence: int) -> Iterator[bytes]:
    query = select(AllowanceRow.entries).where(AllowanceRow.scope_id == scope_id, AllowanceRow.sequence > sequence)
    streamed = session.connection().execute(query.order_by(AllowanceRow.sequence).execution_options(yield_per=16))
    yield from streamed.scalars()


def append(session: Session, scope: HeldScope, entries: bytes) -> int:
    """Add what a commit changed; the new sequence."""
    sequence = scope.sequence + 1
    connection = session.connection()
    connection.execute(
        insert(AllowanceRow), {"scope_id": scope.id, "sequence": sequence, "level": 0, "entries": entries}
    )
    connection.execute(update(ScopeRow).where(ScopeRow.id == scope.id).values(sequence=sequence))
    for level in range(_LEVELS):
        if sequence % _TOGETHER ** (level + 1) == 0:
            _put_together(session, scope.id, level)
    return sequence


def _put_together(session: Session, scope_id: int, level: int) -> None:
    """The rows of a level into one of the next, each person once; not where that would be a very large row."""
    ours = AllowanceRow.scope_id == scope_id, AllowanceRow.level == level
    rows = session.connection().execute(select(AllowanceRow.sequence, AllowanceRow.entries).where(*ours)).all()
    if sum(len(entries) for _, entries in rows) > _LARGEST_ROW:
        return
    together = new_allowances()
    for _, entries in rows:
        together.learn(entries)
    session.connection().execute(delete(AllowanceRow).where(*ours))
    last = max(sequence for sequence, _ in rows)
    merged = {"scope_id": scope_id, "sequence": last, "level": level + 1, "entries": together.entries()}
    session.connection().execute(insert(AllowanceRow), merged)


def has_open_sketches(session: Session, scope_id: int) -> bool:
    query = select(SketchRow.id).where(
        SketchRow.scope_id == scope_id, SketchRow.closed_at.is_(None), SketchRow.deleted_at.is_(None)
    )
    return session.scalar(query.limit(1)) is not None


def drop(session: Session, scope_id: int, now: datetime) -> None:
    """Forget the fingerprints, for good: nothing is counted in this scope any more."""
    session.connection().execute(delete(AllowanceRow).where(AllowanceRow.scope_id == scope_id))
    session.connection().execute(update(ScopeRow).where(ScopeRow.id == scope_id).values(dropped_at=now))
