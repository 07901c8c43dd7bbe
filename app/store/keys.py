"""API keys."""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from app.core.errors import UnknownKey
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


def revoke(session: Session, key_id: str, now: datetime) -> None:
    row = find(session, key_id)
    if row is None or row.revoked_at is not None:
        raise UnknownKey("There is no such key, or it is revoked already.")
    row.revoked_at = now
    session.flush()
