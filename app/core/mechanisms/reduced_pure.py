"""Release reduced counters with noise on every key of a declared universe: pure ε, no δ.

The reduced sketch of `alg:MG-pure-DP`, one or several added up; sensitivity from
`lem:pure-dp-postprocessing-sensitivity`, m contributions by `lem:pure-dp-user-level`. Keys are never drawn one by one
(`everywhere.py`), so the universe may have 2^63 of them. Proof note: reduced_pure.md
"""

from dataclasses import dataclass
from functools import lru_cache

from app.core.histogram import Bar, Counts, ErrorBound, largest, with_bounds
from app.core.ledger.budget import Cost
from app.core.noise.everywhere import noisy_everywhere
from app.core.noise.samplers import Below, Sampler, laplace_scale
from app.core.noise.tails import draw_bound, draw_tail, product_above, smallest
from app.core.sketches.summed import SummedSketch, sensitivity
from app.core.sketches.universe import Universe

NAME = "reduced-pure"
VERSION = 1
THEOREM = "lem:pure-dp-user-level"


@dataclass(frozen=True, slots=True)
class ReducedPure:
    """Calibrated for k counters, m contributions, a universe's size and one ε. Inside, a count is k + 1 steps."""

    k: int
    max_contributions: int
    universe_size: int  # d
    scale: float  # (2k − 1)·m/ε, in steps
    threshold: int  # a public cut-off, in counts: it keeps noise-only keys rare and does not bear on privacy

    def release(self, sketch: SummedSketch, universe: Universe, sample: Sampler, below: Below) -> Counts:
        """The largest noisy counts at or above the cut-off, as many as the sketch may store, rounded down, by key."""
        step, cutoff, most_keys = self.k + 1, self.threshold * (self.k + 1), sketch.most_keys
        kept = noisy_everywhere(sketch.counters, universe, self.scale, cutoff, sample, below, most_keys=most_keys)
        return largest({key: steps // step for key, steps in kept.items()}, most_keys)

    def parameters(self) -> dict[str, object]:
        return {
            "noise": "discrete-laplace",
            "scale": f"{self.scale / (self.k + 1):.17g}",
            "threshold": self.threshold,
            "k": self.k,
            "max_contributions": self.max_contributions,
            "universe_size": self.universe_size,
        }

    def error_bound(self, beta: float, expected_events: int | None, sources: int = 1) -> ErrorBound:
        """A third of β each: no noise-only key passes the cut-off; no stored key's noise is too high; none too low."""
        noise = draw_bound(self.scale, self.k * sources, beta / 3)
        sketch_low = None if expected_events is None else expected_events // (self.k + 1)
        return ErrorBound(
            noise_low=-(-(self.threshold * (self.k + 1) - 1 + noise) // (self.k + 1)),
            noise_high=-(-noise // (self.k + 1)),
            sketch_low=sketch_low,
        )

    def bars(self, counts: Counts, bound: ErrorBound) -> list[Bar]:
        """A reported key was not cut, so its count is off by the noise and the sketch alone."""
        above = bound.noise_high + 2
        return with_bounds(counts, below=bound.noise_high, above=above, sketch_low=bound.sketch_low, least=0)

    def smallest_likely_count(self, beta: float) -> int:
        return (
            self.threshold + -(-draw_bound(self.scale, 1, beta) // (self.k + 1)) + 1
        )  # the sketch part is rounded down


@lru_cache(maxsize=1024)
def calibrate(k: int, max_contributions: int, universe_size: int, cost: Cost, beta: float) -> ReducedPure:
    scale = laplace_scale(cost.epsilon / sensitivity(k, max_contributions))

    def rare(threshold: int) -> bool:
        """Whether some key of the universe passes by its noise alone with at most β/3."""
        return product_above(3, universe_size, draw_tail(scale, threshold * (k + 1))) <= beta

    return ReducedPure(k, max_contributions, universe_size, scale, smallest(rare, start=1))
