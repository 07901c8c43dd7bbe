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
from app.store.dialects import insert_if_absent
from app.store.tables import RequestRow


@dataclass(frozen=True, slots=True)
class Claim:
    """What a request stakes under its idempotency key: `key` tells which request it is, `digest` what it asks.

    The secret is in neither the database nor another caller's hands. So a dump of the database gives no way to
    test a guess about a batch, and neither does sending the guess under somebody else's idempotency key.
    """

    key: bytes
    digest: bytes

    @classmethod
    def of(cls, *, secret: str, operation: str, target: str, key: str, content: bytes) -> Self:
        """The claim of a request with this idempotency key `key`, under the caller's API key `secret`."""
        request = [operation.encode(), target.encode(), key.encode()]
        return cls(_keyed(secret, [b"claim", *request]), _keyed(secret, [b"request", *request, content]))


@dataclass(frozen=True, slots=True)
class Staked:
    """A claim that was staked before, and what came of it."""

    snapshot_id: str | None  # of a release, once it was made


def _keyed(secret: str, parts: list[bytes]) -> bytes:
    digest = hmac.new(secret.encode(), digestmod=sha256)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def stake(session: Session, claim: Claim, now: datetime) -> Staked | None:
    """Stake the claim and answer None, or answer what an earlier request staked under the same idempotency key.

    A second request with this idempotency key waits here for the first.
    """
    values = {"claim": claim.key, "fingerprint": claim.digest, "created_at": now}
    if insert_if_absent(session, RequestRow, values):
        return None
    earlier = find(session, claim)
    if earlier is None:
        raise RuntimeError("a claim that is taken is not there")
    return earlier


def find(session: Session, claim: Claim) -> Staked | None:
    """What an earlier request staked under the same idempotency key, if one did; IdempotencyKeyReused if it asked for
    something else."""
    query = select(RequestRow.fingerprint, RequestRow.snapshot_id).where(RequestRow.claim == claim.key)
    earlier = session.connection().execute(query).one_or_none()
    if earlier is None:
        return None
    digest, snapshot_id = earlier
    require_same(claim, digest)
    return Staked(snapshot_id)


def require_same(claim: Claim, earlier_digest: bytes) -> None:
    """IdempotencyKeyReused where the earlier request under the same idempotency key was another one."""
    if not compare_digest(earlier_digest, claim.digest):
        raise IdempotencyKeyReused("Send a retry exactly as the first request was, or use a new Idempotency-Key.")


def digests(session: Session, claims: Collection[Claim]) -> dict[bytes, bytes]:
    """What was asked before under the keys of these claims: the fingerprints of those that were staked."""
    query = select(RequestRow.claim, RequestRow.fingerprint).where(RequestRow.claim.in_([one.key for one in claims]))
    return {key: digest for key, digest in session.connection().execute(query)}  # noqa: C416


def add(session: Session, claims: Sequence[Claim], now: datetime) -> None:
    """Stake new claims. The caller holds the lock under which alone such claims are staked."""
    rows = [{"claim": one.key, "fingerprint": one.digest, "created_at": now} for one in claims]
    session.connection().execute(insert(RequestRow), rows)


def settle(session: Session, claim: Claim, snapshot_id: str) -> None:
    """Note which snapshot the claimed request produced."""
    statement = update(RequestRow).where(RequestRow.claim == claim.key).values(snapshot_id=snapshot_id)
    session.connection().execute(statement)
