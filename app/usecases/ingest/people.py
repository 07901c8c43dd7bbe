"""Keep the promise that no person contributes more than a sketch says: by which rules a batch is read, and what counts.

What people have used of their allowances is kept in a register: of a sketch, or of all the sketches of a ledger.
"""

from dataclasses import dataclass
from typing import Self

from sqlalchemy.orm import Session

from app.core.kernel import Allowances, Batch, new_allowances
from app.core.people import Fingerprints, Rules
from app.refusals import WrongUserKey
from app.store import allowances, sketches
from app.store.allowances import HeldRegister
from app.usecases.context import Context
from app.usecases.ingest.submission import Submission


def create_register(context: Context, session: Session, name: str) -> int:
    """Make a register of this name, under the user key; the first register of a database makes that key."""
    user_key = context.user_key.kept if allowances.any_exist(session) else context.user_key.value
    return allowances.create(session, name, Fingerprints(user_key, name).check)


def rules_of(context: Context, name: str) -> Rules:
    """By which rules the batches of a sketch are read. It may be deleted: retries are still answered.

    They are public, and fixed when the sketch was made. They may be remembered: the transaction that counts a batch
    checks that the sketch still has them.
    """
    with context.database.reading() as session:
        sketch = sketches.get(session, name)
        unit, most = sketch.parameters.unit, sketch.parameters.max_contributions
        if sketch.register_id is None:
            return Rules(unit, most)
        register = allowances.get(session, sketch.register_id)
    fingerprints = Fingerprints(context.user_key.kept, register.name)
    if fingerprints.check != register.key_check:
        raise WrongUserKey(
            "The people of this sketch were counted under another user key, so nothing can be added. Start the server "
            "with the DISCREET_USER_KEY, or the key file, that it had then."
        )
    return Rules(unit, most, register.name, register.key_check, fingerprints)


@dataclass(frozen=True, slots=True)
class _OpenRegister:
    """What this process remembers of a register, up to one sequence of its log."""

    sequence: int
    known: Allowances

    @property
    def nbytes(self) -> int:
        return self.known.nbytes


class LockedRegister:
    """A register while a transaction holds it: grants items, and notes what was granted."""

    def __init__(self, context: Context, held: HeldRegister, known: Allowances) -> None:
        self._context = context
        self._held = held
        self._known = known
        self._changes: list[bytes] = []
        self._sequence = held.sequence

    @classmethod
    def lock(cls, context: Context, session: Session, register_id: int) -> Self:
        """Lock the register; it knows what this process remembers of it, and what others have written since."""
        held = allowances.lock(session, register_id)
        if held.dropped:
            raise RuntimeError("people were forgotten while a sketch still takes events")
        remembered = context.open_sketches.take(("people", register_id)) or _OpenRegister(0, new_allowances())
        if remembered.sequence != held.sequence:
            if not allowances.is_past(session, register_id, remembered.sequence):  # the database may have been put back
                remembered = _OpenRegister(0, new_allowances())
            for usages in allowances.usages_after(session, register_id, remembered.sequence):
                remembered.known.learn(usages)
        return cls(context, held, remembered.known)

    def grant(self, submission: Submission) -> Batch:
        """Grant each person the first items, up to the allowance; the batch with what was granted."""
        batch, people, limit = submission.batch, submission.people, submission.rules.allowance
        if people is None:
            raise RuntimeError("an enforced sketch was sent a batch without people")
        granted, changed = self._known.grant(people.indexes, batch.counts(), people.fingerprints, limit)
        self._changes.append(changed)
        return batch.limited(granted)

    def write(self, session: Session) -> None:
        """Write what was granted to the register's log. Also where nothing was: otherwise the time that a request takes
        would tell whether somebody's allowance was used up before."""
        self._sequence = allowances.append(session, self._held, b"".join(self._changes))

    def keep_open(self) -> None:
        """Remember what is known, for the next batch. Only after the commit."""
        self._context.open_sketches.put(("people", self._held.id), _OpenRegister(self._sequence, self._known))
