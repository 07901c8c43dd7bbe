"""The laws of the noise, written down without the app's help, and a check whether draws follow one.

A test that draws real noise cannot be seeded. `FALSE_ALARM` is the probability that one check fails although draws
follow the law.
"""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

Cell = TypeVar("Cell", bound=Hashable)

FALSE_ALARM = 1e-9
FEWEST = 50  # expected in each cell, so that the law of χ² is close enough
REACH = 38  # scales: what lies further out has a probability below 1e-16, or 1e-300 for Gaussian noise


@dataclass(frozen=True, slots=True)
class Law(ABC):
    """The law of one integer draw ζ, symmetric about zero."""

    scale: float

    @abstractmethod
    def probability(self, j: Array) -> Array:
        """Pr[ζ = j]."""

    @abstractmethod
    def at_least(self, j: Array) -> Array:
        """Pr[ζ ≥ j] for whole j, without cancellation where it is small."""

    def less_than(self, j: Array) -> Array:
        """Pr[ζ < j] = Pr[ζ ≥ 1 − j]."""
        return self.at_least(1 - j)


@dataclass(frozen=True, slots=True)
class Laplace(Law):
    """Pr[ζ = j] = (1−p)/(1+p)·p^|j| for p = e^(−1/scale)."""

    def probability(self, j: Array) -> Array:
        p = math.exp(-1 / self.scale)
        return (1 - p) / (1 + p) * np.exp(-abs(j) / self.scale)

    def at_least(self, j: Array) -> Array:
        tail = np.exp(-np.maximum(j, 1 - j) / self.scale) / (1 + math.exp(-1 / self.scale))
        return np.where(j > 0, tail, 1 - tail)


@dataclass(frozen=True, slots=True)
class Gaussian(Law):
    """Pr[ζ = j] proportional to e^(−j²/2·scale²) on the whole numbers."""

    def probability(self, j: Array) -> Array:
        return np.exp(-(j**2) / (2 * self.scale**2)) / _gaussian_sum(self.scale)

    def at_least(self, j: Array) -> Array:
        tails = _gaussian_tails(self.scale)
        above = np.minimum(np.maximum(j, 1 - j), len(tails) - 1).astype(np.int64)
        return np.where(j > 0, tails[above], 1 - tails[above])


def _gaussian_weights(scale: float) -> Array:
    """e^(−j²/2·scale²) for j = 0, 1, … up to where it vanishes."""
    return np.exp(-(np.arange(math.ceil(REACH * scale) + 2, dtype=np.float64) ** 2) / (2 * scale**2))


@lru_cache(maxsize=64)
def _gaussian_sum(scale: float) -> float:
    return 2 * math.fsum(_gaussian_weights(scale)) - 1


@lru_cache(maxsize=64)
def _gaussian_tails(scale: float) -> Array:
    """Pr[ζ ≥ j] for j = 0, 1, …: small terms are added up first."""
    tails: Array = np.cumsum(_gaussian_weights(scale)[::-1])[::-1] / _gaussian_sum(scale)
    return tails


def fits(draws: Sequence[int], law: Law) -> bool:
    """Pearson's χ² with cells of equal width, −m, …, m, and one for each tail."""
    half = int(law.scale / 10)  # a cell is 2·half + 1 wide: single values unless the scale is large
    width = 2 * half + 1
    starts = np.arange(0, 1000.0) * width - half
    inside = law.at_least(starts) - law.at_least(starts + width)
    beyond = law.at_least(starts + width)
    m = int(np.flatnonzero(len(draws) * np.minimum(inside, beyond) >= FEWEST).max())
    seen = Counter(max(-m - 1, min(m + 1, (draw + half) // width)) for draw in draws)
    expected = {cell: len(draws) * float(inside[abs(cell)]) for cell in range(-m, m + 1)}
    expected[-m - 1] = expected[m + 1] = len(draws) * float(beyond[m])
    return agrees(seen, expected)


def agrees(seen: Mapping[Cell, int], expected: Mapping[Cell, float]) -> bool:
    """Pearson's χ². The smallest cells and what no cell names are one cell, in which at least `FEWEST` are expected."""
    total = sum(seen.values())
    rest = total - math.fsum(expected.values())
    large = sorted(expected, key=lambda cell: expected[cell], reverse=True)
    while large and (expected[large[-1]] < FEWEST or 1e-6 * total < rest < FEWEST):
        rest += expected[large.pop()]
    pairs = [(seen.get(cell, 0), expected[cell]) for cell in large]
    if rest > 1e-6 * total:
        pairs.append((total - sum(count for count, _ in pairs), rest))
    assert len(pairs) > 1, "too few draws to tell anything"
    statistic = math.fsum((count - mean) ** 2 / mean for count, mean in pairs)
    return chi_square_tail(statistic, degrees=len(pairs) - 1) >= FALSE_ALARM


def chi_square_tail(statistic: float, degrees: int) -> float:
    """Pr[χ² ≥ statistic], a finite sum, after the normal tail when the degrees of freedom are odd."""
    half = statistic / 2
    if half == 0:
        return 1.0
    shift = degrees % 2 / 2
    terms = (math.exp(-half + (i + shift) * math.log(half) - math.lgamma(i + shift + 1)) for i in range(degrees // 2))
    return math.fsum([math.erfc(math.sqrt(half)) if shift else 0.0, *terms])


def most_failures(trials: int, rate: float) -> int:
    """Of so many independent trials, each failing at most at this rate, more fail with probability ≤ `FALSE_ALARM`."""
    log_odds, term = math.log(rate) - math.log1p(-rate), trials * math.log(rate)
    tail = 0.0
    for failures in range(trials, -1, -1):
        tail += math.exp(term)
        if tail > FALSE_ALARM:
            return failures
        term += math.log(failures) - math.log(trials - failures + 1) - log_odds if failures else 0.0
    return 0


class Seeded:
    """A sampler for tests that need very many draws: the right law, by inversion, from a seeded generator."""

    def __init__(self, law: type[Law], seed: int) -> None:
        self._law = law
        self._random = np.random.default_rng(seed)
        self._drawn: dict[float, list[int]] = {}

    def __call__(self, scale: float, size: int) -> list[int]:
        drawn = self._drawn.setdefault(scale, [])
        while len(drawn) < size:
            drawn.extend(self._more(scale))
        result = drawn[-size:] if size else []
        del drawn[len(drawn) - size :]
        return result

    def _more(self, scale: float) -> list[int]:
        reach = math.ceil(REACH * scale)
        below = _distribution(self._law, scale, reach)
        found: list[int] = (np.searchsorted(below, self._random.random(1 << 16), side="right") - reach).tolist()
        return found


@lru_cache(maxsize=64)
def _distribution(law: type[Law], scale: float, reach: int) -> Array:
    return law(scale).less_than(np.arange(-reach, reach, dtype=np.float64) + 1)
