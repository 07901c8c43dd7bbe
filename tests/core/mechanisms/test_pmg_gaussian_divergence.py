"""Gaussian PMG is δ-approximately ρ-zCDP on small neighbours: the laws of the proof, built and compared exactly.

For streams of which one is the other plus up to three events (k ≤ 3), the laws P₁ and Q₁ of pmg_gaussian.md are built
from the probabilities of the discrete Gaussian law. Their Rényi divergences are compared with αρ, and the masses that
they leave out with δ, in both directions.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from app.core.ledger.budget import Cost
from app.core.mechanisms import pmg_gaussian
from app.core.noise.own_keys import raised_and_keys
from tests.core.mechanisms.chains import random_chains
from tests.laws.law import Array

pytestmark = pytest.mark.long

ORDERS = (1.001, 1.1, 1.5, 2.0, 3.7, 10.0, 64.0)
ROUNDING = 1e-9


class Shape(NamedTuple):
    """All that the laws of a chain depend on."""

    events: int  # m
    lowering: int  # V, by which η is shifted
    own: tuple[int, ...]  # counts on B
    others: tuple[int, ...]  # counts on B′
    moves: tuple[int, ...]  # by which own draws are shifted


@cache
def shapes() -> list[Shape]:
    chains = random_chains(6000, most_k=3, most_events=3, seed=2)
    return sorted({Shape(c.events, c.lowering, tuple(c.own), tuple(c.others), tuple(c.moves)) for c in chains})


class Noise:
    """Discrete Gaussian noise on a lattice. Shifts and heights are in its steps, probabilities are logarithms."""

    def __init__(self, sigma: float, lattice: int, reach: int) -> None:
        self.lattice, self.steps = lattice, sigma * lattice
        self.x = np.arange(-reach, reach + 1, dtype=np.float64)
        weights = -(np.arange(-2 * reach, 2 * reach + 1) ** 2) / (2 * self.steps**2)
        self.log_sum = float(np.logaddexp.reduce(weights))
        self.log_below = np.concatenate([[-np.inf], np.logaddexp.accumulate(weights)]) - self.log_sum

    def log_p(self, shift: int = 0) -> Array:
        """log Pr[ζ = x − shift] for all x."""
        found: Array = -((self.x - shift) ** 2) / (2 * self.steps**2) - self.log_sum
        return found

    def log_cut(self, height: int) -> Array:
        """log Pr[ζ < height − x] for all x."""
        places = np.clip(height - self.x.astype(np.int64) + (len(self.log_below) - 2) // 2, 0, len(self.log_below) - 1)
        return self.log_below[places]


def log_total(logs: Array) -> float:
    return float(np.logaddexp.reduce(logs))


def renyi(alpha: float, log_p: Array, log_q: Array) -> float:
    """D_α of two laws that need not be scaled to 1."""
    p, q = log_p - log_total(log_p), log_q - log_total(log_q)
    kept = p > -np.inf
    return log_total(alpha * p[kept] + (1 - alpha) * q[kept]) / (alpha - 1)


class Compared(NamedTuple):
    left_out: float  # the larger of the masses that P₁ and Q₁ leave out
    divergences: dict[float, float]  # the larger D_α of both directions


def compared(shape: Shape, noise: Noise, threshold: int, orders: tuple[float, ...] = ORDERS) -> Compared:
    """Of the laws P₁ and Q₁ that pmg_gaussian.md builds, with η′ = η − V."""
    step, v = noise.lattice, shape.lowering
    kappa = np.minimum(
        sum((noise.log_cut((threshold - count - v) * step) for count in shape.own), np.zeros_like(noise.x)),
        sum((noise.log_cut((threshold - count) * step) for count in shape.others), np.zeros_like(noise.x)),
    )
    p, q = noise.log_p(-v * step) + kappa, noise.log_p() + kappa
    found = {}
    for alpha in orders:
        own = sum(renyi(alpha, noise.log_p(move * step), noise.log_p()) for move in shape.moves)
        found[alpha] = own + max(renyi(alpha, p, q), renyi(alpha, q, p))
    masses = [math.fsum(np.exp(law - kappa) * -np.expm1(kappa)) for law in (p, q)]
    return Compared(max(masses), found)


def own_key_tail(noise: Noise, m: int, k: int, threshold: int) -> float:
    """The largest over U of Pr[η + max(m + ζ₁, m − U + ζ₂, …) ≥ t], by the law of the lattice itself."""
    found = []
    for u, w in raised_and_keys(m, k):
        cut = noise.log_cut((threshold - m) * noise.lattice)
        cut = cut + (w - 1) * noise.log_cut((threshold - m + u) * noise.lattice)
        found.append(math.fsum(np.exp(noise.log_p()) * -np.expm1(cut)))
    return max(found)


def rho(m: int, sigma: float, lattice: int) -> float:
    return m**2 / 2 * (1 + 1 / lattice) / sigma**2


def test_all_states_and_several_events_are_looked_at() -> None:
    single = {shape[1:] for shape in shapes() if shape.events == 1}
    assert (1, (), (), ()) in single  # S1
    assert (1, (0,), (1,), ()) in single  # S2
    assert (0, (), (), (1,)) in single  # S3
    assert (0, (1,), (0,), ()) in single  # S4
    assert (0, (0,), (0,), (1,)) in single  # S5
    assert (0, (0, 1), (0, 0), ()) in single  # S6
    assert len(single) == 6
    assert len(shapes()) > 50


@pytest.mark.parametrize("sigma", [0.5, 2.0])
@pytest.mark.parametrize("lattice", [1, 4])
@pytest.mark.parametrize("threshold", [2, 6])
def test_small_neighbours_are_within_rho_and_delta(sigma: float, lattice: int, threshold: int) -> None:
    """On lattices so coarse that the term 1/L is seen, and at thresholds so low that κ is."""
    noise = Noise(sigma, lattice, math.ceil(3 * 65 * lattice + 40 * sigma * lattice))
    for shape in shapes():
        found = compared(shape, noise, threshold)
        assert found.left_out <= own_key_tail(noise, shape.events, 3, threshold) * (1 + ROUNDING), shape
        for alpha, divergence in found.divergences.items():
            assert divergence <= alpha * rho(shape.events, sigma, lattice) * (1 + ROUNDING), (shape, alpha)


def test_the_bound_is_nearly_met_and_a_tenth_less_noise_breaks_it() -> None:
    def worst(sigma: float) -> float:
        noise = Noise(sigma, 16, 2000)
        found = [(shape, compared(shape, noise, 6, (2.0,)).divergences[2.0]) for shape in shapes()]
        return max(divergence / (2 * rho(shape.events, 2.0, 16)) for shape, divergence in found)

    assert 0.94 < worst(2.0) <= 1
    assert worst(1.8) > 1.1


def test_without_the_term_for_the_lattice_the_bound_would_be_wrong() -> None:
    """Very little noise on whole numbers: in state S2 the divergence of order 1.1 is half as much again as α/2σ²."""
    found = compared(Shape(1, 1, (0,), (1,), ()), Noise(0.15, 1, 200), 1, (1.1,))
    assert 1.5 < found.divergences[1.1] / (1.1 / 2 / 0.15**2) <= 2


@pytest.mark.parametrize(("rho_asked", "delta"), [("0.125", "1e-6"), ("0.5", "1e-3")])
@pytest.mark.parametrize("m", [1, 2, 3])
def test_the_mechanism_keeps_what_was_charged(rho_asked: str, delta: str, m: int) -> None:
    """At its own σ, lattice and threshold; for one event, one count lower is not enough."""
    cost = Cost.charged_in_rho(rho=rho_asked, delta=delta)
    calibrated = pmg_gaussian.calibrate(3, cost, m)
    noise = Noise(calibrated.sigma, calibrated.lattice, math.ceil((12 * calibrated.sigma + 4 * m) * calibrated.lattice))
    assert (
        own_key_tail(noise, m, 3, calibrated.threshold)
        <= cost.delta
        < own_key_tail(noise, m, 3, calibrated.threshold - 1)
    )
    for shape in [shape for shape in shapes() if shape.events == m][:: m**2]:
        found = compared(shape, noise, calibrated.threshold, (1.1, 2.0))
        assert found.left_out <= cost.delta
        for alpha, divergence in found.divergences.items():
            assert divergence <= alpha * float(cost.rho) * (1 + ROUNDING), (shape, alpha)
    if m == 1:  # outputs with an own key, which the other side never has (S6)
        assert compared(Shape(1, 0, (0, 1), (0, 0), ()), noise, calibrated.threshold - 1, ()).left_out > cost.delta
