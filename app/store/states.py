"""The private data of sketches: the bytes of each, with a token that changes whenever they do."""

import secrets
from collections.abc import Collection
from functools import cache
from typing import NamedTuple

from sqlalchemy import Update, bindparam, delete, false, func, literal_column, or_, select, update
from sqlalchemy.orm import Session

from app.core.errors import BadState
from app.core.people import Rules
from app.core.sketches import state
from app.core.sketches.compact import CompactSketch
from app.core.sketches.order import SECRET_BYTES, Order
from app.core.sketches.state import Sketch
from app.core.sketches.stream import StreamSketch
from app.refusals import UnknownSketch
from app.store import parts
from app.store.database import Database
from app.store.records import SketchRecord
from app.store.tables import KeyRow, RegisterRow, SketchRow, StateRow


class Held(NamedTuple):
    """A state that is locked until the commit."""

    sketch_id: int
    token: int
    closed: bool
    scope_id: int | None
    has_universe: bool
    rules: Rules


class Written(NamedTuple):
    """The token of what is stored, and what must be remembered to write over it."""

    token: int
    stored: bytes | None


class Swap(NamedTuple):
    """Bytes, to be stored where the token is still the one upon which they were made."""

    sketch_id: int
    upon: Written
    stored: bytes


_MOST_KEYS = 20  # in a statement that names them one by one

_HELD = (
    select(
        *(StateRow.sketch_id, StateRow.token, StateRow.closed, SketchRow.register_id, SketchRow.universe.is_not(None)),
        *(SketchRow.unit, SketchRow.max_contributions, RegisterRow.name, RegisterRow.key_check),
    )
    .join(SketchRow, SketchRow.id == StateRow.sketch_id)
    .join(RegisterRow, RegisterRow.id == SketchRow.register_id, isouter=True)
    .where(SketchRow.name == bindparam("name"))
    .with_for_update(of=StateRow)
)
_TOKEN = select(StateRow.token).where(StateRow.sketch_id == bindparam("sketch"))
_WRITE = (
    update(StateRow)
    .where(StateRow.sketch_id == bindparam("sketch"))
    .values(token=bindparam("new_token"), state=bindparam("new_state"))
)


def create(session: Session, row: SketchRecord) -> None:
    """Empty; a stream with an eviction order of its own."""
    k, order = row.parameters.k, Order(secrets.token_bytes(SECRET_BYTES))
    empty = StreamSketch.empty(k, order) if row.family == "stream" else CompactSketch.empty(k)
    session.add(StateRow(sketch_id=row.id, token=0, state=b""))
    session.flush()
    save(session, row, empty)


def lock(session: Session, name: str) -> Held | None:
    """The state of the sketch of this name, held still until the commit; None where there is none.

    Token and `closed` are as they are now, after any wait. What the sketch's own row says may be older than that, so of
    it only what never changes is here; for the family, ask the state.
    """
    row = session.connection().execute(_HELD, {"name": name}).first()
    if row is None:
        return None
    sketch_id, token, closed, scope_id, has_universe, unit, most, scope, key_check = row
    return Held(sketch_id, token, closed, scope_id, has_universe, Rules(unit, most, scope or "", key_check or b""))


def read(session: Session, sketch_id: int) -> bytes | None:
    """As it is stored: `core/sketches/state.py` says how."""
    return parts.read(session, sketch_id)


def token(session: Session, sketch_id: int) -> int | None:
    """It changes whenever the state does; None where there is none."""
    found: int | None = session.connection().execute(_TOKEN, {"sketch": sketch_id}).scalar()
    return found


def write(session: Session, sketch_id: int, stored: bytes, *, over: bytes | None) -> Written:
    """Store the bytes, over these if that is known."""
    token, dialect = new_token(), session.get_bind().dialect
    values = {"sketch": sketch_id, "new_token": token, "new_state": parts.first(stored, dialect)}
    session.connection().execute(_WRITE, values)
    if parts.are_cut(dialect):
        parts.write_further(session, sketch_id, stored, over)
    return Written(token, parts.remembered(stored, dialect))


def swap(database: Database, swap: Swap, key_ids: Collection[str]) -> Written | None:
    """Store the bytes, if nothing has changed, the sketch is open, and all of the keys are valid; else None.

    In one statement, which does not wait: where somebody has the row locked, or there are many keys, nothing is stored
    either. So what it sees of the keys is as new as what it sees of the row.
    """
    stored, dialect = swap.stored, database.engine.dialect
    rewritten = parts.changed(stored, swap.upon.stored) if parts.are_cut(dialect) else []
    if len(key_ids) > _MOST_KEYS or rewritten is None:
        return None
    token = new_token()
    values: dict[str, object] = {f"key_{number}": key_id for number, key_id in enumerate(key_ids)}
    values |= {"sketch": swap.sketch_id, "upon": swap.upon.token, "new_token": token}
    values |= {"new_state": parts.first(stored, dialect)}
    first = _swap(len(key_ids))
    if rewritten:
        statement, further = parts.with_further(first, rewritten)
        rows = database.carry_out(statement, values | further)
    else:
        rows = database.carry_out(first, values)
    return Written(token, parts.remembered(stored, dialect)) if rows == 1 else None


@cache
def _swap(keys: int) -> Update:
    """With so many keys."""
    same = StateRow.sketch_id == bindparam("sketch"), StateRow.token == bindparam("upon"), StateRow.closed.is_(False)
    free = select(StateRow.sketch_id).where(*same).with_for_update(skip_locked=True)
    either = or_(false(), *(KeyRow.id == bindparam(f"key_{number}") for number in range(keys)))
    valid = select(func.count()).where(either, KeyRow.revoked_at.is_(None)).scalar_subquery()
    all_valid = valid == literal_column(f"{keys}")
    return _WRITE.where(StateRow.sketch_id == free.scalar_subquery(), all_valid)


def load(session: Session, row: SketchRecord, *, for_update: bool) -> Sketch:
    """The private counters. Writers lock the row, so that concurrent changes queue and none is lost."""
    if for_update:
        _hold(session, row.id)
    stored = read(session, row.id)
    if stored is None:
        raise UnknownSketch(f"The sketch {row.name!r} was deleted; its snapshots and ledger stay.")
    return decoded(stored)


def _hold(session: Session, sketch_id: int) -> None:
    """In a statement of its own: one that waits for a lock sees all else as it was before."""
    session.connection().execute(select(StateRow.token).where(StateRow.sketch_id == sketch_id).with_for_update())


def decoded(stored: bytes) -> Sketch:
    try:
        return state.decode(state.by_slot(stored))
    except BadState as error:  # not the client's doing
        raise RuntimeError("the stored state of a sketch is damaged") from error


def save(session: Session, row: SketchRecord, sketch: Sketch) -> None:
    write(session, row.id, state.by_column(state.encode(sketch)), over=None)


def close(session: Session, held: Held) -> None:
    """No batch is taken from now on."""
    session.connection().execute(update(StateRow).where(StateRow.sketch_id == held.sketch_id).values(closed=True))


def erase(session: Session, row: SketchRecord) -> None:
    _hold(session, row.id)
    parts.erase_further(session, row.id)
    session.connection().execute(delete(StateRow).where(StateRow.sketch_id == row.id))


def new_token() -> int:
    """Random, so that a database that was put back to an earlier day never shows a token that a process remembers.

    Always of the same size: SQLite then writes only what differs.
    """
    return secrets.randbits(62) | 2**62
