"""Fold batches into one sketch, each exactly once, those that wait together in one transaction."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from sqlalchemy.orm import Session

from app.core.errors import MAX_REPORTED, BadBatch, Refusal
from app.core.kernel import Batch
from app.core.people import People, Rules
from app.core.sketches.universe import Universe
from app.refusals import ChangedRules, Closed, Conflict, IdempotencyKeyReused, Unauthenticated, UnknownSketch
from app.store import api_keys, claims, sketches, states
from app.store.claims import Claim
from app.store.states import Held, Swap, Written
from app.usecases.bound_people import Used
from app.usecases.context import Context
from app.usecases.open_sketch import Guess, Kept, Opened, open_stored


@dataclass(frozen=True, slots=True)
class Submission:
    """One request's batch: what it counts, the claim that makes a retry safe, the API key that sent it, and who is
    behind its items, where the sketch enforces allowances."""

    batch: Batch
    claim: Claim | None = None
    key_id: str | None = None
    people: People | None = None
    allowance: int = 0  # items that a person has in all
    rules: Rules | None = None  # by which the batch was read; None where the caller read it from no request

    def named(self) -> People:
        if self.people is None:
            raise RuntimeError("an enforced sketch was sent a batch without people")
        return self.people


Outcome = Exception | None  # None: counted now, or by the request of which this is a retry


def ingest_events(context: Context, name: str, submission: Submission) -> None:
    """Count one batch, all of it or nothing; a retry under the same claim counts nothing more."""
    (outcome,) = ingest_together(context, name, [submission])
    if outcome is not None:
        raise outcome


def _nobody() -> Sequence[Submission]:
    return ()


def ingest_together(
    context: Context,
    name: str,
    submissions: Sequence[Submission],
    *,
    late: Callable[[], Sequence[Submission]] = _nobody,
) -> list[Outcome]:
    """Count these batches in this order, each all or nothing. One that fails does not fail its neighbours.

    `late` may be asked once, when we waited for our turn to write: who came meanwhile and joins.
    """
    together = list(submissions)

    def joined() -> Sequence[Submission]:
        together.extend(late())
        return together

    try:
        guess = Guess(context, name, _plain_batches(submissions), {one.rules for one in submissions if one.rules})
        if _swapped(context, name, guess, submissions):
            return [None] * len(submissions)
        return _ingest(context, name, guess, joined)
    except Refusal as refusal:  # of all alike: no such sketch, no database
        return [refusal] * len(together)
    except Exception as fault:
        if len(together) == 1:
            return [fault]
    return [outcome for one in together for outcome in ingest_together(context, name, [one])]


def _swapped(context: Context, name: str, guess: Guess, submissions: Sequence[Submission]) -> bool:
    """Count them in a single statement, if what that can check for itself is all that is to be looked up."""
    kept, token = guess.ahead(), guess.token
    if any(one.claim for one in submissions) or not any(len(one.batch) for one in submissions):
        return False
    if kept is None or token is None:
        return False
    swap = Swap(kept.sketch_id, Written(token, kept.stored), kept.fold.stored())
    written = states.swap(context.database, swap, {one.key_id for one in submissions if one.key_id})
    if written is None:
        return False
    with suppress(Exception):  # it is committed: a fault must not lead to another try
        context.hot.put(name, written.token, replace(kept, stored=written.stored))
    return True


def _ingest(context: Context, name: str, guess: Guess, joined: Callable[[], Sequence[Submission]]) -> list[Outcome]:
    """Count them in a transaction that looks everything up."""
    with context.database.writing() as session:
        held = states.lock(session, name)  # first: who waits for the same claims waits here
        group = _Group(joined())
        universe = _universe(session, name) if held is None or held.has_universe else None
        group.refuse(_revoked(session, group.waiting.values()))
        group.refuse(lambda one: _outdated(one, held))
        group.refuse(lambda one: _foreign(one.batch, universe))
        group.answer_retries(session)
        opened, to_fold = _opened(session, held, guess, group.waiting) if held else (None, [])
        if held is None or opened is None or held.closed:
            group.refuse(lambda _: _taking_none(name, held))
            return group.outcomes()
        group.stake_claims(session, context.now())
        fold, used, written = opened.fold, None, Written(held.token, opened.stored)
        if any(len(one.batch) for one in group.waiting.values()):  # else the time that it takes could be asked for free
            used = Used.opened(context, session, held.scope_id) if held.scope_id is not None else None
            for one in to_fold:
                fold.add(used.limited(one.batch, one.named(), one.allowance) if used else one.batch)
            written = states.write(session, held.sketch_id, fold.stored(), over=opened.stored)
            if used:
                used.write(session)
    with suppress(Exception):  # it is committed: a fault must not lead to another try
        plain = not held.has_universe and held.scope_id is None
        alone = guess.alone(held.token)
        kept = Kept(fold, written.stored, held.sketch_id, held.rules, plain=plain, alone=alone)
        context.hot.put(name, written.token, kept)
        if used:
            used.keep(context)
    return group.outcomes()


def _plain_batches(submissions: Sequence[Submission]) -> list[Batch]:
    """What can be folded ahead: all of them, or none where it depends on what people have used."""
    batches = [one.batch for one in submissions if one.people is None]
    return batches if len(batches) == len(submissions) else []


def _opened(
    session: Session, held: Held, guess: Guess, waiting: Mapping[int, Submission]
) -> tuple[Opened | None, list[Submission]]:
    """The sketch, and those batches that are not in it yet."""
    right = all(at in waiting for at in range(guess.size)) and (held.scope_id is None or not guess.size)
    guessed = guess.sketch(held.token) if right else None
    done = guess.size if guessed else 0
    return guessed or open_stored(session, held), [one for at, one in waiting.items() if at >= done and len(one.batch)]


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
        staked = [one.claim for one in self.waiting.values() if one.claim]
        earlier = claims.fingerprints(session, staked) if staked else {}
        for at, one in list(self.waiting.items()):
            if one.claim is None:
                continue
            if one.claim.key in earlier:
                self._settle(at, _reused(one.claim, earlier[one.claim.key]))
            earlier.setdefault(one.claim.key, one.claim.fingerprint)

    def stake_claims(self, session: Session, now: datetime) -> None:
        staked = [one.claim for one in self.waiting.values() if one.claim]
        if staked:
            claims.add(session, staked, now)

    def _settle(self, at: int, outcome: Outcome) -> None:
        del self.waiting[at]
        self._settled[at] = outcome


def _reused(claim: Claim, earlier_fingerprint: bytes) -> Outcome:
    try:
        claims.require_same(claim, earlier_fingerprint)
    except IdempotencyKeyReused as refusal:
        return refusal
    return None


def _revoked(session: Session, submissions: Collection[Submission]) -> Callable[[Submission], Refusal | None]:
    """Keys are recognised from memory (`RecentCallers`); whether one was revoked is asked here, once for all."""
    key_ids = {one.key_id for one in submissions if one.key_id}
    revoked = api_keys.revoked(session, key_ids) if key_ids else set()
    return lambda one: Unauthenticated("The key is revoked. Send a valid one.") if one.key_id in revoked else None


def _outdated(one: Submission, held: Held | None) -> Refusal | None:
    """Rules are remembered between claims. Another sketch has the name since, if the database was put back."""
    if held is None or one.rules is None or one.rules == held.rules:
        return None
    return ChangedRules("The sketch was made anew with other parameters. Nothing was counted; send it again.")


def _universe(session: Session, name: str) -> Universe | None:
    return sketches.get(session, name).parameters.universe


def _foreign(batch: Batch, universe: Universe | None) -> Refusal | None:
    """Decided by the declared universe alone, so it tells nothing of what was counted."""
    if universe is None:
        return None
    foreign = (at for at, keys in enumerate(batch.keys()) if any(key not in universe for key in keys))
    bad = [(at, "the key is not in the sketch's universe.") for at in islice(foreign, MAX_REPORTED)]
    return BadBatch(f"Item {bad[0][0]}: {bad[0][1]}", bad) if bad else None


def _taking_none(name: str, held: Held | None) -> Refusal:
    if held is None:
        return UnknownSketch(f"The sketch {name!r} was deleted; its snapshots and ledger stay.")
    if held.closed:
        return Closed(f"The sketch {name!r} was closed and takes no more events.")
    return Conflict(f"The sketch {name!r} is a sum of others and takes no events of its own.")
