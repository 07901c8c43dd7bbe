"""One private release: claim, charge, noise and stored snapshot are one transaction."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from uuid import uuid4

from sqlalchemy.orm import Session

from app.core.budget import decimal_text
from app.core.claims import Claim
from app.core.guarantee import sentence
from app.core.histogram import Snapshot
from app.core.noise import Noise
from app.core.planner import Offer, choose, draws, released
from app.store import ledger, requests, sketches, snapshots, states
from app.store.ledger import Payment
from app.store.tables import SketchRow
from app.usecases import read_snapshots
from app.usecases.context import Context
from app.usecases.plan_release import Terms


def release_snapshot(context: Context, name: str, terms: Terms, mechanism: str, claim: Claim | None) -> Snapshot:
    """Charge, add noise, store, commit, and only then answer. A retry under the same claim gets the stored snapshot."""
    noise = _noise(context, name, terms, mechanism, claim)
    with context.database.writing() as session:
        now = context.now()
        earlier = requests.claim(session, claim, now) if claim else None
        if earlier is not None:
            return read_snapshots.load(session, earlier.snapshot_id or "")
        row = sketches.lock_live(session, name)
        snapshot = _release(session, row, terms, mechanism, noise, now)
        if claim is not None:
            requests.settle(session, claim, snapshot.id)
    return snapshot


def _noise(context: Context, name: str, terms: Terms, mechanism: str, claim: Claim | None) -> Noise:
    """Drawn before the transaction, which then holds its locks only briefly. What a release draws is public, so this
    costs nothing but the draws; should the sketch change meanwhile, they do not fit and others are made."""
    with context.database.reading() as session:
        if claim is not None and requests.fingerprints(session, [claim]):
            return context.noise  # a retry: nothing to draw
        row = sketches.get_live(session, name)
        offer = choose(terms.about(row), mechanism)
        payers = [ledger.read(session, ledger_id) for ledger_id in sketches.ledger_ids(session, row)]
        if not all(payer.left.how_many(ledger.price_at(payer, offer)) for payer in payers):
            return context.noise  # it will be refused
    return context.noise.stocked(draws(offer))


def _release(session: Session, row: SketchRow, terms: Terms, mechanism: str, noise: Noise, now: datetime) -> Snapshot:
    """Every ledger must cover it before any data are read; what it rested on is hashed into the payments."""
    offer = choose(terms.about(row), mechanism)
    paid_by = sketches.ledger_ids(session, row)  # the row is locked, so no merge adds to them before the data are read
    payers = ledger.lock_payers(session, paid_by, offer)
    snapshot = _drawn(session, row, terms, offer, ledger.payments(payers, offer), noise, now)
    basis = asdict(sketches.basis(session, row)) | {"snapshot_digest": snapshots.add(session, snapshot, row.id)}
    ledger.charge(session, payers, offer, snapshot_id=snapshot.id, basis=basis, now=now)
    return snapshot


def _drawn(
    session: Session,
    row: SketchRow,
    terms: Terms,
    offer: Offer,
    payments: Sequence[Payment],
    noise: Noise,
    now: datetime,
) -> Snapshot:
    sketch = states.load(session, row, for_update=False)
    counts = released(offer, sketch, sketches.universe(row), noise)
    return Snapshot(
        id=uuid4().hex,
        sketch=row.name,
        created_at=now,
        mechanism=offer.mechanism,
        theorem=offer.theorem,
        beta=decimal_text(terms.beta),
        parameters=offer.calibrated.parameters(),
        error_bound=offer.error_bound,
        guarantee=sentence(
            unit=row.unit,
            max_contributions=row.max_contributions,
            enforcement=row.enforcement,
            cost=offer.cost,
            counted_by_request=row.counted_by_request,
        ),
        counted_by_request=row.counted_by_request,
        histogram=offer.calibrated.bars(counts, offer.error_bound),
        charged=[{"ledger": payment.ledger, **payment.charged} for payment in payments],
        remaining=[{"ledger": payment.ledger, **payment.remaining} for payment in payments],
        **offer.cost.as_strings(),
    )
