"""What decides a threshold is rounded outward: every product and quotient, wherever it is computed."""

import random
from collections.abc import Iterator
from contextlib import suppress
from decimal import Context, Decimal, Inexact, localcontext
from fractions import Fraction
from importlib import import_module

import pytest

from app.core.errors import NoMechanism
from app.core.ledger import conversion
from app.core.ledger.accountants import ACCOUNTANTS
from app.core.ledger.budget import Budget, Cost
from app.core.mechanisms import MECHANISMS, gshm
from app.core.noise import tails
from app.core.noise.everywhere import binomial_of_tail
from app.core.noise.tails import draw_tail, float_below, product_above, some_draw_tail, two_key_tail
from app.core.planner import Family, Question, offers

RUNS = 300


def drawn(seed: int) -> Iterator[tuple[float, int]]:
    """A scale m/ε and a threshold, all over the range that a request may ask for."""
    chance = random.Random(seed)
    for _ in range(RUNS):
        epsilon = Fraction(round(10 ** chance.uniform(-3, 2.9) * 10**9), 10**9)
        contributions = chance.randint(2, 100)
        scale = float(contributions / epsilon)
        yield scale, 1 + round(scale * chance.uniform(0, 40))


def test_a_product_is_never_below_the_exact_product_of_its_factors() -> None:
    """And hardly above. In Python's default context about half of them are below."""
    below_by_default = 0
    for scale, threshold in drawn(seed=1):
        factors = draw_tail(scale, threshold), two_key_tail(scale, threshold)
        exact = Fraction(factors[0]) * Fraction(factors[1])
        assert 0 <= Fraction(product_above(*factors)) / exact - 1 < Fraction(1, 10**118)
        below_by_default += Fraction(factors[0] * factors[1]) < exact
    assert below_by_default > RUNS // 4  # the test can fail


def test_a_product_of_whole_numbers_and_a_probability_is_never_below_either() -> None:
    chance = random.Random(2)
    for scale, threshold in drawn(seed=2):
        keys, tail = chance.randint(1, 2**63), draw_tail(scale, threshold)
        assert 0 <= Fraction(product_above(3, keys, tail)) / (3 * keys * Fraction(tail)) - 1 < Fraction(1, 10**118)


def test_a_float_below_is_the_next_at_or_below() -> None:
    chance = random.Random(3)
    rounded_up = 0
    for _ in range(RUNS):
        exact = Fraction(chance.randint(1, 10**18), 10**18) / Fraction(chance.randint(1, 10**9), 10**3)
        found = float_below(exact)
        assert exact * (1 - Fraction(1, 2**52)) < Fraction(found) <= exact
        rounded_up += Fraction(float(exact)) > exact
    assert rounded_up > RUNS // 4  # the test can fail
    assert float_below(Fraction(1, 2)) == 0.5


def test_gaussian_noise_is_calibrated_to_no_more_than_its_share_of_the_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """ε, and δ but for the lattice, as floats: never above the exact amounts."""
    asked: list[tuple[float, float]] = []

    def noted(epsilon: float, delta: float) -> float:
        asked.append((epsilon, delta))
        raise NoMechanism("this is all that the test wants to know")

    monkeypatch.setattr(gshm, "largest_distance", noted)
    chance = random.Random(4)
    for _ in range(RUNS):
        cost, m = Cost(chance.randint(1, 10**10), chance.randint(1, 10**15)), chance.randint(1, 50)
        with suppress(NoMechanism):
            gshm.calibrate.__wrapped__(8, cost, m)
        epsilon, delta = asked.pop()
        assert Fraction(epsilon) <= cost.epsilon
        assert Fraction(delta) <= cost.delta * Fraction(9991, 10_000)


def test_the_tail_of_many_draws_is_not_even_understated_where_all_digits_are_gone() -> None:
    """1 − (1 − 1e-200)^n has no digits left in 120 of them, and is still not below the truth."""
    for j in (200, 280, 300, 500):
        one = draw_tail(1.0, j)
        exact = 1 - (1 - Fraction(one)) ** 7
        assert Fraction(some_draw_tail(1.0, 7, j)) >= exact / Fraction(tails.OUTWARD)


@pytest.fixture
def exact_by_default() -> Iterator[None]:
    """Whatever is rounded outside of a context of our own raises `Inexact`."""
    for module in (conversion, *(import_module(mechanism.calibrate.__module__) for mechanism in MECHANISMS)):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()
    assert gshm.calibrate.cache_info().currsize == 0
    with localcontext(Context(prec=28, traps=[Inexact])):
        yield


@pytest.mark.parametrize("family", ["stream", "compact", "summed"])
@pytest.mark.parametrize("universe_size", [None, 10**6])
@pytest.mark.parametrize("delta", ["0", "1e-6"])
@pytest.mark.parametrize(("epsilon", "m"), [("0.7", 1), ("0.7", 7), ("3.3", 1), ("3.3", 7)])
@pytest.mark.usefixtures("exact_by_default")
def test_no_mechanism_rounds_in_the_default_context(
    family: Family, universe_size: int | None, delta: str, epsilon: str, m: int
) -> None:
    if delta == "0" and universe_size is None:
        return  # nothing is offered
    question = Question(
        family=family,
        k=13,
        max_contributions=m,
        sources=1,
        universe_size=universe_size,
        cost=Cost.charged(epsilon=epsilon, delta=delta),
        beta=0.05,
    )
    assert offers(question)


@pytest.mark.usefixtures("exact_by_default")
def test_neither_accountants_nor_draws_round_in_the_default_context() -> None:
    total, cost = Budget.granted(epsilon="1.7", delta="1e-5"), Cost.charged(epsilon="0.3", delta="1e-7")
    for accountant in ACCOUNTANTS.values():
        limit = accountant.limit(total)
        accountant.converted(total, limit)
        price = accountant.price(cost, Fraction(1, 30))
        assert limit.covers(price)
        assert accountant.rho(price) in (None, "0.033333333333334")
    assert binomial_of_tail(1000, 3.0, 20, random.Random(5).randrange) >= 0


def test_the_default_context_would_be_noticed(exact_by_default: None) -> None:
    with pytest.raises(Inexact):
        Decimal(1) / 3
