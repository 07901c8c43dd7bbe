"""Keep the promise that no person contributes more than a sketch says: what a batch must name, and what counts."""

from dataclasses import dataclass
from typing import Self

from sqlalchemy.orm import Session

from app.core.kernel import Allowances, Batch, new_allowances, table_multipliers
from app.core.people import Fingerprints, People, Rules, people_of
from app.refusals import WrongUserKey
from app.store import allowances, sketches
from app.store.allowances import HeldScope
from app.usecases.context import Context


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a sketch asks of its batches: public, and fixed when it was made.

    It may be remembered: the transaction that counts a batch checks that the sketch still has these rules.
    """

    rules: Rules
    fingerprints: Fingerprints | None  # where it is enforced

    def people(self, batch: Batch) -> People | None:
        """Who is behind the items. A batch that leaves somebody unnamed is refused for what it is."""
        return people_of(batch, self.fingerprints, self.rules, table_multipliers()) if self.fingerprints else None


def create_scope(context: Context, session: Session, name: str) -> int:
    """A scope of this name, under the user key; the first one of a database makes the key."""
    key = context.user_key.kept if allowances.any_exist(session) else context.user_key.value
    return allowances.create(session, name, Fingerprints(key, name).check)


def bounds_of(context: Context, name: str) -> Bounds:
    """Those of a sketch, deleted or not."""
    with context.database.reading() as session:
        sketch = sketches.get(session, name)
        unit, most = sketch.parameters.unit, sketch.parameters.max_contributions
        if sketch.register_id is None:
            return Bounds(Rules(unit, most), None)
        scope = allowances.get(session, sketch.register_id)
    fingerprints = Fingerprints(context.user_key.kept, scope.name)
    if fingerprints.check != scope.key_check:
        raise WrongUserKey(
            "The people of this sketch were counted under another user key, so nothing can be added. Start the server "
            "with the DISCREET_USER_KEY, or the key file, that it had then."
        )
    return Bounds(Rules(unit, most, scope.name, scope.key_check), fingerprints)


class Used:
    """The allowances of one scope, while a transaction holds it."""

    def __init__(self, held: HeldScope, known: Allowances) -> None:
        self._held = held
        self._known = known
        self._changes: list[bytes] = []
        self._sequence = held.sequence

    @classmethod
    def opened(cls, context: Context, session: Session, scope_id: int) -> Self:
        """What this process remembers, and what others have written since."""
        held = allowances.lock(session, scope_id)
        if held.dropped:
            raise RuntimeError("people were forgotten while a sketch still takes events")
        sequence, known = context.hot.take(("people", scope_id)) or (0, new_allowances())
        if sequence != held.sequence:
            if not allowances.is_past(session, scope_id, sequence):  # the database may have been put back
                sequence, known = 0, new_allowances()
            for entries in allowances.entries_after(session, scope_id, sequence):
                known.learn(entries)
        return cls(held, known)

    def limited(self, batch: Batch, people: People, allowance: int) -> Batch:
        """What counts of the batch: each person's first items, up to the allowance."""
        granted, changed = self._known.grant(people.indexes, batch.counts(), people.fingerprints, allowance)
        self._changes.append(changed)
        return batch.limited(granted)

    def write(self, session: Session) -> None:
        """Also where nothing changed: the time must not tell whether somebody's allowance was used up before."""
        self._sequence = allowances.append(session, self._held, b"".join(self._changes))

    def keep(self, context: Context) -> None:
        """After the commit."""
        context.hot.put(("people", self._held.id), self._sequence, self._known)
