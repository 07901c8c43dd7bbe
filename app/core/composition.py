"""How private several releases are together, computed numerically and tighter than an accountant adds them up.

For a report only: it takes the costs as given, and is no valid rule for when to stop if costs are chosen after seeing
earlier releases (`accountants.py` has those).

Each release is replaced by the worst one with its cost: for (ε, δ) the privacy loss is ±ε with odds e^ε, and infinite
with probability δ (Kairouz, Oh & Viswanath 2015); for Gaussian noise of ρ it is normal, mean ρ and variance 2ρ, and
infinite with the δ of the threshold. Losses add up; their distributions are convolved on a grid, each loss rounded up.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_CELLS = 1 << 15  # on each side of zero
_NEGLIGIBLE = 1e-15  # mass that is moved up to infinity rather than carried along


@dataclass(frozen=True, slots=True)
class Release:
    """What one release cost: (ε, δ), or for Gaussian noise (ρ, δ)."""

    epsilon: float
    delta: float
    rho: float | None = None


@dataclass(frozen=True, slots=True)
class _Losses:
    """Probabilities of the losses (first + i)·step, and of an infinite one."""

    first: int
    mass: NDArray[np.float64]
    infinite: float

    def plus(self, other: "_Losses") -> "_Losses":
        infinite = self.infinite + other.infinite - self.infinite * other.infinite
        return _trimmed(self.first + other.first, _convolved(self.mass, other.mass), infinite)

    def times(self, number: int) -> "_Losses":
        """The sum of so many, by doubling."""
        if number == 1:
            return self
        half = self.times(number // 2)
        even = half.plus(half)
        return even.plus(self) if number % 2 else even


def _convolved(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    size = len(left) + len(right) - 1
    length = 1 << (size - 1).bit_length()
    product = np.fft.irfft(np.fft.rfft(left, length) * np.fft.rfft(right, length), length)[:size]
    return np.maximum(product, 0.0)  # what the transform leaves below zero is rounding


def _trimmed(first: int, mass: NDArray[np.float64], infinite: float) -> _Losses:
    """Let go of the far tails, to the pessimistic side: low losses move up a little, high ones to infinity."""
    low = int(np.searchsorted(np.cumsum(mass), _NEGLIGIBLE))
    high = len(mass) - int(np.searchsorted(np.cumsum(mass[::-1]), _NEGLIGIBLE))
    kept = mass[low:high].copy()
    kept[0] += mass[:low].sum()
    return _Losses(first + low, kept, infinite + float(mass[high:].sum()))


def _one(release: Release, step: float) -> _Losses:
    if release.rho is None:
        up, down = math.ceil(release.epsilon / step), -math.floor(release.epsilon / step)
        mass = np.zeros(up - down + 1)
        mass[-1] = 1 / (1 + math.exp(-release.epsilon))
        mass[0] = 1 - mass[-1]
        return _Losses(down, mass * (1 - release.delta), release.delta)
    spread = math.sqrt(2 * release.rho)
    reach = math.ceil((release.rho + 9 * spread) / step)
    edges = np.arange(-reach, reach + 1) * step
    below = np.array([0.5 * math.erfc(-(edge - release.rho) / (spread * math.sqrt(2))) for edge in edges])
    mass = np.diff(below, prepend=0.0)
    beyond = 1 - float(below[-1])
    return _Losses(-reach, mass * (1 - release.delta), release.delta + beyond)


def epsilon_of(releases: Iterable[Release], delta: float) -> float:
    """The ε at which all of them together are (ε, δ)-private; infinite where δ is not even the sum of the tails."""
    counted = Counter(releases)
    if not counted:
        return 0.0
    step = _step(counted)
    total: _Losses | None = None
    for release, number in counted.items():
        losses = _one(release, step).times(number)
        total = losses if total is None else total.plus(losses)
    assert total is not None  # noqa: S101  # counted is not empty
    return _epsilon_at(total, step, delta)


def _step(counted: Counter[Release]) -> float:
    """A grid that is fine beside the spread of the sum, and coarse enough to stay small."""
    variance = sum(number * (r.epsilon**2 if r.rho is None else 2 * r.rho) for r, number in counted.items())
    largest = max(r.epsilon for r in counted)
    step = max(12 * math.sqrt(variance), largest) / _CELLS
    return largest / math.ceil(largest / step)  # releases of one ε, the usual case, then need no rounding


def _epsilon_at(losses: _Losses, step: float, delta: float) -> float:
    """Smallest ε on the grid with Σ over losses l > ε of (1 − e^(ε−l))·Pr[l], and the infinite ones, at most δ."""
    values = (losses.first + np.arange(len(losses.mass))) * step

    def needed(epsilon: float) -> float:
        above = values > epsilon
        return losses.infinite + float(np.sum(-np.expm1(epsilon - values[above]) * losses.mass[above]))

    if needed(float(values[-1])) > delta:
        return math.inf
    low, high = 0.0, max(float(values[-1]), 0.0)
    if needed(low) <= delta:
        return low
    while high - low > step / 4:
        middle = (low + high) / 2
        low, high = (low, middle) if needed(middle) <= delta else (middle, high)
    return high
