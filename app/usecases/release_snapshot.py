"""One private release: claim, charge, noise and stored snapshot are one transaction.

What takes long is done before it, while no lock is held. The calibration is searched. For a sketch that takes events
all noise is drawn, and added in the transaction to what the sketch holds then. A sum takes no events and may be large:
noise is added to a copy of it, and the transaction checks by its token that it still is what was copied. Should a merge
have changed the sketch meanwhile, the transaction is left, what was drawn is thrown away, and all is prepared anew.

Locks are taken in this order: the sketch, the claim, the ledgers that pay by their ids.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from uuid import uuid4

from sqlalchemy.orm import Session

from app.core.guarantee import sentence
from app.core.histogram import ErrorBound, Released, Snapshot, TotalCount, bars, within_bytes
from app.core.ledger.account import Account, exhausted, payments, require_currency
from app.core.ledger.budget import decimal_text
from app.core.noise.samplers import Noise
from app.core.people import Unit
from app.core.planner import Family, Offer, Output, choose, draw_for, run
from app.core.sketches.universe import Universe
from app.refusals import Overloaded, UnknownSketch
from app.store import claims, ledger, sketches, snapshots, states
from app.store.claims import Claim
from app.store.records import SketchRecord
from app.usecases import read_snapshots
from app.usecases.context import Context
from app.usecases.plan_release import Terms

_MOST_TRIES = 3


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What a release must not search or draw under a lock. For one transaction: its draws are used up."""

    sketch_id: int
    family: Family
    sources: int
    universe: Universe | None
    offer: Offer
    drawn: "Noise | _Counted" = field(repr=False)

    def fits(self, session: Session, sketch: SketchRecord) -> bool:
        """Whether the locked sketch still is what this was prepared for. A merge changes it; nothing else changes what
        is compared."""
        if (self.sketch_id, self.family, self.sources) != (sketch.id, sketch.family, sketch.sources):
            return False
        return not isinstance(self.drawn, _Counted) or self.drawn.token == states.token(session, sketch.id)

    def add_noise(self, session: Session, sketch: SketchRecord) -> Output:
        """What is released of the locked sketch, from the noise that was drawn, which is used up then."""
        if isinstance(self.drawn, _Counted):
            return self.drawn.output
        return run(self.offer, states.load(session, sketch, for_update=False), self.universe, self.drawn)


@dataclass(frozen=True, slots=True)
class _Counted:
    """What a copy of a sum gives, which may be stored and answered only once it is paid for."""

    token: int  # of what was copied
    output: Output = field(repr=False)


class _NotCovered(Exception):
    """Some of the locked ledgers cannot pay. It ends the transaction, because what would fit may take long to find."""

    def __init__(self, accounts: Sequence[Account], offer: Offer) -> None:
        self.accounts, self.offer = accounts, offer


class _Changed(Exception):
    """The sketch became another kind of sketch while its release was being prepared."""


def release_snapshot(
    context: Context, name: str, terms: Terms, mechanism: str, claim: Claim | None, *, by: str | None = None
) -> Snapshot:
    """Charge, add noise, store, commit, and only then answer, for the caller with the API key `by`.

    A retry under the same claim gets the stored snapshot. Its bars are read with `read_bars`.
    """
    for _ in range(_MOST_TRIES):
        earlier = _earlier(context, claim) if claim else None
        if earlier is not None:
            return earlier
        try:
            prepared = _prepare(context, name, terms, mechanism)
            return _commit(context, name, terms, prepared, claim, by)
        except _NotCovered as refused:  # the transaction is over: what would fit may be searched
            raise exhausted(refused.accounts, refused.offer) from None
        except UnknownSketch:
            earlier = _earlier(context, claim) if claim else None
            if earlier is None:
                raise
            return earlier  # the sketch was deleted just after the first request of this claim had released it
        except _Changed:
            continue
    raise Overloaded("The sketch was merged again and again while noise was drawn. Nothing was charged; try again.")


def _earlier(context: Context, claim: Claim) -> Snapshot | None:
    """What the request released that made this claim before."""
    with context.database.reading() as session:
        earlier = claims.find(session, claim)
        return None if earlier is None else read_snapshots.load(session, earlier.snapshot_id or "")


def _prepare(context: Context, name: str, terms: Terms, mechanism: str) -> _Prepared:
    """Find the mechanism and draw its noise, which takes most of the time of a release; or refuse it.

    At most 100,000 values are drawn, and as many coins, or as many as a sum has keys: some 15 µs for each.
    """
    with context.database.reading(one_moment=True) as session:
        sketch = sketches.get_live(session, name)
        accounts = [payer.account for payer in ledger.payers(session, sketch.id)]
    require_currency(accounts, terms.cost)
    question = terms.about(sketch.parameters, family=sketch.family, sources=sketch.sources, accounts=accounts)
    offer = choose(question, mechanism)
    if not all(account.covers(offer) for account in accounts):
        raise exhausted(accounts, offer)
    universe = sketch.parameters.universe
    if sketch.family == "summed":
        drawn: Noise | _Counted = _count_copy(context, sketch.id, offer, universe)
    else:
        drawn = draw_for(offer, universe, context.noise)
    return _Prepared(sketch.id, sketch.family, sketch.sources, universe, offer, drawn)


