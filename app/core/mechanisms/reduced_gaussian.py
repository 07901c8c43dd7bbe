"""Release reduced counters with Gaussian noise and a threshold: δ-approximately ρ-zCDP, for ledgers that count ρ.

The reduced sketch of `alg:MG-pure-DP`, one or several added up. In ℓ2 neighbours are less than one count apart, by the
cases of `lem:nb-cases` that `lem:pure-dp-postprocessing-sensitivity` rests on. A key that one neighbour alone stores is
hidden by the threshold. Draws are discrete Gaussian on a lattice. Proof note: reduced_gaussian.md
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from app.core.errors import NoMechanism
from app.core.histogram import NoiseBound, Released
from app.core.ledger.budget import Cost
from app.core.mechanism import Mechanism
from app.core.noise.normal import log_phi
from app.core.noise.samplers import Noise, padded
from app.core.noise.tails import float_below, smallest
from app.core.reduced import Reduced
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch, as_sum, beside, squared_distance
from app.core.sketches.universe import Universe

_FINEST_NEEDED = 2.0**12  # σ in steps: from there on the lattice costs the threshold less than a part in a million
_LARGEST_SCALE = 2.0**50  # of σ in steps: the sampler's draws saturate at 2^63, which is 2^13 deviations out
_SAFETY = 1 + 1e-9  # covers what double precision loses in a tail probability, and draws beyond 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducedGaussian(Reduced):
    """Calibrated for k counters, m contributions, a number of sources and one cost in ρ."""

    sigma: float  # σ, in counts
    lattice: int  # steps per count: k + 1, times a power of two

    @property
    def unit(self) -> int:
        """Steps per count."""
        return self.lattice

    @property
    def scale(self) -> float:
        """σ in steps, as it is drawn."""
        return self.sigma * self.lattice

    def release(self, sketch: StreamSketch | SummedSketch, noise: Noise, universe: Universe | None = None) -> Released:
        """Draw noise, and return the noisy counts whose reduced part is at or above the threshold, in key order.

        As many draws as there can be keys (`padded`), so that the time does not tell how many there are.
        """
        summed = as_sum(sketch)
        keys, finer = sorted(summed.counters), self.lattice // (self.k + 1)
        others = noise.gaussian(self.scale, beside(self.sources))
        draws = noise.gaussian(self.scale, padded(len(keys), summed.most_keys))
        noisy = {key: summed.counters[key] * finer + draw for key, draw in zip(keys, draws, strict=False)}
        kept = {key: steps for key, steps in noisy.items() if steps >= self.threshold * self.lattice}
        return self.published(summed, kept, others)

    def rho(self, charged: Cost) -> Fraction:
        """What the noise itself gives, whatever was charged."""
        return _rho(self.k, self.max_contributions, self.sources, self.lattice, self.scale)

    def parameters(self) -> dict[str, object]:
        """What a sceptic needs to recompute the guarantee."""
        return {
            "noise": "discrete-gaussian",
            "sigma": f"{self.sigma:.17g}",
            "lattice": self.lattice,
            "threshold": self.threshold,
            "k": self.k,
            "max_contributions": self.max_contributions,
            "sources": self.sources,
        }

    def noise_bound(self, beta: float) -> NoiseBound:
        """Half of β for draws that are too high, half for draws that are too low; by the union bound over all keys."""
        keys, half, cut = self.k * self.sources, beta / 2, self.threshold * self.lattice

        def is_high(b: int) -> bool:
            """Too rarely ζ_x + ζ_Σ > b for some key, or ζ_x > b while ζ_Σ < 0; with several sources ζ_x > b."""
            alone = self._exceeds(1, b)
            return keys * (alone if self.sources > 1 else self._exceeds(2, b) + alone / 2) <= half

        def is_low(b: int) -> bool:
            """Too rarely −ζ_x − ζ_n > b for some key, or −ζ_n > b + cut − 1, which a key without a counter needs."""
            return keys * self._exceeds(2, b) + self._exceeds(1, b + cut - 1) <= half

        return self.bound(low=smallest(is_high, start=0), high=smallest(is_low, start=0))

    def smallest_likely_count(self, beta: float) -> int:
        """The smallest count in the sketch that is reported with probability 1 − β."""
        noise = smallest(lambda b: self._exceeds(1, b) <= beta, start=0)
        return self.threshold + -(-noise // self.lattice) + 1  # 1: the sketch part is rounded down

    def _exceeds(self, draws: int, bound: int) -> float:
        """At least Pr[so many draws together exceed a bound]."""
        return math.exp(log_tail(self.scale, draws, bound + 1)) * _SAFETY


def log_tail(scale: float, draws: int, steps: int) -> float:
    """At least log Pr[ζ₁ + … ≥ steps] for so many independent draws, but for what double precision loses.

    A draw has at most 1/(1 − 1/8s²) times the probability of a normal number that is rounded to whole steps (gshm.md).
    """
    z = (draws / 2 - steps) / (scale * math.sqrt(draws))  # rounding moves each by at most half a step
    return float(log_phi(np.array([z]))[0]) - draws * math.log1p(-1 / (8 * scale**2))


def delta_needed(k: int, max_contributions: int, scale: float, finer: int, threshold: int) -> float:
    """At least the probability that some key is reported that one neighbour alone stores; threshold in steps.

    The keys that can do most have, in steps of 1/(k+1), the reduced counters (highest, others, …, others), by how many
    of the m events raise one key by k, while each other event raises all k keys by one: none, all but one, or all.
    """
    m = max_contributions
    worst = 0.0
    for tall in {0, m - 1, m}:
        keys = k if tall < m else min(m, k)
        highest, others = tall * k + m - tall, m - tall
        missed = sum(
            number * math.log1p(-min(math.exp(log_tail(scale, 1, threshold - counter * finer)), 1 - 2**-53))
            for number, counter in ((1, highest), (keys - 1, others))
        )
        worst = max(worst, -math.expm1(missed))
    return worst


@lru_cache(maxsize=1024)
def calibrate(k: int, max_contributions: int, sources: int, cost: Cost) -> ReducedGaussian:
    """The least noise that this ρ allows, and with it the lowest threshold that δ, which must be above 0, allows."""
    sigma = math.sqrt(squared_distance(k, max_contributions, sources) / (2 * cost.rho)) / (k + 1)
    bits = max(0, math.ceil(math.log2(_FINEST_NEEDED / (sigma * (k + 1)))))
    lattice = (k + 1) << bits
    while _rho(k, max_contributions, sources, lattice, sigma * lattice) > cost.rho:
        sigma = math.nextafter(sigma, math.inf)
    scale = sigma * lattice
    if scale > _LARGEST_SCALE:
        raise NoMechanism("reduced-gaussian is not offered at so small a rho: its noise would not fit the sampler.")
    delta = float_below(cost.delta) / _SAFETY
    threshold = smallest(
        lambda t: delta_needed(k, max_contributions, scale, lattice // (k + 1), t * lattice) <= delta, start=1
    )
    return ReducedGaussian(
        k=k,
        max_contributions=max_contributions,
        sources=sources,
        sigma=sigma,
        lattice=lattice,
        threshold=threshold,
    )


def _rho(k: int, max_contributions: int, sources: int, lattice: int, scale: float) -> Fraction:
    """Neighbours are at most m·√(k² + k + 1)/(k+1) counts apart in ℓ2, and whole steps: Δ²/2s², exactly."""
    squared = squared_distance(k, max_contributions, sources) * (lattice // (k + 1)) ** 2
    return Fraction(squared) / (2 * Fraction(scale) ** 2)


def _rho_of_parameters(parameters: Mapping[str, Any]) -> Fraction:
    """The same, from what `parameters` published."""
    names = ("k", "max_contributions", "sources", "lattice")
    k, max_contributions, sources, lattice = (int(str(parameters[name])) for name in names)
    return _rho(k, max_contributions, sources, lattice, float(str(parameters["sigma"])) * lattice)


MECHANISM: Mechanism[StreamSketch | SummedSketch] = Mechanism(
    name="reduced-gaussian",
    version=1,
    theorem="lem:pure-dp-postprocessing-sensitivity",
    description="Gaussian noise on reduced counters, cut at a threshold; for sums of any number of streams, in ρ.",
    rank=25,
    sketches=(StreamSketch, SummedSketch),
    needs_delta=True,
    needs_universe=False,
    is_pure=False,
    calibrate=lambda question: calibrate(question.k, question.max_contributions, question.sources, question.cost),
    rho_of=_rho_of_parameters,
    needs_rho=True,
    reduces=True,
)
