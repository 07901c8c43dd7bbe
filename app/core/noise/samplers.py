"""The one door to randomness: exact integer noise from OpenDP's samplers, fed by the operating system.

A mechanism is handed its samplers, as one `Noise`; only `main.py` chooses which. No setting, seed or request reaches
this module. Noise is drawn on a vector of zeros and added to the counters in Python's unbounded integers, so
sums do not saturate and the time does not depend on the counters. OpenDP's draws have 64 bits and do saturate; where a
Laplace draw did, `unbounded` continues it.
"""

import math
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Generic, ParamSpec, TypeVar

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
        outward = {LARGEST: 1, SMALLEST: -1}
        return [draw + outward[draw] * _excess(scale, bounded) if draw in outward else draw for draw in draws]

    return sample


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


# Independent draws with Pr[j] proportional to exp(−|j|/scale), exactly, at any scale
discrete_laplace = unbounded(_laplace_in_64_bits)


def discrete_gaussian(scale: float, size: int) -> list[int]:
    """Independent draws with Pr[j] proportional to exp(−j²/2·scale²), exactly but for saturation at 64 bits.

    A mechanism that draws from it must keep the scale so small that saturation hardly ever happens: at a scale of 2^50
    it is 2^13 deviations away (the proof note gshm.md counts with that).
    """
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    draws: list[int] = dp.m.make_gaussian(domain, dp.l2_distance(T="i64"), scale=scale)([0] * size)
    return draws


@dataclass(frozen=True, slots=True)
class Noise:
    """All randomness that a release may use: noise of two laws, and uniform whole numbers."""

    laplace: Sampler
    gaussian: Sampler
    below: Below


MOST_HIDDEN = 1_000_000  # draws: 10 to 20 seconds. A stream or a compact sketch can have far fewer keys


def padded(stored: int, most: int) -> int:
    """How many draws to make for `stored` keys, where there can be at most `most`.

    As many as there can be, so that the time does not tell how many there are. A sum of very many sources hides less:
    beyond a million it makes one draw for each key that is stored.
    """
    return max(stored, min(most, MOST_HIDDEN))


P = ParamSpec("P")
T = TypeVar("T")


class _Noted(Generic[P, T]):
    """Draws of one kind: `make` draws and keeps them, `give` gives them out in the same order, each once.

    `give` must be asked for the same as `make` was, in the same order: otherwise a release would get draws of another
    law than it asked for.
    """

    def __init__(self, draw: Callable[P, T]) -> None:
        self._draw = draw
        self._noted: deque[tuple[object, deque[T]]] = deque()  # what was asked, and the answers to that, in a row

    def make(self, *args: P.args, **kwargs: P.kwargs) -> T:
        if not self._noted or self._noted[-1][0] != args:
            self._noted.append((args, deque()))
        made = self._draw(*args, **kwargs)
        self._noted[-1][1].append(made)
        return made

    def give(self, *args: P.args, **_kwargs: P.kwargs) -> T:
        asked, answers = self._noted[0] if self._noted else (None, None)
        if asked != args or answers is None:
            raise RuntimeError("a release asked for draws that were not made ahead")
        given = answers.popleft()
        if not answers:
            self._noted.popleft()
        return given


def draw_ahead(noise: Noise, rehearse: Callable[[Noise], object]) -> Noise:
    """Make every draw that a rehearsal asks for, now. The noise that is returned gives these out, each once, no others.

    For a release that must not draw while it holds a lock. It is rehearsed on an empty sketch first; run on the real
    sketch afterwards, it asks for the same draws. Its output has the same law as if it drew then, because the draws
    do not depend on the sketch.
    """
    laplace, gaussian, below = _Noted(noise.laplace), _Noted(noise.gaussian), _Noted(noise.below)
    rehearse(Noise(laplace.make, gaussian.make, below.make))
    return Noise(laplace.give, gaussian.give, below.give)


SYSTEM_NOISE = Noise(discrete_laplace, discrete_gaussian, secrets.randbelow)
