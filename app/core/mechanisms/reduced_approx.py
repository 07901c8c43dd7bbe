"""Release reduced counters with a threshold, (ε, δ), no universe needed.

The reduced sketch of `alg:MG-pure-DP`, one or several added up; sensitivity from
`lem:pure-dp-postprocessing-sensitivity`, m contributions by `lem:group-privacy`. Small counters are rounded at random,
after Algorithm 9 of the ALP paper that sec:pure cites; the threshold is lower than the one given there. Proof note:
reduced_approx.md
"""

import math
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from functools import lru_cache

from app.core.histogram import NoiseBound, Released
from app.core.ledger.budget import Cost
from app.core.mechanism import Calibrated, Mechanism
from app.core.noise.samplers import Noise, laplace_scale, padded
from app.core.noise.tails import CONTEXT, OUTWARD, draw_bound, draw_tail, lowest_threshold, product_above
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch, as_sum, sensitivity, whole_counts
from app.core.sketches.universe import Universe


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducedApprox(Calibrated[StreamSketch | SummedSketch]):
    """Calibrated for k counters, m contributions and one cost. Inside, a count is k + 1 steps."""

    sensitivity: int  # D, in steps
    scale: float  # D/ε, in steps
    sources: int = 1  # streams in the sketch: the error bound is for at most so many times k draws

    def release(self, sketch: StreamSketch | SummedSketch, noise: Noise, universe: Universe | None = None) -> Released:
        """Draw noise, and return the noisy counts at or above the threshold, rounded down, in key order.

        As many draws and coins as there can be keys (`padded`), so that the time does not tell how many there are.
        """
        summed = as_sum(sketch)
        keys = sorted(summed.counters)
        draws = noise.laplace(self.scale, padded(len(keys), summed.most_keys))
        coins = [noise.below(self.sensitivity) for _ in draws]
        noisy = {
            key: max(summed.counters[key], self.sensitivity) + draw  # a counter below D that stays is raised to D
            for key, draw, coin in zip(keys, draws, coins, strict=False)
            if summed.counters[key] > coin  # with probability counter/D; always for a counter of at least D
        }
        step = self.k + 1
        kept = {key: steps // step for key, steps in noisy.items() if steps >= self.threshold * step}
        return Released(kept, None)

    def parameters(self) -> dict[str, object]:
        """What a sceptic needs to recompute the guarantee; the scale in counts."""
        return {
            "noise": "discrete-laplace",
            "scale": f"{self.scale / (self.k + 1):.17g}",
            "threshold": self.threshold,
            "k": self.k,
            "max_contributions": self.max_contributions,
        }

    def noise_bound(self, beta: float) -> NoiseBound:
        """`lem:pure-dp-postprocessing-error` and the largest of at most `sources`·k draws."""
        noise = draw_bound(self.scale, self.k * self.sources, beta / 2)
        cut = self.threshold * (self.k + 1)
        raised = 0 if noise < cut - self.sensitivity else self.sensitivity  # a small counter, rounded up and reported
        reach = whole_counts(noise + raised, self.k)
        return NoiseBound(below=reach, above=reach + 2, unlisted=whole_counts(cut - 1 + noise, self.k))

    def smallest_likely_count(self, beta: float) -> int:
        """The smallest count in the sketch that is reported with probability 1 − β."""
        noise = whole_counts(draw_bound(self.scale, 1, beta), self.k)
        return self.threshold + noise + 1  # 1: the sketch part is rounded down


@lru_cache(maxsize=1024)
def calibrate(k: int, max_contributions: int, cost: Cost) -> ReducedApprox:
    """The lowest threshold, in whole counts, that this cost allows. δ must be above 0."""
    distance = sensitivity(k, max_contributions)
    scale = laplace_scale(cost.epsilon / distance)
    amplified = _amplification(cost)
    threshold = lowest_threshold(
        lambda t: product_above(amplified, draw_tail(scale, t * (k + 1) - distance)),
        cost.delta,
        start=math.ceil(distance / (k + 1)),
    )
    return ReducedApprox(
        k=k, max_contributions=max_contributions, sensitivity=distance, scale=scale, threshold=threshold
    )


def _amplification(cost: Cost) -> Decimal:
    """A = max over 0 ≤ s ≤ 1 of s·e^(ε(1−s)): 1 up to ε = 1, then e^(ε−1)/ε at s = 1/ε; rounded outward."""
    if cost.epsilon <= 1:
        return Decimal(1)
    with localcontext(CONTEXT):
        epsilon = Decimal(cost.epsilon.numerator) / cost.epsilon.denominator
        return (epsilon - 1).exp() / epsilon * OUTWARD


MECHANISM: Mechanism[StreamSketch | SummedSketch] = Mechanism(
    name="reduced-approx",
    version=1,
    theorem="lem:pure-dp-postprocessing-sensitivity",
    description="Laplace noise on reduced counters, cut at a threshold; for sums of any number of streams.",
    rank=20,
    sketches=(StreamSketch, SummedSketch),
    needs_delta=True,
    needs_universe=False,
    is_pure=False,
    calibrate=lambda question: replace(
        calibrate(question.k, question.max_contributions, question.cost), sources=question.sources
    ),
)
