"""One private release: claim, charge, noise and stored snapshot are one transaction."""

from dataclasses import replace
from datetime import datetime
from uuid import uuid4

from sqlalchemy.orm import Session

from app.core.budget import decimal_text
from app.core.claims import Claim
from app.core.guarantee import sentence
from app.core.histogram import Bar, ErrorBound, Snapshot, within_bytes
from app.core.noise import Noise
from app.core.planner import Offer, choose, draws, released
from app.store import bars, ledger, requests, sketches, snapshots, states
from app.store.tables import SketchRow
from app.usecases import read_snapshots
from app.usecases.context import Context
from app.usecases.plan_release import Terms


def release_snapshot(context: Context, name: str, terms: Terms, mechanism: str, claim: Claim | None) -> Snapshot:
    """Charge, add noise, store, commit, and only then answer. A retry under the same claim gets the stored snapshot.
    Its bars are read with `read_bars`."""
    noise = _noise(context, name, terms, mechanism, claim)
    with context.database.writing() as session:
        now = context.now()
        earlier = requests.claim(session, claim, now) if claim else None
        if earlier is not None:
            return read_snapshots.load(session, earlier.snapshot_id or "")
        row = sketches.lock_live(session, name)
        snapshot, listed = _release(session, row, terms, mechanism, noise, context.max_histogram_bytes, now)
        snapshots.add(session, snapshot, row.id)
        bars.add(session, list(bars.rows(snapshot.id, listed)))
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


def _release(
    session: Session, row: SketchRow, terms: Terms, mechanism: str, noise: Noise, most_bytes: int, now: datetime
) -> tuple[Snapshot, list[Bar]]:
    offer = choose(terms.about(row), mechanism)
    snapshot_id = uuid4().hex
    paid_by = sketches.ledger_ids(session, row)  # the row is locked, so no merge adds to them before the data are read
    payments = ledger.charge(session, paid_by, offer, snapshot_id, now)
    sketch = states.load(session, row, for_update=False)
    counts, left_out = within_bytes(released(offer, sketch, sketches.universe(row), noise), most_bytes)
    snapshot = Snapshot(
        id=snapshot_id,
        sketch=row.name,
        created_at=now,
        mechanism=offer.mechanism,
        theorem=offer.theorem,
        beta=decimal_text(terms.beta),
        parameters=offer.calibrated.parameters(),
        error_bound=_error_bound(offer, left_out),
        guarantee=sentence(
            unit=row.unit,
            max_contributions=row.max_contributions,
            enforcement=row.enforcement,
            cost=offer.cost,
            counted_by_request=row.counted_by_request,
        ),
        counted_by_request=row.counted_by_request,
        truncated=left_out is not None,
        charged=[{"ledger": payment.ledger, **payment.charged} for payment in payments],
        remaining=[{"ledger": payment.ledger, **payment.remaining} for payment in payments],
        **offer.cost.as_strings(),
    )
    return snapshot, offer.calibrated.bars(counts, offer.error_bound)


def _error_bound(offer: Offer, left_out: int | None) -> ErrorBound:
    """That of the mechanism; but a key that was left out of a truncated histogram counts as released with 0 too, and
    its true count may reach the upper end of the largest count that was left out, before the sketch's own error."""
    bound = offer.error_bound
    if left_out is None:
        return bound
    [largest] = offer.calibrated.bars({"": left_out}, replace(bound, sketch_low=0))
    return replace(bound, noise_low=max(bound.noise_low, largest.high or 0))
