"""The hash chain of a ledger: each entry's hash covers its content and the hash before it.

So no entry can be changed, left out, added or moved in the middle without breaking every later hash. Whoever rewrites
all of them is found by comparing with an export that was kept elsewhere.

Entries are of two forms. Those of the first are of earlier versions, and stay hashed as they were. Those of the second
are hashed over their `basis` too (`core/ledger/basis.py`).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import NamedTuple

from app.core.ledger.accountants import Accountant, Price
from app.core.ledger.budget import Budget, Cost

START = bytes(32)
FIRST_FORM, FORM = 1, 2
SETS_TOTAL = ("open", "budget")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a ledger, as it is hashed and exported. Amounts are whole units (`budget.py`)."""

    ledger: str
    sequence: int
    kind: str
    created_at: str
    reason: str
    snapshot: str | None
    mechanism: str | None
    mechanism_version: int | None
    parameters: Mapping[str, object] | None
    epsilon_units: int
    delta_units: int
    price: int  # of a release, in the accountant's currency
    basis: Mapping[str, object] | None = None  # of a sketch that was made, merged or released; of a ledger, in `open`
    form: int = FORM

    def document(self) -> dict[str, object]:
        """What is hashed and exported."""
        content = asdict(self)
        if self.form == FIRST_FORM:
            del content["basis"], content["form"]
        return content

    def cost(self) -> Cost:
        """The amounts of the entry: ε and δ, or for a release without an ε its ρ, which is its price then, and δ."""
        in_rho = self.kind == "release" and self.epsilon_units == 0
        return Cost(self.epsilon_units, self.delta_units, self.price if in_rho else 0)

    def hash(self, previous: bytes) -> bytes:
        """SHA-256 over the hash of the entry before and the content of this one."""
        content = json.dumps(self.document(), sort_keys=True, separators=(",", ":"))
        return sha256(previous + content.encode()).digest()


class ChainedEntry(NamedTuple):
    """One line of a ledger, with the hash that chains it to the one before."""

    entry: Entry
    hash: bytes


@dataclass(frozen=True, slots=True)
class Totals:
    """What a ledger must show after these entries."""

    total: Budget
    spent: Price
    entries: int
    head: bytes


def replay(accountant: Accountant, entries: Iterable[tuple[Entry, bytes]]) -> tuple[Totals, list[str]]:
    """The totals that the entries add up to, and every fault in the chain."""
    total, spent, count, head, form = Budget(0, 0), Price(0, 0), 0, START, FIRST_FORM
    faults = []
    for entry, stored in entries:
        count += 1
        if entry.sequence != count:
            faults.append(f"entry {count} is missing: {entry.sequence} stands in its place")
            count = entry.sequence
        if entry.hash(head) != stored:
            faults.append(f"entry {entry.sequence} or the one before it was changed: its hash does not fit")
        if entry.form < form:
            faults.append(f"entry {entry.sequence} has the form of an earlier version, after entries of a later one")
        form = max(form, entry.form)
        if entry.kind == "release":
            spent = spent.plus(Price(entry.price, entry.delta_units))
        elif entry.kind in SETS_TOTAL:
            total = Budget(entry.epsilon_units, entry.delta_units)
        if not accountant.limit(total).covers(spent):
            faults.append(f"after entry {entry.sequence} more is spent than the budget has")
        head = stored
    return Totals(total, spent, count, head), faults
