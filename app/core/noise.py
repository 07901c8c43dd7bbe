"""The one door to randomness: exact integer noise from OpenDP's samplers, fed by the operating system.

A mechanism takes the samplers that it needs; only `main.py` chooses which, as one `Noise`. No setting, seed or request
reaches this module. Noise is drawn on a vector of zeros and added to the counters in Python's unbounded integers, so
nothing saturates and the time does not depend on the counters.
"""

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

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
class Noise:
    """All randomness that a release may use."""

    laplace: Sampler
    gaussian: Sampler
    below: Below


SYSTEM_NOISE = Noise(discrete_laplace, discrete_gaussian, secrets.randbelow)
