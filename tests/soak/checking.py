"""Compare what the clients know with what the database holds: nothing lost, nothing doubled, nothing overspent."""

import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import select

from app.core.ledger.budget import Cost
from app.store import sketches, states
from app.store.database import Database
from app.store.tables import EntryRow, LedgerRow, SketchRow, SnapshotRow
from tests.soak.sending import counts_of_people
from tests.soak.truth import Truth

_FEW = 3  # keys named of a sketch that is wrong


class _Units(NamedTuple):
    """Exact amounts, as `core/ledger/budget.py` counts them."""

    epsilon: int
    delta: int


class _Payment(NamedTuple):
    snapshot: str
    epsilon: int
    delta: int


def faults(database: Database, truth: Truth) -> list[str]:
    """Everything that is not as it was acknowledged, in sentences."""
    return [*_counts(database, truth), *_payments(database, truth), *_snapshots(database, truth)]


def expected_counts(truth: Truth) -> dict[str, Counter[str]]:
    """By sketch and key."""
    of_people = {sketch: counts_of_people(sketch, sent) for sketch, sent in truth.people.items()}
    return {**truth.counts, **of_people}


def _counts(database: Database, truth: Truth) -> Iterator[str]:
    """Of every sketch there is, also of one to which nothing was acknowledged."""
    counts = expected_counts(truth)
    with database.reading() as session:
        names = set(session.scalars(select(SketchRow.name)))
    yield from (f"sketch {name} has acknowledged events and is missing" for name in sorted(counts.keys() - names))
    for name in sorted(names):
        with database.reading() as session:
            stored = states.load(session, sketches.get(session, name), for_update=False).counters
        expected = counts.get(name, Counter())
        wrong = [key for key in sorted(expected.keys() | stored.keys()) if expected[key] != stored.get(key, 0)]
        few = ", ".join(f"{key} {stored.get(key, 0)} instead of {expected[key]}" for key in wrong[:_FEW])
        if wrong:
            yield f"sketch {name}: {len(wrong)} keys are not as acknowledged: {few}"


def _payments(database: Database, truth: Truth) -> Iterator[str]:
    """Each acknowledged release is an entry of each ledger that paid, nothing else is, and the budget covers it."""
    acknowledged = _acknowledged_payments(truth)
    left: dict[str, _Units] = {}
    for ledger, entries in _ledgers(database).items():
        payments = [_Payment(row.snapshot_id, row.epsilon, row.delta) for row in entries if row.snapshot_id]
        known = acknowledged.pop(ledger, set())
        if len(payments) != len(known) or set(payments) != known:
            yield f"ledger {ledger}: {len(payments)} payments for {len(known)} acknowledged releases"
        (total,) = (row for row in entries if row.kind == "open")
        left[ledger] = _Units(
            total.epsilon - sum(paid.epsilon for paid in payments), total.delta - sum(paid.delta for paid in payments)
        )
        if min(left[ledger]) < 0:
            yield f"ledger {ledger}: more is spent than there was"
    yield from (f"ledger {ledger} paid for releases and is missing" for ledger in acknowledged)
    yield from _refusals(truth, left)


def _acknowledged_payments(truth: Truth) -> dict[str, set[_Payment]]:
    """By ledger."""
    payments: dict[str, set[_Payment]] = defaultdict(set)
    for released in truth.releases.values():
        for ledger, epsilon, delta in released.charged:
            cost = Cost.charged(epsilon=epsilon, delta=delta)
            payments[ledger].add(_Payment(released.id, cost.epsilon_units, cost.delta_units))
    return payments


def _ledgers(database: Database) -> dict[str, list[EntryRow]]:
    """The entries of each."""
    with database.reading() as session:
        names = session.execute(select(LedgerRow.id, LedgerRow.name).order_by(LedgerRow.name)).all()
        entries: dict[int, list[EntryRow]] = defaultdict(list)
        for row in session.scalars(select(EntryRow)):
            entries[row.ledger_id].append(row)
    return {name: entries[ledger_id] for ledger_id, name in names}


def _refusals(truth: Truth, left: dict[str, _Units]) -> Iterator[str]:
    """Budget only shrinks: what was refused once does not fit at the end either, or it was refused wrongly."""
    for refused in truth.refusals:
        cost = Cost.charged(epsilon=refused.epsilon, delta=refused.delta)
        rest = [left[ledger] for ledger in refused.ledgers]
        if all(cost.epsilon_units <= units.epsilon and cost.delta_units <= units.delta for units in rest):
            yield f"ledgers {', '.join(sorted(refused.ledgers))}: ε = {refused.epsilon} was refused and would fit"


def _snapshots(database: Database, truth: Truth) -> Iterator[str]:
    with database.reading() as session:
        stored = set(session.scalars(select(SnapshotRow.id)))
    acknowledged = {released.id for released in truth.releases.values()}
    if len(acknowledged) != len(truth.releases):
        yield f"{len(truth.releases)} releases were answered with {len(acknowledged)} snapshots"
    if stored != acknowledged:
        yield f"{len(stored - acknowledged)} snapshots nobody was given, {len(acknowledged - stored)} given and missing"


def faults_of_ledgers(database_url: str) -> list[str]:
    """As an operator would look for them."""
    command = [sys.executable, "-m", "app.cli", "ledger", "verify"]
    environment = {**os.environ, "DISCREET_DATABASE_URL": database_url}
    verified = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    return [f"discreet ledger verify: {verified.stderr.strip()}"] if verified.returncode else []
