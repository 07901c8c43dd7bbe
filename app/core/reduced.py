"""What the mechanisms on reduced counters have in common: which numbers get noise, and how they are published.

Reduced counters R_x and the number of events n get noise, and Σc too where the sum has one source (`summed.beside`).
All are in steps of 1/(k+1) counts, or of a fraction of that. Noisy values have a tilde, ζ is noise. What is published
is post-processing of these: where there is one source, G = Σc~, but at least zero, so that no listed count is below the
threshold; with several sources G = 0. A key whose R_x~ reaches the threshold is listed with the count (R_x~ + G)/(k+1),
rounded down. The sketch's own error is S = (n~ − G)/(k+1), rounded up.

One source: (k+1)·c_x = R_x + Σc for a key with R_x > 0, and (k+1)·f_x ≤ (k+1)·(c_x + d) = R_x + n, because
n = Σc + (k+1)·d. Several: (k+1)·c_x ≥ R_x, c_x added up over the sources, and (k+1)·f_x ≤ R_x + n
(`lem:pure-dp-postprocessing-error`). So for every G, in steps:

- a listed key has a counter of at least count·(k+1) − ζ_x − ζ_G, where ζ_G = G − Σc is the larger of ζ_Σ and −Σc, or
  zero with several sources;
- a listed key has a true count of at most R_x~ − ζ_x + n~ − ζ_n < (count + 1 + S)·(k+1) − ζ_x − ζ_n;
- a key that is not listed has R_x below the threshold but for its noise, so a true count of at most
  (S + G/(k+1))·(k+1) + threshold − 1 − ζ_x − ζ_n.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from app.core.histogram import NoiseBound, Released
from app.core.mechanism import Calibrated
from app.core.noise.tails import draw_bound, draw_tail, noise_bound, smallest, some_draw_tail, some_exceeds
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced(Calibrated[StreamSketch | SummedSketch]):
    """A mechanism on reduced counters, calibrated for sums of at most so many sources."""

    sources: int = 1  # streams in the sketch

    @property
    @abstractmethod
    def unit(self) -> int:
        """Steps per count: k + 1, or a multiple of it."""

    def published(self, summed: SummedSketch, kept: Mapping[str, int], noise: Sequence[int]) -> Released:
        """What is published of these noisy values, in steps; `noise` is for n and, where there is one source, Σc.

        Where the sketch does not know n or Σc, its noise is left unused.
        """
        finer = self.unit // (self.k + 1)
        reduction = 0  # G
        if self.sources == summed.sources == 1 and summed.reduction is not None:
            reduction = max(0, summed.reduction * finer + noise[1])
        own_error = None
        if summed.events is not None:
            own_error = -((reduction - summed.events * finer - noise[0]) // self.unit)
        counts = {key: (steps + reduction) // self.unit for key, steps in kept.items()}
        return Released(counts, own_error, reduction=-(-reduction // self.unit))

    def bound(self, *, low: int, high: int) -> NoiseBound:
        """The bound in whole counts, where for all keys ζ_x + ζ_G ≤ low and −ζ_x − ζ_n ≤ high, in steps.

        Counts are whole, so what is not a whole count may be left away below, and has to be one above: there a rounded
        count and S together hide less than one.
        """
        return NoiseBound(
            below=low // self.unit,
            above=-(-high // self.unit),
            unlisted=self.threshold + (high - 1) // self.unit,
        )


@lru_cache(maxsize=256)
def laplace_low(scale: float, keys: int, sources: int, beta: float) -> int:
    """A b for which Pr[ζ_x + ζ_G > b for some of `keys` keys] ≤ β.

    With one source ζ_G is at most the larger of ζ_Σ and zero. So either some ζ_x + ζ_Σ > b; or some ζ_x > b while
    ζ_Σ < 0, which is independent of that and has a probability below one half.
    """
    if sources > 1:
        return draw_bound(scale, keys, beta)
    return smallest(
        lambda b: some_exceeds(scale, keys, b) + float(some_draw_tail(scale, keys, b + 1)) / 2 <= beta,
        start=noise_bound(scale, keys, beta),
    )


@lru_cache(maxsize=256)
def laplace_high(scale: float, keys: int, room: int, beta: float) -> int:
    """The smallest b for which Pr[−ζ_x − ζ_n > b for some of `keys` keys, or −ζ_n > b + room] is shown to be at most β.

    The second is for keys without a draw of their own: their reduced counters are `room` steps below the threshold.
    """
    return smallest(
        lambda b: some_exceeds(scale, keys, b) + float(draw_tail(scale, b + 1 + room)) <= beta,
        start=noise_bound(scale, keys, beta),
    )
