"""Keep the promise that no person contributes more than a sketch says: what a batch must name, and what counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from secrets import token_bytes
from typing import Self

from sqlalchemy.orm import Session

from app.core.errors import WrongUserKey
from app.core.kernel import Allowances, Batch, new_allowances
from app.core.people import Fingerprints, People, Rules, UserSets, people_of_events, people_of_sets
from app.core.sketches.order import SECRET_BYTES, multipliers
from app.store import allowances, sketches
from app.store.allowances import HeldScope
from app.usecases.context import Context

_ONE = (1).to_bytes(4, "little")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a sketch asks of its batches: public, and fixed when it was made."""

    rules: Rules
    fingerprints: Fingerprints | None  # where it is enforced

    def people(self, batch: Batch | UserSets) -> People | None:
        """Who is behind the items. A batch that names nobody, or too much of somebody, is refused for what it is."""
        if self.fingerprints is None:
            return None
        if isinstance(batch, UserSets):
            return people_of_sets(batch, self.fingerprints, self.rules)
        return people_of_events(batch, self.fingerprints, self.rules, _table_multipliers())


@lru_cache(maxsize=1)
def _table_multipliers() -> bytes:
    """Nobody can choose names that meet in a table; what comes out does not depend on them."""
    return multipliers(token_bytes(SECRET_BYTES))


def bounds_of(context: Context, name: str) -> Bounds:
    """Those of a sketch, deleted or not."""
    with context.database.reading() as session:
        row = sketches.get(session, name)
        rules = Rules(row.unit, row.max_contributions, row.enforcement == "enforced", row.on_excess)
        if row.scope_id is None:
            return Bounds(rules, None)
        scope = allowances.get(session, row.scope_id)
    fingerprints = Fingerprints(context.user_key.value, scope.name)
    if fingerprints.check != scope.key_check:
        raise WrongUserKey(
            "The people of this sketch were counted under another user key, so nothing can be added. Start the server "
            "with the DISCREET_USER_KEY, or the key file, that it had then."
        )
    return Bounds(rules, fingerprints)


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
        return batch.limited(self._grant(people, batch.counts(), allowance))

    def limited_sets(self, batch: UserSets, people: People) -> Sequence[Sequence[str]]:
        granted = self._grant(people, _ONE * len(batch), 1)
        return list(batch.kept([granted[at : at + 4] == _ONE for at in range(0, len(granted), 4)]))

    def _grant(self, people: People, wanted: bytes, allowance: int) -> bytes:
        granted, changed = self._known.grant(people.indexes, wanted, people.fingerprints, allowance)
        self._changes.append(changed)
        return granted

    def write(self, session: Session) -> None:
        """Also where nothing changed: the time must not tell whether somebody's allowance was used up before."""
        self._sequence = allowances.append(session, self._held, b"".join(self._changes))

    def keep(self, context: Context) -> None:
        """After the commit."""
        context.hot.put(("people", self._held.id), self._sequence, self._known)
