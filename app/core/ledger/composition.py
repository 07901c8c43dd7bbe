"""How private several releases are together, computed numerically and tighter than an accountant adds them up.

For a report only: it takes the costs as given, and is no valid rule for when to stop if costs are chosen after seeing
earlier releases (`accountants.py` has those).

Each release is replaced by the worst one with its cost: for (ε, δ) the privacy loss is ±ε with odds e^ε, and infinite
with probability δ (Kairouz, Oh & Viswanath 2015); for Gaussian noise of ρ it is normal, mean ρ and variance 2ρ, and
infinite with the δ of the threshold. Losses add up; their distributions are convolved on a grid, each loss rounded up.

The result is an upper value: what double precision may lose is added. A Fourier transform loses some 1e-12 of the
whole mass, which may be far more than δ. So probabilities are tilted first: Pr[l]·e^(λl), scaled to 1, with λ such that
most of it lies where the ε is expected. Tilting and convolving can be exchanged. If at most `lost` of the tilted mass
is missing, then δ(ε) = Σ over l > ε of (1 − e^(ε−l))·Pr[l] is understated by at most lost·scale·e^(−λε), which is then
small beside δ. Every λ gives a valid bound; a good one gives a close one.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_CELLS = 1 << 15  # on each side of zero
_NEGLIGIBLE = 1e-15  # tilted mass that is let go of at either end, and counted as lost
_DIRECTLY = 1 << 22  # products that a convolution takes one by one
_TRANSFORM = 8 * 2.0**-53  # relative error of a Fourier transform in ℓ2, for each of its log2(length) stages
_REACH = 9.0  # deviations: a normal variable lies further out with probability below 1e-18
_ROUNDING = 1e-9, 1e-12  # more than products and sums of positive numbers lose: of δ, and of it for each release


@dataclass(frozen=True, slots=True)
class Release:
    """What one release cost: (ε, δ), or for Gaussian noise (ρ, δ), where ε does not count."""

    epsilon: float
    delta: float
    rho: float | None = None


@dataclass(frozen=True, slots=True)
class _Losses:
    """A law of losses: Pr[(first + i)·step] = mass[i]·e^(log_scale − λ·(first + i)·step), infinite with `infinite`."""

    first: int
    mass: NDArray[np.float64]
    log_scale: float
    lost: float  # at least what is missing of the mass
    infinite: float

    def plus(self, other: "_Losses") -> "_Losses":
        mass, lost = _convolved(self.mass, other.mass)
        low = int(np.searchsorted(np.cumsum(mass), _NEGLIGIBLE))
        high = len(mass) - int(np.searchsorted(np.cumsum(mass[::-1]), _NEGLIGIBLE))
        return _Losses(
            first=self.first + other.first + low,
            mass=mass[low:high],
            log_scale=self.log_scale + other.log_scale,
            lost=self.lost + other.lost + lost + 4 * _NEGLIGIBLE,  # 4: the two sums that find the ends are rounded
            infinite=self.infinite + other.infinite - self.infinite * other.infinite,
        )

    def times(self, number: int) -> "_Losses":
        """The sum of so many, by doubling."""
        if number == 1:
            return self
        half = self.times(number // 2)
        even = half.plus(half)
        return even.plus(self) if number % 2 else even


def _convolved(left: NDArray[np.float64], right: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """The law of a sum, and how much of its mass may be missing."""
    if len(left) * len(right) <= _DIRECTLY:
        return np.convolve(left, right), 0.0  # right in relative terms: `_ROUNDING`
    size = len(left) + len(right) - 1
    length = 1 << (size - 1).bit_length()
    product = np.fft.irfft(np.fft.rfft(left, length) * np.fft.rfft(right, length), length)[:size]
    return np.maximum(product, 0.0), _lost_by_transform(left, right, length)


def _lost_by_transform(left: NDArray[np.float64], right: NDArray[np.float64], length: int) -> float:
    """At least the sum of all errors of a convolution by transforms; raising what came out below zero only adds mass.

    A transform of 2^t values has a relative error of at most t·η in ℓ2, η < 7·2^−53 (Higham, Accuracy and Stability of
    Numerical Algorithms, Theorem 24.2). The errors of each are multiplied by the other's largest value, at most its ℓ1
    norm; the product and the transform back add no more than these two. √length turns ℓ2 into ℓ1.
    """
    norms = np.linalg.norm(left) * right.sum() + np.linalg.norm(right) * left.sum()
    return float(2 * _TRANSFORM * math.log2(length) * math.sqrt(length) * norms)


def _one(release: Release, step: float, tilt: float) -> _Losses:
    first, probability, lost = _two_losses(release, step) if release.rho is None else _normal(release.rho, step, tilt)
    weights = probability * np.exp(tilt * step * (first + np.arange(len(probability))))
    scale = float(weights.sum())
    return _Losses(first, weights / scale, math.log(scale) + math.log1p(-release.delta), lost, release.delta)


def _two_losses(release: Release, step: float) -> tuple[int, NDArray[np.float64], float]:
    up, down = math.ceil(release.epsilon / step), -math.floor(release.epsilon / step)
    probability = np.zeros(up - down + 1)
    probability[-1] = 1 / (1 + math.exp(-release.epsilon))
    probability[0] = 1 / (1 + math.exp(release.epsilon))
    return down, probability, 0.0


def _normal(rho: float, step: float, tilt: float) -> tuple[int, NDArray[np.float64], float]:
    """A normal loss, up to 9 deviations around where its tilted law, which is normal too, has its mean."""
    deviation = math.sqrt(2 * rho)
    middle = rho + 2 * rho * tilt
    first = math.floor((middle - _REACH * deviation) / step)
    edges = np.arange(first, math.ceil((middle + _REACH * deviation) / step) + 1) * step
    z = (edges - rho) / (deviation * math.sqrt(2))
    at_most, above = (np.array([0.5 * math.erfc(sign * x) for x in z]) for sign in (-1, 1))
    probability = np.where(z[1:] < 0, np.diff(at_most), -np.diff(above))  # each from the side where it loses less
    return first + 1, np.maximum(probability, 0.0), 1e-17


def epsilon_of(releases: Iterable[Release] | Mapping[Release, int], delta: float) -> float:
    """An ε at which all of them together are (ε, δ)-private; infinite where none is found, as at a δ below theirs.

    The releases one by one, or how many there are of each.
    """
    counted = Counter(releases)
    if not counted:
        return 0.0
    infinite = -math.expm1(sum(number * math.log1p(-release.delta) for release, number in counted.items()))
    if delta <= infinite:
        return math.inf
    variance = sum(number * (r.epsilon**2 if r.rho is None else 2 * r.rho) for r, number in counted.items())
    tilt = math.sqrt(-2 * math.log(delta - infinite) / variance)  # the best, were the sum normal
    # A grid that is fine beside the spread of the sum, and coarse enough to stay small. The largest ε is a point of it:
    # releases of one ε, the usual case, then need no rounding.
    largest = max(release.epsilon if release.rho is None else math.sqrt(2 * release.rho) for release in counted)
    step = largest / math.ceil(largest / (max(12 * math.sqrt(variance), largest) / _CELLS))
    total: _Losses | None = None
    for release, number in counted.items():
        losses = _one(release, step, tilt).times(number)
        total = losses if total is None else total.plus(losses)
    assert total is not None  # noqa: S101  # counted is not empty
    relative, for_each = _ROUNDING
    return _epsilon_at(total, step, tilt, delta / (1 + relative + for_each * counted.total()))


def _epsilon_at(losses: _Losses, step: float, tilt: float, delta: float) -> float:
    """Smallest ε, to a quarter of a step, with Σ over losses l > ε of (1 − e^(ε−l))·Pr[l], and all else, at most δ."""
    values = (losses.first + np.arange(len(losses.mass))) * step

    def needed(epsilon: float) -> float:
        above = values > epsilon
        probability = losses.mass[above] * np.exp(losses.log_scale - tilt * values[above])
        finite = float(np.sum(-np.expm1(epsilon - values[above]) * probability))
        return losses.infinite + finite + losses.lost * math.exp(losses.log_scale - tilt * epsilon)

    low, high = 0.0, max(float(values[-1]), 0.0)
    if needed(high) > delta:
        return math.inf
    if needed(low) <= delta:
        return low
    while high - low > step / 4:
        middle = (low + high) / 2
        low, high = (low, middle) if needed(middle) <= delta else (middle, high)
    return high * (1 + 1e-12)  # the grid's points are rounded, by 1e-16 each
