"""Release reduced counters with a threshold, (ε, δ), no universe needed.

The reduced sketch of `alg:MG-pure-DP`, one or several added up; sensitivity from
`lem:pure-dp-postprocessing-sensitivity`, m contributions by `lem:group-privacy`. Small counters are rounded at random,
after Algorithm 9 of the ALP paper that sec:pure cites; the threshold is lower than the one given there. Proof note:
reduced_approx.md
"""

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache

from app.core.errors import NoMechanism
from app.core.histogram import Bar, Counts, ErrorBound, with_bounds
from app.core.ledger.budget import Cost
from app.core.noise.samplers import Below, Sampler, laplace_scale, padded
from app.core.noise.tails import CONTEXT, OUTWARD, draw_bound, draw_tail, product_above, smallest
from app.core.sketches.summed import SummedSketch, sensitivity

NAME = "reduced-approx"
VERSION = 1
THEOREM = "lem:pure-dp-postprocessing-sensitivity"


@dataclass(frozen=True, slots=True)
class ReducedApprox:
    """Calibrated for sketches of k counters, m contributions and one cost. Inside, a count is k + 1 steps."""

    k: int
    max_contributions: int
    sensitivity: int  # D, in steps
    scale: float  # D/ε, in steps
    threshold: int  # t: the smallest count that is reported, in counts

    def release(self, sketch: SummedSketch, sample: Sampler, below: Below) -> Counts:
        """Noisy counts at or above the threshold, rounded down, in key order.

        As many draws and coins as there can be keys (`padded`), so that the time does not tell how many there are.
        """
        keys = sorted(sketch.counters)
        draws = sample(self.scale, padded(len(keys), sketch.most_keys))
        coins = [below(self.sensitivity) for _ in draws]
        noisy = {
            key: max(sketch.counters[key], self.sensitivity) + draw  # a counter below D that stays is raised to D
            for key, draw, coin in zip(keys, draws, coins, strict=False)
            if sketch.counters[key] > coin  # with probability counter/D; always for a counter of at least D
        }
        step = self.k + 1
        return {key: steps // step for key, steps in noisy.items() if steps >= self.threshold * step}

    def parameters(self) -> dict[str, object]:
        return {
            "noise": "discrete-laplace",
            "scale": f"{self.scale / (self.k + 1):.17g}",
            "threshold": self.threshold,
            "k": self.k,
            "max_contributions": self.max_contributions,
        }

    def error_bound(self, beta: float, expected_events: int | None, sources: int = 1) -> ErrorBound:
        """`lem:pure-dp-postprocessing-error` and the largest of at most `sources`·k draws."""
        noise = draw_bound(self.scale, self.k * sources, beta / 2)
        cut = self.threshold * (self.k + 1)
        raised = 0 if noise < cut - self.sensitivity else self.sensitivity  # a small counter, rounded up and reported
        sketch_low = None if expected_events is None else expected_events // (self.k + 1)
        return ErrorBound(
            noise_low=_counts(cut - 1 + noise, self.k),
            noise_high=_counts(noise + raised, self.k),
            sketch_low=sketch_low,
        )

    def bars(self, counts: Counts, bound: ErrorBound) -> list[Bar]:
        """A reported key was not cut, so its count is off by the noise and the sketch alone."""
        above = bound.noise_high + 2  # 2: the released and the sketch part are rounded down
        return with_bounds(counts, below=bound.noise_high, above=above, sketch_low=bound.sketch_low, least=1)

    def smallest_likely_count(self, beta: float) -> int:
        return self.threshold + _counts(draw_bound(self.scale, 1, beta), self.k) + 1  # the sketch part is rounded down


def _counts(steps: int, k: int) -> int:
    """Steps as whole counts, rounded up."""
    return -(-steps // (k + 1))


@lru_cache(maxsize=1024)
def calibrate(k: int, max_contributions: int, cost: Cost) -> ReducedApprox:
    """The lowest threshold, in whole counts, that this cost allows. Needs δ > 0."""
    if cost.delta == 0:
        raise NoMechanism("reduced-approx cuts at a threshold and needs a delta above 0, for example 1e-6.")
    distance = sensitivity(k, max_contributions)
    scale = laplace_scale(cost.epsilon / distance)
    amplified = _amplification(cost)

    def private(threshold: int) -> bool:
        return product_above(amplified, draw_tail(scale, threshold * (k + 1) - distance)) <= cost.delta

    return ReducedApprox(k, max_contributions, distance, scale, smallest(private, start=math.ceil(distance / (k + 1))))


def _amplification(cost: Cost) -> Decimal:
    """A = max over 0 ≤ s ≤ 1 of s·e^(ε(1−s)): 1 up to ε = 1, then e^(ε−1)/ε at s = 1/ε; rounded outward."""
    if cost.epsilon <= 1:
        return Decimal(1)
    with localcontext(CONTEXT):
        epsilon = Decimal(cost.epsilon.numerator) / cost.epsilon.denominator
        return (epsilon - 1).exp() / epsilon * OUTWARD
