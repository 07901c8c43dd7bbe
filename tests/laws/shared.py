"""How far the outputs of neighbours diverge, exactly, where all keys share a draw of discrete Gaussian noise.

A key with l counts on one side and r on the other is released as l + η + ζ, or r + η + ζ, if that is at least the
threshold. What a sketch was lowered by, D, is released as D − η + ζ, always: −D is one more count that is never cut.

In steps let y be a released value less its count on the left side, so on the right side it is y + g, g the difference.
Given which keys are reported, P is proportional to e^(−Σy²/2b)·f(Σy), and Q to e^(−Σ(y+g)²/2b)·f′(Σ(y+g)). So P/Q is a
function of the sums of y over the keys of each g, and the divergence of the laws of these sums is that of the outputs.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, product

import numpy as np

from tests.core.mechanisms.moves import Move
from tests.laws.divergence import Both, excess
from tests.laws.law import Array, Gaussian

REACH = 7.0  # deviations; what lies further out has a probability below 3e-12


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Counters of all stored keys on both sides, an absent key counting 0; and what each side was lowered by."""

    keys: tuple[Move, ...]
    lowered: Move

    def turned(self) -> "Neighbours":
        return Neighbours(tuple((right, left) for left, right in self.keys), self.lowered[::-1])


def one_step_apart(k: int, lower: Sequence[int], equal: Sequence[int]) -> Iterator[Neighbours]:
    """All neighbours of compact sketches with these lower counts of keys that differ, and of keys that do not."""
    for number in range(1, k + 1):
        for lows in combinations_with_replacement(lower, number):
            differing = tuple((low + 1, low) for low in lows)
            for same in range(k - number + 1):
                for heights in combinations_with_replacement(equal, same):
                    keys = (*differing, *((height, height) for height in heights))
                    for lowered in ((0, 0), (0, 1)):
                        yield Neighbours(keys, lowered)
                        yield Neighbours(keys, lowered).turned()


@dataclass(frozen=True, slots=True)
class SharedLaws:
    """The mechanism: deviations of the shared and the own draws in counts, and whole steps of 1/lattice."""

    shared: float
    own: float
    lattice: int
    threshold: int

    def divergence(self, epsilon: float, pair: Neighbours) -> float:
        """From the left side to the right: some own key is reported, or the sum over the other outputs."""
        common = [move for move in pair.keys if 0 not in move]
        total = 1 - float(self.shared_law() @ self.all_cut([left for left, right in pair.keys if right == 0]))
        for reported in product([False, True], repeat=len(common)):
            shown = [move for move, is_shown in zip(common, reported, strict=True) if is_shown]
            hidden = [move for move, is_shown in zip(common, reported, strict=True) if not is_shown]
            left, right = (self._law(pair, shown, hidden, side) for side in (0, 1))
            total += float(np.maximum(left - math.exp(epsilon) * right, 0).sum())
        return total

    def _law(self, pair: Neighbours, shown: list[Move], hidden: list[Move], side: int) -> Array:
        """The law of the sums of y, for each difference g, on one side."""
        own = [move[side] for move in pair.keys if move[1 - side] == 0]
        weight = self.shared_law() * self.all_cut([*own, *(move[side] for move in hidden)])
        lowered = (-pair.lowered[0], -pair.lowered[1])
        groups: dict[int, Array] = {}
        for move, cut in [*((move, True) for move in shown), (lowered, False)]:
            values = self._values(move, side, is_cut=cut)
            g = move[0] - move[1]
            groups[g] = convolved(groups[g], values) if g in groups else values
        *others, last = groups.values()
        found = weight[:, None]
        for group in others:
            found = (found[:, :, None] * group[:, None, :]).reshape(len(weight), -1)
        law: Array = found.T @ last
        return law

    def _values(self, move: Move, side: int, *, is_cut: bool) -> Array:
        """For each η a row: the probability of each y, on this side; 0 where the value is below the threshold."""
        left, _ = move
        moved = (left - move[side]) * self.lattice
        y = self._grid()
        rows = Gaussian(self.own * self.lattice).probability(y[None, :] + moved - self.etas()[:, None])
        return np.where(y + left * self.lattice >= self.threshold * self.lattice, rows, 0.0) if is_cut else rows

    def all_cut(self, counts: list[int]) -> Array:
        """For each η, the probability that keys with these counts are all below the threshold."""
        own = Gaussian(self.own * self.lattice)
        cut = np.ones(len(self.etas()))
        for count in counts:
            cut = cut * own.less_than((self.threshold - count) * self.lattice - self.etas())
        return cut

    def shared_law(self) -> Array:
        """The probability of each η."""
        return Gaussian(self.shared * self.lattice).probability(self.etas())

    def etas(self) -> Array:
        """Every shared draw that matters, in steps."""
        reach = math.ceil(REACH * self.shared * self.lattice)
        return np.arange(-reach, reach + 1, dtype=np.float64)

    def _grid(self) -> Array:
        """Wide enough for what differs by a few counts too."""
        reach = math.ceil((REACH * math.hypot(self.shared, self.own) + 3) * self.lattice)
        return np.arange(-reach, reach + 1, dtype=np.float64)


