"""Numerical composition: never below the exact figure, close to it, and below what the accountants add up to."""

import math
from collections.abc import Sequence
from itertools import product

import mpmath
import pytest

from app.core.ledger.composition import Release, epsilon_of


def exact_delta(epsilon_each: float, number: int, epsilon: float) -> float:
    """Kairouz, Oh & Viswanath: δ(ε) of so many ε-private releases, exactly."""
    total = 0.0
    for ups in range(number + 1):
        loss = (2 * ups - number) * epsilon_each
        weight = math.comb(number, ups) * math.exp(ups * epsilon_each) / (1 + math.exp(epsilon_each)) ** number
        total += weight * max(0.0, -math.expm1(epsilon - loss))
    return total


def exact_epsilon(epsilon_each: float, number: int, delta: float) -> float:
    low, high = 0.0, epsilon_each * number
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if exact_delta(epsilon_each, number, middle) <= delta else (middle, high)
    return high


@pytest.mark.parametrize(
    ("epsilon", "number", "delta"), [(0.1, 100, 1e-5), (0.5, 20, 1e-6), (1.0, 3, 1e-3), (0.03, 1000, 1e-6)]
)
def test_equal_releases_compose_as_the_exact_formula_says(epsilon: float, number: int, delta: float) -> None:
    exact = exact_epsilon(epsilon, number, delta)
    found = epsilon_of([Release(epsilon, 0.0)] * number, delta)
    assert exact <= found <= exact * 1.002 + 1e-4
    assert found < number * epsilon


@pytest.mark.parametrize(("rho", "delta"), [(0.5, 1e-5), (0.02, 1e-6), (3.0, 1e-9)])
def test_gaussian_noise_composes_to_gaussian_noise(rho: float, delta: float) -> None:
    def gaussian_delta(epsilon: float) -> float:
        mu = math.sqrt(2 * rho)
        upper = 0.5 * math.erfc(-(mu / 2 - epsilon / mu) / math.sqrt(2))
        return upper - math.exp(epsilon) * 0.5 * math.erfc((mu / 2 + epsilon / mu) / math.sqrt(2))

    found = epsilon_of([Release(1.0, 0.0, rho=rho / 4)] * 4, delta)
    assert gaussian_delta(found) <= delta
    assert gaussian_delta(found * 0.99 - 1e-3) > delta


def needed(releases: Sequence[Release], epsilon: float) -> mpmath.mpf:
    """δ(ε) of the worst releases with these costs, in 50 digits: over every sign of every loss."""
    finite = mpmath.fprod(1 - mpmath.mpf(release.delta) for release in releases)
    total = 1 - finite
    for signs in product((-1, 1), repeat=len(releases)):
        losses = [sign * mpmath.mpf(release.epsilon) for sign, release in zip(signs, releases, strict=True)]
        weight = mpmath.fprod(1 / (1 + mpmath.exp(-loss)) for loss in losses)
        total += finite * weight * max(mpmath.mpf(0), 1 - mpmath.exp(epsilon - mpmath.fsum(losses)))
    return total


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1.0001e-5, 1e-9])
def test_a_figure_is_an_upper_value_for_different_releases(delta: float) -> None:
    """Rounded losses, roundings and all: what it claims holds to the last of 50 digits."""
    releases = [Release(0.1 * (1 + number % 3), delta / 12 * (number % 2)) for number in range(12)]
    with mpmath.workdps(50):
        found = epsilon_of(releases, delta)
        assert needed(releases, found) <= delta
        assert needed(releases, found * 0.99 - 1e-3) > delta  # nothing much is given away either


def binomial_needed(epsilon_each: float, number: int, epsilon: float) -> mpmath.mpf:
    """`exact_delta` in as many digits as mpmath is set to."""
    up = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon_each)))
    total = mpmath.mpf(0)
    for ups in range(number + 1):
        gain = 1 - mpmath.exp(epsilon - (2 * ups - number) * mpmath.mpf(epsilon_each))
        total += mpmath.binomial(number, ups) * up**ups * (1 - up) ** (number - ups) * max(mpmath.mpf(0), gain)
    return total


@pytest.mark.parametrize("delta", [1e-5, 1e-9, 1e-12, 1e-15, 1e-18])
@pytest.mark.parametrize(("epsilon", "number"), [(0.1, 100), (0.03, 999)])
def test_a_figure_is_an_upper_value_and_close_even_where_delta_is_below_what_a_transform_loses(
    epsilon: float, number: int, delta: float
) -> None:
    with mpmath.workdps(50):
        found = epsilon_of([Release(epsilon, 0.0)] * number, delta)
        assert 0.999 * delta < binomial_needed(epsilon, number, found) <= delta


@pytest.mark.parametrize(("rho", "delta"), [(0.5, 1e-15), (0.02, 1e-18)])
def test_gaussian_noise_is_bounded_as_closely_at_a_small_delta(rho: float, delta: float) -> None:
    def needed(epsilon: float) -> mpmath.mpf:
        mu, epsilon = mpmath.sqrt(2 * mpmath.mpf(rho)), mpmath.mpf(epsilon)
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)

    with mpmath.workdps(50):
        found = epsilon_of([Release(1.0, 0.0, rho=rho / 7)] * 7, delta)
        assert needed(found) <= delta
        assert needed(found * 0.99 - 1e-3) > delta


def test_mixed_releases_lie_between_the_largest_and_the_sum() -> None:
    found = epsilon_of([Release(0.3, 1e-8), Release(0.7, 0.0), Release(0.25, 1e-9)], 1e-4)
    assert 0.7 < found <= 1.25 + 1e-3


def test_thresholds_count_in_full() -> None:
    assert epsilon_of([Release(0.1, 1e-3)] * 5, 1e-3) == math.inf
    assert epsilon_of([Release(0.1, 1e-3)] * 5, 5.1e-3) < 0.5 + 1e-3


def test_nothing_costs_nothing() -> None:
    assert epsilon_of([], 0.0) == 0.0
