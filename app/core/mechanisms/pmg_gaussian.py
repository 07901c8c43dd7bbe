"""Release one stream's sketch with Gaussian noise, for ledgers that count ρ: PMG under another noise.

The release of `alg:PMG`, one draw that all keys share and one for each key, with discrete Gaussian noise on a fine
lattice. It is δ-approximately ρ-zCDP, which a `zcdp` ledger counts, and *not* (√(2ρ), δ)-private. At equal ρ its
threshold is about half of that of Laplace noise. One stream is the other plus up to m events. Rests on
`lem:nb-cases`, so it takes a `StreamSketch`; the error is that of `thm:final_theorem` for this noise. Proof note:
pmg_gaussian.md
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from app.core.histogram import NoiseBound, Released
from app.core.ledger.budget import Cost
from app.core.mechanism import Calibrated, Mechanism
from app.core.noise.normal import log_phi
from app.core.noise.own_keys import gaussian_cells, group_threshold
from app.core.noise.samplers import Noise
from app.core.noise.tails import smallest
from app.core.sketches.stream import StreamSketch
from app.core.sketches.universe import Universe

LATTICE = 1 << 12  # steps per count


@dataclass(frozen=True, slots=True, kw_only=True)
class PmgGaussian(Calibrated[StreamSketch]):
    """Gaussian PMG with its noise and its threshold t, for sketches of k counters and m events of one person."""

    sigma: float  # σ of the shared and of every own draw, in counts
    lattice: int = LATTICE

    def release(self, sketch: StreamSketch, noise: Noise, universe: Universe | None = None) -> Released:
        """Draw noise, and return the noisy counts at or above the threshold, rounded down, in key order; and d − η,
        rounded up.

        It always makes k + 1 draws; those of empty slots are dropped with them.
        """
        shared, *own = noise.gaussian(self.sigma * self.lattice, self.k + 1)  # η, ζ, in steps
        noisy = {
            key: sketch.counters[key] * self.lattice + shared + draw
            for key, draw in zip(sorted(sketch.counters), own, strict=False)
        }
        least = self.threshold * self.lattice
        counts = {key: steps // self.lattice for key, steps in noisy.items() if steps >= least}
        return Released(counts, None if sketch.lowered is None else sketch.lowered - shared // self.lattice)

    def rho(self, charged: Cost) -> Fraction:
        """What the noise itself gives: at most the ρ that was asked for."""
        return _rho(self.max_contributions, self.lattice, self.sigma)

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
        """`thm:final_theorem` with the exact laws of this noise; η is not in what bounds a count above."""
        for_sum, for_own, for_shared = 0.5 * beta, 0.49 * beta, 0.01 * beta
        own = self._draw_bound(self.k, for_own)
        return NoiseBound(
            below=self._noise_bound(self.k, for_sum),
            above=own + 1,  # released counts are rounded down
            unlisted=max(self.threshold + own, self._draw_bound(1, for_shared)),
        )

    def smallest_likely_count(self, beta: float) -> int:
        """The smallest count in the sketch that is reported with probability 1 − β."""
        return self.threshold + self._noise_bound(1, beta)

    def _noise_bound(self, keys: int, beta: float) -> int:
        """b with Pr[η + ζ_i > b for some of `keys` draws ζ_i] ≤ β; one count is added for the lattice."""
        cells = gaussian_cells(self.sigma)
        guess = 1 + self._draw_bound(keys, beta / 2) + self._draw_bound(1, beta / 2)
        return 1 + smallest(lambda b: cells.own_key_tail(Fraction(b), 0, keys - 1) <= beta, start=0, guess=guess)

    def _draw_bound(self, draws: int, beta: float) -> int:
        """b with Pr[some of `draws` draws exceeds b] ≤ β; one count is added for the lattice."""

        def exceeds(b: int) -> float:
            return -math.expm1(draws * float(log_phi(np.array([b / self.sigma]))[0]))

        return 1 + smallest(lambda b: exceeds(b) <= beta, start=0, guess=math.ceil(3 * self.sigma))


def _rho(max_contributions: int, lattice: int, sigma: float) -> Fraction:
    """(m²/2)·(1 + 1/L)/σ²: the shared draw moves by at most m, and the own draws by what is left of m."""
    return max_contributions**2 * (1 + Fraction(1, lattice)) / (2 * Fraction(sigma) ** 2)


def _rho_of_parameters(parameters: Mapping[str, Any]) -> Fraction:
    """The same, from what `parameters` published."""
    max_contributions, lattice = (int(str(parameters[name])) for name in ("max_contributions", "lattice"))
    return _rho(max_contributions, lattice, float(str(parameters["sigma"])))


@lru_cache(maxsize=256)
def calibrate(k: int, cost: Cost, max_contributions: int = 1) -> PmgGaussian:
    """The least noise and the lowest threshold that a cost in ρ allows. Its ρ and δ must be above 0."""
    m = max_contributions
    sigma = math.sqrt(_rho(m, LATTICE, 1.0) / cost.rho)
    while _rho(m, LATTICE, sigma) > cost.rho:
        sigma = math.nextafter(sigma, math.inf)
    draws = 1 + min(k, 2 * m)  # of which each is as likely as under continuous noise, but for 1/8s² (pmg_gaussian.md)
    delta = cost.delta * (1 - draws / (8 * (Fraction(sigma) * LATTICE) ** 2))
    threshold = group_threshold(gaussian_cells(sigma), k, m, delta, slack=Fraction(1, LATTICE))
    return PmgGaussian(k=k, max_contributions=m, sigma=sigma, threshold=threshold)


MECHANISM = Mechanism(
    name="pmg-gaussian",
    version=1,
    theorem="thm:final_theorem",
    description="PMG with Gaussian noise, for zcdp ledgers: priced in ρ, the best for a stream that is released often.",
    rank=15,
    sketches=(StreamSketch,),
    needs_delta=True,
    needs_universe=False,
    is_pure=False,
    needs_rho=True,
    calibrate=lambda question: calibrate(question.k, question.cost, question.max_contributions),
    rho_of=_rho_of_parameters,
)
