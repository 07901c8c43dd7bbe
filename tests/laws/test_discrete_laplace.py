"""The noise that is really drawn follows the law that the proofs assume, and its scale is never too small.

These draws come from the operating system and cannot be seeded. `law.FALSE_ALARM` is the probability that a correct
sampler fails one of these tests.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.core.noise.samplers import discrete_laplace, laplace_scale
from tests.laws.law import Array, Laplace, fits

DRAWS = 50_000

SCALES = pytest.mark.parametrize("scale", [0.5, 2.0, 10.000000000000002])


@SCALES
def test_draws_follow_the_discrete_laplace_law(scale: float) -> None:
    draws = discrete_laplace(scale, DRAWS)
    assert fits(draws, Laplace(scale))
    assert not fits(draws, Laplace(scale * 1.3))  # the test can fail
    assert not fits(draws, Laplace(scale / 1.3))


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_rounded_continuous_noise_would_be_noticed(scale: float) -> None:
    """The commonest wrong sampler has another law."""
    rounded = np.rint(np.random.default_rng(3).laplace(scale=scale, size=DRAWS)).astype(int).tolist()
    assert not fits(rounded, Laplace(scale))


def release_draws(scale: float, releases: int, k: int) -> Array:
    """One row for each release: the shared draw and k own ones, as `pmg.release` asks for them."""
    return np.array([discrete_laplace(scale, k + 1) for _ in range(releases)], dtype=np.float64)


def correlated(left: Array, right: Array) -> bool:
    """Whether the sum of products is further from zero than independent draws get it: 6.4 standard deviations.

    A normal variable gets there with probability 1.6e-10, and the sum of 3000 products, whose tails are a little
    heavier, with less than `FALSE_ALARM`.
    """
    deviation = math.sqrt(float(left @ left) * float(right @ right) / len(left))
    return abs(float(left @ right)) > 6.4 * deviation


def largeness(draws: Array) -> Array:
    """±: whether a draw is far from zero, centred. Draws may be uncorrelated and still be large together."""
    large: Array = (abs(draws) >= 2).astype(np.float64)
    return large - float(large.mean())


@pytest.mark.parametrize("own", [1, 2, 3])
def test_shared_and_own_draws_are_uncorrelated(own: int) -> None:
    draws = release_draws(2.0, releases=3000, k=3)
    shared, own_draws = draws[:, 0], draws[:, own]
    assert not correlated(shared, own_draws)
    assert not correlated(largeness(shared), largeness(own_draws))
    assert correlated(shared, shared + 2 * own_draws)  # the test can fail
    assert correlated(largeness(shared), largeness(shared * np.sign(own_draws)))


def test_one_release_tells_nothing_about_the_next() -> None:
    draws = release_draws(2.0, releases=3000, k=1)
    assert not correlated(draws[1:, 0], draws[:-1, 0])
    assert not correlated(draws[1:, 0], draws[:-1, 1])


def test_draws_are_never_repeated() -> None:
    """At scale 1e15 two of 2000 draws are equal with probability below 1e-9: no seed and no state is shared."""
    draws = [draw for _ in range(200) for draw in discrete_laplace(1e15, 10)]
    assert len(set(draws)) == len(draws)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 1000 * 10**9))
@example(1)
@example(10**8)
@example(3 * 10**8)
@example(10**9)
@example(1000 * 10**9)
def test_the_scale_is_never_below_one_over_epsilon_and_hardly_above(billionths: int) -> None:
    """So the noise is private at what is charged: exact fractions, no rounding in the comparison."""
    epsilon = Fraction(billionths, 10**9)
    product = Fraction(laplace_scale(epsilon)) * epsilon
    assert 1 <= product <= 1 + Fraction(1, 10**12)
