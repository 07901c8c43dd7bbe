"""The Gaussian noise that is really drawn follows the law that gshm.md assumes.

These draws come from the operating system and cannot be seeded. `law.FALSE_ALARM` is the probability that a correct
sampler fails one of these tests.
"""

import math

import numpy as np
import pytest

from app.core.noise.samplers import discrete_gaussian
from tests.laws.law import Gaussian, Laplace, fits

DRAWS = 30_000


@pytest.mark.parametrize("scale", [0.5, 2.0, 12345.678])
def test_draws_follow_the_discrete_gaussian_law(scale: float) -> None:
    draws = discrete_gaussian(scale, DRAWS)
    assert fits(draws, Gaussian(scale))
    assert not fits(draws, Gaussian(scale * 1.3))  # the test can fail
    assert not fits(draws, Gaussian(scale / 1.3))


@pytest.mark.parametrize("scale", [0.3, 0.5])
def test_rounded_continuous_noise_would_be_noticed(scale: float) -> None:
    """On so coarse a lattice; on a fine one the laws are close, which is what gshm.md counts on."""
    rounded = np.rint(np.random.default_rng(3).normal(scale=scale, size=DRAWS)).astype(int).tolist()
    assert not fits(rounded, Gaussian(scale))


def test_laplace_noise_of_the_same_variance_would_be_noticed() -> None:
    draws = discrete_gaussian(10.0, DRAWS)
    assert not fits(draws, Laplace(10.0 / math.sqrt(2)))


@pytest.mark.parametrize("scale", [0.7, 2.0, 30.0])
def test_the_lattice_costs_no_more_than_the_proof_note_says(scale: float) -> None:
    """The total variation distance between rounded and discrete noise is at most 1/(8s²)."""
    values = np.arange(-math.ceil(12 * scale), math.ceil(12 * scale) + 1)
    edges = [math.erf((value + 0.5) / scale / math.sqrt(2)) / 2 for value in (values[0] - 1, *values)]
    rounded = np.diff(np.array(edges))
    distance = float(np.maximum(Gaussian(scale).probability(values.astype(np.float64)) - rounded, 0).sum())
    assert distance <= 1 / (8 * scale**2)
    assert distance > 1 / (80 * scale**2)  # and of that order


def test_draws_are_never_repeated() -> None:
    """At scale 2^50, the largest in use, two of 1000 draws are equal with probability below 1e-9."""
    draws = [draw for _ in range(100) for draw in discrete_gaussian(2.0**50, 10)]
    assert len(set(draws)) == len(draws)
    assert max(map(abs, draws)) < 2**53  # far from where 64 bits end
