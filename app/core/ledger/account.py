"""Where a ledger stands: what is spent and left, what a release costs, and what would still fit.

All arithmetic about a ledger is here and in `accountants.py`; the store only keeps the numbers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import isqrt

from app.core.errors import BudgetExhausted, InvalidRequest, NoMechanism
from app.core.ledger.accountants import Accountant, Price
from app.core.ledger.budget import EPSILON_DIGITS, RHO_DIGITS, Budget, Cost, decimal_string
from app.core.planner import Offer, Question, choose

_CLOSE_GUESSES = 8  # trials that follow ρ ~ ε²; whatever is not found then is halved, which always ends


@dataclass(frozen=True, slots=True)
class Account:
    """Where one ledger stood at one moment."""

    ledger: str
    accountant: Accountant
    total: Budget
    paid: Price
    left: Price

    def price(self, offer: Offer) -> Price:
        """What the release would cost here, in the ledger's own currency."""
        return self.accountant.price(offer.cost, offer.rho)

    def covers(self, offer: Offer) -> bool:
        """Whether the release still fits."""
        return self.left.covers(self.price(offer))

    def how_many(self, offer: Offer) -> int:
        """How many such releases still fit, one after the other."""
        return self.how_many_at(self.price(offer))

    def how_many_at(self, price: Price) -> int:
        """How many releases of this price still fit, one after the other."""
        return self.left.how_many(price)

    def allows(self, total: Budget) -> bool:
        """Whether this total would cover what is spent."""
        return self.accountant.limit(total).covers(self.paid)

    def spent(self) -> Budget:
        """What the ledger has paid, as (ε, δ): proven for `basic`, bookkeeping for `zcdp` (`proven.py`)."""
        return self.accountant.converted(self.total, self.paid)

    def remaining(self) -> Budget:
        """The total minus what is spent."""
        return self.total.minus(self.spent())

    def rho(self) -> str | None:
        """What is spent in ρ, where the accountant counts it so."""
        return self.accountant.rho(self.paid)

    def after(self, offer: Offer) -> "Account":
        """Where the ledger stands once it has paid for the release."""
        price = self.price(offer)
        return replace(self, paid=self.paid.plus(price), left=self.left.minus(price))

    def payment(self, offer: Offer) -> "Payment":
        """What the ledger pays for the release, in words for the snapshot."""
        rho = self.accountant.rho(self.price(offer))
        charged = offer.cost.as_strings() | ({"rho": rho} if rho else {})
        return Payment(self.ledger, charged, self.after(offer).remaining().as_strings())


@dataclass(frozen=True, slots=True)
class Payment:
    """What one ledger pays for a release, and what it has left then."""

    ledger: str
    charged: dict[str, str]
    remaining: dict[str, str]


def payments(accounts: Iterable[Account], offer: Offer) -> list[Payment]:
    """What each of these ledgers pays for the release, in the order of their names."""
    return [account.payment(offer) for account in sorted(accounts, key=lambda account: account.ledger)]


def require_currency(accounts: Iterable[Account], cost: Cost) -> None:
    """Refuse a cost that is stated in ρ where some ledger does not count ρ."""
    others = sorted(account.ledger for account in accounts if not account.accountant.counts_rho)
    if cost.rho_units and others:
        raise InvalidRequest(
            f"A release can be asked for in rho only where every ledger that pays is zcdp; {', '.join(others[:3])} "
            "is not. Ask for epsilon."
        )


def exhausted(accounts: Sequence[Account], offer: Offer) -> BudgetExhausted:
    """The refusal of a release that some of the ledgers do not cover: which, and what would fit.

    It may search over calibrations for a second or more, so no lock may be held meanwhile.
    """
    by_name = sorted(accounts, key=lambda account: account.ledger)
    return BudgetExhausted(
        requested=offer.question.cost.as_strings(),
        remaining=[{"ledger": account.ledger, **account.remaining().as_strings()} for account in by_name],
        largest=_largest(accounts, offer),
        blocking=[account.ledger for account in by_name if not account.covers(offer)],
    )


def _largest(accounts: Sequence[Account], offer: Offer) -> dict[str, str]:
    """The largest price that fits at this δ, in the currency in which the release was asked for."""
    if not offer.question.cost.rho_units:
        return {"epsilon": decimal_string(_largest_epsilon(accounts, offer), EPSILON_DIGITS)}
    fits = min(account.left.main if offer.cost.delta_units <= account.left.delta else 0 for account in accounts)
    return {"rho": decimal_string(fits, RHO_DIGITS)}


def _largest_epsilon(accounts: Sequence[Account], offer: Offer) -> int:
    """The largest ε, in units, that every ledger covers at this δ and with this mechanism.

    A release that enters by its ε is solved for. Gaussian noise enters by its ρ where a ledger counts ρ; then the
    answer fits, and is within a thousandth of the largest that does.
    """
    largest = [account.accountant.largest_epsilon(account.left, offer.cost) for account in accounts]
    fits = min(largest)
    amounts = [account.accountant.largest_rho(account.left) for account in accounts]
    rho_left = min((rho for rho in amounts if rho is not None), default=None)
    if fits == 0 or rho_left is None or not offer.is_gaussian:
        return fits
    most = min((each for each, rho in zip(largest, amounts, strict=True) if rho is None), default=None)
    asked = replace(offer.question, cost=Cost(fits, offer.cost.delta_units), beta=0.5)
    return _largest_gaussian(asked, offer.mechanism, rho_left, most)


@lru_cache(maxsize=1024)
def _largest_gaussian(question: Question, mechanism: str, rho_left: Fraction, most: int | None) -> int:
    """The largest ε, in units and to a thousandth, at most `most`, whose release is `rho_left`-zCDP.

    It starts at the ε of the question. ρ mostly grows nearly with ε², so each trial tells closely where to try next.
    What was searched is kept, and does not depend on the ε that was asked for: all refusals of a ledger at one δ are
    explained by one search.
    """
    if most is not None and _at_most(_rho(question, mechanism, most), rho_left):
        return most
    fits, too_large = 0, most
    guess, trials = question.cost.epsilon_units, 0
    while too_large is None or too_large - fits > max(1, fits // 1000):
        rho = _rho(question, mechanism, guess)
        if _at_most(rho, rho_left):
            fits = guess
        else:
            too_large = guess
        trials += 1
        aim = 2 * guess if rho is None else isqrt(int(guess**2 * rho_left / rho))
        guess = _between(fits, too_large, aim if trials <= _CLOSE_GUESSES else None)
    return fits


def _between(fits: int, too_large: int | None, aim: int | None) -> int:
    """A hair beyond where we aim, on the side that is less known, so that the two ends close in; else in the middle."""
    if fits == 0:
        return 1
    if too_large is None:
        return max(fits + 1, 2 * fits if aim is None else aim + aim // 3000)
    if aim is not None and aim - fits < too_large - aim:
        aim += fits // 3000
    elif aim is not None:
        aim -= fits // 3000
    return aim if aim is not None and fits < aim < too_large else (fits + too_large) // 2


def _at_most(rho: Fraction | None, rho_left: Fraction) -> bool:
    return rho is not None and rho <= rho_left


def _rho(question: Question, mechanism: str, epsilon_units: int) -> Fraction | None:
    """What the release counts as in ρ at this ε (`Zcdp.price`); None where it is not offered, which is at a large ε."""
    cost = Cost(epsilon_units, question.cost.delta_units)
    try:
        return min(choose(replace(question, cost=cost), mechanism).rho, cost.epsilon**2 / 2)
    except NoMechanism:
        return None
