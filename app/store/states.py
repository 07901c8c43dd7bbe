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
from app.store.tables import ApiKeyRow, RegisterRow, SketchRow, StateRow


class LockedState(NamedTuple):
    """A state that a transaction has locked until its commit, with public facts of its sketch that never change."""

    sketch_id: int
    token: int
    closed: bool
    register_id: int | None
    has_universe: bool
    rules: Rules


class Version(NamedTuple):
    """Which bytes are stored of a sketch: their token, and the bytes themselves where the next write must know them."""

    token: int
    stored: bytes | None


_MOST_API_KEYS = 20  # in a statement that names them one by one

_LOCKED = (
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
    """Store an empty sketch; a stream gets an eviction order of its own."""
    k, order = row.parameters.k, Order(secrets.token_bytes(SECRET_BYTES))
    empty = StreamSketch.empty(k, order) if row.family == "stream" else CompactSketch.empty(k)
    session.add(StateRow(sketch_id=row.id, token=0, state=b""))
    session.flush()
    save(session, row, empty)


def lock(session: Session, name: str) -> LockedState | None:
    """Lock the state of the sketch of this name until the commit; None where there is none.

    Token and `closed` are as they are now. After a wait PostgreSQL reads only the locked row again (READ COMMITTED);
    joined columns may be older. So of the sketch's own row only columns that never change are read here; a merge can
    change its `family`, which the state itself tells.
    """
    row = session.connection().execute(_LOCKED, {"name": name}).first()
    if row is None:
        return None
    sketch_id, token, closed, register_id, has_universe, unit, most, register, key_check = row
    rules = Rules(unit, most, register or "", key_check or b"")
    return LockedState(sketch_id, token, closed, register_id, has_universe, rules)


def read(session: Session, sketch_id: int) -> bytes | None:
    """The bytes as they are stored (`core/sketches/state.py` says how); None where there are none."""
    return parts.read(session, sketch_id)


def token(session: Session, sketch_id: int) -> int | None:
    """The token, which changes whenever the state does; None where there is no state."""
    found: int | None = session.connection().execute(_TOKEN, {"sketch": sketch_id}).scalar()
    return found


def read_locked(session: Session, locked: LockedState) -> tuple[bytes, Version]:
    """The bytes of a locked state as they are stored, and which version they are."""
    stored = parts.read(session, locked.sketch_id)
    if stored is None:
        raise RuntimeError("a state that is locked is gone")
    return stored, Version(locked.token, parts.remembered(stored, session.get_bind().dialect))


def write(session: Session, sketch_id: int, stored: bytes, *, over: Version | None) -> Version:
    """Store the bytes of a locked state, over this version if it is known which is there."""
    token, dialect = new_token(), session.get_bind().dialect
    values = {"sketch": sketch_id, "new_token": token, "new_state": parts.first(stored, dialect)}
    session.connection().execute(_WRITE, values)
    if parts.are_cut(dialect):
        parts.write_further(session, sketch_id, stored, over.stored if over else None)
    return Version(token, parts.remembered(stored, dialect))


def compare_and_swap(
    database: Database, sketch_id: int, version: Version, stored: bytes, *, unless_revoked: Collection[str]
) -> Version | None:
    """Store the bytes if the sketch still has this version, is open, and none of these API keys is revoked; else None.

    **This is the one write in `store` that commits by itself**: a single statement, and a transaction of its own. It
    never waits. Where somebody has the row locked, or there are many API keys, nothing is stored either. So what the
    statement sees of the API keys is as new as what it sees of the row.
    """
    dialect = database.engine.dialect
    rewritten = parts.changed(stored, version.stored) if parts.are_cut(dialect) else []
    if len(unless_revoked) > _MOST_API_KEYS or rewritten is None:
        return None
    token = new_token()
    values: dict[str, object] = {f"key_{number}": key_id for number, key_id in enumerate(unless_revoked)}
    values |= {"sketch": sketch_id, "upon": version.token, "new_token": token}
    values |= {"new_state": parts.first(stored, dialect)}
    first = _swap(len(unless_revoked))
    if rewritten:
        statement, further = parts.with_further(first, rewritten)
        rows = database.carry_out(statement, values | further)
    else:
        rows = database.carry_out(first, values)
    return Version(token, parts.remembered(stored, dialect)) if rows == 1 else None


@cache
def _swap(api_keys: int) -> Update:
    """The statement of `compare_and_swap` for so many API keys."""
    same = StateRow.sketch_id == bindparam("sketch"), StateRow.token == bindparam("upon"), StateRow.closed.is_(False)
    free = select(StateRow.sketch_id).where(*same).with_for_update(skip_locked=True)
    either = or_(false(), *(ApiKeyRow.id == bindparam(f"key_{number}") for number in range(api_keys)))
    valid = select(func.count()).where(either, ApiKeyRow.revoked_at.is_(None)).scalar_subquery()
    all_valid = valid == literal_column(f"{api_keys}")
    return _WRITE.where(StateRow.sketch_id == free.scalar_subquery(), all_valid)


def load(session: Session, row: SketchRecord, *, for_update: bool) -> Sketch:
    """The sketch of this record, with its private counters; locked until the commit where it is to be changed."""
    if for_update:
        _lock_row(session, row.id)
    stored = read(session, row.id)
    if stored is None:
        raise UnknownSketch(f"The sketch {row.name!r} was deleted; its snapshots and ledger stay.")
    return decoded(stored)


def _lock_row(session: Session, sketch_id: int) -> None:
    """Lock a state in a statement of its own: one that also reads other rows would see them as before the wait."""
    session.connection().execute(select(StateRow.token).where(StateRow.sketch_id == sketch_id).with_for_update())


def decoded(stored: bytes) -> Sketch:
    """The sketch that these stored bytes are."""
    try:
        return state.decode(state.by_slot(stored))
    except BadState as error:  # not the client's doing
        raise RuntimeError("the stored state of a sketch is damaged") from error


def save(session: Session, row: SketchRecord, sketch: Sketch) -> None:
    """Store a sketch in place of whatever is stored of it."""
    write(session, row.id, state.by_column(state.encode(sketch)), over=None)


def close(session: Session, locked: LockedState) -> None:
    """Mark the locked state as one that takes no more batches."""
    session.connection().execute(update(StateRow).where(StateRow.sketch_id == locked.sketch_id).values(closed=True))


def erase(session: Session, row: SketchRecord) -> None:
    """Delete the private data of a sketch."""
    _lock_row(session, row.id)
    parts.erase_further(session, row.id)
    session.connection().execute(delete(StateRow).where(StateRow.sketch_id == row.id))


def new_token() -> int:
    """A random token: a database that was put back to an earlier day never shows one that a process remembers.

    Tokens are all of the same size, because SQLite then writes only what differs.
    """
    return secrets.randbits(62) | 2**62
