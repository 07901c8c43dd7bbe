"""Release a compact sketch with Gaussian noise: the Gaussian sparse histogram mechanism, (ε, δ).

`thm:sparse-gaussian` with l = k, calibrated from its exact inequality: σ and τ are chosen together so that the
threshold is least. Neighbours are those of `corol:merged-sensitivity` and `cor:merged-user-level`. Error:
`thm:user-level`. The theorem is for continuous noise; the draws are discrete Gaussian on a fine lattice, and the
difference is charged to δ. Proof note: gshm.md
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.core.errors import NoMechanism
from app.core.histogram import NoiseBound, Released
from app.core.ledger.budget import Cost
from app.core.mechanism import Calibrated, Mechanism
from app.core.noise.groups import group_factor
from app.core.noise.normal import log_phi
from app.core.noise.samplers import Noise
from app.core.noise.tails import float_below, smallest
from app.core.sketches.compact import CompactSketch
from app.core.sketches.universe import Universe

_LATTICE_SHARE = 1e-3  # of δ, for drawing on a lattice
_SAFETY = 1 + 1e-9  # covers what double precision loses in the inequality
_FAR = 64.0  # in σ: a threshold so far out adds nothing to δ
_LARGEST_SCALE = 2.0**50  # of σ in steps: the sampler's draws saturate at 2^63, which is 2^13 deviations out (gshm.md)
_LEAST_DELTA = 1e-280  # of one event; below it double precision would lose digits
_COARSE = 64  # values of j that a search looks at; the result is checked at all


@dataclass(frozen=True, slots=True, kw_only=True)
class Gshm(Calibrated[CompactSketch]):
    """GSHM calibrated for k counters, m contributions and one cost. Its threshold is at least 1 + τ."""

    sigma: float  # σ, in counts
    lattice: int  # steps per count

    def release(self, sketch: CompactSketch, noise: Noise, universe: Universe | None = None) -> Released:
        """Draw noise, and return the noisy counts at or above the threshold, rounded down, in key order.

        It always makes k draws.
        """
        draws = noise.gaussian(self.sigma * self.lattice, self.k)
        noisy = {
            key: sketch.counters[key] * self.lattice + draw
            for key, draw in zip(sorted(sketch.counters), draws, strict=False)
        }
        least = self.threshold * self.lattice
        return Released({key: steps // self.lattice for key, steps in noisy.items() if steps >= least}, None)

    def rho(self, charged: Cost) -> Fraction:
        """What the noise itself gives, whatever ε was charged."""
        return _rho(self.k, self.max_contributions, Fraction(self.sigma))

    def parameters(self) -> dict[str, object]:
        """What a sceptic needs to recompute the guarantee."""
        return {
            "noise": "discrete-gaussian",
            "sigma": f"{self.sigma:.17g}",
            "lattice": self.lattice,
            "threshold": self.threshold,
            "k": self.k,
            "max_contributions": self.max_contributions,
        }

    def noise_bound(self, beta: float) -> NoiseBound:
        """`thm:user-level`, with the quantile of the largest of k draws in place of τ."""
        noise = self._noise_bound(self.k, beta / 2)
        return NoiseBound(below=noise, above=noise + 1, unlisted=noise + self.threshold)  # 1: counts are rounded down

    def smallest_likely_count(self, beta: float) -> int:
        """The smallest count in the sketch that is reported with probability 1 − β."""
        return self.threshold + self._noise_bound(1, beta)

    def _noise_bound(self, keys: int, beta: float) -> int:
        """b with Pr[some of `keys` draws exceeds b] ≤ β; one count is added for the lattice."""
        return 1 + smallest(lambda b: -math.expm1(keys * _log_phi(b / self.sigma)) <= beta, start=0)


def _rho(k: int, max_contributions: int, sigma: Fraction) -> Fraction:
    """Neighbours are at most m·√k apart in ℓ2, so discrete Gaussian noise is m²k/2σ²-zCDP but for the threshold."""
    return Fraction(k * max_contributions**2) / (2 * sigma**2)


def _rho_of_parameters(parameters: Mapping[str, Any]) -> Fraction:
    """The same, from what `parameters` published."""
    k, max_contributions = (int(str(parameters[name])) for name in ("k", "max_contributions"))
    return _rho(k, max_contributions, Fraction(str(parameters["sigma"])))


def _log_phi(z: float) -> float:
    return float(log_phi(np.array([z]))[0])


def delta_needed(k: int, sigma: float, tau: float, epsilon: float, j: NDArray[np.float64]) -> float:
    """The right side of the inequality of `thm:sparse-gaussian` with l = k, its maxima taken over the given j."""
    log_below = _log_phi(tau / sigma)  # log Φ(τ/σ)
    gamma = (k - j) * log_below
    below = np.exp(gamma)
    return max(
        -math.expm1(k * log_below),
        float(np.max(-np.expm1(gamma) + below * _gaussian_delta(sigma, epsilon - gamma, j))),
        float(np.max(_gaussian_delta(sigma, epsilon + gamma, j))),
    )


def _gaussian_delta(sigma: float, epsilon: NDArray[np.float64], j: NDArray[np.float64]) -> NDArray[np.float64]:
    """Φ(√j/2σ − εσ/√j) − e^ε Φ(−√j/2σ − εσ/√j): the divergence of Gaussian noise at ℓ2 distance √j."""
    root = np.sqrt(j)
    plus = log_phi(root / (2 * sigma) - epsilon * sigma / root)
    minus = log_phi(-root / (2 * sigma) - epsilon * sigma / root)
    return np.exp(plus) * -np.expm1(np.minimum(epsilon + minus - plus, 0.0))


@lru_cache(maxsize=256)
def calibrate(k: int, cost: Cost, max_contributions: int = 1) -> Gshm:
    """The lowest threshold that this cost allows, at ε/m and a share of δ for each of m events. δ must be above 0."""
    epsilon = float_below(cost.epsilon / max_contributions)
    delta = float_below(cost.delta / Fraction(group_factor(cost.epsilon, max_contributions)))
    if delta < _LEAST_DELTA:
        raise NoMechanism(
            "gshm is not offered at so large an epsilon and so many contributions: its delta is too small."
        )
    sigma, tau = least_threshold(k, epsilon, delta * (1 - _LATTICE_SHARE))
    lattice = _lattice(k, sigma, epsilon, delta * _LATTICE_SHARE)
    threshold = math.ceil(1 + tau + 1 / (2 * lattice))
    return Gshm(k=k, max_contributions=max_contributions, sigma=sigma, threshold=threshold, lattice=lattice)


def least_threshold(k: int, epsilon: float, delta: float) -> tuple[float, float]:
    """σ and τ that satisfy the inequality at δ, with τ least.

    Below some σ no τ is enough; above it the τ that is needed falls steeply and then grows with σ. A golden-section
    search finds the least; what it found is checked at every j, and τ raised in small steps until it holds.
    """
    coarse = np.unique(np.geomspace(1, k, _COARSE).round())

    def enough(sigma: float, ratio: float) -> bool:
        return delta_needed(k, sigma, ratio * sigma, epsilon, coarse) * _SAFETY <= delta

    def least_tau(sigma: float) -> float:
        return sigma * _least(lambda ratio: enough(sigma, ratio), 4.0, limit=_FAR)

    least_sigma = _least(lambda sigma: enough(sigma, _FAR), math.sqrt(k) / epsilon, limit=math.inf)
    sigma = _golden(least_tau, least_sigma, 1.1 * least_sigma)
    tau = least_tau(sigma)
    every = np.arange(1.0, k + 1)
    while delta_needed(k, sigma, tau, epsilon, every) * _SAFETY > delta:
        sigma, tau = sigma * (1 + 1e-6), tau * (1 + 2e-6)
    return sigma, tau


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
        if above < start / 2**30:
            return above  # nothing is too small: a δ near 1 asks for hardly any noise
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


def _lattice(k: int, sigma: float, epsilon: float, slack: float) -> int:
    """Steps per count, a power of two, so fine that (1 + e^ε)·k/(8s²) ≤ slack for s = σ in steps (gshm.md)."""
    log_steps = (float(np.logaddexp(0, epsilon)) + math.log(k) - math.log(8 * slack)) / 2
    bits = max(0, math.ceil((log_steps - math.log(sigma)) / math.log(2) + 1e-9))
    if math.ldexp(sigma, bits) > _LARGEST_SCALE:
        raise NoMechanism("gshm is not offered at this epsilon and delta: its noise would not fit the sampler.")
    return 1 << bits


MECHANISM = Mechanism(
    name="gshm",
    version=1,
    theorem="thm:user-level",
    description="Gaussian noise, cut at a threshold; for merged sketches and sketches of people's sets.",
    rank=40,
    sketches=(CompactSketch,),
    needs_delta=True,
    needs_universe=False,
    is_pure=False,
    calibrate=lambda question: calibrate(question.k, question.cost, question.max_contributions),
    rho_of=_rho_of_parameters,
)
