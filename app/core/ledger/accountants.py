"""How a ledger adds up what releases cost. Exact whole numbers; every rounding goes against the requester.

`basic` sums ε and δ (Rogers, Roth, Ullman & Vadhan 2016). `zcdp` sums ρ and δ and stops before either passes a bound
fixed when the budget is set (Whitehouse, Ramdas, Rogers & Wu 2023: a filter for approximate zCDP, valid when each cost
is chosen after seeing earlier releases). With δ′, half of the budget's δ, set aside, a bound of (ρ, δ) is
(ε, δ + δ′)-private with the ε of `conversion.py`. A release that is (ε, δ)-private enters as (ε²/2, δ); Gaussian noise
as what it is, ρ = Δ²/2σ², unless ε²/2 is less.

What is spent is a guarantee for `basic` alone. For `zcdp` the total is; what is spent, converted in the same way, only
tells what is left. Why, and what holds after the total was changed: accountants.md, `proven.py`.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, isqrt
from typing import Protocol

from app.core.errors import InvalidNumber
from app.core.ledger.budget import EPSILON_DIGITS, RHO_DIGITS, Budget, Cost, decimal_string
from app.core.ledger.conversion import largest_rho, smallest_epsilon

_RHO = 10**RHO_DIGITS
_EPSILON = 10**EPSILON_DIGITS
_DELTA = 10**18


@dataclass(frozen=True, slots=True)
class Price:
    """An amount in a ledger's own currency: whole units of ε or of ρ, and whole units of δ."""

    main: int
    delta: int

    def plus(self, other: "Price") -> "Price":
        """Both together."""
        return Price(self.main + other.main, self.delta + other.delta)

    def minus(self, other: "Price") -> "Price":
        """This amount less the other."""
        return Price(self.main - other.main, self.delta - other.delta)

    def covers(self, other: "Price") -> bool:
        """Whether the other fits into this amount, in both of its parts."""
        return other.main <= self.main and other.delta <= self.delta

    def how_many(self, other: "Price") -> int:
        """How many of the other fit, one after the other."""
        fits = [mine // theirs for mine, theirs in ((self.main, other.main), (self.delta, other.delta)) if theirs]
        return min(fits)


class Accountant(Protocol):
    """Adds up prices, and says what they mean as (ε, δ)."""

    spent_is_proven: bool  # whether what is spent is a guarantee at whatever moment it is read
    counts_rho: bool  # whether a release may be paid by its ρ

    def limit(self, total: Budget) -> Price:
        """How much may be spent in all, so that the total is never passed."""

    def price(self, cost: Cost, rho: Fraction) -> Price:
        """What a release costs that is `cost`-private and, but for its δ, ρ-zCDP. Where ε is 0, ρ alone is known."""

    def converted(self, total: Budget, price: Price) -> Budget:
        """The (ε, δ) of releases that together cost at most this, an amount fixed before the first of them."""

    def largest_epsilon(self, left: Price, cost: Cost) -> int:
        """The largest ε, in units, of a release that enters by its ε and fits beside the δ of this cost; 0 if none."""

    def largest_rho(self, left: Price) -> Fraction | None:
        """The largest ρ that fits, where it is counted; None where it is not."""

    def rho(self, price: Price) -> str | None:
        """The amount in ρ, where it is counted so."""


class Basic:
    """Sums ε and δ."""

    spent_is_proven = True
    counts_rho = False

    def limit(self, total: Budget) -> Price:
        """The total itself."""
        return Price(total.epsilon_units, total.delta_units)

    def price(self, cost: Cost, rho: Fraction) -> Price:
        """The cost itself, whatever its ρ; RuntimeError where it states no ε."""
        if cost.epsilon_units == 0:
            raise RuntimeError("a release that is private in rho alone cannot be charged by its epsilon")
        return Price(cost.epsilon_units, cost.delta_units)

    def converted(self, total: Budget, price: Price) -> Budget:
        """The price itself: it is counted in ε and δ."""
        return Budget(price.main, price.delta)

    def largest_epsilon(self, left: Price, cost: Cost) -> int:
        """All of the ε that is left; 0 where the δ of the cost does not fit."""
        return left.main if cost.delta_units <= left.delta else 0

    def largest_rho(self, left: Price) -> Fraction | None:
        """None: ρ is not counted here."""
        return None

    def rho(self, price: Price) -> str | None:
        """None: nothing is counted in ρ here."""
        return None


class Zcdp:
    """Sums ρ and δ, up to a bound that is fixed when the budget is set."""

    spent_is_proven = False
    counts_rho = True

    def limit(self, total: Budget) -> Price:
        """The largest ρ that is (ε, δ′)-private, rounded down, and the δ that is not set aside."""
        set_aside = _set_aside(total)
        if set_aside == 0:
            raise InvalidNumber("A zcdp ledger sets half of its delta aside and needs one above 0, for example 1e-6.")
        rho = largest_rho(total.epsilon, Fraction(set_aside, _DELTA))
        return Price(floor(rho * _RHO), total.delta_units - set_aside)

    def price(self, cost: Cost, rho: Fraction) -> Price:
        """ρ, or ε²/2 where an ε is stated and that is less, rounded up: both hold at the same δ (accountants.md)."""
        least = min(rho, cost.epsilon**2 / 2) if cost.epsilon_units else rho
        return Price(ceil(least * _RHO), cost.delta_units)

    def converted(self, total: Budget, price: Price) -> Budget:
        """The smallest ε at which ρ is (ε, δ′)-private, rounded up, and δ′ besides the δ that was spent."""
        if price.main == 0:
            return Budget(0, price.delta)
        set_aside = _set_aside(total)
        epsilon = smallest_epsilon(Fraction(price.main, _RHO), Fraction(set_aside, _DELTA))
        return Budget(ceil(epsilon * _EPSILON), price.delta + set_aside)

    def largest_epsilon(self, left: Price, cost: Cost) -> int:
        """ε²/2 ≤ ρ."""
        return isqrt(2 * left.main * _EPSILON**2 // _RHO) if cost.delta_units <= left.delta else 0

    def largest_rho(self, left: Price) -> Fraction | None:
        """All of the ρ that is left."""
        return Fraction(left.main, _RHO)

    def rho(self, price: Price) -> str | None:
        """The ρ of the price, as a decimal."""
        return decimal_string(price.main, RHO_DIGITS)


def _set_aside(total: Budget) -> int:
    """δ′, in units: half of δ."""
    return total.delta_units // 2


ACCOUNTANTS: dict[str, Accountant] = {"basic": Basic(), "zcdp": Zcdp()}
