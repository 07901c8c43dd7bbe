"""Accountants: what fits is what can be paid, exactly, and never more than the budget promises."""

from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.errors import InvalidNumber
from app.core.ledger.accountants import ACCOUNTANTS, Price
from app.core.ledger.budget import Budget, Cost
from app.core.mechanisms import gshm
from tests.core.ledger import concentrated

BASIC, ZCDP = ACCOUNTANTS["basic"], ACCOUNTANTS["zcdp"]


def charged(epsilon: str, delta: str = "0") -> Cost:
    return Cost.charged(epsilon=epsilon, delta=delta)


def granted(epsilon: str, delta: str = "0") -> Budget:
    return Budget.granted(epsilon=epsilon, delta=delta)


def from_epsilon(cost: Cost) -> Fraction:
    return cost.epsilon**2 / 2


def test_ten_times_a_tenth_is_exactly_one() -> None:
    """And an eleventh does not fit, however little it costs."""
    left = BASIC.limit(granted("1", "1e-5"))
    tenth = BASIC.price(charged("0.1", "1e-6"), Fraction(0))
    for _ in range(10):
        assert left.covers(tenth)
        left = left.minus(tenth)
    assert left == Price(0, 0)
    assert not left.covers(BASIC.price(charged("1e-9"), Fraction(0)))


@pytest.mark.parametrize(
    ("budget", "cost", "releases"),
    [
        (granted("1", "1e-5"), charged("0.1", "1e-6"), 10),
        (granted("1", "1e-5"), charged("0.1", "2e-6"), 5),  # δ runs out first
        (granted("1", "1e-5"), charged("0.3", "1e-9"), 3),
        (granted("1", "1e-5"), charged("0.25", "0"), 4),  # a pure release needs no δ
        (granted("1", "0"), charged("0.25", "0"), 4),
        (granted("1", "0"), charged("0.25", "1e-18"), 0),
        (granted("1", "1e-5"), charged("1.000000001", "0"), 0),
    ],
)
def test_how_many_releases_fit_is_how_many_can_be_paid(budget: Budget, cost: Cost, releases: int) -> None:
    price, left = BASIC.price(cost, Fraction(0)), BASIC.limit(budget)
    assert left.how_many(price) == releases
    for _ in range(releases):
        assert left.covers(price)
        left = left.minus(price)
    assert not left.covers(price)


@pytest.mark.parametrize(("units", "covered"), [((1, 1), True), ((2, 1), False), ((1, 2), False), ((2, 2), False)])
def test_what_is_left_covers_a_price_only_in_both_amounts(units: tuple[int, int], covered: bool) -> None:
    assert Price(1, 1).covers(Price(*units)) is covered


def test_the_epsilon_that_fits_is_none_where_the_delta_does_not() -> None:
    left = BASIC.limit(granted("0.75", "1e-6"))
    assert BASIC.largest_epsilon(left, charged("2", "1e-6")) == 750_000_000
    assert BASIC.largest_epsilon(left, charged("0.5", "1.1e-6")) == 0


def test_143_small_releases_fit_where_basic_stops_at_sixty() -> None:
    budget, cost = granted("6", "1e-5"), charged("0.1", "1e-9")
    assert BASIC.limit(budget).how_many(BASIC.price(cost, from_epsilon(cost))) == 60
    price = ZCDP.price(cost, from_epsilon(cost))
    assert ZCDP.limit(budget).how_many(price) == 143
    guarantee = ZCDP.converted(budget, Price(143 * price.main, 143 * price.delta))
    assert 5.99 < guarantee.epsilon < 6
    assert guarantee.delta == Fraction("5e-6") + 143 * Fraction("1e-9")


