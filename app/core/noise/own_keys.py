"""How likely a release reports a key that one of two neighbours alone stores: these *own* keys decide δ.

All keys share the draw η, and each has a draw ζ of its own. Where one stream is the other plus at most m events, own
keys are at worst one of height m and w − 1 of height m − U, for some U from 0 to m (pmg.md). So what is asked for is
Pr[η + max(m + ζ₁, m − U + ζ₂, …, m − U + ζ_w) ≥ t] = 1 − E[F(t − m − η)·F(t − m + U − η)^(w−1)], F(x) = Pr[ζ < x].

It is summed over cells of η. In each cell η is taken at its upper end, and t and U are rounded down to whole cells. All
of that makes a report likelier, so the probability is never understated. Where a cell is one value of the noise, the
sum is exact. What double precision loses, some 1e-11 of the sum, is covered by widening it by 1e-9.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from app.core.noise.normal import log_phi
from app.core.noise.tails import float_below, smallest, survival

Floats = NDArray[np.float64]

_CELLS = 1 << 15  # about so many
_WIDENED = 1 + 1e-9
_NEVER = -1e9  # in place of log 0


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The law of a draw in cells of one width, a power of two: cell i ends at i·width, and that end belongs to it."""

    width: float
    first: int  # the number of the first cell; what lies below it is counted to it
    mass: Floats  # of the cells from the first on
    beyond: float  # the probability of what lies above the last cell
    top: int
    log_below: Floats  # log Pr[ζ < i·width] for i = top, top − 1, …

    def own_key_tail(self, height: Fraction, gap: Fraction | int, others: int) -> float:
        """At least Pr[η + max(ζ₁, ζ₂ − gap, …) ≥ height], with so many others beside ζ₁."""
        first, other = self._log_below(height), self._log_below(height + gap)
        if first is None or other is None:
            return 1.0
        return (float(np.sum(self.mass * -np.expm1(first + others * other))) + self.beyond) * _WIDENED

    def _log_below(self, height: Fraction) -> Floats | None:
        """log F(height − η), or less, for η at the end of each cell; None for a height that is far too low."""
        start = max(0, self.top - math.floor(height / Fraction(self.width)) + self.first)
        found = self.log_below[start : start + len(self.mass)]
        return found if len(found) == len(self.mass) else None


def raised_and_keys(max_contributions: int, k: int) -> list[tuple[int, int]]:
    """Each U with its w: where U of m events raise a counter, at most w keys stand on one side alone (pmg.md)."""
    m = max_contributions
    return [(raised, min(k, 2 * raised + (raised < m))) for raised in range(m + 1)]


def group_threshold(
    cells: Cells, k: int, max_contributions: int, delta: Fraction, slack: Fraction = Fraction(0)
) -> int:
    """The smallest t from 1 on at which δ is enough for every U, if reports from t − slack on are counted.

    It is searched for one U, and on from there for the U that needs most, until none needs more. A U is rounded down to
    a whole cell, and of several that give the same the largest has the most keys.
    """
    if delta <= 0:
        raise ValueError("no threshold is high enough for a delta of 0")
    width = Fraction(cells.width)
    shapes = {raised // width * width: keys - 1 for raised, keys in raised_and_keys(max_contributions, k)}
    enough = float_below(delta)

    def tail(threshold: int, gap: Fraction) -> float:
        return cells.own_key_tail(threshold - max_contributions - slack, gap, shapes[gap])

    def lowest(gap: Fraction, start: int) -> int:
        return smallest(lambda t: tail(t, gap) <= enough, start=start, guess=2 * max_contributions)

    threshold, worst = 1, max(shapes)
    while True:
        threshold = lowest(worst, threshold)
        worst = max(shapes, key=partial(tail, threshold))
        if tail(threshold, worst) <= enough:
            return threshold


@lru_cache(maxsize=4)
def laplace_cells(scale: float) -> Cells:
    """Discrete Laplace noise of this scale. Up to a scale of 480 a cell is one value."""
    below, above = 12, 56  # scales: δ is at least 1e-18, and e^−56 is little beside it
    width = max(1.0, _power_of_two((below + above) * scale / _CELLS))
    first, last = -math.ceil(below * scale / width), math.ceil(above * scale / width)
    beyond = survival(scale, np.arange(first - 1, last + 1) * width)
    beyond[0] = 1
    top = 2 * last
    heights = np.arange(top, -2 * last, -1) * width
    with np.errstate(divide="ignore"):
        log_below = np.maximum(np.log1p(-survival(scale, heights - 1)), _NEVER)
    return Cells(width, first, -np.diff(beyond), float(beyond[-1]), top, log_below)


@lru_cache(maxsize=4)
def gaussian_cells(sigma: float) -> Cells:
    """Continuous Gaussian noise of this standard deviation."""
    below, above = 8, 20  # deviations: Φ(−20) is below 1e-88
    width = _power_of_two((below + above) * sigma / _CELLS)
    first, last = -math.ceil(below * sigma / width), math.ceil(above * sigma / width)
    ends = np.arange(first - 1, last + 1, dtype=np.float64) * (width / sigma)
    tails = np.exp(log_phi(-np.abs(ends)))
    tails[0] = 0
    top = 2 * last
    heights = np.arange(top, -2 * last, -1, dtype=np.float64) * (width / sigma)
    return Cells(width, first, np.abs(np.diff(tails)), float(tails[-1]), top, log_phi(heights))


def _power_of_two(about: float) -> float:
    return 2.0 ** round(math.log2(about))
