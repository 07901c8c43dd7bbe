"""API keys."""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from app.refusals import UnknownApiKey
from app.store.tables import KeyRow


def add(session: Session, row: KeyRow) -> None:
    session.add(row)
    session.flush()


def any_exist(session: Session) -> bool:
    return bool(session.scalar(select(exists().select_from(KeyRow))))


def find(session: Session, key_id: str) -> KeyRow | None:
    return session.get(KeyRow, key_id)


def revoked(session: Session, key_ids: Collection[str]) -> set[str]:
    """Those of the keys that are revoked, or not there: the database may have been put back to an earlier day."""
    query = select(KeyRow.id).where(KeyRow.id.in_(key_ids), KeyRow.revoked_at.is_(None))
    return set(key_ids) - set(session.connection().execute(query).scalars())


def page(session: Session, after: str, limit: int) -> Sequence[KeyRow]:
    return session.scalars(select(KeyRow).where(KeyRow.id > after).order_by(KeyRow.id).limit(limit)).all()


def hold_valid(session: Session, key_id: str) -> bool:
    """Whether the key is not revoked; it then stays so until the commit, because whoever revokes it waits for us."""
    query = select(KeyRow.id).where(KeyRow.id == key_id, KeyRow.revoked_at.is_(None)).with_for_update(read=True)
    return session.connection().execute(query).first() is not None


def lock(session: Session, key_ids: Collection[str]) -> dict[str, KeyRow]:
    """The keys, held until the commit, in the order of their ids, so that two callers cannot wait for each other."""
    query = select(KeyRow).where(KeyRow.id.in_(key_ids)).order_by(KeyRow.id)
    rows = session.scalars(query.with_for_update().execution_options(populate_existing=True))
    return {row.id: row for row in rows}


def revoke(session: Session, row: KeyRow | None, now: datetime) -> None:
    """Revoke the locked key."""
    if row is None or row.revoked_at is not None:
        raise UnknownApiKey("There is no such key, or it is revoked already.")
    row.revoked_at = now
    session.flush()
