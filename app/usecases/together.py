"""When sketches may be taken together, and what they are then: for merges, and for releases of several as one.

The lemmas compare two worlds in which one source has one event more, or one person more. So all sketches must have the
same parameters, people must be counted in one register, and no event may come in by two ways.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Literal

from sqlalchemy.orm import Session

from app.core.errors import IncompatibleSketches
from app.core.planner import Family
from app.core.sketches.compact import CompactSketch
from app.core.sketches.state import Sketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch, as_sum, sum_of
from app.store import lineage
from app.store.records import SketchRecord

Mode = Literal["compact", "summed"]

_TAKEN: dict[Mode, set[Family]] = {"compact": {"stream", "compact"}, "summed": {"stream", "summed"}}


def modes(sketches: Iterable[SketchRecord]) -> list[Mode]:
    """The modes in which all of these can take part."""
    families = {sketch.family for sketch in sketches}
    return [mode for mode, taken in _TAKEN.items() if families <= taken]


def require_fitting(session: Session, sketches: Sequence[SketchRecord], mode: Mode | None) -> None:
    """Refuse the first sketch that does not fit to those before it, before any data are read; without a mode, also
    where there is none in which all can take part."""
    origins = lineage.origin_names(session, [sketch.id for sketch in sketches])
    first, holders = sketches[0], dict[str, str]()
    for sketch in sketches:
        _require_alike(first, sketch)
        twice = holders.keys() & origins[sketch.id]
        if twice:
            raise IncompatibleSketches(
                "sources",
                f"{holders[min(twice)]!r} and {sketch.name!r} both hold the events of {min(twice)!r}, which would "
                "count twice.",
            )
        holders |= dict.fromkeys(origins[sketch.id], sketch.name)
        if mode and sketch.family not in _TAKEN[mode]:
            raise IncompatibleSketches(
                "family", f"{sketch.name!r} is a {sketch.family} sketch and cannot take part in mode {mode!r}."
            )
    if not mode and not modes(sketches):
        kinds = {sketch.family: sketch.name for sketch in sketches}
        raise IncompatibleSketches(
            "family", f"{kinds['compact']!r} is a compact and {kinds['summed']!r} a summed sketch; no mode takes both."
        )


def _require_alike(first: SketchRecord, sketch: SketchRecord) -> None:
    difference = first.parameters.difference_from(sketch.parameters)
    if difference:
        raise IncompatibleSketches(difference.field, f"{sketch.name!r} has {difference.words}, unlike {first.name!r}.")
    if first.register_id != sketch.register_id:  # in one register a person has one allowance for all of it
        raise IncompatibleSketches(
            "enforcement",
            f"A person may be in {sketch.name!r} and in {first.name!r}, up to the limit in each. Sketches whose people "
            "are counted can be taken together if one ledger bounds them together (`contributions`).",
        )


def taken_together(sketches: Iterable[Sketch], mode: Mode) -> CompactSketch | SummedSketch:
    """All of these as one, in their order; they may be large, so they are asked for one at a time.

    `compact` merges counters (`corol:merged-sensitivity`), `summed` adds up reduced ones
    (`lem:pure-dp-postprocessing-sensitivity`).
    """
    if mode == "summed":
        return sum_of(map(_summed, sketches))
    return reduce(CompactSketch.merged, map(_compact, sketches))


def _compact(sketch: Sketch) -> CompactSketch:
    match sketch:
        case StreamSketch():
            return CompactSketch.of_stream(sketch)
        case CompactSketch():
            return sketch
        case SummedSketch():
            raise RuntimeError("the state of a sketch is of another family than its row says")


def _summed(sketch: Sketch) -> SummedSketch:
    if isinstance(sketch, CompactSketch):
        raise RuntimeError("the state of a sketch is of another family than its row says")
    return as_sum(sketch)
