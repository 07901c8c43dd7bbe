"""The version before, as far as comparisons need it: what it drew, where it cut, and what it promised.

It released counts alone. Bars were as wide as the sketch can be wrong at all, n/(k+1) for a promised n, and noise on
either side. Merged sketches and people's sets had Gaussian noise that no two keys shared (`thm:sparse-gaussian` with
l = k). Several events of a person were covered by steps of one, each at its share of δ (`lem:group-privacy`). And ρ was
converted by ε = ρ + 2√(ρ·ln(1/δ)).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from app.core.histogram import Counts
from app.core.ledger.budget import Budget, Cost
from app.core.mechanisms.pmg import Pmg
from app.core.noise.normal import log_phi
from app.core.noise.samplers import Noise, laplace_scale
from app.core.noise.tails import CONTEXT, draw_bound, draw_tail, lowest_threshold, noise_bound, smallest, two_key_tail
from app.core.sketches.compact import CompactSketch
from app.core.sketches.summed import SummedSketch, whole_counts

_LATTICE_SHARE = 1e-3  # of δ, for drawing on a lattice
_FAR = 64.0  # in σ: a threshold so far out adds nothing to δ
_COARSE = 64  # values of j that a search looks at; the result is checked at all


@dataclass(frozen=True, slots=True)
class Promise:
    """What was promised with probability 1 − β: a key that is not listed counts as 0."""

    low: int  # a count is at most so much too low by noise and threshold, and n/(k+1) more by the sketch
    high: int  # or so much too high, by noise
    rounding: int = 0  # by which the upper end of a bar was further away

    def largest_error(self, sketch: int) -> int:
        """Of any key, with so much for the sketch."""
        return max(self.low + sketch, self.high)

    def width(self, sketch: int) -> int:
        """From the low to the high end of a bar."""
        return 2 * self.high + self.rounding + sketch


def pmg_promise(mechanism: Pmg, beta: float) -> Promise:
    """PMG drew the same noise as now, and bounded it by its sum in both directions."""
    noise = noise_bound(mechanism.scale, mechanism.k, beta / 2)
    return Promise(noise + mechanism.threshold - 1, noise)


def pmg_threshold(cost: Cost, max_contributions: int) -> int:
    """Of k ≥ 2 counters, for m events of a person in steps of one."""
    scale = laplace_scale(cost.epsilon / max_contributions)
    delta = cost.delta / _steps(cost.epsilon, max_contributions)
    return lowest_threshold(lambda t: two_key_tail(scale, t), delta, start=1)


def _steps(epsilon: Fraction, max_contributions: int) -> Fraction:
    """Σ e^(iε/m) for i < m: by how much m steps of one event enlarge the δ of one."""
    step = math.exp(epsilon / max_contributions)
    return Fraction(math.fsum(step**i for i in range(max_contributions)))


@dataclass(frozen=True, slots=True)
class Gshm:
    """Gaussian noise that no two keys share."""

    k: int
    sigma: float
    lattice: int
    threshold: int

    def release(self, sketch: CompactSketch, noise: Noise) -> Counts:
        """The noisy counts from the threshold on, rounded down."""
        draws = noise.gaussian(self.sigma * self.lattice, self.k)
        noisy = _noisy({key: count * self.lattice for key, count in sketch.counters.items()}, draws)
        return _cut(noisy, self.threshold, self.lattice)

    def promise(self, beta: float) -> Promise:
        """Half of β for each direction."""
        noise = 1 + smallest(lambda b: -math.expm1(self.k * _log_phi(b / self.sigma)) <= beta / 2, start=0)
        return Promise(noise + self.threshold, noise, 1)


def _noisy(counters: Mapping[str, int], draws: list[int]) -> dict[str, int]:
    return {key: counters[key] + draw for key, draw in zip(sorted(counters), draws, strict=False)}


def _cut(noisy: Mapping[str, int], threshold: int, unit: int) -> Counts:
    return {key: steps // unit for key, steps in noisy.items() if steps >= threshold * unit}


@lru_cache(maxsize=256)
def calibrate_gshm(k: int, cost: Cost, max_contributions: int = 1) -> Gshm:
    """The lowest threshold by the exact inequality, at ε/m and a share of δ for each of m events."""
    epsilon = float(cost.epsilon / max_contributions)
    delta = float(cost.delta / _steps(cost.epsilon, max_contributions))
    sigma, tau = least_threshold(k, epsilon, delta * (1 - _LATTICE_SHARE))
    log_steps = (float(np.logaddexp(0, epsilon)) + math.log(k) - math.log(8 * delta * _LATTICE_SHARE)) / 2
    lattice = 1 << max(0, math.ceil((log_steps - math.log(sigma)) / math.log(2)))
    return Gshm(k, sigma, lattice, math.ceil(1 + tau + 1 / (2 * lattice)))


def least_threshold(k: int, epsilon: float, delta: float) -> tuple[float, float]:
    """σ and τ that satisfy the inequality of `thm:sparse-gaussian` at δ, with τ least.

    Below some σ no τ is enough; above it the τ that is needed falls steeply and then grows with σ.
    """
    coarse = np.unique(np.geomspace(1, k, _COARSE).round())

    def enough(sigma: float, ratio: float) -> bool:
        return delta_needed(k, sigma, ratio * sigma, epsilon, coarse) <= delta

    def least_tau(sigma: float) -> float:
        return sigma * _least(lambda ratio: enough(sigma, ratio), 4.0, limit=_FAR)

    least_sigma = _least(lambda sigma: enough(sigma, _FAR), math.sqrt(k) / epsilon, limit=math.inf)
    sigma = _golden(least_tau, least_sigma, 1.1 * least_sigma)
    tau = least_tau(sigma)
    while delta_needed(k, sigma, tau, epsilon, np.arange(1.0, k + 1)) > delta:
        sigma, tau = sigma * (1 + 1e-6), tau * (1 + 2e-6)
    return sigma, tau


def delta_needed(k: int, sigma: float, tau: float, epsilon: float, j: NDArray[np.float64]) -> float:
    """The right side of the inequality with l = k, its maxima taken over the given j."""
    log_below = _log_phi(tau / sigma)
    gamma = (k - j) * log_below
    below = np.exp(gamma)
    return max(
        -math.expm1(k * log_below),
        float(np.max(-np.expm1(gamma) + below * _gaussian_delta(sigma, epsilon - gamma, j))),
        float(np.max(_gaussian_delta(sigma, epsilon + gamma, j))),
    )


def _gaussian_delta(sigma: float, epsilon: NDArray[np.float64], j: NDArray[np.float64]) -> NDArray[np.float64]:
    """Φ(√j/2σ − εσ/√j) − e^ε Φ(−√j/2σ − εσ/√j)."""
    root = np.sqrt(j)
    plus = log_phi(root / (2 * sigma) - epsilon * sigma / root)
    minus = log_phi(-root / (2 * sigma) - epsilon * sigma / root)
    return np.exp(plus) * -np.expm1(np.minimum(epsilon + minus - plus, 0.0))


def _log_phi(z: float) -> float:
    return float(log_phi(np.array([z]))[0])


def _least(holds: Callable[[float], bool], start: float, limit: float) -> float:
    """The least x, to a millionth, from which on a condition holds; infinite where it does not up to the limit."""
    above = start
    while not holds(above):
        above *= 2
        if above > limit:
            return math.inf
    below = above / 2
    while holds(below):
        below, above = below / 2, below
    while above - below > 1e-6 * above:
        middle = (below + above) / 2
        below, above = (below, middle) if holds(middle) else (middle, above)
    return above


def _golden(value: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one valley is least, to a two-thousandth of the interval."""
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = value(left), value(right)
    for _ in range(16):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = value(right)
    return left if at_left <= at_right else right


