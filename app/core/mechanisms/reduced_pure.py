"""Release reduced counters with noise on every key of a declared universe: pure ε, no δ.

The reduced sketch of `alg:MG-pure-DP`, one or several added up; sensitivity from
`lem:pure-dp-postprocessing-sensitivity`, m contributions by `lem:pure-dp-user-level`. The number of events, and Σc of a
single stream, are released beside the counters under the same noise. Keys are never drawn one by one (`everywhere.py`),
so the universe may have 2^63 of them. Proof note: reduced_pure.md
"""

from dataclasses import dataclass
from functools import lru_cache

from app.core.errors import NoMechanism
from app.core.histogram import NoiseBound, Released, largest
from app.core.ledger.budget import Cost
from app.core.mechanism import Mechanism, Question
from app.core.noise.everywhere import noisy_everywhere
from app.core.noise.samplers import Noise, laplace_scale
from app.core.noise.tails import draw_bound, draw_tail, product_above, smallest
from app.core.reduced import Reduced, laplace_high, laplace_low
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch, as_sum, beside, sensitivity, whole_counts
from app.core.sketches.universe import Universe


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducedPure(Reduced):
    """Calibrated for k counters, m contributions, a number of sources, a universe's size and one ε.

    Inside, a count is k + 1 steps. Its threshold is a public cut-off, in counts: it keeps noise-only keys rare and does
    not bear on privacy.
    """

    universe_size: int  # d
    scale: float  # D/ε, in steps

    @property
    def unit(self) -> int:
        """Steps per count."""
        return self.k + 1

    def release(self, sketch: StreamSketch | SummedSketch, noise: Noise, universe: Universe | None = None) -> Released:
        """Draw noise for every key of the universe, and return the largest whose reduced part is at or above the
        cut-off: as many as the sketch may store, at most; in key order."""
        if universe is None:
            raise NoMechanism("reduced-pure cannot release this sketch.")
        summed = as_sum(sketch)
        cutoff, most_keys = self.threshold * self.unit, summed.most_keys
        others = noise.laplace(self.scale, beside(self.sources))
        kept = noisy_everywhere(
            summed.counters, universe, self.scale, cutoff, noise.laplace, noise.below, most_keys=most_keys
        )
        return self.published(summed, largest(kept, most_keys), others)

    def parameters(self) -> dict[str, object]:
        """What a sceptic needs to recompute the guarantee; the scale in counts."""
        return {
            "noise": "discrete-laplace",
            "scale": f"{self.scale / self.unit:.17g}",
            "threshold": self.threshold,
            "k": self.k,
            "max_contributions": self.max_contributions,
            "sources": self.sources,
            "universe_size": self.universe_size,
        }

    def noise_bound(self, beta: float) -> NoiseBound:
        """A third of β each: noise alone lists a key; the noise of some stored key is too high; or it is too low."""
        keys, third = self.k * self.sources, beta / 3
        return self.bound(
            low=laplace_low(self.scale, keys, self.sources, third),
            high=laplace_high(self.scale, keys, self.threshold * self.unit - 1, third),
        )

    @property
    def least(self) -> int:
        """0: noise alone may list a key."""
        return 0

    def smallest_likely_count(self, beta: float) -> int:
        """The smallest count in the sketch that is reported with probability 1 − β."""
        noise = whole_counts(draw_bound(self.scale, 1, beta), self.k)
        return self.threshold + noise + 1  # 1: the sketch part is rounded down


@lru_cache(maxsize=1024)
def calibrate(k: int, max_contributions: int, sources: int, universe_size: int, cost: Cost, beta: float) -> ReducedPure:
    """The least noise that this ε allows, and the lowest cut-off that keeps noise-only keys rare."""
    scale = laplace_scale(cost.epsilon / sensitivity(k, max_contributions, sources))

    def rare(threshold: int) -> bool:
        """Whether some key of the universe passes by its noise alone with at most β/3."""
        return product_above(3, universe_size, draw_tail(scale, threshold * (k + 1))) <= beta

    return ReducedPure(
        k=k,
        max_contributions=max_contributions,
        sources=sources,
        universe_size=universe_size,
        scale=scale,
        threshold=smallest(rare, start=1),
    )


def _calibrated(question: Question) -> ReducedPure:
    assert question.universe_size is not None  # noqa: S101  # `needs_universe`
    return calibrate(
        question.k,
        question.max_contributions,
        question.sources,
        question.universe_size,
        question.cost,
        question.beta,
    )


MECHANISM: Mechanism[StreamSketch | SummedSketch] = Mechanism(
    name="reduced-pure",
    version=2,
    theorem="lem:pure-dp-user-level",
    description="Laplace noise on the reduced counter of every possible key; needs a declared universe and no δ.",
    rank=30,
    sketches=(StreamSketch, SummedSketch),
    needs_delta=False,
    needs_universe=True,
    is_pure=True,
    calibrate=_calibrated,
    reduces=True,
)
