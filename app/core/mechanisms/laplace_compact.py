"""Release a compact sketch with Laplace noise of scale (k+1)/ε: Chan et al., the baseline that sec:merge describes.

Neighbours are those of `corol:merged-sensitivity` and `cor:merged-user-level`, which rest on
`lem:merge-step-sensitivity`: the counters, and what the sketch was lowered by, are k + 1 apart in ℓ1. With a δ, noise
goes to the stored keys alone and a threshold hides which they are: (ε, δ). Without one, it needs a declared universe,
puts noise on every key of it and is pure. Proof notes: laplace_compact.md, shared_noise.md
"""

from dataclasses import dataclass
from functools import lru_cache

from app.core.errors import NoMechanism
from app.core.histogram import Counts, NoiseBound, Released, largest
from app.core.ledger.budget import Cost
from app.core.mechanism import Calibrated, Mechanism, Question
from app.core.noise.everywhere import noisy_everywhere
from app.core.noise.samplers import Noise, Sampler, laplace_scale
from app.core.noise.tails import (
    draw_bound,
    draw_tail,
    lowest_threshold,
    noise_bound,
    product_above,
    smallest,
    some_draw_tail,
)
from app.core.sketches.compact import CompactSketch
from app.core.sketches.universe import Universe

_UNSTORED_SHARE = 1 / 16  # of β, for keys that are not stored


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceCompact(Calibrated[CompactSketch]):
    """Calibrated for k counters, m contributions and one cost, in one of two forms."""

    scale: float  # (k+1)·m/ε
    universe_size: int | None = None  # of the pure form; None for the thresholded one

    def release(self, sketch: CompactSketch, noise: Noise, universe: Universe | None = None) -> Released:
        """Draw noise, and return the noisy counts at or above the threshold, in key order.

        Beside them what the sketch was lowered by, with a draw of its own, which is made whether it is known or not.
        """
        [of_lowered] = noise.laplace(self.scale, 1)
        error = None if sketch.lowered is None else sketch.lowered + of_lowered
        if self.universe_size is None:
            return Released(self._release_stored(sketch, noise.laplace), error)
        if universe is None:
            raise NoMechanism("laplace-compact cannot release this sketch.")
        return Released(self._release_everywhere(sketch, universe, noise), error)

    def _release_stored(self, sketch: CompactSketch, sample: Sampler) -> Counts:
        """The thresholded form: noise on the stored keys. Always makes k draws."""
        draws = sample(self.scale, self.k)
        noisy = {key: sketch.counters[key] + draw for key, draw in zip(sorted(sketch.counters), draws, strict=False)}
        return {key: count for key, count in noisy.items() if count >= self.threshold}

    def _release_everywhere(self, sketch: CompactSketch, universe: Universe, noise: Noise) -> Counts:
        """The pure form: noise on every key of the universe, of which the k largest are kept."""
        kept = noisy_everywhere(
            sketch.counters, universe, self.scale, self.threshold, noise.laplace, noise.below, most_keys=self.k
        )
        return largest(kept, self.k)

    def parameters(self) -> dict[str, object]:
        """What a sceptic needs to recompute the guarantee."""
        universe = {} if self.universe_size is None else {"universe_size": self.universe_size}
        return {
            "noise": "discrete-laplace",
            "scale": f"{self.scale:.17g}",
            "threshold": self.threshold,
            "k": self.k,
            "max_contributions": self.max_contributions,
            **universe,
        }

    def noise_bound(self, beta: float) -> NoiseBound:
        """Over a universe a third of β is for keys that noise alone lists. Of the rest a sixteenth is for keys that are
        not stored, and half of what is left for each side of a listed count."""
        certain = beta if self.universe_size is None else beta * 2 / 3
        each = certain * (1 - _UNSTORED_SHARE) / 2
        above = noise_bound(self.scale, self.k, each)  # of the key's draw and that of `lowered` together
        unstored = draw_bound(self.scale, 1, certain * _UNSTORED_SHARE)
        return NoiseBound(
            below=draw_bound(self.scale, self.k, each), above=above, unlisted=max(self.threshold - 1 + above, unstored)
        )

    @property
    def least(self) -> int:
        """Over a universe, noise alone may list a key."""
        return 1 if self.universe_size is None else 0

    def smallest_likely_count(self, beta: float) -> int:
        """The smallest count in the sketch that is reported with probability 1 − β."""
        return self.threshold + draw_bound(self.scale, 1, beta)


@lru_cache(maxsize=1024)
def calibrate(k: int, cost: Cost, max_contributions: int = 1) -> LaplaceCompact:
    """The thresholded form, at the lowest threshold that this cost allows. Needs δ > 0."""
    if cost.delta == 0:
        raise NoMechanism("laplace-compact needs a delta above 0, or a declared universe.")
    scale = laplace_scale(cost.epsilon / ((k + 1) * max_contributions))
    m = max_contributions
    threshold = lowest_threshold(lambda t: some_draw_tail(scale, k, t - m), cost.delta, start=m + 1)
    return LaplaceCompact(k=k, max_contributions=m, scale=scale, threshold=threshold)


@lru_cache(maxsize=1024)
def calibrate_everywhere(
    k: int, universe_size: int, cost: Cost, beta: float, max_contributions: int = 1
) -> LaplaceCompact:
    """The pure form; the cut-off keeps noise-only keys rare: some key of the universe passes it with at most β/3."""
    scale = laplace_scale(cost.epsilon / ((k + 1) * max_contributions))
    cutoff = smallest(lambda t: product_above(3, universe_size, draw_tail(scale, t)) <= beta, start=1)
    return LaplaceCompact(
        k=k, max_contributions=max_contributions, scale=scale, threshold=cutoff, universe_size=universe_size
    )


def _calibrated(question: Question) -> LaplaceCompact:
    """With a threshold if there is a δ to pay for it, else on the whole universe."""
    if question.cost.delta == 0 and question.universe_size is not None:
        return calibrate_everywhere(
            question.k, question.universe_size, question.cost, question.beta, question.max_contributions
        )
    return calibrate(question.k, question.cost, question.max_contributions)


MECHANISM = Mechanism(
    name="laplace-compact",
    version=2,
    theorem="corol:merged-sensitivity",
    description="Laplace noise of scale (k+1)/ε for the same sketches as gshm; pure over a declared universe.",
    rank=50,
    sketches=(CompactSketch,),
    needs_delta=False,
    needs_universe=False,
    is_pure=False,
    calibrate=_calibrated,
)
