"""The seeded noise of the benchmarks has the laws of the service's own."""

import pytest

from benchmarks.seeded import seeded_noise
from tests.laws.law import Gaussian, Laplace, fits

_DRAWS = 200_000


@pytest.mark.parametrize("scale", [0.7, 1.0, 20.0, 3000.0])
def test_seeded_laplace_noise_has_its_law_and_no_other(scale: float) -> None:
    draws = seeded_noise(1).laplace(scale, _DRAWS)
    assert fits(draws, Laplace(scale))
    assert not fits(draws, Laplace(scale * 1.05))


@pytest.mark.parametrize("scale", [50.0, 700.5, 50_000.0])
def test_seeded_gaussian_noise_has_its_law_and_no_other(scale: float) -> None:
    draws = seeded_noise(1).gaussian(scale, _DRAWS)
    assert len(draws) == _DRAWS
    assert fits(draws, Gaussian(scale))
    assert not fits(draws, Gaussian(scale * 1.05))


def test_seeded_coins_are_uniform() -> None:
    noise = seeded_noise(1)
    drawn = [noise.below(7) for _ in range(70_000)]
    assert set(drawn) == set(range(7))
    assert all(abs(drawn.count(value) - 10_000) < 600 for value in range(7))  # six deviations
