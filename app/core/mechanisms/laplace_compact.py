"""Release a compact sketch with Laplace noise of scale k/ε: Chan et al., the baseline that sec:merge describes.

Neighbours are those of `corol:merged-sensitivity` and `cor:merged-user-level`, which rest on
`lem:merge-step-sensitivity`: ℓ1 distance at most k. Over a declared
universe it is pure; otherwise noise goes to the stored keys alone and a threshold hides which they are, (ε, δ). Proof
note: laplace_compact.md
"""

from dataclasses import dataclass
from functools import lru_cache

from app.core.errors import NoMechanism
from app.core.histogram import Bar, Counts, ErrorBound, largest, with_bounds
from app.core.ledger.budget import Cost
from app.core.noise.everywhere import noisy_everywhere
from app.core.noise.groups import group_factor
from app.core.noise.samplers import Below, Sampler, laplace_scale
from app.core.noise.tails import draw_bound, draw_tail, product_above, smallest, some_draw_tail
from app.core.sketches.compact import CompactSketch
from app.core.sketches.universe import Universe

NAME = "laplace-compact"
VERSION = 1
THEOREM = "corol:merged-sensitivity"


@dataclass(frozen=True, slots=True)
class LaplaceCompact:
    """Calibrated for k counters and one cost; `universe_size` is None for the thresholded form."""

    k: int
    universe_size: int | None
    scale: float  # k·m/ε
    threshold: int
    max_contributions: int = 1  # m

    def release(self, sketch: CompactSketch, sample: Sampler) -> Counts:
        """The thresholded form: noisy counts at or above the threshold, in key order. Always makes k draws."""
        draws = sample(self.scale, self.k)
        noisy = {key: sketch.counters[key] + draw for key, draw in zip(sorted(sketch.counters), draws, strict=False)}
        return {key: count for key, count in noisy.items() if count >= self.threshold}

    def release_everywhere(self, sketch: CompactSketch, universe: Universe, sample: Sampler, below: Below) -> Counts:
        """The pure form: noise on every key, the at most k largest at or above the cut-off, in key order."""
        kept = noisy_everywhere(sketch.counters, universe, self.scale, self.threshold, sample, below, most_keys=self.k)
        return largest(kept, self.k)

    def parameters(self) -> dict[str, object]:
        universe = {} if self.universe_size is None else {"universe_size": self.universe_size}
        return {
            "noise": "discrete-laplace",
            "scale": f"{self.scale:.17g}",
            "threshold": self.threshold,
            "k": self.k,
            "max_contributions": self.max_contributions,
            **universe,
        }

    def error_bound(self, beta: float, expected_events: int | None) -> ErrorBound:
        """A third of β for each direction of the stored keys' noise, and one for noise-only keys."""
        noise = draw_bound(self.scale, self.k, beta / 3)
        sketch_low = None if expected_events is None else expected_events // (self.k + 1)
        return ErrorBound(noise_low=self.threshold - 1 + noise, noise_high=noise, sketch_low=sketch_low)

    def bars(self, counts: Counts, bound: ErrorBound) -> list[Bar]:
        """A reported key was not cut, so its count is off by the noise and the sketch alone."""
        certain = 1 if self.universe_size is None else 0  # without a universe a reported key did occur
        above = bound.noise_high
        return with_bounds(counts, below=bound.noise_high, above=above, sketch_low=bound.sketch_low, least=certain)

    def smallest_likely_count(self, beta: float) -> int:
        return self.threshold + draw_bound(self.scale, 1, beta)


@lru_cache(maxsize=1024)
def calibrate(k: int, cost: Cost, max_contributions: int = 1) -> LaplaceCompact:
    """The thresholded form, at the lowest threshold that this cost allows. Needs δ > 0."""
    if cost.delta == 0:
        raise NoMechanism("laplace-compact needs a delta above 0, or a declared universe.")
    scale = laplace_scale(cost.epsilon / (k * max_contributions))
    steps = group_factor(cost.epsilon, max_contributions)

    def private(threshold: int) -> bool:
        return product_above(steps, some_draw_tail(scale, k, threshold - 1)) <= cost.delta

    return LaplaceCompact(k, None, scale, smallest(private, start=2), max_contributions)


@lru_cache(maxsize=1024)
def calibrate_everywhere(
    k: int, universe_size: int, cost: Cost, beta: float, max_contributions: int = 1
) -> LaplaceCompact:
    """The pure form; the cut-off keeps noise-only keys rare: some key of the universe passes it with at most β/3."""
    scale = laplace_scale(cost.epsilon / (k * max_contributions))
    cutoff = smallest(lambda t: product_above(3, universe_size, draw_tail(scale, t)) <= beta, start=1)
    return LaplaceCompact(k, universe_size, scale, cutoff, max_contributions)
