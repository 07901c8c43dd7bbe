"""Claims of idempotency keys, so that a retry finds the first request's result.

A claim is stored as hashes that are keyed with the caller's own secret.
"""

import hmac
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from hmac import compare_digest
from typing import Self

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from app.refusals import IdempotencyKeyReused
from app.store.dialects import inserted
from app.store.tables import RequestRow


@dataclass(frozen=True, slots=True)
class Claim:
    """`key` tells which request is meant, `fingerprint` what was asked.

    The secret is in neither the database nor another caller's hands. So a dump of the database gives no way to
    test a guess about a batch, and neither does sending the guess under somebody else's idempotency key.
    """

    key: bytes
    fingerprint: bytes

    @classmethod
    def of(cls, *, secret: str, operation: str, target: str, key: str, content: bytes) -> Self:
        request = [operation.encode(), target.encode(), key.encode()]
        return cls(_keyed(secret, [b"claim", *request]), _keyed(secret, [b"request", *request, content]))


def _keyed(secret: str, parts: list[bytes]) -> bytes:
    digest = hmac.new(secret.encode(), digestmod=sha256)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def claim(session: Session, claim: Claim, now: datetime) -> RequestRow | None:
    """Take the key, and answer None; or answer the earlier request that holds it.

    A second request with this idempotency key waits here for the first.
    """
    values = {"claim": claim.key, "fingerprint": claim.fingerprint, "created_at": now}
    if inserted(session, RequestRow, values):
        return None
    earlier = find(session, claim)
    if earlier is None:
        raise RuntimeError("a claim that is taken is not there")
    return earlier


def find(session: Session, claim: Claim) -> RequestRow | None:
    """The earlier request that holds the key, if there is one; IdempotencyKeyReused if it asked for something else."""
    earlier = session.scalar(select(RequestRow).where(RequestRow.claim == claim.key))
    if earlier is not None:
        require_same(claim, earlier.fingerprint)
    return earlier


def require_same(claim: Claim, earlier_fingerprint: bytes) -> None:
    if not compare_digest(earlier_fingerprint, claim.fingerprint):
        raise IdempotencyKeyReused("Send a retry exactly as the first request was, or use a new Idempotency-Key.")


def fingerprints(session: Session, claims: Collection[Claim]) -> dict[bytes, bytes]:
    """Those of the claims that were staked before, by key: what was asked then."""
    query = select(RequestRow.claim, RequestRow.fingerprint).where(RequestRow.claim.in_([one.key for one in claims]))
    return {key: fingerprint for key, fingerprint in session.connection().execute(query)}  # noqa: C416


def add(session: Session, claims: Sequence[Claim], now: datetime) -> None:
    """Stake new claims. The caller holds the lock under which alone such claims are staked."""
    rows = [{"claim": one.key, "fingerprint": one.fingerprint, "created_at": now} for one in claims]
    session.connection().execute(insert(RequestRow), rows)


def settle(session: Session, claim: Claim, snapshot_id: str) -> None:
    """Note which snapshot the claimed request produced."""
    statement = update(RequestRow).where(RequestRow.claim == claim.key).values(snapshot_id=snapshot_id)
    session.connection().execute(statement)
