"""A total is as private as its share of the price says, exactly, and a scale that is a little smaller is not."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from app.core.errors import NoMechanism
from app.core.ledger.budget import Cost
from app.core.noise.samplers import SYSTEM_NOISE
from app.core.planner import offers
from app.core.totals import Total, calibrate, rho_of, shares
from tests.laws.law import Gaussian, Laplace, fits, most_failures
from tests.questions import question

IN_EPSILON = [Cost.charged(epsilon=epsilon, delta="0") for epsilon in ("0.02", "0.5", "3")]
IN_RHO = [Cost.charged_in_rho(rho=rho, delta="0") for rho in ("0.0001", "0.02", "0.5")]


@pytest.mark.parametrize("m", [1, 2, 7])
@pytest.mark.parametrize("cost", IN_EPSILON, ids=str)
def test_laplace_noise_changes_no_probability_by_more_than_epsilon(cost: Cost, m: int) -> None:
    total = calibrate(cost, m)
    reach = math.ceil(40 * total.scale)
    values = np.arange(-reach, reach + 1, dtype=np.float64)

    def loss(scale: float) -> float:
        law = Laplace(scale)
        return float(np.max(np.abs(np.log(law.probability(values)) - np.log(law.probability(values + m)))))

    epsilon = float(cost.epsilon)
    assert epsilon * (1 - 1e-6) < loss(total.scale) <= epsilon * (1 + 1e-9)
    assert loss(total.scale * 0.999) > epsilon  # the check can fail


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("cost", IN_RHO, ids=str)
@pytest.mark.parametrize("order", [1.25, 2.0, 5.0, 16.0])
def test_gaussian_noise_keeps_its_rho_at_every_order(cost: Cost, m: int, order: float) -> None:
    total = calibrate(cost, m)

    def divergence(sigma: float) -> float:
        """Of order α between the noise and the noise shifted by m, in the order of the greater."""
        reach = math.ceil(12 * sigma + order * m)
        values = np.arange(-reach, reach + 1, dtype=np.float64)
        p, q = Gaussian(sigma).probability(values), Gaussian(sigma).probability(values + m)
        some = (p > 0) & (q > 0)
        terms = order * np.log(p[some]) + (1 - order) * np.log(q[some])
        return math.log(math.fsum(np.exp(terms))) / (order - 1)

    allowed = order * float(cost.rho)
    assert divergence(total.scale) <= allowed * (1 + 1e-6)
    if (order * m).is_integer():
        assert divergence(total.scale) >= allowed * (1 - 1e-3)  # it is tight there
        assert divergence(total.scale * 0.99) > allowed


def test_what_is_published_gives_its_rho_again() -> None:
    for m in (1, 5):
        total = calibrate(IN_RHO[0], m)
        assert rho_of(total.parameters() | {"max_contributions": m}) == total.rho() <= IN_RHO[0].rho
    assert rho_of({}) == 0


@pytest.mark.parametrize("cost", [IN_EPSILON[1], IN_RHO[1]], ids=str)
def test_the_draws_follow_the_law_and_the_interval_holds_as_often_as_it_says(cost: Cost) -> None:
    total, runs, beta = calibrate(cost, 2), 4000, 0.1
    drawn = [total.release(1000, SYSTEM_NOISE) - 1000 for _ in range(runs)]
    law = Gaussian if cost.rho_units else Laplace
    assert fits(drawn, law(total.scale))
    assert not fits(drawn, law(total.scale * 1.3))
    assert _missed(total, drawn, beta) <= most_failures(runs, beta)
    assert _missed(total, [3 * draw for draw in drawn], beta) > most_failures(runs, beta)  # the test can fail


def _missed(total: Total, drawn: list[int], beta: float) -> int:
    intervals = [total.interval(1000 + draw, beta) for draw in drawn]
    return sum(not interval.low <= 1000 <= interval.high for interval in intervals)


def test_the_smallest_share_of_the_smallest_price_is_still_a_price() -> None:
    for cost in (Cost.charged(epsilon="1e-9", delta="0"), Cost.charged_in_rho(rho="1e-15", delta="0")):
        part, rest = shares(cost, Fraction(1, 1000))
        assert (part.epsilon_units, part.rho_units) == (cost.epsilon_units, cost.rho_units)
        assert (rest.epsilon_units, rest.rho_units) == (0, 0)
        asked = replace(question(delta="1e-6"), cost=replace(cost, delta_units=10**12), total_share=Fraction(1, 1000))
        with pytest.raises(NoMechanism, match="too small to be shared"):
            offers(asked)
