"""How a ledger adds up what releases cost. Exact whole numbers; every rounding goes against the requester.

`basic` sums ε and δ (Rogers, Roth, Ullman & Vadhan 2016). `zcdp` sums ρ and δ and stops before either passes a bound
fixed when the budget is set (Whitehouse, Ramdas, Rogers & Wu 2023: a filter for approximate zCDP, valid when each cost
is chosen after seeing earlier releases). With δ′, half of the budget's δ, set aside, a bound of (ρ, δ) is
(ρ + 2√(ρ·ln(1/δ′)), δ + δ′)-private. A release that is (ε, δ)-private enters as (ε²/2, δ); Gaussian noise enters as
what it is, ρ = Δ²/2σ².

What is spent is a guarantee for `basic` alone. For `zcdp` the total is; what is spent, converted in the same way, only
tells what is left. Why, and what holds after the total was changed: accountants.md, `proven.py`.
"""

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from math import isqrt
from typing import Protocol

from app.core.errors import InvalidNumber
from app.core.ledger.budget import EPSILON_DIGITS, RHO_DIGITS, Budget, Cost, decimal_string
from app.core.noise.tails import CONTEXT

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
        """What a release costs that is `cost`-private and, but for its δ, ρ-zCDP."""

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
        """The cost itself, whatever its ρ."""
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
        """ρ is the largest with ρ + 2√(ρ·L) ≤ ε, L = ln(1/δ′): (√(L + ε) − √L)², rounded down."""
        set_aside = _set_aside(total)
        if set_aside == 0:
            raise InvalidNumber("A zcdp ledger sets half of its delta aside and needs one above 0, for example 1e-6.")
        with localcontext(CONTEXT):
            epsilon, log = Decimal(total.epsilon_units) / _EPSILON, _log_inverse(set_aside)
            rho = ((log + epsilon).sqrt() - log.sqrt()) ** 2 * (1 - Decimal("1e-30"))
            return Price(int((rho * _RHO).to_integral_value(ROUND_FLOOR)), total.delta_units - set_aside)

    def price(self, cost: Cost, rho: Fraction) -> Price:
        """ρ, rounded up."""
        return Price(-(-rho.numerator * _RHO // rho.denominator), cost.delta_units)

    def converted(self, total: Budget, price: Price) -> Budget:
        """ε = ρ + 2√(ρ·L), rounded up, and δ′ besides the δ that was spent."""
        if price.main == 0:
            return Budget(0, price.delta)
        set_aside = _set_aside(total)
        with localcontext(CONTEXT):
            rho = Decimal(price.main) / _RHO
            epsilon = (rho + 2 * (rho * _log_inverse(set_aside)).sqrt()) * (1 + Decimal("1e-30"))
            return Budget(int((epsilon * _EPSILON).to_integral_value(ROUND_CEILING)), price.delta + set_aside)

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


def _log_inverse(delta_units: int) -> Decimal:
    """ln(1/δ), a hair too large, so that ρ comes out too small and ε too large."""
    return -(Decimal(delta_units) / _DELTA).ln() * (1 + Decimal("1e-40"))


ACCOUNTANTS: dict[str, Accountant] = {"basic": Basic(), "zcdp": Zcdp()}
