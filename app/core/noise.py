"""The one door to randomness: exact integer noise from OpenDP's samplers, fed by the operating system.

A mechanism takes a `Sampler`; only `main.py` chooses which. No setting, seed or request reaches this module.
Noise is drawn on a vector of zeros and added to the counters in Python's unbounded integers, so nothing
saturates and the time does not depend on the counters.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import opendp.prelude as dp

Sampler = Callable[[float, int], list[int]]  # scale and how many -> that many independent discrete Laplace draws

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
