"""Exact output laws of PMG: the counts that are reported, jointly with D = d − η, or without it.

For two output laws P and Q the least δ that goes with ε is the hockey-stick divergence, the largest P(Z) − e^ε·Q(Z)
over all sets Z of outputs, which is the sum of max(0, P(z) − e^ε·Q(z)). It is computed from the probabilities of the
discrete Laplace law alone: nothing of pmg.md or of `tails` is used.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tests.core.mechanisms.stream_pairs import Pair, Side
from tests.laws.law import Array, Laplace

LOST = 1e-13  # at most this much probability lies outside of the window in which laws are computed
ROUNDING = 1e-12  # a sum of at most 10⁷ terms, each with a relative error below 1e-14, all terms together at most 1


class Divergence(NamedTuple):
    own: float  # from outputs that the other law does not have
    common: float  # from outputs that both laws have: 0 if the noise alone is ε-private

    @property
    def total(self) -> float:
        return self.own + self.common


class Laws:
    """Output laws of PMG at one scale and threshold; values are followed up to `top`."""

    def __init__(self, scale: float, threshold: int, tallest: int) -> None:
        self.noise = Laplace(scale)
        self.threshold = threshold
        self.top = tallest + math.ceil(38 * scale)
        reach = math.ceil(38 * scale) + 8  # 8: the other side's η may be shifted by some
        self.shared = np.arange(-reach, reach + 1, dtype=np.float64)  # η
        self.weight = self.noise.probability(self.shared)
        assert 3 * self._lost(tallest) < LOST

    def _lost(self, count: int) -> float:
        """The probability that one key lies above `top`, or that η lies outside of its window."""
        above = self.noise.at_least(self.top + 1 - count - self.shared)
        outside = 2 * self.noise.at_least(self.shared[-1:] - 7)
        return float(self.weight @ above + outside[0])

    def own_key_reported(self, side: Side) -> float:
        """The probability of all outputs with a key that the other side does not store."""
        some = np.zeros_like(self.shared)
        for count in side.own:
            some += (1 - some) * self.noise.at_least(self.threshold - count - self.shared)
        return float(self.weight @ some)

    def _own_keys_cut(self, side: Side, shared: Array) -> Array:
        cut = np.ones_like(shared)
        for count in side.own:
            cut *= self.noise.less_than(self.threshold - count - shared)
        return cut

    def _key(self, count: int, shared: Array) -> Array:
        """For each η, the probabilities that a key is cut, and that it is reported with t, t + 1, …, top."""
        values = np.arange(self.threshold, self.top + 1, dtype=np.float64)
        reported = self.noise.probability(values - count - shared[:, None])
        return np.column_stack([self.noise.less_than(self.threshold - count - shared), reported])

    def law(self, side: Side, counts: Sequence[int], shared: Array) -> Array:
        """For each η, the probability of it and of each output of these keys, with no own key reported."""
        joint = (self.noise.probability(shared) * self._own_keys_cut(side, shared))[:, None]
        for count in counts:
            joint = (joint[:, :, None] * self._key(count, shared)[:, None, :]).reshape(len(joint), -1)
        return joint

    def divergences(self, epsilon: float, pairs: Sequence[Pair], sign: int = -1) -> list[Divergence]:
        """In both directions, of the reported counts and D = d + sign·η together.

        An output says what η was on either side, up to the difference between d and d′: so the laws are compared row by
        row. Given η, keys are independent, and one that has the same law on both sides then adds nothing.
        """
        found = []
        for left, right, gap in pairs:
            moved = self.shared + sign * gap  # η of the right side that gives the same D
            moving = [(c, other) for c, other in zip(left.common, right.common, strict=True) if c != other + sign * gap]
            left_law = self.law(left, [c for c, _ in moving], self.shared)
            right_law = self.law(right, [other for _, other in moving], moved)
            found.append(Divergence(self.own_key_reported(left), excess(epsilon, left_law, right_law)))
            found.append(Divergence(self.own_key_reported(right), excess(epsilon, right_law, left_law)))
        return found

    def divergences_of_counts(self, epsilon: float, pairs: Sequence[Pair]) -> list[Divergence]:
        """The same where D is not released."""
        found = []
        for left, right, _ in pairs:
            left_law, right_law = self._law_of_counts(left), self._law_of_counts(right)
            found.append(Divergence(self.own_key_reported(left), excess(epsilon, left_law, right_law)))
            found.append(Divergence(self.own_key_reported(right), excess(epsilon, right_law, left_law)))
        return found

    def _law_of_counts(self, side: Side) -> Array:
        """Summed over η: a matrix product over the last key."""
        found: Array
        if side.common:
            found = self.law(side, side.common[:-1], self.shared).T @ self._key(side.common[-1], self.shared)
        else:
            found = self.law(side, (), self.shared).sum(axis=0)
        return found


def excess(epsilon: float, p: Array, q: Array) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())
