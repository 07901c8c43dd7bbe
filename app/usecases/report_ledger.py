"""What a ledger proves, what it has spent, and a tighter figure that proves nothing, in numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction

from app.core.budget import EPSILON_DIGITS, Budget
from app.core.chain import Entry
from app.core.composition import Release, epsilon_of
from app.core.mechanisms import gshm
from app.core.proven import Change, proven
from app.core.tails import CONTEXT
from app.store import ledger
from app.usecases.context import Context

_DIGITS = Decimal("0.0001")


@dataclass(frozen=True, slots=True)
class Report:
    """The guarantee that holds, and figures beside it that are none."""

    ledger: str
    accountant: str
    releases: int
    total: Budget
    guarantee: Budget
    spent_is_proven: bool
    changes: Sequence[Change]  # of the total, after the first release
    spent: Budget
    rho: str | None  # spent, where the accountant counts it
    numerical_epsilon: str | None  # at the total δ, rounded up; None where nothing was released


def report_ledger(context: Context, name: str) -> Report:
    """Every figure comes from the same entries, read by one statement."""
    with context.database.reading() as session:
        row = ledger.get(session, name)
        accountant_name, accountant = row.accountant, ledger.accountant(row)
        entries = [ledger.as_entry(entry, name) for entry in ledger.entries(session, row.id, after=0)]
    released = [entry for entry in entries if entry.kind == "release"]
    holds = proven(accountant, entries)
    return Report(
        ledger=name,
        accountant=accountant_name,
        releases=len(released),
        total=holds.total,
        guarantee=holds.guarantee,
        spent_is_proven=accountant.spent_is_proven,
        changes=holds.changes,
        spent=accountant.converted(holds.total, holds.paid),
        rho=accountant.rho(holds.paid),
        numerical_epsilon=_numerical(released, holds.total) if released else None,
    )


def _numerical(released: Sequence[Entry], total: Budget) -> str:
    """An ε of all releases together at the total δ, rounded up: never more than the sum of theirs."""
    composed = epsilon_of(map(_release, released), float(total.delta))
    with localcontext(CONTEXT):
        added_up = Decimal(sum(entry.epsilon_units for entry in released)).scaleb(-EPSILON_DIGITS)
        return str(min(Decimal(composed), added_up).quantize(_DIGITS, ROUND_CEILING))


def _release(entry: Entry) -> Release:
    """Gaussian noise by its ρ, everything else by its ε. The δ of Gaussian noise is all counted as threshold."""
    epsilon, delta = entry.epsilon_units / 10**9, entry.delta_units / 10**18
    if entry.mechanism != gshm.NAME or entry.parameters is None:
        return Release(epsilon, delta)
    k, m = (int(str(entry.parameters[name])) for name in ("k", "max_contributions"))
    rho = Fraction(k * m**2) / (2 * Fraction(str(entry.parameters["sigma"])) ** 2)
    return Release(epsilon, delta, rho=float(rho))
