"""Release one stream's sketch as an (ε, δ)-private histogram, with the sketch's own error: PMG.

`alg:PMG` of Lebeda & Tětek with integer noise and the smallest threshold that is private. One stream is the other plus
one event, or plus up to m, at a lower threshold than by `lem:PMG-multiple-items`. Privacy: `lem:PMG-privacy`, and the
shared draw hides how often all counters were lowered; error: `lem:PMG-error`, `thm:final_theorem`. Rests on
`lem:nb-cases`, so it takes a `StreamSketch`; a `StandardSketch`, built elsewhere from one stream, needs the higher
threshold of `calibrate_standard`. Proof note: pmg.md
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from app.core.errors import NoMechanism
from app.core.histogram import Counts, NoiseBound, Released
from app.core.ledger.budget import Cost
from app.core.mechanism import Calibrated, Mechanism
from app.core.noise.own_keys import group_threshold, laplace_cells
from app.core.noise.samplers import Noise, laplace_scale
from app.core.noise.tails import (
    draw_bound,
    lowest_threshold,
    many_key_tail,
    noise_bound,
    one_key_tail,
    smallest,
    some_draw_tail,
    two_key_tail,
)
from app.core.sketches.standard import StandardSketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.universe import Universe


@dataclass(frozen=True, slots=True, kw_only=True)
class Pmg(Calibrated[StreamSketch]):
    """PMG with its noise and its threshold t, for sketches of k counters and m events of one person."""

    scale: float  # m/ε, rounded up until the sampler charges at most ε/m

    def release(self, sketch: StreamSketch, noise: Noise, universe: Universe | None = None) -> Released:
        """Draw noise, and return the noisy counts at or above the threshold, in key order, and d − η.

        It always draws k + 1 values, so the time does not tell how many keys are stored; the draws of empty slots
        are dropped with them.
        """
        shared, *own = noise.laplace(self.scale, self.k + 1)  # η, ζ
        error = None if sketch.lowered is None else sketch.lowered - shared
        return Released(self._noisy(sketch.counters, shared, own), error)

    def _noisy(self, counters: Mapping[str, int], shared: int, own: Sequence[int]) -> Counts:
        noisy = {key: counters[key] + shared + draw for key, draw in zip(sorted(counters), own, strict=False)}
        return {key: count for key, count in noisy.items() if count >= self.threshold}

    def parameters(self) -> dict[str, object]:
        """What a sceptic needs to recompute the guarantee."""
        return {
            "noise": "discrete-laplace",
            "scale": f"{self.scale:.17g}",
            "threshold": self.threshold,
            "k": self.k,
            "max_contributions": self.max_contributions,
        }

    def noise_bound(self, beta: float) -> NoiseBound:
        """`thm:final_theorem`, with exact laws in place of its union bound; η is not in what bounds a count above."""
        for_sum, for_own, for_shared = 0.5 * beta, 0.49 * beta, 0.01 * beta
        guess = draw_bound(self.scale, self.k, for_own)
        own = smallest(lambda b: some_draw_tail(self.scale, self.k, b + 1) <= for_own, start=0, guess=guess)
        return NoiseBound(
            below=noise_bound(self.scale, self.k, for_sum),
            above=own,
            unlisted=max(self.threshold - 1 + own, draw_bound(self.scale, 1, for_shared)),
        )

    def smallest_likely_count(self, beta: float) -> int:
        """The smallest count in the sketch that is reported with probability 1 − β."""
        return self.threshold + noise_bound(self.scale, 1, beta)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardPmg(Pmg):
    """PMG at the higher threshold that sketches need which drop zero counters."""

    def release_standard(self, sketch: StandardSketch, noise: Noise) -> Counts:
        """The noisy counts alone, for a sketch that drops zero counters; its own error is not known."""
        shared, *own = noise.laplace(self.scale, self.k + 1)
        return self._noisy(sketch.counters, shared, own)


@lru_cache(maxsize=1024)
def calibrate(k: int, cost: Cost, max_contributions: int = 1) -> Pmg:
    """The least noise and the lowest threshold that this cost allows. δ must be above 0."""
    scale = laplace_scale(cost.epsilon / max_contributions)
    if max_contributions == 1:
        tail = one_key_tail if k == 1 else two_key_tail  # a single counter has no second key on one side (pmg.md)
        threshold = lowest_threshold(lambda t: tail(scale, t), cost.delta, start=1)
    else:
        threshold = group_threshold(laplace_cells(scale), k, max_contributions, cost.delta)
    return Pmg(k=k, max_contributions=max_contributions, scale=scale, threshold=threshold)


def calibrate_standard(k: int, cost: Cost) -> StandardPmg:
    """The same for a sketch that drops zero counters: up to k keys of count 1 may stand on one side."""
    if cost.delta == 0:
        raise NoMechanism("pmg cuts at a threshold and needs a delta above 0, for example 1e-6.")
    scale = laplace_scale(cost.epsilon)
    threshold = smallest(lambda t: many_key_tail(scale, k, t) <= cost.delta, start=1)
    return StandardPmg(k=k, scale=scale, threshold=threshold)


MECHANISM = Mechanism(
    name="pmg",
    version=2,
    theorem="thm:final_theorem",
    description="Laplace noise on each counter and one draw that all share; the best for one stream of events.",
    rank=10,
    sketches=(StreamSketch,),
    needs_delta=True,
    needs_universe=False,
    is_pure=False,
    calibrate=lambda question: calibrate(question.k, question.cost, question.max_contributions),
)
