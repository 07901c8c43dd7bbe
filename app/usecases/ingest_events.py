"""Fold batches into one sketch, each exactly once, those that wait together in one transaction."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from sqlalchemy.orm import Session

from app.core import kernel
from app.core.claims import Claim
from app.core.errors import (
    MAX_REPORTED,
    BadBatch,
    Conflict,
    KeyReused,
    Refusal,
    Unauthenticated,
    UnknownSketch,
)
from app.core.kernel import Batch
from app.core.sketches import state
from app.core.sketches.compact import CompactSketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch
from app.core.universe import Universe
from app.store import keys, requests, sketches, states
from app.store.states import Held
from app.usecases.context import Context


@dataclass(frozen=True, slots=True)
class Submission:
    """One request's batch: what it counts, the claim that makes a retry safe, the API key that sent it."""

    batch: Batch
    claim: Claim | None = None
    key_id: str | None = None


Outcome = Exception | None  # None: counted now, or by the request of which this is a retry


def ingest_events(context: Context, name: str, submission: Submission) -> None:
    """Count one batch, all of it or nothing; a retry under the same claim counts nothing more."""
    (outcome,) = ingest_together(context, name, [submission])
    if outcome is not None:
        raise outcome


def ingest_together(context: Context, name: str, submissions: Sequence[Submission]) -> list[Outcome]:
    """Count these batches in this order, each all or nothing. One that fails does not fail its neighbours."""
    try:
        return _ingest(context, name, submissions)
    except Refusal as refusal:  # of all alike: no such sketch, no database
        return [refusal] * len(submissions)
    except Exception as fault:
        if len(submissions) == 1:
            return [fault]
    return [outcome for one in submissions for outcome in ingest_together(context, name, [one])]


def _ingest(context: Context, name: str, submissions: Sequence[Submission]) -> list[Outcome]:
    group = _Group(submissions)
    with context.database.writing() as session:
        held = states.lock(session, name)  # first: who waits for the same claims waits here
        universe = _universe(session, name) if held is None or held.has_universe else None
        fold = _opened(context, session, held) if held else None
        group.refuse(_revoked(session, submissions))
        group.refuse(lambda one: _foreign(one.batch, universe))
        group.answer_retries(session)
        if held is None or fold is None:
            group.refuse(lambda _: _closed(name, deleted=held is None))
            return group.outcomes()
        group.stake_claims(session, context.now())
        batches = [one.batch for one in group.waiting.values() if len(one.batch)]
        if not batches:
            return group.outcomes()  # so that the time it takes to rewrite the state cannot be asked for free
        for batch in batches:
            fold.add(batch)
        token = states.write(session, held.sketch_id, fold.state())
    if isinstance(fold, kernel.Fold):
        context.hot.put(held.sketch_id, token, fold)
    return group.outcomes()


class _Group:
    """Batches on their way: those that wait to be counted, and what became of the others."""

    def __init__(self, submissions: Sequence[Submission]) -> None:
        self.waiting = dict(enumerate(submissions))
        self._settled: dict[int, Outcome] = {}

    def outcomes(self) -> list[Outcome]:
        """To be told after the commit."""
        return [self._settled.get(at) for at in range(len(self.waiting) + len(self._settled))]

    def refuse(self, why: Callable[[Submission], Refusal | None]) -> None:
        for at, one in list(self.waiting.items()):
            refusal = why(one)
            if refusal is not None:
                self._settle(at, refusal)

    def answer_retries(self, session: Session) -> None:
        """Of batches that were counted before, or stand in this group a second time."""
        claims = [one.claim for one in self.waiting.values() if one.claim]
        earlier = requests.fingerprints(session, claims) if claims else {}
        for at, one in list(self.waiting.items()):
            if one.claim is None:
                continue
            if one.claim.key in earlier:
                self._settle(at, _reused(one.claim, earlier[one.claim.key]))
            earlier.setdefault(one.claim.key, one.claim.fingerprint)

    def stake_claims(self, session: Session, now: datetime) -> None:
        claims = [one.claim for one in self.waiting.values() if one.claim]
        if claims:
            requests.add(session, claims, now)

    def _settle(self, at: int, outcome: Outcome) -> None:
        del self.waiting[at]
        self._settled[at] = outcome


def _reused(claim: Claim, earlier_fingerprint: bytes) -> Outcome:
    try:
        requests.require_same(claim, earlier_fingerprint)
    except KeyReused as refusal:
        return refusal
    return None


def _revoked(session: Session, submissions: Sequence[Submission]) -> Callable[[Submission], Refusal | None]:
    """Keys are recognised from memory (`RecentCallers`); whether one was revoked is asked here, once for all."""
    key_ids = {one.key_id for one in submissions if one.key_id}
    revoked = keys.revoked(session, key_ids) if key_ids else set()
    return lambda one: Unauthenticated("The key is revoked. Send a valid one.") if one.key_id in revoked else None


def _universe(session: Session, name: str) -> Universe | None:
    return sketches.universe(sketches.get(session, name))


def _foreign(batch: Batch, universe: Universe | None) -> Refusal | None:
    """Decided by the declared universe alone, so it tells nothing of what was counted."""
    if universe is None:
        return None
    foreign = (at for at, (key, _count) in enumerate(batch.pairs()) if key not in universe)
    bad = [(at, "the key is not in the sketch's universe.") for at in islice(foreign, MAX_REPORTED)]
    return BadBatch(f"Item {bad[0][0]}: {bad[0][1]}", bad) if bad else None


def _closed(name: str, *, deleted: bool) -> Refusal:
    if deleted:
        return UnknownSketch(f"The sketch {name!r} was deleted; its snapshots and ledger stay.")
    return Conflict(f"The sketch {name!r} is a sum of others and takes no events of its own.")


class _CompactFold:
    """A compact sketch that takes batches, each as one merge."""

    def __init__(self, sketch: CompactSketch) -> None:
        self._sketch = sketch

    def add(self, batch: Batch) -> None:
        self._sketch = self._sketch.extended(batch.pairs())

    def state(self) -> bytes:
        return state.encode(self._sketch)


def _opened(context: Context, session: Session, held: Held) -> kernel.Fold | _CompactFold | None:
    """The sketch as it is now, ready for batches; None for a sum, which takes none."""
    hot = context.hot.take(held.sketch_id, held.token)
    if hot is not None:
        return hot
    stored = states.read(session, held.sketch_id)
    if stored is None:
        raise RuntimeError("a state that is locked is gone")
    family = state.family(stored)
    if family is StreamSketch:
        return kernel.Fold(stored)
    if family is SummedSketch:
        return None
    return _CompactFold(state.decode_as(CompactSketch, stored))
