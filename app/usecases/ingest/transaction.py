"""Count a group of submissions in one transaction, which locks the sketch's state and looks everything up."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice

from sqlalchemy.orm import Session

from app.core.errors import MAX_REPORTED, BadBatch, Refusal
from app.core.kernel import Batch
from app.core.sketches.universe import Universe
from app.refusals import Closed, Conflict, IdempotencyKeyReused, UnknownSketch
from app.store import api_keys, claims, sketches, states
from app.store.states import LockedState
from app.usecases.context import Context, revoked
from app.usecases.ingest.open_sketch import OpenSketch, opened
from app.usecases.ingest.people import LockedRegister
from app.usecases.ingest.submission import ChangedRules, Outcome, Queue, Submission


class RevokedMeanwhile(Exception):
    """The API key of a sender was revoked while the transaction waited for a register. Nothing was committed."""


class Group:
    """Submissions that share a commit: those that wait to be counted, and what became of the others."""

    def __init__(self, submissions: Sequence[Submission], queue: Queue) -> None:
        self._submissions = list(submissions)
        self._queue = queue
        self._settled: dict[int, Outcome] = {}

    def __len__(self) -> int:
        return len(self._submissions)

    def __iter__(self) -> Iterator[Submission]:
        return iter(self._submissions)

    def admit_latecomers(self) -> None:
        """Add those who came to the queue meanwhile."""
        self._submissions.extend(self._queue.take())

    def waiting(self) -> dict[int, Submission]:
        """Those that are neither refused nor answered yet, by their position in the group."""
        return {at: one for at, one in enumerate(self._submissions) if at not in self._settled}

    def outcomes(self) -> list[Outcome]:
        """What became of each. True after the commit."""
        return [self._settled.get(at) for at in range(len(self._submissions))]

    def refuse(self, reason: Callable[[Submission], Refusal | ChangedRules | None]) -> None:
        """Settle each for which there is a reason not to count it."""
        for at, one in self.waiting().items():
            why = reason(one)
            if why is not None:
                self._settled[at] = why

    def answer_retries(self, session: Session) -> None:
        """Settle those whose claim was staked before, by an earlier commit or by an earlier one in this group."""
        waiting = self.waiting()
        asked = [one.claim for one in waiting.values() if one.claim]
        earlier = claims.digests(session, asked) if asked else {}
        for at, one in waiting.items():
            if one.claim is None:
                continue
            if one.claim.key in earlier:
                self._settled[at] = _repeated(one.claim, earlier[one.claim.key])
            earlier.setdefault(one.claim.key, one.claim.digest)

    def stake_claims(self, session: Session, now: datetime) -> None:
        """Write the claims of those that will be counted."""
        staked = [one.claim for one in self.waiting().values() if one.claim]
        if staked:
            claims.add(session, staked, now)


def count_in_transaction(context: Context, name: str, sketch: OpenSketch | None, group: Group) -> list[Outcome]:
    """Count the group, and whoever joined it while the state's lock was waited for; what became of each.

    `sketch` is what this process has open, perhaps with the group's first submissions folded in. It is used if the
    database has its version and none of these is refused; otherwise the sketch is read from the database.
    """
    with context.database.writing() as session:
        locked = states.lock(session, name)  # first, so that retries of one request wait for each other here
        group.admit_latecomers()
        _refuse_some(session, name, locked, group)
        current = _current(session, locked, sketch, group) if locked else None
        if locked is None or current is None or locked.closed:
            group.refuse(lambda _: _closed_to_events(name, locked))
            return group.outcomes()
        group.stake_claims(session, context.now())
        register = _store(context, session, locked, current, group)
        senders = _senders(group)
        if register and senders and not api_keys.hold_valid(session, senders):
            raise RevokedMeanwhile
    with suppress(Exception):  # the group is committed: a fault must not lead to another try
        context.open_sketches.put(name, current)
        if register:
            register.keep_open()
    return group.outcomes()


def _refuse_some(session: Session, name: str, locked: LockedState | None, group: Group) -> None:
    """Settle those that are refused or were counted before, each for itself."""
    # Whether an API key was revoked is asked here, for all at once: senders are recognised from memory before.
    senders = _senders(group)
    gone = api_keys.revoked(session, senders) if senders else set()
    group.refuse(lambda one: revoked() if one.api_key_id in gone else None)
    group.refuse(lambda one: _outdated(one, locked))
    universe = sketches.get(session, name).parameters.universe if locked is None or locked.has_universe else None
    group.refuse(lambda one: _foreign(one.batch, universe))
    group.answer_retries(session)


def _senders(group: Group) -> set[str]:
    """The API keys of those who wait to be counted."""
    return {one.api_key_id for one in group.waiting().values() if one.api_key_id}


def _current(session: Session, locked: LockedState, sketch: OpenSketch | None, group: Group) -> OpenSketch | None:
    """The sketch as the database has it, perhaps with the group's first submissions; None for a sum."""
    if sketch is not None and sketch.version.token == locked.token:
        waiting = group.waiting()
        if all(at in waiting for at in range(sketch.ahead)) and (locked.register_id is None or not sketch.ahead):
            sketch.sole_writer = True
            return sketch
    read = opened(session, locked)
    if read is not None:
        read.sole_writer = sketch is None or sketch.version.token == locked.token
    return read


