"""Costs and budgets in exact integers: sums are exact, and rounding never favours the requester."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.errors import InvalidNumber
from app.core.ledger.budget import Budget, Cost, decimal_string, decimal_text

Make = Callable[..., Cost | Budget]

SIXTY_DIGITS = "0.123456789123456789123456789123456789123456789123456789123456"


def charged(epsilon: str, delta: str = "0") -> Cost:
    return Cost.charged(epsilon=epsilon, delta=delta)


def granted(epsilon: str, delta: str = "0") -> Budget:
    return Budget.granted(epsilon=epsilon, delta=delta)


epsilons = st.decimals(min_value=Decimal("1e-9"), max_value=1000, allow_nan=False, allow_infinity=False)
deltas = st.decimals(min_value=0, max_value=Decimal("0.999"), allow_nan=False, allow_infinity=False)


@settings(deadline=None)
@given(epsilons, deltas)
def test_a_cost_is_rounded_up_and_a_budget_down_by_less_than_a_unit(epsilon: Decimal, delta: Decimal) -> None:
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    budget = Budget.granted(epsilon=epsilon, delta=delta)
    epsilon_unit, delta_unit = Fraction(1, 10**9), Fraction(1, 10**18)
    assert cost.epsilon - epsilon_unit < Fraction(epsilon) <= cost.epsilon
    assert cost.delta - delta_unit < Fraction(delta) <= cost.delta
    assert budget.epsilon <= Fraction(epsilon) < budget.epsilon + epsilon_unit
    assert budget.delta <= Fraction(delta) < budget.delta + delta_unit


def test_what_is_between_two_units_is_charged_more_and_granted_less() -> None:
    assert charged("0.1000000001", "1.5e-18") == Cost(100_000_001, 2)
    assert granted("0.1000000009", "1.5e-18") == Budget(100_000_000, 1)


@pytest.mark.parametrize("text", ["0.5", "1", "1000", "0.1", "0.000000001", "0.123456789"])
def test_epsilon_is_read_and_written_as_the_same_decimal(text: str) -> None:
    assert charged(text).epsilon == Fraction(text)
    assert Fraction(charged(text).as_strings()["epsilon"]) == Fraction(text)


@pytest.mark.parametrize(
    ("epsilon", "delta", "strings"),
    [
        ("0.50", "1e-6", {"epsilon": "0.5", "delta": "1e-6"}),
        ("1E+2", "0", {"epsilon": "100", "delta": "0"}),
        ("10.0", "0.00", {"epsilon": "10", "delta": "0"}),
        ("1e-9", "0.000001", {"epsilon": "1e-9", "delta": "1e-6"}),
        ("0.0001", "1.25e-16", {"epsilon": "0.0001", "delta": "1.25e-16"}),
        ("1000", "0.5", {"epsilon": "1000", "delta": "0.5"}),
    ],
)
def test_amounts_are_written_in_the_shortest_way(epsilon: str, delta: str, strings: dict[str, str]) -> None:
    assert charged(epsilon, delta).as_strings() == granted(epsilon, delta).as_strings() == strings


@settings(deadline=None)
@given(st.integers(-(10**40), 10**40), st.sampled_from([9, 18]))
def test_written_amounts_are_exact(units: int, digits: int) -> None:
    assert Fraction(decimal_string(units, digits)) == Fraction(units, 10**digits)


@pytest.mark.parametrize(("value", "text"), [("0E+5", "0"), ("-0.50", "-0.5"), ("1E+3", "1000"), ("0.00010", "0.0001")])
def test_decimals_are_written_without_what_says_nothing(value: str, text: str) -> None:
    assert decimal_text(Decimal(value)) == text


@pytest.mark.parametrize("epsilon", ["0", "-0", "-1", "1000.0000000001", "1001", "1e999999", "Infinity", "-Infinity"])
@pytest.mark.parametrize("amount", [Cost.charged, Budget.granted])
def test_an_epsilon_out_of_range_cannot_be_built(amount: Make, epsilon: str) -> None:
    with pytest.raises(InvalidNumber):
        amount(epsilon=epsilon, delta="1e-6")


@pytest.mark.parametrize("delta", ["-1e-999999", "-1", "1", "1.0", "2", "1e999999", "Infinity", "-Infinity"])
@pytest.mark.parametrize("amount", [Cost.charged, Budget.granted])
def test_a_delta_out_of_range_cannot_be_built(amount: Make, delta: str) -> None:
    with pytest.raises(InvalidNumber):
        amount(epsilon="1", delta=delta)


def test_a_budget_too_small_for_any_release_is_refused() -> None:
    with pytest.raises(InvalidNumber):
        granted("0.0000000009", "1e-6")


def test_absurdly_small_and_absurdly_long_numbers_are_rounded_like_others() -> None:
    assert charged("1e-999999", "1e-999999") == Cost(1, 1)
    assert granted("1", "1e-999999") == Budget(10**9, 0)
    assert charged(SIXTY_DIGITS, SIXTY_DIGITS) == Cost(123_456_790, 123_456_789_123_456_790)
    assert granted(SIXTY_DIGITS, SIXTY_DIGITS) == Budget(123_456_789, 123_456_789_123_456_789)
    assert charged("999." + "9" * 57) == Cost(1000 * 10**9, 0)


def test_a_delta_that_rounds_up_to_one_is_refused() -> None:
    with pytest.raises(InvalidNumber):
        Cost.charged(epsilon="1", delta="0.9999999999999999999")
