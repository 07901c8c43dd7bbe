"""A stored sketch, ready for batches."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy.orm import Session

from app.core import kernel
from app.core.errors import BadState
from app.core.kernel import Batch
from app.core.people import Rules
from app.core.sketches import state
from app.core.sketches.summed import SummedSketch
from app.store import parts, states
from app.store.states import Held
from app.usecases.context import Context


class Opened(NamedTuple):
    """A sketch that is about to change, and what is remembered of the bytes that are stored of it."""

    fold: kernel.Fold
    stored: bytes | None


@dataclass(frozen=True, slots=True)
class Kept:
    """An open sketch between batches."""

    fold: kernel.Fold
    stored: bytes | None  # what is remembered of the bytes that are stored of it
    sketch_id: int
    rules: Rules  # of the sketch when this process last wrote to it
    plain: bool  # it takes any key, of anybody
    alone: bool  # no other process wrote to the sketch when this one last did

    @property
    def nbytes(self) -> int:
        return self.fold.nbytes + len(self.stored or b"")


class Guess:
    """Batches folded before the transaction that counts them, into what this process keeps open of their sketch.

    So no lock is held meanwhile. The guess is that the sketch is still as this process left it and that none of the
    batches is refused; the transaction sees whether it is, and folds for itself where it is not.
    """

    def __init__(self, context: Context, name: str, batches: Sequence[Batch], read_under: Collection[Rules]) -> None:
        """`read_under`: the rules by which the batches were read."""
        self.token: int | None
        self._kept: Kept | None
        self.token, self._kept = context.hot.take(name) or (None, None)
        self.size = 0  # how many batches are in it
        if self._kept and self._kept.alone and all(rules == self._kept.rules for rules in read_under):
            self._fold(self._kept.fold, batches)

    def _fold(self, fold: kernel.Fold, batches: Sequence[Batch]) -> None:
        try:
            fold.add(*batches)
            self.size = len(batches)
        except Exception:  # the transaction will meet it again, and find out whose it is
            self._kept = None

    def sketch(self, token: int) -> Opened | None:
        """With the batches, if it was as the database has it."""
        return Opened(self._kept.fold, self._kept.stored) if self._kept and self.token == token else None

    def ahead(self) -> Kept | None:
        """With the batches, if there are any and nothing of the sketch can refuse one; upon what has our token."""
        return self._kept if self._kept and self._kept.plain and self.size else None

    def alone(self, token: int) -> bool:
        return self.token in (None, token)


def open_stored(session: Session, held: Held) -> Opened | None:
    """The sketch as it is now; None for a sum, which takes no batches."""
    stored = states.read(session, held.sketch_id)
    if stored is None:
        raise RuntimeError("a state that is locked is gone")
    try:
        now = state.by_slot(stored)
        fold = None if state.family(now) is SummedSketch else kernel.Fold(now)
    except (BadState, ValueError) as error:  # not the client's doing
        raise RuntimeError("the stored state of a sketch is damaged") from error
    return Opened(fold, parts.remembered(stored, session.get_bind().dialect)) if fold else None
