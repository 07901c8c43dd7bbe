"""A stored sketch, ready for batches."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from app.core import kernel
from app.core.kernel import Batch
from app.core.sketches import state
from app.core.sketches.compact import CompactSketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch
from app.store import states
from app.store.states import Held
from app.usecases.context import Context

KeySets = Sequence[Sequence[str]]  # of users


class CompactFold:
    """A compact sketch that takes batches, each as one merge (`lem:merge-step-sensitivity`)."""

    def __init__(self, sketch: CompactSketch) -> None:
        self._sketch = sketch

    def add(self, batch: Batch) -> None:
        self._sketch = self._sketch.extended(batch.pairs())

    def add_users(self, sets: KeySets) -> None:
        self._sketch = self._sketch.extended_by_users(sets)

    def state(self) -> bytes:
        return state.encode(self._sketch)


def opened(context: Context, session: Session, held: Held) -> kernel.Fold | CompactFold | None:
    """The sketch as it is now; None for a sum, which takes no batches."""
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
    return CompactFold(state.decode_as(CompactSketch, stored))
