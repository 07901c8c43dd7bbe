"""Bounds on Gaussian noise with a shared draw: never below the exact values, and close to them."""

import math
from decimal import Context, Decimal, localcontext

import numpy as np
import pytest

from app.core.noise.gaussians import gaussian_delta, largest_distance, largest_noise, some_reach
from tests.laws import normal
from tests.laws.law import Gaussian
from tests.laws.shared import own_tail


def exact_delta(epsilon: float, distance: float) -> Decimal:
    """Φ(Δ/2 − ε/Δ) − e^ε·Φ(−Δ/2 − ε/Δ) in 60 digits."""
    with localcontext(Context(prec=80)):
        e, d = Decimal(epsilon), Decimal(distance)
        return normal.phi(d / 2 - e / d) - e.exp() * normal.phi(-d / 2 - e / d)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-4, 0.1, 1.0, 20.0])
@pytest.mark.parametrize("z", [-2.0, 0.0, 1.0, 4.0, 8.7])
def test_the_divergence_of_gaussian_laws_is_never_understated(epsilon: float, z: float) -> None:
    """At z = ε/Δ − Δ/2 deviations; where δ is 1e-18, z is 8.7."""
    distance = math.sqrt(z * z + 2 * epsilon) - z
    exact = exact_delta(epsilon, distance)
    if exact > Decimal("1e-22"):
        assert exact <= Decimal(gaussian_delta(epsilon, distance)) <= exact * Decimal("1.0001")


@pytest.mark.parametrize("epsilon", [1e-9, 0.01, 1.0, 30.0])
@pytest.mark.parametrize("delta", [1e-18, 1e-6, 0.1, 0.999])
def test_the_largest_distance_is_just_within_delta(epsilon: float, delta: float) -> None:
    distance = largest_distance(epsilon, delta)
    assert exact_delta(epsilon, distance) <= Decimal(delta)
    assert exact_delta(epsilon, distance * 1.0001) > Decimal(delta) * Decimal("0.999")


@pytest.mark.parametrize("keys", [1, 2, 64, 65_536])
@pytest.mark.parametrize("ratio", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("far", [0.0, 3.0, 6.0, 9.0])
def test_a_tail_of_normal_draws_is_never_understated(keys: int, ratio: float, far: float) -> None:
    """On a lattice that is so fine that it adds nothing."""
    shared, own = 10.0, 10.0 * ratio
    bound = far * math.hypot(shared, own)
    exact = own_tail(shared, own, keys, bound)
    assert exact * (1 - 1e-9) <= some_reach(shared, own, 1 << 40, keys, bound) <= 1.05 * exact + 1e-27


def discrete_tail(shared: float, own: float, lattice: int, keys: int, bound: float) -> float:
    """Of the discrete draws themselves, from their definition."""
    reach = math.ceil(12 * shared * lattice)
    etas = np.arange(-reach, reach + 1, dtype=np.float64)
    below = Gaussian(own * lattice).less_than(math.ceil(bound * lattice) - etas)
    return float(Gaussian(shared * lattice).probability(etas) @ (1 - below**keys))


@pytest.mark.parametrize(("shared", "own"), [(1.0, 1.0), (0.7, 2.0), (3.0, 1.5)])
@pytest.mark.parametrize("lattice", [2, 8, 64])
@pytest.mark.parametrize("keys", [1, 3, 20])
@pytest.mark.parametrize("bound", [0.0, 3.0, 7.0])
def test_a_tail_of_discrete_draws_is_never_understated(
    shared: float, own: float, lattice: int, keys: int, bound: float
) -> None:
    exact = discrete_tail(shared, own, lattice, keys, bound)
    assert exact * (1 - 1e-9) <= some_reach(shared, own, lattice, keys, bound)


@pytest.mark.parametrize("keys", [1, 3, 20])
def test_without_the_step_between_rounded_draws_a_tail_would_be_understated(keys: int) -> None:
    shared, own, lattice, bound = 1.0, 1.0, 2, 3.0
    assert discrete_tail(shared, own, lattice, keys, bound) > own_tail(shared, own, keys, bound)


@pytest.mark.parametrize("keys", [1, 50])
@pytest.mark.parametrize("beta", [0.5, 0.01, 1e-9])
def test_the_largest_noise_is_the_smallest_bound_that_holds(keys: int, beta: float) -> None:
    b = largest_noise(3.0, 5.0, 64, keys, beta)
    assert discrete_tail(3.0, 5.0, 64, keys, b + 1 / 64) <= beta
    assert b == 0 or discrete_tail(3.0, 5.0, 64, keys, b - 1) > beta
