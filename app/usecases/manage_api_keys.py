"""Make, list and revoke API keys, and recognise a caller by one."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from hmac import compare_digest

from sqlalchemy.orm import Session

from app.refusals import Unauthenticated
from app.store import api_keys
from app.store.records import ApiKeyRecord
from app.usecases.access import EVERYTHING, Principal, Scope
from app.usecases.context import Context, revoked
from app.usecases.paging import Page, paged

_PREFIX = "dsk"  # so that secret scanners know one
_NOBODY = bytes(32)


@dataclass(frozen=True, slots=True)
class ApiKeyView:
    """What is shown of an API key: never its secret."""

    id: str
    name: str
    scopes: Sequence[str]
    sketches: str
    created_at: datetime
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewApiKey:
    """An API key with its secret, which exists only here and in the caller's hands."""

    key: ApiKeyView
    secret: str = field(repr=False)


def create_key(
    context: Context, name: str, scopes: Sequence[Scope], sketches: str, *, by: str | None = None
) -> NewApiKey:
    """Make an API key, for the caller with the API key `by`."""
    with context.writing(by) as session:
        return _add(session, name, scopes, sketches, context.now())


def create_first_key(context: Context) -> NewApiKey | None:
    """The first start's admin key: made where no key exists and none was given by the environment."""
    if context.admin_key is not None:
        return None
    with context.database.starting() as session:
        if api_keys.any_exist(session):
            return None
        return _add(session, "first start", ["admin"], EVERYTHING, context.now())


def _add(session: Session, name: str, scopes: Sequence[Scope], sketches: str, now: datetime) -> NewApiKey:
    api_key_id = secrets.token_hex(8)
    secret = f"{_PREFIX}_{api_key_id}_{secrets.token_urlsafe(32)}"
    record = ApiKeyRecord(
        id=api_key_id,
        name=name,
        secret_hash=_hash(secret),
        scopes=sorted(scopes),
        sketches=sketches,
        created_at=now,
        revoked_at=None,
    )
    api_keys.add(session, record)
    return NewApiKey(_view(record), secret)


def list_keys(context: Context, after: str | None, limit: int) -> Page[ApiKeyView]:
    """The first API keys after this id, revoked ones too, in the order of their ids."""
    with context.database.reading() as session:
        records = api_keys.page(session, after or "", limit + 1)
        return paged([_view(record) for record in records], limit, lambda last: last.id)


def revoke_key(context: Context, api_key_id: str, *, by: str | None = None) -> None:
    """Revoke an API key, for the caller with the API key `by`, which may be the same."""
    with context.database.writing() as session:
        held = api_keys.lock(session, {api_key_id} if by is None else {api_key_id, by})
        if by is not None and (by not in held or held[by].revoked_at is not None):
            raise revoked()
        api_keys.revoke(session, held.get(api_key_id), context.now())


def authenticate(context: Context, secret: str) -> Principal:
    """The caller behind a key, or Unauthenticated; secrets are compared as hashes and in constant time."""
    presented = _hash(secret)
    if context.admin_key is not None and compare_digest(_hash(context.admin_key), presented):
        return Principal(frozenset(["admin"]), EVERYTHING, secret)
    api_key_id = secret.removeprefix(f"{_PREFIX}_").partition("_")[0]
    with context.database.reading() as session:
        found = api_keys.find(session, api_key_id) if api_key_id.isalnum() else None
    known = compare_digest(found.secret_hash if found else _NOBODY, presented)
    if found is None or not known or found.revoked_at is not None:
        raise Unauthenticated("The key is unknown or revoked. Send a valid one as: Authorization: Bearer <key>.")
    return Principal(frozenset(found.scopes), found.sketches, secret, found.id)


def _hash(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def _view(record: ApiKeyRecord) -> ApiKeyView:
    return ApiKeyView(record.id, record.name, record.scopes, record.sketches, record.created_at, record.revoked_at)
