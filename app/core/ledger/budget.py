"""What a release costs and what a ledger allows, in exact integers.

ε is counted in billionths and δ in units of 1e-18, so sums, comparisons and database columns are whole
numbers and ten releases of 0.1 are exactly 1. Rounding never favours the requester: a cost is rounded up, a
budget down. How costs add up is in `accountants.py`.
"""

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from math import isqrt
from typing import Self

from app.core.errors import InvalidNumber

EPSILON_DIGITS = 9
DELTA_DIGITS = 18
RHO_DIGITS = 15
MAX_EPSILON = Decimal(1000)
MAX_RHO = Decimal(1000)

_EXACT = Context(prec=60)


def _units(value: Decimal, digits: int, rounding: str) -> int:
    return int(value.quantize(Decimal(1).scaleb(-digits), rounding, _EXACT).scaleb(digits, _EXACT))


def decimal_text(value: Decimal) -> str:
    """The shortest exact decimal: "0.5", "1e-6"."""
    shortest = value.normalize(_EXACT)
    return f"{shortest:e}" if 0 < abs(shortest) < Decimal("0.0001") else f"{shortest:f}"


def decimal_string(units: int, digits: int) -> str:
    """500000000 billionths are "0.5"."""
    return decimal_text(Decimal(units).scaleb(-digits, _EXACT))


@dataclass(frozen=True, slots=True)
class _Amount:
    epsilon_units: int
    delta_units: int

    @property
    def epsilon(self) -> Fraction:
        """ε, exactly."""
        return Fraction(self.epsilon_units, 10**EPSILON_DIGITS)

    @property
    def delta(self) -> Fraction:
        """δ, exactly."""
        return Fraction(self.delta_units, 10**DELTA_DIGITS)

    def as_strings(self) -> dict[str, str]:
        """Both as the shortest exact decimals, as they are answered and stored."""
        return {
            "epsilon": decimal_string(self.epsilon_units, EPSILON_DIGITS),
            "delta": decimal_string(self.delta_units, DELTA_DIGITS),
        }

    @classmethod
    def _rounded(cls, epsilon: Decimal, delta: Decimal, rounding: str) -> Self:
        if not 0 < epsilon <= MAX_EPSILON:
            raise InvalidNumber(f"epsilon must be above 0 and at most {MAX_EPSILON}.")
        if not 0 <= delta < 1:
            raise InvalidNumber("delta must be at least 0 and below 1.")
        amount = cls(_units(epsilon, EPSILON_DIGITS, rounding), _units(delta, DELTA_DIGITS, rounding))
        if amount.epsilon_units == 0:
            raise InvalidNumber("epsilon must be at least 1e-9.")
        if amount.delta_units >= 10**DELTA_DIGITS:
            raise InvalidNumber("delta is rounded up to 18 digits, which gives 1; it must stay below.")
        return amount


@dataclass(frozen=True, slots=True)
class Cost(_Amount):
    """What one release is charged. The noise is calibrated to this, not to what was typed.

    It is stated in ε, or, where all ledgers that pay count ρ, in ρ: then it has no ε, and only those can pay it.
    """

    rho_units: int = 0  # 0 where it is stated in ε

    @classmethod
    def charged(cls, *, epsilon: Decimal | str, delta: Decimal | str) -> Self:
        """The cost of a release of this (ε, δ), rounded up; InvalidNumber where it is out of range."""
        return cls._rounded(Decimal(epsilon), Decimal(delta), ROUND_CEILING)

    @classmethod
    def charged_in_rho(cls, *, rho: Decimal | str, delta: Decimal | str) -> Self:
        """The cost of a release that is δ-approximately ρ-zCDP, rounded up; InvalidNumber where it is out of range."""
        if not 0 < Decimal(rho) <= MAX_RHO:
            raise InvalidNumber(f"rho must be above 0 and at most {MAX_RHO}.")
        in_epsilon = cls._rounded(Decimal(1), Decimal(delta), ROUND_CEILING)  # for the checks of δ
        return cls(0, in_epsilon.delta_units, _units(Decimal(rho), RHO_DIGITS, ROUND_CEILING))

    @property
    def rho(self) -> Fraction:
        """ρ, exactly; 0 where the cost is stated in ε."""
        return Fraction(self.rho_units, 10**RHO_DIGITS)

    def in_epsilon(self) -> "Cost":
        """The cost of an (ε, δ)-private release that is at most as expensive: for ρ, ε = √(2ρ), rounded down."""
        if not self.rho_units:
            return self
        return Cost(isqrt(2 * self.rho_units * 10 ** (2 * EPSILON_DIGITS) // 10**RHO_DIGITS), self.delta_units)

    def as_strings(self) -> dict[str, str]:
        """The amounts as the shortest exact decimals, as they are answered and stored: ε or ρ, and δ."""
        if not self.rho_units:
            return _Amount.as_strings(self)
        delta = decimal_string(self.delta_units, DELTA_DIGITS)
        return {"rho": decimal_string(self.rho_units, RHO_DIGITS), "delta": delta}


@dataclass(frozen=True, slots=True)
class Budget(_Amount):
    """What a ledger has in total, has spent, or has left."""

    @classmethod
    def granted(cls, *, epsilon: Decimal | str, delta: Decimal | str) -> Self:
        """A budget of this (ε, δ), rounded down; InvalidNumber where it is out of range."""
        return cls._rounded(Decimal(epsilon), Decimal(delta), ROUND_FLOOR)

    def minus(self, spent: _Amount) -> "Budget":
        """What is left once this much is spent."""
        return Budget(self.epsilon_units - spent.epsilon_units, self.delta_units - spent.delta_units)

    def plus(self, other: "Budget") -> "Budget":
        """Both together."""
        return Budget(self.epsilon_units + other.epsilon_units, self.delta_units + other.delta_units)
