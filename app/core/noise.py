"""The one door to randomness: exact integer noise from OpenDP's samplers, fed by the operating system.

A mechanism takes the samplers that it needs; only `main.py` chooses which, as one `Noise`. No setting, seed or request
reaches this module. Noise is drawn on a vector of zeros and added to the counters in Python's unbounded integers, so
sums do not saturate and the time does not depend on the counters. OpenDP's draws have 64 bits and do saturate; where a
Laplace draw did, `unbounded` continues it.
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


LARGEST, SMALLEST = 2**63 - 1, -(2**63)  # of 64 bits: OpenDP gives these for every draw beyond them too


def unbounded(bounded: Sampler) -> Sampler:
    """The exact discrete Laplace law, from a sampler of it that saturates at 64 bits.

    A draw of `LARGEST` tells only that ζ ≥ `LARGEST`. By how much ζ is larger is geometric, whatever the bound: the law
    has no memory. So the excess is drawn and added; in the same way below `SMALLEST`.
    """

    def sample(scale: float, size: int) -> list[int]:
        draws = bounded(scale, size)
        if min(draws, default=0) > SMALLEST and max(draws, default=0) < LARGEST:
            return draws
        return [_continued(draw, scale, bounded) for draw in draws]

    return sample


def _continued(draw: int, scale: float, bounded: Sampler) -> int:
    if draw == LARGEST:
        return draw + _excess(scale, bounded)
    return draw - _excess(scale, bounded) if draw == SMALLEST else draw


def _excess(scale: float, bounded: Sampler) -> int:
    """A geometric draw, from a sampler that saturates: the largest that it can give is continued in turn."""
    total = last = geometric(scale, bounded)
    while last == LARGEST - 1:
        last = geometric(scale, bounded)
        total += last
    return total


def geometric(scale: float, sample: Sampler) -> int:
    """Pr[i] = (1 − p)·p^i for p = e^(−1/scale): the law of ζ − b given ζ ≥ b, the same for every b ≥ 0. Here b = 1."""
    while True:
        for draw in sample(scale, 8):
            if draw >= 1:
                return draw - 1


def _laplace_in_64_bits(scale: float, size: int) -> list[int]:
    draws: list[int] = _laplace(scale)([0] * size)
    return draws


_exact_laplace = unbounded(_laplace_in_64_bits)


def discrete_laplace(scale: float, size: int) -> list[int]:
    """Independent draws with Pr[j] proportional to exp(−|j|/scale), exactly, at any scale."""
    return _exact_laplace(scale, size)


def discrete_gaussian(scale: float, size: int) -> list[int]:
    """Independent draws with Pr[j] proportional to exp(−j²/2·scale²), exactly but for saturation at 64 bits.

    At the scales that `gshm` allows, up to 2^50, that is 2^13 deviations away (gshm.md).
    """
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
