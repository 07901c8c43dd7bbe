"""Release reduced counters with a threshold, (ε, δ), no universe needed.

The reduced sketch of `alg:MG-pure-DP`, one or several added up; sensitivity from
`lem:pure-dp-postprocessing-sensitivity`, m contributions by as many steps of one. The number of events, and Σc of a
single stream, are released beside the counters under the same noise. Small counters are rounded at random, after
Algorithm 9 of the ALP paper that sec:pure cites; the threshold is lower than the one given there. Proof note:
reduced_approx.md
"""

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from app.core.histogram import NoiseBound, Released
from app.core.ledger.budget import Cost
from app.core.mechanism import Mechanism
from app.core.noise.samplers import Noise, laplace_scale, padded
from app.core.noise.tails import (
    CONTEXT,
    OUTWARD,
    draw_bound,
    draw_tail,
    lowest_threshold,
    some_draw_tail,
)
from app.core.reduced import Reduced, laplace_high, laplace_low
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch, as_sum, beside, sensitivity, whole_counts
from app.core.sketches.universe import Universe


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducedApprox(Reduced):
    """Calibrated for k counters, m contributions, a number of sources and one cost. Inside, a count is k + 1 steps."""

    sensitivity: int  # D, in steps
    scale: float  # D/ε, in steps

    @property
    def unit(self) -> int:
        """Steps per count."""
        return self.k + 1

    def release(self, sketch: StreamSketch | SummedSketch, noise: Noise, universe: Universe | None = None) -> Released:
        """Draw noise, and return the noisy counts whose reduced part is at or above the threshold, in key order.

        As many draws and coins as there can be keys (`padded`), so that the time does not tell how many there are.
        """
        summed = as_sum(sketch)
        keys = sorted(summed.counters)
        others = noise.laplace(self.scale, beside(self.sources))
        draws = noise.laplace(self.scale, padded(len(keys), summed.most_keys))
        coins = [noise.below(self.sensitivity) for _ in draws]
        noisy = {
            key: max(summed.counters[key], self.sensitivity) + draw  # a counter below D that stays is raised to D
            for key, draw, coin in zip(keys, draws, coins, strict=False)
            if summed.counters[key] > coin  # with probability counter/D; always for a counter of at least D
        }
        kept = {key: steps for key, steps in noisy.items() if steps >= self.threshold * self.unit}
        return self.published(summed, kept, others)

    def parameters(self) -> dict[str, object]:
        """What a sceptic needs to recompute the guarantee; the scale in counts."""
        return {
            "noise": "discrete-laplace",
            "scale": f"{self.scale / self.unit:.17g}",
            "threshold": self.threshold,
            "k": self.k,
            "max_contributions": self.max_contributions,
            "sources": self.sources,
        }

    def noise_bound(self, beta: float) -> NoiseBound:
        """Half of β for draws that are too high, among them those that list a small counter; half for too low ones."""
        keys, half = self.k * self.sources, beta / 2
        room = self.threshold * self.unit - self.sensitivity
        listed = float(some_draw_tail(self.scale, keys, room))  # some counter below D is raised to D, and listed
        if listed <= half / 2:
            low = laplace_low(self.scale, keys, self.sources, half - listed)
        else:
            low = laplace_low(self.scale, keys, self.sources, half) + self.sensitivity
        return self.bound(low=low, high=laplace_high(self.scale, keys, room, half))

    def smallest_likely_count(self, beta: float) -> int:
        """The smallest count in the sketch that is reported with probability 1 − β."""
        noise = whole_counts(draw_bound(self.scale, 1, beta), self.k)
        return self.threshold + noise + 1  # 1: the sketch part is rounded down


@lru_cache(maxsize=1024)
def calibrate(k: int, max_contributions: int, sources: int, cost: Cost) -> ReducedApprox:
    """The lowest threshold, in whole counts, that this cost allows. δ must be above 0."""
    distance = sensitivity(k, max_contributions, sources)
    scale = laplace_scale(cost.epsilon / distance)
    rising, all_moves = (_amplified(cost.epsilon, share) for share in (Fraction(k, distance) * max_contributions, 1))
    falling = cost.epsilon / (1 + cost.epsilon)  # of q: then a counter that falls costs no δ
    most = max(min(cost.delta / rising, falling), cost.delta / all_moves)
    threshold = lowest_threshold(
        lambda t: draw_tail(scale, t * (k + 1) - distance), most, start=math.ceil(distance / (k + 1))
    )
    return ReducedApprox(
        k=k,
        max_contributions=max_contributions,
        sources=sources,
        sensitivity=distance,
        scale=scale,
        threshold=threshold,
    )


def _amplified(epsilon: Fraction, share: Fraction | int) -> Fraction:
    """A = max over 0 ≤ s ≤ r of s·e^(ε(r−s)): r up to ε = 1/r, then e^(εr−1)/ε at s = 1/ε; rounded outward."""
    exponent = epsilon * share - 1
    if exponent <= 0:
        return Fraction(share)
    with localcontext(CONTEXT):
        return Fraction((Decimal(exponent.numerator) / exponent.denominator).exp() * OUTWARD) / epsilon


MECHANISM: Mechanism[StreamSketch | SummedSketch] = Mechanism(
    name="reduced-approx",
    version=2,
    theorem="lem:pure-dp-postprocessing-sensitivity",
    description="Laplace noise on reduced counters, cut at a threshold; for sums of any number of streams.",
    rank=20,
    sketches=(StreamSketch, SummedSketch),
    needs_delta=True,
    needs_universe=False,
    is_pure=False,
    calibrate=lambda question: calibrate(question.k, question.max_contributions, question.sources, question.cost),
    reduces=True,
)
