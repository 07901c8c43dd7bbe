"""One private release, of one sketch or of several together. Claim, charge, noise and snapshot are one transaction.

What takes long is done before it, while no lock is held. The calibration is searched. For sketches that take events all
noise is drawn, as much as the most keys that there can be need, and added in the transaction to what the sketches hold
then. A sum takes no events and may be large: released alone, noise is added to a copy of it, and the transaction checks
by its token that it still is what was copied. Should a merge have changed a sketch meanwhile, the transaction is left,
what was drawn is thrown away, and all is prepared anew.

Several sketches are merged, or reduced and added up, in memory alone: they stay as they are. They are taken in the
order of their ids, so in which order they are named does not matter.

Locks are taken in this order: the sketches by their ids, the claim, the ledgers that pay by their ids.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from uuid import uuid4

from sqlalchemy.orm import Session

from app.core.guarantee import sentence
from app.core.histogram import ErrorBound, Released, Snapshot, TotalCount, bars, within_bytes
from app.core.ledger.account import Account, exhausted, payments, require_currency
from app.core.ledger.basis import release_basis
from app.core.ledger.budget import decimal_text
from app.core.noise.samplers import Noise
from app.core.planner import Family, Offer, Output, choose_among, draw_for, run
from app.core.sketches.universe import Universe
from app.refusals import Overloaded, UnknownSketch
from app.store import claims, ledger, sketches, snapshots, states
from app.store.claims import Claim
from app.store.records import SketchRecord
from app.usecases import read_snapshots
from app.usecases.context import Context
from app.usecases.plan_release import Terms, read_subject, require_several
from app.usecases.together import Mode, require_fitting, taken_together

_MOST_TRIES = 3


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request to release the sketches of these names."""

    names: Sequence[str]
    mode: Mode | None  # in which several are to be taken together; None for the better, and for one sketch
    terms: Terms
    mechanism: str
    claim: Claim | None
    by: str | None  # the API key of the caller


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What a release must not search or draw under a lock. For one transaction: its draws are used up."""

    sketches: Sequence[SketchRecord]
    offer: Offer
    drawn: "Noise | _Counted" = field(repr=False)

    @property
    def mode(self) -> Mode | None:
        """How several sketches are taken together; None where there is one."""
        family = self.offer.question.family
        return None if len(self.sketches) == 1 or family == "stream" else family

    def fits(self, session: Session, held: Sequence[SketchRecord]) -> bool:
        """Whether the locked sketches still are what this was prepared for. A merge changes them; nothing else changes
        what is compared."""
        if list(map(_kind, held)) != list(map(_kind, self.sketches)):
            return False
        return not isinstance(self.drawn, _Counted) or self.drawn.token == states.token(session, held[0].id)

    def add_noise(self, session: Session, held: Sequence[SketchRecord]) -> Output:
        """What is released of the locked sketches, from the noise that was drawn, which is used up then."""
        if isinstance(self.drawn, _Counted):
            return self.drawn.output
        loaded = (states.load(session, sketch, for_update=False) for sketch in held)
        released = taken_together(loaded, self.mode) if self.mode else next(loaded)
        return run(self.offer, released, held[0].parameters.universe, self.drawn)


def _kind(sketch: SketchRecord) -> tuple[int, Family, int]:
    return sketch.id, sketch.family, sketch.sources


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
    return _release_all(context, _Asked([name], None, terms, mechanism, claim, by))


def release_together(
    context: Context,
    names: Sequence[str],
    mode: Mode | None,
    terms: Terms,
    mechanism: str,
    claim: Claim | None,
    *,
    by: str | None = None,
) -> Snapshot:
    """The same for several sketches as one: every ledger of theirs pays once, or none does. Nothing but the snapshot is
    stored, so they can be released again, together or alone."""
    require_several(names)
    return _release_all(context, _Asked(names, mode, terms, mechanism, claim, by))


def _release_all(context: Context, asked: _Asked) -> Snapshot:
    for _ in range(_MOST_TRIES):
        earlier = _earlier(context, asked.claim)
        if earlier is not None:
            return earlier
        try:
            return _commit(context, asked, _prepare(context, asked))
        except _NotCovered as refused:  # the transaction is over: what would fit may be searched
            raise exhausted(refused.accounts, refused.offer) from None
        except UnknownSketch:
            earlier = _earlier(context, asked.claim)
            if earlier is None:
                raise
            return earlier  # a sketch was deleted just after the first request of this claim had released it
        except _Changed:
            continue
    raise Overloaded("A sketch was merged again and again while noise was drawn. Nothing was charged; try again.")


def _earlier(context: Context, claim: Claim | None) -> Snapshot | None:
    """What the request released that made this claim before."""
    if claim is None:
        return None
    with context.database.reading() as session:
        earlier = claims.find(session, claim)
        return None if earlier is None else read_snapshots.load(session, earlier.snapshot_id or "")


def _prepare(context: Context, asked: _Asked) -> _Prepared:
    """Find the mechanism and draw its noise, which takes most of the time of a release; or refuse it.

    At most a million values are drawn, and as many coins, or as many as a sum has keys: some 15 µs for each.
    """
    with context.database.reading(one_moment=True) as session:
        subject = read_subject(session, asked.names, asked.mode)
    require_currency(subject.accounts, asked.terms.cost)
    offer = choose_among(subject.questions(asked.terms), asked.mechanism)
    if not all(account.covers(offer) for account in subject.accounts):
        raise exhausted(subject.accounts, offer)
    first, universe = subject.sketches[0], subject.sketches[0].parameters.universe
    if len(subject.sketches) == 1 and first.family == "summed":
        drawn: Noise | _Counted = _count_copy(context, first.id, offer, universe)
    else:
        drawn = draw_for(offer, universe, context.noise)
    return _Prepared(subject.sketches, offer, drawn)


def _count_copy(context: Context, sketch_id: int, offer: Offer, universe: Universe | None) -> _Counted:
    """Add noise to a copy of a sum."""
    with context.database.reading(one_moment=True) as session:
        token, stored = states.token(session, sketch_id), states.read(session, sketch_id)
    if token is None or stored is None:
        raise _Changed  # it was deleted, and what is prepared anew will say so
    return _Counted(token, run(offer, states.decoded(stored), universe, context.noise))


def _commit(context: Context, asked: _Asked, prepared: _Prepared) -> Snapshot:
    with context.writing(asked.by) as session:
        now, claim = context.now(), asked.claim
        held = sketches.lock_live(session, asked.names)  # before the claim, as docs/architecture.md orders all locks
        earlier = claims.stake(session, claim, now) if claim else None
        if earlier is not None:
            return read_snapshots.load(session, earlier.snapshot_id or "")
        if not prepared.fits(session, held):
            raise _Changed
        require_fitting(session, held, prepared.mode)  # a merge may have brought in what another of them holds
        snapshot = _release(session, held, asked.terms, prepared, context.max_histogram_bytes, now)
        if claim is not None:
            claims.settle(session, claim, snapshot.id)
    return snapshot


def _release(
    session: Session,
    held: Sequence[SketchRecord],
    terms: Terms,
    prepared: _Prepared,
    most_bytes: int,
    now: datetime,
) -> Snapshot:
    """Every ledger must cover the release before any data are read; what it rested on is hashed into the payments."""
    offer, ids = prepared.offer, [sketch.id for sketch in held]
    payers = ledger.lock_payers(session, ids)
    accounts = [payer.account for payer in payers]
    require_currency(accounts, offer.cost)  # a merge may have brought in a ledger that counts otherwise
    if not all(account.covers(offer) for account in accounts):
        raise _NotCovered(accounts, offer)
    output = prepared.add_noise(session, held)
    counts, left_out = within_bytes(output.histogram.counts, most_bytes)
    bound = _error_bound(offer, output.histogram, left_out)
    total = None
    if output.total is not None and offer.total is not None:
        interval = offer.total.interval(output.total, offer.beta_of_total)
        total = TotalCount(**asdict(interval), unit=held[0].parameters.unit)
    snapshot = _snapshot(held, terms, offer, accounts, now)
    released = replace(snapshot, mode=prepared.mode, error_bound=bound, total=total, truncated=left_out is not None)
    bases = sketches.bases(session, ids)
    listed = bars(counts, bound, offer.calibrated.least)
    digest = snapshots.add(session, released, listed, dict(zip(ids, bases, strict=True)))
    basis = release_basis(bases, digest)
    ledger.charge(session, payers, offer, snapshot_id=released.id, basis=basis, now=now)
    return released


def _snapshot(
    held: Sequence[SketchRecord], terms: Terms, offer: Offer, accounts: Sequence[Account], now: datetime
) -> Snapshot:
    """All of a snapshot that does not come from the data of the sketches, which have the same parameters."""
    paid, amounts = payments(accounts, offer), offer.cost.as_strings()
    marked = any(sketch.counted_by_request for sketch in held)
    said = sentence(held[0].parameters, cost=offer.cost, payers=accounts, counted_by_request=marked)
    return Snapshot(
        id=uuid4().hex,
        sketches=[sketch.name for sketch in held],
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
