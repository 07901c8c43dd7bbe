"""What people have used of their allowances: an append-only log of fingerprints, which processes keep in memory.

Each commit adds one row of usages: of each person whose usage changed, how much is used in all. So reading a row twice
does no harm: a process that remembers everything up to one sequence reads what came after it, rows that were put
together included. Rows are put together by the hundred, so that a register of many small batches is read back quickly.

A sequence is a number and random bits: a database that was put back to an earlier day, or lost its last commits, and
was written to since, does not have the row that a process remembers.
"""

import secrets
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.orm import Session

from app.core.kernel import new_allowances
from app.core.people import FINGERPRINT_BYTES
from app.store.dialects import insert_if_absent
from app.store.records import Register
from app.store.tables import AllowanceRow, RegisterRow, SketchRow

_TOGETHER = 100
_LEVELS = 2
_LARGEST_ROW = 4 * 1024 * 1024
_RANDOM_BITS = 31
_USAGE_BYTES = FINGERPRINT_BYTES + 2


class HeldRegister(NamedTuple):
    """A register that is locked until the commit."""

    id: int
    sequence: int
    dropped: bool


def create(session: Session, name: str, key_check: bytes) -> int:
    """Make a register of this name, unless another transaction made it at the same moment; its id."""
    insert_if_absent(session, RegisterRow, {"name": name, "key_check": key_check, "sequence": 0})
    return session.scalars(select(RegisterRow.id).where(RegisterRow.name == name)).one()


def any_exist(session: Session) -> bool:
    """Whether people were ever counted here, under a key that is kept outside."""
    return session.scalar(select(RegisterRow.id).limit(1)) is not None


def get(session: Session, register_id: int) -> Register:
    """The register of this id, which exists."""
    return _register(session.get_one(RegisterRow, register_id, populate_existing=True))


def read_all(session: Session) -> list[Register]:
    """Every register, in the order in which they were made."""
    query = select(RegisterRow).order_by(RegisterRow.id).execution_options(populate_existing=True)
    return [_register(row) for row in session.scalars(query)]


def _register(row: RegisterRow) -> Register:
    return Register(
        id=row.id, name=row.name, key_check=row.key_check, sequence=row.sequence, dropped=row.dropped_at is not None
    )


def lock(session: Session, register_id: int) -> HeldRegister:
    """Lock the register until the commit; its sequence is as it is now, after any wait."""
    query = select(RegisterRow.id, RegisterRow.sequence, RegisterRow.dropped_at.is_not(None)).where(
        RegisterRow.id == register_id
    )
    return HeldRegister(*session.connection().execute(query.with_for_update()).one())


def is_past(session: Session, register_id: int, sequence: int) -> bool:
    """Whether what was known at this sequence is still part of the log. False where its row was put together since."""
    query = select(AllowanceRow.sequence).where(
        AllowanceRow.register_id == register_id, AllowanceRow.sequence == sequence
    )
    return session.connection().execute(query).first() is not None


def usages_after(session: Session, register_id: int, sequence: int) -> Iterator[bytes]:
    """The rows of the log that were written after this sequence, in order."""
    query = select(AllowanceRow.usages).where(AllowanceRow.register_id == register_id, AllowanceRow.sequence > sequence)
    streamed = session.connection().execute(query.order_by(AllowanceRow.sequence).execution_options(yield_per=16))
    yield from streamed.scalars()


def append(session: Session, register: HeldRegister, usages: bytes) -> int:
    """Add the usages that a commit changed; the new sequence."""
    number = (register.sequence >> _RANDOM_BITS) + 1
    sequence = number << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
    connection = session.connection()
    connection.execute(
        insert(AllowanceRow), {"scope_id": register.id, "sequence": sequence, "level": 0, "entries": usages}
    )
    connection.execute(update(RegisterRow).where(RegisterRow.id == register.id).values(sequence=sequence))
    for level in range(_LEVELS):
        together = _TOGETHER ** (level + 1)
        if number % together == 0:
            _put_together(session, register.id, level, (number - together + 1) << _RANDOM_BITS)
    return sequence


def _put_together(session: Session, register_id: int, level: int, first: int) -> None:
    """The last rows of a level into one of the next, each person once; not where that would be a very large row."""
    last = AllowanceRow.register_id == register_id, AllowanceRow.level == level, AllowanceRow.sequence >= first
    rows = session.connection().execute(select(AllowanceRow.sequence, AllowanceRow.usages).where(*last)).all()
    if not rows or sum(len(usages) for _, usages in rows) > _LARGEST_ROW:
        return
    together = new_allowances()
    for _, usages in rows:
        together.learn(usages)
    session.connection().execute(delete(AllowanceRow).where(*last))
    merged = {"sequence": max(sequence for sequence, _ in rows), "entries": together.usages()}
    session.connection().execute(insert(AllowanceRow), {"scope_id": register_id, "level": level + 1, **merged})


def faults(session: Session, register: Register) -> list[str]:
    """What is wrong with the log of a register: rows that are missing, cut off, or that should be gone."""
    query = select(AllowanceRow.sequence, AllowanceRow.level, func.length(AllowanceRow.usages))
    rows = session.connection().execute(query.where(AllowanceRow.register_id == register.id)).all()
    if register.dropped:
        return ["its people were forgotten, and fingerprints are still there"] if rows else []
    found = []
    last = max((sequence for sequence, _, _ in rows), default=0)
    if last != register.sequence or _has_hole([(sequence >> _RANDOM_BITS, level) for sequence, level, _ in rows]):
        found.append("rows of its log of allowances are missing")
    if any(size % _USAGE_BYTES for _, _, size in rows):
        found.append("a row of its log of allowances is cut off")
    return found


def _has_hole(rows: Sequence[tuple[int, int]]) -> bool:
    """Whether a number up to the last is in no row, by the number and level of each row.

    A hundred numbers are a hundred rows or one; one row may also stand for all the hundreds of ten thousand numbers
    that are one row each.
    """
    single, hundreds, ten_thousands = (
        {(number - 1) // _TOGETHER**level for number, at in rows if at == level} for level in range(_LEVELS + 1)
    )
    begun = {at // _TOGETHER for at in single}
    return any(
        at not in single
        and at // _TOGETHER not in hundreds
        and (at // _TOGETHER in begun or at // _TOGETHER**2 not in ten_thousands)
        for at in range(max((number for number, _ in rows), default=0))
    )


def takes_events(session: Session, register_id: int) -> bool:
    """Whether a sketch of the register still takes events."""
    query = select(SketchRow.id).where(
        SketchRow.register_id == register_id, SketchRow.closed_at.is_(None), SketchRow.deleted_at.is_(None)
    )
    return session.scalar(query.limit(1)) is not None


def drop(session: Session, register_id: int, now: datetime) -> None:
    """Forget the fingerprints, for good: nothing is counted in this register any more."""
    session.connection().execute(delete(AllowanceRow).where(AllowanceRow.register_id == register_id))
    session.connection().execute(update(RegisterRow).where(RegisterRow.id == register_id).values(dropped_at=now))