def _store(
    context: Context, session: Session, locked: LockedState, sketch: OpenSketch, group: Group
) -> LockedRegister | None:
    """Fold in what is not folded yet and write the state; with what people have used, where the sketch counts people.

    A group without items writes nothing: otherwise an empty request would be a free probe of the time that it takes.
    """
    waiting = group.waiting()
    if not any(len(one.batch) for one in waiting.values()):
        sketch.ahead = 0  # the submissions that were folded ahead had no items either
        return None
    register = LockedRegister.lock(context, session, locked.register_id) if locked.register_id is not None else None
    for at, one in waiting.items():
        if at >= sketch.ahead and len(one.batch):
            sketch.fold.add(register.grant(one) if register else one.batch)
    sketch.mark_stored(states.write(session, locked.sketch_id, sketch.fold.stored(), over=sketch.version))
    if register:
        register.write(session)
    return register


def _repeated(claim: claims.Claim, earlier_digest: bytes) -> Outcome:
    """What a retry is answered: the same as the first request, or why it is not a retry."""
    try:
        claims.require_same(claim, earlier_digest)
    except IdempotencyKeyReused as refusal:
        return refusal
    return None


def _outdated(one: Submission, locked: LockedState | None) -> ChangedRules | None:
    """A worker remembers a sketch's rules between requests. If the database was put back to an earlier day, another
    sketch may have the name since."""
    if locked is None or one.rules == locked.rules:
        return None
    return ChangedRules("The sketch was made anew with other parameters. Nothing was counted; send it again.")


def _foreign(batch: Batch, universe: Universe | None) -> Refusal | None:
    """Decided by the declared universe alone, so it tells nothing of what was counted."""
    if universe is None:
        return None
    foreign = (at for at, keys in enumerate(batch.keys()) if any(key not in universe for key in keys))
    bad = [(at, "the key is not in the sketch's universe.") for at in islice(foreign, MAX_REPORTED)]
    return BadBatch(f"Item {bad[0][0]}: {bad[0][1]}", bad) if bad else None


def _closed_to_events(name: str, locked: LockedState | None) -> Refusal:
    """Why a sketch takes no events."""
    if locked is None:
        return UnknownSketch(f"The sketch {name!r} was deleted; its snapshots and ledger stay.")
    if locked.closed:
        return Closed(f"The sketch {name!r} was closed and takes no more events.")
    return Conflict(f"The sketch {name!r} is a sum of others and takes no events of its own.")
