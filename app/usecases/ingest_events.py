"""Fold one batch into a sketch, exactly once."""

from app.core.claims import Claim
from app.core.sketches.stream import Events
from app.store import requests, sketches
from app.usecases.context import Context


def ingest_events(context: Context, name: str, events: Events, claim: Claim | None) -> None:
    """Count the batch, all of it or nothing; a retry under the same claim counts nothing more."""
    with context.database.writing() as session:
        if claim is not None and requests.claim(session, claim, context.now()) is not None:
            return
        row = sketches.get_live(session, name)
        sketch = sketches.load(session, row, for_update=True)
        sketches.save(session, row, sketch.extended(events))
