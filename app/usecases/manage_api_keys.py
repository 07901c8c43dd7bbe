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
from app.store.tables import KeyRow
from app.usecases.access import EVERYTHING, Principal, Scope
from app.usecases.context import Context, revoked
from app.usecases.paging import Page, paged

_PREFIX = "dsk"  # so that secret scanners know one
_NOBODY = bytes(32)


@dataclass(frozen=True, slots=True)
class KeyView:
    id: str
    name: str
    scopes: Sequence[str]
    sketches: str
    created_at: datetime
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key with its secret, which exists only here and in the caller's hands."""

    key: KeyView
    secret: str = field(repr=False)


def create_key(context: Context, name: str, scopes: Sequence[Scope], sketches: str, *, by: str | None = None) -> NewKey:
    """Make a key, for the caller with the key `by`."""
    with context.writing(by) as session:
        return _add(session, name, scopes, sketches, context.now())


def create_first_key(context: Context) -> NewKey | None:
    """The first start's admin key: made where no key exists and none was given by the environment."""
    if context.admin_key is not None:
        return None
    with context.database.starting() as session:
        if api_keys.any_exist(session):
            return None
        return _add(session, "first start", ["admin"], EVERYTHING, context.now())


def _add(session: Session, name: str, scopes: Sequence[Scope], sketches: str, now: datetime) -> NewKey:
    key_id = secrets.token_hex(8)
    secret = f"{_PREFIX}_{key_id}_{secrets.token_urlsafe(32)}"
    row = KeyRow(
        id=key_id,
        name=name,
        secret_hash=_hash(secret),
        scopes=sorted(scopes),
        sketches=sketches,
        created_at=now,
        revoked_at=None,
    )
    api_keys.add(session, row)
    return NewKey(_view(row), secret)


def list_keys(context: Context, after: str | None, limit: int) -> Page[KeyView]:
    with context.database.reading() as session:
        rows = api_keys.page(session, after or "", limit + 1)
        return paged([_view(row) for row in rows], limit, lambda last: last.id)


def revoke_key(context: Context, key_id: str, *, by: str | None = None) -> None:
    """Revoke a key, for the caller with the key `by`, which may be the same."""
    with context.database.writing() as session:
        held = api_keys.lock(session, {key_id} if by is None else {key_id, by})
        if by is not None and (by not in held or held[by].revoked_at is not None):
            raise revoked()
        api_keys.revoke(session, held.get(key_id), context.now())


def authenticate(context: Context, secret: str) -> Principal:
    """The caller behind a key, or Unauthenticated; secrets are compared as hashes and in constant time."""
    presented = _hash(secret)
    if context.admin_key is not None and compare_digest(_hash(context.admin_key), presented):
        return Principal(frozenset(["admin"]), EVERYTHING, secret)
    key_id = secret.removeprefix(f"{_PREFIX}_").partition("_")[0]
    with context.database.reading() as session:
        row = api_keys.find(session, key_id) if key_id.isalnum() else None
    known = compare_digest(row.secret_hash if row else _NOBODY, presented)
    if row is None or not known or row.revoked_at is not None:
        raise Unauthenticated("The key is unknown or revoked. Send a valid one as: Authorization: Bearer <key>.")
    return Principal(frozenset(row.scopes), row.sketches, secret, row.id)


def _hash(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def _view(row: KeyRow) -> KeyView:
    return KeyView(row.id, row.name, row.scopes, row.sketches, row.created_at, row.revoked_at)
