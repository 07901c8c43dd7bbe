"""Claims of idempotency keys, so that a retry finds the first request's result."""

from datetime import datetime
from hmac import compare_digest

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from app.core.claims import Claim
from app.core.errors import KeyReused
from app.store.rows import inserted
from app.store.tables import RequestRow


def claim(session: Session, claim: Claim, now: datetime) -> RequestRow | None:
    """Take the key, and answer None; or answer the earlier request that holds it.

    Must be the first statement of the transaction: a second request with this key waits here for the first.
    """
    values = {"claim": claim.key, "fingerprint": claim.fingerprint, "created_at": now}
    if inserted(session, RequestRow, values):
        return None
    earlier = session.scalars(select(RequestRow).where(RequestRow.claim == claim.key)).one()
    if not compare_digest(earlier.fingerprint, claim.fingerprint):
        raise KeyReused("Send a retry exactly as the first request was, or use a new Idempotency-Key.")
    return earlier


def settle(session: Session, claim: Claim, snapshot_id: str) -> None:
    """Note which snapshot the claimed request produced."""
    statement = update(RequestRow).where(RequestRow.claim == claim.key).values(snapshot_id=snapshot_id)
    session.connection().execute(statement)
