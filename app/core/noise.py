"""The one door to randomness: exact integer noise from OpenDP's samplers, fed by the operating system.

A mechanism takes the samplers that it needs; only `main.py` chooses which, as one `Noise`. No setting, seed or request
reaches this module. Noise is drawn on a vector of zeros and added to the counters in Python's unbounded integers, so
nothing saturates and the time does not depend on the counters.
"""

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import opendp.prelude as dp

Sampler = Callable[[float, int], list[int]]  # scale and how many -> that many independent draws
Below = Callable[[int], int]  # n -> a uniform whole number from 0 to n − 1

dp.enable_features("contrib")


def _laplace(scale: float) -> Any:
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    return dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)


@lru_cache(maxsize=1024)
def laplace_scale(epsilon: Fraction) -> float:
    """The smallest tried scale at which OpenDP's own privacy map charges at most ε for a change by one.

    A counter that moves by one then changes the probability of any draw by a factor of at most e^ε.
    """
    scale = float(1 / epsilon)
    while Fraction(_laplace(scale).map(1)) > epsilon:
        scale = math.nextafter(scale, math.inf)
    return scale


def discrete_laplace(scale: float, size: int) -> list[int]:
    """Independent draws with Pr[j] proportional to exp(−|j|/scale), exactly."""
    draws: list[int] = _laplace(scale)([0] * size)
    return draws


def discrete_gaussian(scale: float, size: int) -> list[int]:
    """Independent draws with Pr[j] proportional to exp(−j²/2·scale²), exactly."""
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    draws: list[int] = dp.m.make_gaussian(domain, dp.l2_distance(T="i64"), scale=scale)([0] * size)
    return draws


@dataclass(frozen=True, slots=True)
class Draws:
    """Draws that a release will want: how many, of which law."""

    law: Literal["laplace", "gaussian"]
    scale: float
    size: int


class _Stock:
    """Draws made ahead. They are independent and alike, so it does not matter which a call gets; each is used once."""

    def __init__(self, sample: Sampler, scale: float, size: int) -> None:
        self._sample = sample
        self._scale = scale
        self._drawn = sample(scale, size)

    def __call__(self, scale: float, size: int) -> list[int]:
        if scale != self._scale:
            return self._sample(scale, size)
        taken, self._drawn = self._drawn[:size], self._drawn[size:]
        return taken + self._sample(scale, size - len(taken)) if len(taken) < size else taken


@dataclass(frozen=True, slots=True)
class Noise:
    """All randomness that a release may use."""

    laplace: Sampler
    gaussian: Sampler
    below: Below

    def stocked(self, wanted: Draws) -> "Noise":
        """With these draws made now, for one release: 65,536 take most of a second, and others wait for its lock."""
        if wanted.law == "laplace":
            return replace(self, laplace=_Stock(self.laplace, wanted.scale, wanted.size))
        return replace(self, gaussian=_Stock(self.gaussian, wanted.scale, wanted.size))


SYSTEM_NOISE = Noise(discrete_laplace, discrete_gaussian, secrets.randbelow)