@pytest.mark.parametrize(("epsilon", "delta"), [("6", "1e-5"), ("0.01", "1e-9"), ("1", "0.2"), ("1000", "1e-17")])
@pytest.mark.parametrize("share", [1, 7, 1000])
def test_the_figures_are_those_of_an_oracle_rounded_to_the_safe_side(epsilon: str, delta: str, share: int) -> None:
    budget = granted(epsilon, delta)
    limit = ZCDP.limit(budget)
    with mpmath.workdps(60):
        set_aside = mpmath.mpf(delta) / 2
        rho = concentrated.rho_of(mpmath.mpf(epsilon), set_aside)
        assert 0 <= rho * 10**15 - limit.main < 2 + limit.main // 10**15  # rounded down
        spent = Price(limit.main // share, 0)
        guarantee = concentrated.epsilon_of(mpmath.mpf(spent.main) / 10**15, set_aside)
        assert 0 <= ZCDP.converted(budget, spent).epsilon_units - guarantee * 10**9 < 2  # rounded up


@settings(max_examples=300, deadline=None)
@given(st.decimals("0.000001", "1000", places=6), st.integers(2, 10**17))
def test_what_may_be_spent_in_rho_never_passes_the_budget(epsilon: Decimal, delta_units: int) -> None:
    """And one unit of ρ in a million more would: nothing is given away either."""
    budget = Budget(int(epsilon * 10**9), delta_units)
    limit = ZCDP.limit(budget)
    guarantee = ZCDP.converted(budget, limit)
    assert guarantee.epsilon_units <= budget.epsilon_units
    assert guarantee.delta_units <= budget.delta_units
    assert ZCDP.limit(Budget(max(guarantee.epsilon_units, 1), delta_units)).covers(limit)
    more = Price(limit.main + limit.main // 10**6 + 2, limit.delta)
    assert ZCDP.converted(budget, more).epsilon_units >= budget.epsilon_units


@settings(deadline=None)
@given(st.integers(1, 10**12), st.integers(1, 10**15))
def test_the_largest_epsilon_fits_and_one_unit_more_does_not(left: int, epsilon_units: int) -> None:
    room = Price(left, 0)
    largest = ZCDP.largest_epsilon(room, Cost(1, 0))
    fits, more = Cost(max(largest, 1), 0), Cost(largest + 1, 0)
    assert largest == 0 or room.covers(ZCDP.price(fits, from_epsilon(fits)))
    assert not room.covers(ZCDP.price(more, from_epsilon(more)))


def test_a_price_in_rho_is_rounded_up() -> None:
    assert ZCDP.price(charged("1", "1e-6"), Fraction(1, 3)) == Price(333_333_333_333_334, 10**12)


@pytest.mark.parametrize(("rho", "price"), [("0.4", 400), ("0.5", 500), ("0.6", 500)])
def test_a_release_enters_at_the_smaller_of_its_rho_and_what_its_epsilon_implies(rho: str, price: int) -> None:
    assert ZCDP.price(charged("1", "1e-6"), Fraction(rho)) == Price(price * 10**12, 10**12)


def test_a_cost_that_states_no_epsilon_counts_by_its_rho_alone_and_not_where_epsilon_is_counted() -> None:
    assert ZCDP.price(Cost(0, 7), Fraction("0.6")) == Price(600 * 10**12, 7)
    with pytest.raises(RuntimeError, match="rho alone"):
        BASIC.price(Cost(0, 7), Fraction("0.6"))


def test_a_zcdp_ledger_without_delta_is_refused() -> None:
    with pytest.raises(InvalidNumber):
        ZCDP.limit(granted("1", "0"))


def test_gaussian_noise_is_charged_as_what_it_is() -> None:
    """Through (ε, δ) it would cost ε²/2."""
    cost = charged("1", "1e-6")
    calibrated = gshm.calibrate(1024, cost)
    moved = 1 / calibrated.shared**2 + 1025 / calibrated.own**2
    assert float(calibrated.rho(cost)) == pytest.approx(moved / 8 * (1 + 2 / calibrated.lattice), rel=1e-12)
    assert calibrated.rho(cost) < from_epsilon(cost) / 10
