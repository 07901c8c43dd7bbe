"""What a ledger's releases add up to now, in words and numbers."""

import math
from dataclasses import dataclass

from app.core.budget import Budget
from app.core.composition import Release, epsilon_of
from app.core.mechanisms import gshm
from app.store import ledger
from app.store.tables import EntryRow
from app.usecases.context import Context


@dataclass(frozen=True, slots=True)
class Report:
    """The guarantee that holds, and a tighter figure that is only a report."""

    ledger: str
    releases: int
    guarantee: Budget
    numerical_epsilon: float | None  # at the total δ; None where nothing was released
    total: Budget


def report_ledger(context: Context, name: str) -> Report:
    with context.database.reading() as session:
        row = ledger.get(session, name)
        paid = [_release(entry) for entry in ledger.entries(session, row.id, after=0) if entry.kind == "release"]
        guarantee, total = ledger.spent(row), row.total
    numerical = epsilon_of(paid, float(total.delta)) if paid else math.inf
    return Report(name, len(paid), guarantee, numerical if math.isfinite(numerical) else None, total)


def _release(entry: EntryRow) -> Release:
    """Gaussian noise by its ρ, everything else by its ε. The δ of Gaussian noise is all counted as threshold."""
    epsilon, delta = entry.epsilon / 10**9, entry.delta / 10**18
    if entry.mechanism != gshm.NAME or entry.parameters is None:
        return Release(epsilon, delta)
    contributions = int(entry.parameters["max_contributions"])
    sigma = float(entry.parameters["sigma"])
    return Release(epsilon, delta, rho=int(entry.parameters["k"]) * contributions**2 / (2 * sigma**2))
