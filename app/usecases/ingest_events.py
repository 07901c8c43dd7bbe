"""Fold one batch into a sketch, exactly once."""

from collections.abc import Sequence
from itertools import islice

from app.core.claims import Claim
from app.core.errors import MAX_REPORTED, BadBatch, Conflict
from app.core.sketches.summed import SummedSketch
from app.core.universe import Universe
from app.store import requests, sketches
from app.usecases.context import Context


def ingest_events(context: Context, name: str, events: Sequence[tuple[str, int]], claim: Claim | None) -> None:
    """Count the batch, all of it or nothing; a retry under the same claim counts nothing more."""
    with context.database.writing() as session:
        if claim is not None and requests.claim(session, claim, context.now()) is not None:
            return
        row = sketches.get_live(session, name)
        if not events:
            return  # so that the time it takes to rewrite the state cannot be asked for free
        _require_known_keys(events, sketches.universe(row))
        sketch = sketches.load(session, row, for_update=True)
        if isinstance(sketch, SummedSketch):
            raise Conflict(f"The sketch {name!r} is a sum of others and takes no events of its own.")
        sketches.save(session, row, sketch.extended(events))


def _require_known_keys(events: Sequence[tuple[str, int]], universe: Universe | None) -> None:
    """Decided by the declared universe alone, so it tells nothing of what was counted."""
    if universe is None:
        return
    foreign = (at for at, (key, _count) in enumerate(events) if key not in universe)
    bad = [(at, "the key is not in the sketch's universe.") for at in islice(foreign, MAX_REPORTED)]
    if bad:
        raise BadBatch(f"Item {bad[0][0]}: {bad[0][1]}", bad)