@dataclass(frozen=True, slots=True)
class Reduced:
    """Laplace noise on reduced counters, with nothing beside them. Inside, a count is k + 1 steps."""

    k: int
    sensitivity: int
    scale: float
    threshold: int

    def release(self, sketch: SummedSketch, noise: Noise) -> Counts:
        """The noisy counts from the threshold on, rounded down; small counters are rounded at random first."""
        most = max(len(sketch.counters), sketch.most_keys)
        rounded = {
            key: max(steps, self.sensitivity)
            for key, steps in sorted(sketch.counters.items())
            if steps > noise.below(self.sensitivity)
        }
        return _cut(_noisy(rounded, noise.laplace(self.scale, most)), self.threshold, self.k + 1)

    def promise(self, beta: float, sources: int = 1) -> Promise:
        """Half of β for each direction."""
        noise = draw_bound(self.scale, self.k * sources, beta / 2)
        cut = self.threshold * (self.k + 1)
        raised = 0 if noise < cut - self.sensitivity else self.sensitivity
        return Promise(whole_counts(cut - 1 + noise, self.k), whole_counts(noise + raised, self.k), 2)


@lru_cache(maxsize=256)
def calibrate_reduced(k: int, cost: Cost) -> Reduced:
    """Neighbours are 2k − 1 steps apart, and every move was charged as one that may list a key."""
    distance = 2 * k - 1
    scale = laplace_scale(cost.epsilon / distance)
    epsilon = float(cost.epsilon)
    amplified = 1.0 if epsilon <= 1 else math.exp(epsilon - 1) / epsilon
    threshold = lowest_threshold(
        lambda t: draw_tail(scale, t * (k + 1) - distance), cost.delta / Fraction(amplified), start=2
    )
    return Reduced(k, distance, scale, threshold)


def rho_limit(total: Budget) -> Fraction:
    """The largest ρ with ρ + 2√(ρ·L) ≤ ε, L = ln(2/δ), as half of δ is set aside: (√(L + ε) − √L)²."""
    with localcontext(CONTEXT):
        log = -(Decimal(total.delta_units // 2) / 10**18).ln()
        epsilon = Decimal(total.epsilon_units) / 10**9
        return Fraction(((log + epsilon).sqrt() - log.sqrt()) ** 2)
