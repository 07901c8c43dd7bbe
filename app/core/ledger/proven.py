"""What a ledger proves about everything that it pays for, from its entries alone. The proofs: accountants.md

For `basic` that is what is spent, whenever it is read and however the total was changed. For `zcdp` it is the total
that was fixed before the first answer. A total that was raised after answers began a new phase, which adds what it
allowed from then on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

from app.core.ledger.accountants import Accountant, Price
from app.core.ledger.budget import Budget
from app.core.ledger.chain import SETS_TOTAL

_NOTHING = Price(0, 0)


class Line(Protocol):
    """What must be known of an entry of a ledger."""

    @property
    def sequence(self) -> int:
        """Its number in the ledger, from 1 on."""
        ...

    @property
    def kind(self) -> str:
        """What the entry records: a release, a total that was set, or what costs nothing."""
        ...

    @property
    def epsilon_units(self) -> int:
        """The ε of the release, or of the total that was set."""
        ...

    @property
    def delta_units(self) -> int:
        """The δ of the release, or of the total that was set."""
        ...

    @property
    def price(self) -> int:
        """What a release cost in the ledger's own currency, without its δ; 0 for every other entry."""
        ...


@dataclass(frozen=True, slots=True)
class Change:
    """A total that was set after the first release."""

    entry: int  # its number in the ledger
    total: Budget
    adds: Budget | None  # to the guarantee; None where it adds nothing


@dataclass(frozen=True, slots=True)
class Proven:
    """The (ε, δ) that holds for everything that a ledger has paid for, and where the ledger stands."""

    guarantee: Budget
    total: Budget
    paid: Price
    changes: Sequence[Change]


@dataclass(frozen=True, slots=True)
class _Phase:
    """From one total that was granted to the next that allows more."""

    entry: int
    total: Budget
    limit: Price
    paid: Price  # when it began

    def guarantee(self, accountant: Accountant) -> Budget:
        """The total where nothing was paid before; else what its allowance, limit − paid, comes to as (ε, δ)."""
        if self.paid == _NOTHING:
            return self.total
        return accountant.converted(self.total, self.limit.minus(self.paid))


def proven(accountant: Accountant, entries: Iterable[Line]) -> Proven:
    """What these entries of one ledger, from the first on, prove."""
    total, paid = Budget(0, 0), _NOTHING
    phases: list[_Phase] = []
    later: list[tuple[int, Budget]] = []
    for entry in entries:
        if entry.kind == "release":
            paid = paid.plus(Price(entry.price, entry.delta_units))
        if entry.kind not in SETS_TOTAL:
            continue
        total = Budget(entry.epsilon_units, entry.delta_units)
        if paid != _NOTHING:
            later.append((entry.sequence, total))
        phases = _phases_after(phases, _Phase(entry.sequence, total, accountant.limit(total), paid))
    adds = {} if accountant.spent_is_proven else {phase.entry: phase.guarantee(accountant) for phase in phases}
    start = accountant.converted(total, paid) if accountant.spent_is_proven else Budget(0, 0)
    changes = [Change(number, to, adds.get(number)) for number, to in later]
    return Proven(reduce(Budget.plus, adds.values(), start), total, paid, changes)


def _phases_after(phases: list[_Phase], new: _Phase) -> list[_Phase]:
    """The phases once a total was set: the last one goes on if it granted at least as much, else another begins.

    A phase that ends before anything was paid in it is left out: nobody saw an answer that it allowed.
    """
    used = [phase for phase in phases if phase.paid != new.paid]
    return used if used and used[-1].limit.covers(new.limit) else [*used, new]
