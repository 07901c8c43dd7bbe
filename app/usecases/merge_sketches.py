"""Put the data of several sketches into one, which then answers for it to all their ledgers."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal

from sqlalchemy.orm import Session

from app.core.errors import IncompatibleSketches, InvalidRequest
from app.core.sketches.compact import CompactSketch
from app.core.sketches.state import Sketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch
from app.refusals import Closed, Conflict, UnknownSketch
from app.store import allowances, ledger, sketches, states
from app.store.tables import SketchRow
from app.usecases import manage_sketches
from app.usecases.context import Context
from app.usecases.manage_sketches import SketchView

Mode = Literal["compact", "summed"]

_SAME = ("k", "unit", "max_contributions", "universe")  # what the lemmas, or the guarantee, need to be equal


class _MadeMeanwhile(Exception):
    """Another request made the target after this one had looked for it."""


def merge_sketches(
    context: Context, target: str, sources: Sequence[str], mode: Mode, *, by: str | None = None
) -> SketchView:
    """Make the target from the sources, or add them to it, for the caller with the key `by`. The sources stay as they
    are."""
    if len(set(sources)) != len(sources):
        raise InvalidRequest("Name each source once.")
    try:
        return _merge_all(context, target, sources, mode, by)
    except _MadeMeanwhile:  # from the start, so that the target too is locked in its order; now it is found
        return _merge_all(context, target, sources, mode, by)


def _merge_all(context: Context, target: str, sources: Sequence[str], mode: Mode, by: str | None) -> SketchView:
    with context.writing(by) as session:
        held = sketches.lock(session, [target, *sources])
        missing = [name for name in sources if name not in held]
        if missing:
            raise UnknownSketch(f"There is no sketch named {missing[0]!r}.")
        into = held.get(target) or _made_like(context, session, target, held[sources[0]])
        for name in sources:
            _require_mergeable(session, into, held[name])
            _merge(session, into, held[name], mode)
        if into.scope_id is not None and allowances.lock(session, into.scope_id).dropped:
            manage_sketches.close(context, session, into)  # its people are forgotten, so it can take no more of them
        basis = asdict(sketches.basis(session, into))
        ledger.note(session, sketches.ledger_ids(session, into), "merge", basis, context.now())
        return manage_sketches.view(session, into)


def _made_like(context: Context, session: Session, name: str, source: SketchRow) -> SketchRow:
    """A new, empty target with the parameters and the ledger of its first source."""
    if source.scope_id is not None:
        allowances.lock(session, source.scope_id)  # before the new row refers to it: two that did could never go on
    made = sketches.create(
        session,
        name=name,
        ledger_id=source.ledger_id,
        k=source.k,
        unit=source.unit,
        max_contributions=source.max_contributions,
        enforcement=source.enforcement,
        scope_id=source.scope_id,
        description="",
        universe=sketches.universe(source),
        now=context.now(),
    )
    row = sketches.get(session, name)
    if row.deleted_at is not None:
        raise Conflict(f"A deleted sketch was named {name!r}; its name stays taken.")
    if not made:
        raise _MadeMeanwhile
    return row


def _require_mergeable(session: Session, target: SketchRow, source: SketchRow) -> None:
    for field in _SAME:
        ours, theirs = getattr(target, field), getattr(source, field)
        if ours != theirs:
            shown = "another universe" if field == "universe" else f"{field} = {theirs}"
            raise IncompatibleSketches(field, f"Source {source.name!r} has {shown}, unlike {target.name!r}.")
    if target.scope_id != source.scope_id:  # in one scope a person has one allowance for all of it
        raise IncompatibleSketches(
            "enforcement",
            f"A person may be in {source.name!r} and in {target.name!r}, up to the limit in each. "
            "Sketches whose people are counted can be merged if one ledger bounds them together (`contributions`).",
        )
    if target.closed_at is not None:
        raise Closed(f"The sketch {target.name!r} was closed and takes no more data.")
    twice = sketches.origin_names(session, target) & sketches.origin_names(session, source)
    if twice:
        raise IncompatibleSketches(
            "sources",
            f"{target.name!r} and {source.name!r} both hold the events of {min(twice)!r}, which would count twice.",
        )


def _merge(session: Session, target: SketchRow, source: SketchRow, mode: Mode) -> None:
    into = states.load(session, target, for_update=True)
    added = states.load(session, source, for_update=False)
    merged: CompactSketch | SummedSketch
    if mode == "compact":
        merged = _compact(target, into).merged(_compact(source, added))
    else:
        merged = _summed(target, into).plus(_summed(source, added))
    states.save(session, target, merged)
    sketches.inherit(session, target, source)
    target.family = mode
    target.counted_by_request = target.counted_by_request or source.counted_by_request
    target.sources = merged.sources if isinstance(merged, SummedSketch) else 1
    session.flush()


def _compact(row: SketchRow, sketch: Sketch) -> CompactSketch:
    match sketch:
        case StreamSketch():
            return CompactSketch.of_stream(sketch)
        case CompactSketch():
            return sketch
        case SummedSketch():
            raise _wrong_family(row, "compact")


def _summed(row: SketchRow, sketch: Sketch) -> SummedSketch:
    match sketch:
        case StreamSketch():
            return SummedSketch.of_stream(sketch)
        case SummedSketch():
            return sketch
        case CompactSketch():
            raise _wrong_family(row, "summed")


def _wrong_family(row: SketchRow, mode: Mode) -> IncompatibleSketches:
    return IncompatibleSketches(
        "family", f"{row.name!r} is a {row.family} sketch and cannot take part in mode {mode!r}."
    )
