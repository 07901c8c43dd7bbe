"""How far the output laws of neighbours diverge, exactly, for mechanisms that treat keys independently.

For two output laws P and Q the least δ that goes with ε is the hockey-stick divergence, the largest
P(Z) − e^ε·Q(Z) over all sets Z of outputs, which is the sum of max(0, P(z) − e^ε·Q(z)). With independent keys both laws
are products, and equal keys cancel. Outputs with the same ratio P/Q may be counted as one, which keeps the products
small.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from itertools import product
from typing import NamedTuple

import numpy as np

from app.core.histogram import Counts
from app.core.noise.samplers import Below, Sampler
from tests.laws.law import Array, Law

Output = tuple[tuple[str, int], ...]

ROUNDING = 1e-12  # some thousand terms, each right to 1e-15, and ratios that are equal to 1e-13 counted as equal


class KeyLaws(NamedTuple):
    """What is reported of one key: the probability of each outcome under one neighbour and under the other."""

    p: Array
    q: Array


class Both(NamedTuple):
    """A divergence from the one neighbour to the other, and back."""

    there: float
    back: float

    @property
    def worst(self) -> float:
        return max(self)


def cut_at(law: Law, threshold: int, count: int, top: int) -> Array:
    """Probabilities that count + ζ is below the threshold, that it is threshold, …, top, and that it is more."""
    values = np.arange(threshold, top + 1, dtype=np.float64) - count
    below, above = law.less_than(np.array([threshold - count])), law.at_least(np.array([top + 1 - count]))
    return np.concatenate([below, law.probability(values), above])


def unreported(outcomes: int) -> Array:
    """The law of a key that is not stored: nothing is reported of it."""
    law = np.zeros(outcomes)
    law[0] = 1
    return law


def grouped(laws: KeyLaws) -> KeyLaws:
    """Outcomes with equal P/Q as one."""
    p, q = laws
    some = p + q > 0
    p, q = p[some], q[some]
    share = p / (p + q)
    order = np.argsort(share)
    starts = np.flatnonzero(np.diff(share[order], prepend=-1.0) > 1e-13)
    return KeyLaws(np.add.reduceat(p[order], starts), np.add.reduceat(q[order], starts))


def together(one: KeyLaws, other: KeyLaws) -> KeyLaws:
    """Two independent keys."""
    return grouped(KeyLaws(np.outer(one.p, other.p).ravel(), np.outer(one.q, other.q).ravel()))


def divergences(epsilon: float, keys: Iterable[KeyLaws]) -> Both:
    """In both directions. The keys come grouped."""
    p, q = reduce(together, keys)
    return Both(excess(epsilon, p, q), excess(epsilon, q, p))


def excess(epsilon: float, p: Array, q: Array) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def output_law(
    release: Callable[[Sampler, Below], Counts], law: Law, draws: int, reach: int, coins: int = 1
) -> dict[Output, float]:
    """The law of a release by running it on every vector of draws within reach, and of one coin for each draw."""
    values = range(-reach, reach + 1)
    weights = dict(zip(values, law.probability(np.array(values, dtype=np.float64)).tolist(), strict=True))
    found: defaultdict[Output, float] = defaultdict(float)
    for vector in product(values, repeat=draws):
        weight = math.prod(weights[draw] for draw in vector) / coins**draws
        for tosses in product(range(coins), repeat=draws):
            found[tuple(release(_given(vector), _given_below(tosses)).items())] += weight
    return dict(found)


def _given(vector: tuple[int, ...]) -> Sampler:
    def sample(scale: float, size: int) -> list[int]:
        assert size == len(vector)  # otherwise the enumeration is not that of the draws
        return list(vector)

    return sample


def _given_below(tosses: tuple[int, ...]) -> Below:
    remaining = iter(tosses)
    return lambda sides: next(remaining)


def law_divergences(epsilon: float, p: Mapping[Output, float], q: Mapping[Output, float]) -> Both:
    outputs = p.keys() | q.keys()
    left, right = (np.array([law.get(output, 0.0) for output in outputs]) for law in (p, q))
    return Both(excess(epsilon, left, right), excess(epsilon, right, left))
