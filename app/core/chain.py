"""The hash chain of a ledger: each entry's hash covers its content and the hash before it.

So no entry can be changed, left out, added or moved in the middle without breaking every later hash. Whoever rewrites
all of them is found by comparing with an export that was kept elsewhere.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256

from app.core.accountants import Accountant, Price
from app.core.budget import Budget

START = bytes(32)


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

    def hash(self, previous: bytes) -> bytes:
        content = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return sha256(previous + content.encode()).digest()


@dataclass(frozen=True, slots=True)
class Totals:
    """What a ledger must show after these entries."""

    total: Budget
    spent: Price
    entries: int
    head: bytes


def replay(accountant: Accountant, entries: Iterable[tuple[Entry, bytes]]) -> tuple[Totals, list[str]]:
    """The totals that the entries add up to, and every fault in the chain."""
    total, spent, count, head = Budget(0, 0), Price(0, 0), 0, START
    faults = []
    for entry, stored in entries:
        count += 1
        if entry.sequence != count:
            faults.append(f"entry {count} is missing: {entry.sequence} stands in its place")
            count = entry.sequence
        if entry.hash(head) != stored:
            faults.append(f"entry {entry.sequence} or the one before it was changed: its hash does not fit")
        if entry.kind == "release":
            spent = spent.plus(Price(entry.price, entry.delta_units))
        else:
            total = Budget(entry.epsilon_units, entry.delta_units)
        if not accountant.limit(total).covers(spent):
            faults.append(f"after entry {entry.sequence} more is spent than the budget has")
        head = stored
    return Totals(total, spent, count, head), faults