def _count_copy(context: Context, sketch_id: int, offer: Offer, universe: Universe | None) -> _Counted:
    """Add noise to a copy of a sum."""
    with context.database.reading(one_moment=True) as session:
        token, stored = states.token(session, sketch_id), states.read(session, sketch_id)
    if token is None or stored is None:
        raise _Changed  # it was deleted, and what is prepared anew will say so
    return _Counted(token, run(offer, states.decoded(stored), universe, context.noise))


def _commit(
    context: Context, name: str, terms: Terms, prepared: _Prepared, claim: Claim | None, by: str | None
) -> Snapshot:
    with context.writing(by) as session:
        now = context.now()
        sketch = sketches.lock_live(session, name)  # before the claim, as docs/architecture.md orders all locks
        earlier = claims.stake(session, claim, now) if claim else None
        if earlier is not None:
            return read_snapshots.load(session, earlier.snapshot_id or "")
        if not prepared.fits(session, sketch):
            raise _Changed
        snapshot = _release(session, sketch, terms, prepared, context.max_histogram_bytes, now)
        if claim is not None:
            claims.settle(session, claim, snapshot.id)
    return snapshot


def _release(
    session: Session, sketch: SketchRecord, terms: Terms, prepared: _Prepared, most_bytes: int, now: datetime
) -> Snapshot:
    """Every ledger must cover the release before any data are read; what it rested on is hashed into the payments."""
    offer = prepared.offer
    payers = ledger.lock_payers(session, sketch.id)
    accounts = [payer.account for payer in payers]
    require_currency(accounts, offer.cost)  # a merge may have brought in a ledger that counts otherwise
    if not all(account.covers(offer) for account in accounts):
        raise _NotCovered(accounts, offer)
    output = prepared.add_noise(session, sketch)
    counts, left_out = within_bytes(output.histogram.counts, most_bytes)
    bound = _error_bound(offer, output.histogram, left_out)
    snapshot = _snapshot(sketch, terms, offer, accounts, now)
    total = _total(offer, output.total, sketch.parameters.unit)
    released = replace(snapshot, error_bound=bound, total=total, truncated=left_out is not None)
    digest = snapshots.add(session, released, bars(counts, bound, offer.calibrated.least), sketch.id)
    basis = asdict(sketches.basis(session, sketch.id)) | {"snapshot_digest": digest}
    ledger.charge(session, payers, offer, snapshot_id=released.id, basis=basis, now=now)
    return released


def _snapshot(sketch: SketchRecord, terms: Terms, offer: Offer, accounts: Sequence[Account], now: datetime) -> Snapshot:
    """All of a snapshot that does not come from the sketch's data."""
    paid, amounts = payments(accounts, offer), offer.cost.as_strings()
    said = sentence(sketch.parameters, cost=offer.cost, payers=accounts, counted_by_request=sketch.counted_by_request)
    return Snapshot(
        id=uuid4().hex,
        sketch=sketch.name,
        created_at=now,
        mechanism=offer.mechanism,
        theorem=offer.theorem,
        beta=decimal_text(terms.beta),
        parameters=offer.parameters(),
        error_bound=offer.noise_bound.with_sketch(None),
        guarantee=said,
        charged=[{"ledger": payment.ledger, **payment.charged} for payment in paid],
        remaining=[{"ledger": payment.ledger, **payment.remaining} for payment in paid],
        epsilon=amounts.get("epsilon"),
        rho=amounts.get("rho"),
        delta=amounts["delta"],
    )


def _total(offer: Offer, noisy: int | None, unit: Unit) -> TotalCount | None:
    if noisy is None or offer.total is None:
        return None
    return TotalCount(**asdict(offer.total.interval(noisy, offer.beta_of_total)), unit=unit)


_UNKNOWN = "An earlier version counted the first events of this sketch, and did not note by how much it may be too low."


def _error_bound(offer: Offer, released: Released, left_out: int | None) -> ErrorBound:
    """The bound of this release. `left_out` is the largest count for which there was no room, if there was one.

    A key that was left out is not listed either, and its true count may reach the upper end of that largest count.
    """
    noise, reduction = offer.noise_bound, released.reduction
    if left_out is not None:
        noise = replace(noise, unlisted=max(noise.unlisted, left_out + noise.above - reduction))
    reason = "" if released.sketch_error is not None else _UNKNOWN
    return noise.with_sketch(released.sketch_error, reason, reduction=reduction)
