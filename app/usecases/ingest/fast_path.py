"""The fast path of a group of submissions: fold before any lock, then one conditional write that commits by itself.

A group is folded into the sketch as this process left it. That is a guess: another process may have written since, or
a submission may be refused. So what was folded counts only where the database still has the version that it was folded
upon, which one `UPDATE` decides (`states.compare_and_swap`). Where that stores nothing, `transaction` takes over.
"""

from collections.abc import Sequence
from contextlib import suppress

from app.store import states
from app.usecases.context import Context
from app.usecases.ingest.open_sketch import OpenSketch
from app.usecases.ingest.submission import Submission


def fold_ahead(sketch: OpenSketch | None, submissions: Sequence[Submission]) -> OpenSketch | None:
    """Fold all the submissions into an open sketch, before any lock is taken.

    Folds nothing, and gives back the sketch as it is, where that would be in vain: somebody's allowance decides what
    counts, the sketch has other rules than those by which a batch was read, or other processes write to it too. Gives
    back no sketch where none is open, or where a batch cannot be folded: the transaction will meet that fault again,
    and find out whose it is.
    """
    if sketch is None or not sketch.sole_writer:
        return sketch
    if any(one.people is not None or one.rules != sketch.rules for one in submissions):
        return sketch
    try:
        sketch.fold.add(*(one.batch for one in submissions))
    except Exception:
        return None
    sketch.ahead = len(submissions)
    return sketch


def commit_if_unchanged(context: Context, name: str, sketch: OpenSketch, submissions: Sequence[Submission]) -> bool:
    """Store what was folded ahead, in one statement that commits by itself. False, with nothing stored, where the
    database has another version, the sketch is closed, a sender's API key is revoked, or more must be looked up."""
    if not (sketch.unrestricted and sketch.ahead and any(len(one.batch) for one in submissions)):
        return False
    if any(one.claim for one in submissions):
        return False
    senders = {one.api_key_id for one in submissions if one.api_key_id}
    version = states.compare_and_swap(
        context.database, sketch.sketch_id, sketch.version, sketch.fold.stored(), unless_revoked=senders
    )
    if version is None:
        return False
    with suppress(Exception):  # the submissions are committed: a fault must not lead to another try
        sketch.mark_stored(version)
        context.open_sketches.put(name, sketch)
    return True
