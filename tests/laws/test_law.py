"""The laws that other tests compare with, and the checks they use, are themselves right."""

import math

import numpy as np
import pytest

from tests.laws.law import FALSE_ALARM, Gaussian, Laplace, Law, Seeded, chi_square_tail, fits, most_failures

LAWS = pytest.mark.parametrize("law", [Laplace, Gaussian])
SCALES = pytest.mark.parametrize("scale", [0.3, 1.0, 2.5, 40.0])


@LAWS
@SCALES
def test_tails_are_sums_of_probabilities_and_all_of_them_is_one(law: type[Law], scale: float) -> None:
    noise = law(scale)
    j = np.arange(-math.ceil(60 * scale), math.ceil(60 * scale) + 1, dtype=np.float64)
    probabilities = noise.probability(j)
    assert math.fsum(probabilities) == pytest.approx(1, rel=1e-14)
    near = abs(j) <= 25 * scale  # further out the sum lacks what lies beyond its end
    assert noise.at_least(j)[near] == pytest.approx(np.cumsum(probabilities[::-1])[::-1][near], rel=1e-12)
    assert noise.less_than(j + 1)[near] == pytest.approx(np.cumsum(probabilities)[near], rel=1e-12)


@SCALES
def test_probabilities_have_the_ratios_that_define_the_law(scale: float) -> None:
    j = np.arange(-5.0, 5.0)
    laplace, gaussian = Laplace(scale), Gaussian(scale)
    assert laplace.probability(j + 1) / laplace.probability(j) == pytest.approx(np.exp((abs(j) - abs(j + 1)) / scale))
    assert gaussian.probability(j + 1) / gaussian.probability(j) == pytest.approx(np.exp(-(2 * j + 1) / 2 / scale**2))


def test_the_tail_of_chi_square_is_that_of_the_tables() -> None:
    assert chi_square_tail(18.307, degrees=10) == pytest.approx(0.05, rel=1e-3)
    assert chi_square_tail(59.703, degrees=30) == pytest.approx(0.001, rel=1e-3)
    assert chi_square_tail(3.841, degrees=1) == pytest.approx(0.05, rel=1e-3)
    assert chi_square_tail(16.919, degrees=9) == pytest.approx(0.05, rel=1e-3)
    assert chi_square_tail(0.0, degrees=9) == 1


def log_choices(trials: int, n: int) -> float:
    return math.lgamma(trials + 1) - math.lgamma(n + 1) - math.lgamma(trials - n + 1)


@pytest.mark.parametrize(("trials", "rate"), [(600, 0.1), (10_000, 0.1), (300, 0.05), (5, 0.5)])
def test_tolerated_failures_are_the_fewest_with_the_stated_false_alarm_rate(trials: int, rate: float) -> None:
    def more_than(failures: int) -> float:
        return math.fsum(
            math.exp(log_choices(trials, n) + n * math.log(rate) + (trials - n) * math.log1p(-rate))
            for n in range(failures + 1, trials + 1)
        )

    tolerated = most_failures(trials, rate)
    assert more_than(tolerated) <= FALSE_ALARM
    assert more_than(tolerated - 1) > FALSE_ALARM


@LAWS
@pytest.mark.parametrize("scale", [0.5, 3.0, 500.0])
def test_seeded_draws_follow_the_law(law: type[Law], scale: float) -> None:
    sample = Seeded(law, seed=1)
    draws = [draw for _ in range(5000) for draw in sample(scale, 10)]
    assert len(draws) == 50_000
    assert fits(draws, law(scale))
    assert not fits(draws, law(scale * 1.1))  # the test can fail
    assert not fits(draws, law(scale / 1.1))