def told_by_own_keys(mechanism: SharedLaws, epsilon: float, keys: int, lowered: Move) -> Both:
    """The divergence where so many keys of count 1 are all that one side stores, and the other stores nothing.

    All that is left besides the keys is D, a single number, so the lattice may be fine.
    """
    weights = mechanism.shared_law(), mechanism.shared_law() * mechanism.all_cut([1] * keys)
    reach = math.ceil(REACH * mechanism.own * mechanism.lattice)
    own = Gaussian(mechanism.own * mechanism.lattice).probability(np.arange(-reach, reach + 1, dtype=np.float64))
    nothing, cut = (convolved(weight[None, :], own[None, :])[0] for weight in weights)
    moved = (lowered[0] - lowered[1]) * mechanism.lattice  # η − D is that much lower where the keys are
    pad = np.zeros(abs(moved))
    cut, nothing = (
        (np.append(cut, pad), np.append(pad, nothing)) if moved > 0 else (np.append(pad, cut), np.append(nothing, pad))
    )
    return Both(1 - float(weights[1].sum()) + excess(epsilon, cut, nothing), excess(epsilon, nothing, cut))


def convolved(one: Array, other: Array) -> Array:
    """Row by row."""
    size = one.shape[1] + other.shape[1] - 1
    length = 1 << (size - 1).bit_length()
    found = np.fft.irfft(np.fft.rfft(one, length) * np.fft.rfft(other, length), length)[:, :size]
    return np.maximum(found, 0.0)


def own_tail(shared: float, own: float, keys: int, bound: float) -> float:
    """Pr[η + ζ ≥ bound for some of so many keys] of normal draws, by the trapezoidal rule, which is right to 1e-13."""
    x = np.linspace(-12, 12, 4001)
    below = np.array([0.5 * math.erfc((shared * each - bound) / own / math.sqrt(2)) for each in x])
    above = np.array([0.5 * math.erfc((bound - shared * each) / own / math.sqrt(2)) for each in x])
    with np.errstate(divide="ignore"):
        log_below = np.where(above < 0.5, np.log1p(-above), np.log(below))
    density = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    return float(np.sum(density * -np.expm1(keys * log_below)) * (x[1] - x[0]))


def steps_apart(k: int, m: int, heights: Sequence[int]) -> Iterator[Neighbours]:
    """Compact sketches after m events more, of which some raise counters by 0 or 1 and the others lower them by 0 or 1
    and lower the sketch; in both directions. Counts are such a height, or up to m more."""
    for falls in range(m + 1):
        reached = {height + more for height in heights for more in range(m + 1)}
        moves = [(a, b) for a in reached for b in reached if a - b in range(falls - m, falls + 1) and a + b > 0]
        for number in range(1, k + 2):
            for keys in combinations_with_replacement(sorted(moves), number):
                if max(sum(key[side] > 0 for key in keys) for side in (0, 1)) <= k:
                    yield Neighbours(keys, (0, falls))
                    yield Neighbours(keys, (0, falls)).turned()
