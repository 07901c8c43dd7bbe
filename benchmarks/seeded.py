"""Noise of the service's laws from a seeded generator, for measurements that need very many draws.

The operating system's noise would take minutes for what this draws in a second. Not for releases: whoever knows the
seed knows the noise. Both laws are exact but for the 53 bits of the uniform numbers that they are made from.
"""

import math
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from app.core.noise.samplers import Noise

_AT_ONCE = 1 << 16  # coins
_SMALLEST = 50  # scale of Gaussian noise, in steps of its lattice
_FARTHEST = 40  # deviations: no normal number that a generator draws lies further out


def seeded_noise(seed: int) -> Noise:
    """Discrete Laplace and discrete Gaussian draws, and uniform whole numbers, the same for the same seed."""
    source = _Seeded(seed)
    return Noise(source.laplace, source.gaussian, source.below)


class _Seeded:
    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._coins: defaultdict[int, list[int]] = defaultdict(list)

    def laplace(self, scale: float, size: int) -> list[int]:
        """The difference of two geometric draws."""
        stop = -math.expm1(-1 / scale)
        drawn: list[int] = (self._random.geometric(stop, size) - self._random.geometric(stop, size)).tolist()
        return drawn

    def gaussian(self, scale: float, size: int) -> list[int]:
        """Normal draws x, rounded to j; kept with a probability in proportion to exp((x² − j²)/2·scale²).

        What is kept has the density exp(−j²/2·scale²) on the whole cell of j, which is the discrete law. For fine
        lattices: at small scales hardly anything would be kept.
        """
        if scale < _SMALLEST:
            raise ValueError(f"the scale must be at least {_SMALLEST}")
        kept: list[int] = []
        while len(kept) < size:
            kept += self._kept(scale, size - len(kept)).tolist()
        return kept

    def _kept(self, scale: float, size: int) -> NDArray[np.int64]:
        x = self._random.standard_normal(size) * scale
        j = np.rint(x)
        most = _FARTHEST / (2 * scale) + 1 / (8 * scale**2)  # |x − j| ≤ 1/2
        likelier = (x - j) * (x + j) / (2 * scale**2)
        return j[self._random.random(size) <= np.exp(likelier - most)].astype(np.int64)

    def below(self, n: int) -> int:
        """A uniform whole number below n."""
        coins = self._coins[n]
        if not coins:
            coins += self._random.integers(0, n, _AT_ONCE).tolist()
        return coins.pop()
