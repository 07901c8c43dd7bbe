"""Put the data of several sketches into one, which then answers for it to all their ledgers.

Locks are taken in this order: the sketches by their ids, the state of the target, the register where its people are
counted, the ledgers by their ids. (The state of a new target is nobody else's yet, so there the register comes first.)
The states of the sources are read without a lock. Each is read by one statement, so it is of one moment: a batch that
is being counted in a source meanwhile comes before the merge or after it. No merge, release or deletion of a source
can come in between, because the sketches are held.
"""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain

from sqlalchemy.orm import Session

from app.core.errors import InvalidRequest
from app.core.sketches.summed import SummedSketch
from app.refusals import Closed, Conflict, UnknownSketch
from app.store import allowances, ledger, lineage, sketches, states
from app.store.records import SketchRecord
from app.usecases import manage_sketches
from app.usecases.context import Context
from app.usecases.together import Mode, require_fitting, taken_together
from app.usecases.views import SketchView, sketch_view


class _MadeMeanwhile(Exception):
    """Another request made the target after this one had looked for it."""


def merge_sketches(
    context: Context, target: str, sources: Sequence[str], mode: Mode, *, by: str | None = None
) -> SketchView:
    """Make the target from the sources, or add them to it, for the caller with the API key `by`. The sources stay as
    they are."""
    if len(set(sources)) != len(sources):
        raise InvalidRequest("Name each source once.")
    try:
        return _merge_all(context, target, sources, mode, by)
    except _MadeMeanwhile:  # from the start, so that the target too is locked in its order; now it is found
        return _merge_all(context, target, sources, mode, by)


def _merge_all(context: Context, target: str, names: Sequence[str], mode: Mode, by: str | None) -> SketchView:
    with context.writing(by) as session:
        held = sketches.lock(session, [target, *names])
        missing = [name for name in names if name not in held]
        if missing:
            raise UnknownSketch(f"There is no sketch named {missing[0]!r}.")
        sources = [held[name] for name in names]
        into = held.get(target) or _create_like(context, session, target, sources[0])
        if into.closed_at is not None:
            raise Closed(f"The sketch {into.name!r} was closed and takes no more data.")
        require_fitting(session, [into, *sources], mode)
        _merge(session, into, sources, mode)
        if into.register_id is not None and allowances.lock(session, into.register_id).dropped:
            manage_sketches.close(context, session, into)  # its people are forgotten, so it can take no more of them
        basis = asdict(*sketches.bases(session, [into.id]))
        ledger.note(session, lineage.ledger_ids(session, into.id), "merge", basis, context.now())
        return sketch_view(session, sketches.get(session, target))


def _create_like(context: Context, session: Session, name: str, source: SketchRecord) -> SketchRecord:
    """Make an empty target with the parameters and the ledger of its first source. A refusal later undoes it."""
    if source.register_id is not None:
        # The new row refers to the register, for which PostgreSQL takes a share of its lock. Two merges that each had
        # a share could never get the whole of it afterwards, so it is taken whole before.
        allowances.lock(session, source.register_id)
    made = sketches.create(
        session,
        name=name,
        ledger_id=source.ledger_id,
        parameters=source.parameters,
        register_id=source.register_id,
        description="",
        now=context.now(),
    )
    target = sketches.get(session, name)
    if target.deleted_at is not None:
        raise Conflict(f"A deleted sketch was named {name!r}; its name stays taken.")
    if not made:
        raise _MadeMeanwhile
    return target


def _merge(session: Session, target: SketchRecord, sources: Sequence[SketchRecord], mode: Mode) -> None:
    """Add the data of the sources to the locked target: it is loaded once, added to in memory, and saved once."""
    into = states.load(session, target, for_update=True)
    added = (states.load(session, source, for_update=False) for source in sources)  # one at a time: they may be large
    merged = taken_together(chain([into], added), mode)
    states.save(session, target, merged)
    lineage.inherit(session, target.id, [source.id for source in sources])
    sketches.note_merge(
        session,
        target.id,
        family=mode,
        sources=merged.sources if isinstance(merged, SummedSketch) else 1,
        counted_by_request=any(sketch.counted_by_request for sketch in (target, *sources)),
    )
