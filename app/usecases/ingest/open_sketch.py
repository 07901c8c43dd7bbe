"""A sketch that this process keeps ready to count into."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from app.core.errors import BadState
from app.core.kernel import Fold
from app.core.people import Rules
from app.core.sketches import state
from app.core.sketches.summed import SummedSketch
from app.store import states
from app.store.states import LockedState, Version


@dataclass(slots=True)
class OpenSketch:
    """A stored sketch as this process left it, perhaps with further submissions folded in that are not stored yet.

    It may be counted into only if the database still has its version: `fast_path` and `transaction` see to that.
    """

    sketch_id: int
    fold: Fold
    version: Version  # of what is stored; `fold` holds that, and the first `ahead` submissions of a group
    rules: Rules
    unrestricted: bool  # takes any event key, of anybody: nothing has to be looked up for each item
    sole_writer: bool  # no other process wrote to the sketch when this one last did
    ahead: int = 0

    @property
    def nbytes(self) -> int:
        """The memory that it takes, about."""
        return self.fold.nbytes + len(self.version.stored or b"")

    def mark_stored(self, version: Version) -> None:
        """What is folded in was committed, as this version."""
        self.version, self.ahead = version, 0


def opened(session: Session, locked: LockedState) -> OpenSketch | None:
    """The sketch of a locked state, read from the database; None for a sum, which takes no batches."""
    stored, version = states.read_locked(session, locked)
    try:
        now = state.by_slot(stored)
        if state.family(now) is SummedSketch:
            return None
        fold = Fold(now)
    except (BadState, ValueError) as error:  # not the sender's doing
        raise RuntimeError("the stored state of a sketch is damaged") from error
    unrestricted = not locked.has_universe and locked.register_id is None
    return OpenSketch(locked.sketch_id, fold, version, locked.rules, unrestricted=unrestricted, sole_writer=True)
