"""API keys."""

from collections.abc import Collection
from dataclasses import asdict
from datetime import datetime

from sqlalchemy import Select, exists, insert, select, update
from sqlalchemy.orm import Session

from app.refusals import UnknownApiKey
from app.store.records import ApiKeyRecord
from app.store.tables import ApiKeyRow


def add(session: Session, api_key: ApiKeyRecord) -> None:
    """Store a new API key."""
    session.connection().execute(insert(ApiKeyRow), asdict(api_key))


def any_exist(session: Session) -> bool:
    """Whether there is an API key, revoked or not."""
    return bool(session.scalar(select(exists().select_from(ApiKeyRow))))


def find(session: Session, api_key_id: str) -> ApiKeyRecord | None:
    """The API key of this id, revoked or not; None where there is none."""
    found = _read(session, select(ApiKeyRow).where(ApiKeyRow.id == api_key_id))
    return found[0] if found else None


def revoked(session: Session, api_key_ids: Collection[str]) -> set[str]:
    """Those of the API keys that are revoked, or not there: the database may have been put back to an earlier day."""
    query = select(ApiKeyRow.id).where(ApiKeyRow.id.in_(api_key_ids), ApiKeyRow.revoked_at.is_(None))
    return set(api_key_ids) - set(session.connection().execute(query).scalars())


def page(session: Session, after: str, limit: int) -> list[ApiKeyRecord]:
    """The first API keys after this id, revoked ones too, in the order of their ids."""
    return _read(session, select(ApiKeyRow).where(ApiKeyRow.id > after).order_by(ApiKeyRow.id).limit(limit))


def hold_valid(session: Session, api_key_ids: Collection[str]) -> bool:
    """Whether all of the API keys are valid; then they stay so until the commit, because whoever revokes one waits for
    us."""
    valid = (
        select(ApiKeyRow.id).where(ApiKeyRow.id.in_(api_key_ids), ApiKeyRow.revoked_at.is_(None)).order_by(ApiKeyRow.id)
    )
    held = session.connection().execute(valid.with_for_update(read=True)).all()
    return len(held) == len(api_key_ids)


def lock(session: Session, api_key_ids: Collection[str]) -> dict[str, ApiKeyRecord]:
    """The API keys, held until the commit, in the order of their ids, so that no two callers wait for each other."""
    query = select(ApiKeyRow).where(ApiKeyRow.id.in_(api_key_ids)).order_by(ApiKeyRow.id)
    return {api_key.id: api_key for api_key in _read(session, query.with_for_update())}


def revoke(session: Session, api_key: ApiKeyRecord | None, now: datetime) -> None:
    """Revoke the locked API key; UnknownApiKey where there is none, or it is revoked already."""
    if api_key is None or api_key.revoked_at is not None:
        raise UnknownApiKey("There is no such key, or it is revoked already.")
    session.connection().execute(update(ApiKeyRow).where(ApiKeyRow.id == api_key.id).values(revoked_at=now))


def _read(session: Session, query: Select[ApiKeyRow]) -> list[ApiKeyRecord]:
    return [
        ApiKeyRecord(
            id=row.id,
            name=row.name,
            secret_hash=row.secret_hash,
            scopes=row.scopes,
            sketches=row.sketches,
            created_at=row.created_at,
            revoked_at=row.revoked_at,
        )
        for row in session.scalars(query.execution_options(populate_existing=True))
    ]
