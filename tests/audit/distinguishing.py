"""From releases of two neighbours to a lower bound on ε, and on δ, that holds whatever the mechanism is.

A release is (ε, δ)-private only if P(Z) ≤ e^ε·Q(Z) + δ for every event Z. So an event with P(Z) ≥ p and Q(Z) ≤ q shows
that ε is at least ln((p − δ)/q) at this δ, and δ at least p − e^ε·q at this ε. Either bound passes its claim exactly if
the other does.

Which event is best is learned: a first part of the draws sorts the cells of every view by their likelihood ratio, a
second part chooses the view and how many cells to take, and the rest, which had no say in that, measures the one event
that was chosen. So there is nothing to correct for the choice.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.audit import bounds
from tests.audit.drawing import Outputs
from tests.audit.views import Cells, views

Floats = NDArray[np.float64]
Score = Callable[[Floats, Floats], Floats]  # P(Z) at least and Q(Z) at most -> what the event shows

EVENTS = 4  # measured for each pair: both directions, for ε and for δ
INTERVALS = 2 * EVENTS  # one for P(Z) and one for Q(Z) of each

_SORTING, _CHOOSING = 0.15, 0.3  # where these parts of the draws end
_RARE = 20  # cells seen less often while sorting are one cell


class Claim(NamedTuple):
    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True)
class Finding:
    """What one event shows, at the stated risk of being wrong."""

    event: str
    at_least: float  # P(Z)
    at_most: float  # Q(Z)
    claim: Claim

    @property
    def epsilon(self) -> float:
        """The least ε possible at the claimed δ."""
        left = self.at_least - self.claim.delta
        return max(0.0, math.log(left / self.at_most)) if left > 0 else 0.0

    @property
    def delta(self) -> float:
        """The least δ possible at the claimed ε."""
        return max(0.0, self.at_least - math.exp(self.claim.epsilon) * self.at_most)

    @property
    def passes_the_claim(self) -> bool:
        return self.delta > self.claim.delta


class _Sample(NamedTuple):
    """Cells of the releases of two neighbours, of one part of the draws."""

    left: Cells
    right: Cells

    def turned(self) -> "_Sample":
        return _Sample(self.right, self.left)

    def shares(self, taken: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """How often each event was seen that takes one more cell, in the order given."""
        left, right = (np.bincount(side, minlength=len(taken))[taken] for side in self)
        return np.cumsum(left) / len(self.left), np.cumsum(right) / len(self.right)


def findings(left: Outputs, right: Outputs, claim: Claim, risk: float) -> list[Finding]:
    """The best events that were found, measured; each of the `INTERVALS` bounds is wrong with probability ≤ risk."""
    search = _Search(len(left), claim, risk)
    rows, known = search.interleaved(left, right)
    for name, cells in views(rows, known):
        search.look(name, _Sample(cells[::2], cells[1::2]))
    return search.measured()


class _Event(NamedTuple):
    score: float
    name: str
    taken: NDArray[np.int64]  # its cells
    rest: _Sample  # the draws that measure it, not looked at before

    def seen(self, side: Cells) -> int:
        return int(np.isin(side, self.taken).sum())


class _Search:
    """Keeps the best event for each direction and each of ε and δ."""

    def __init__(self, draws: int, claim: Claim, risk: float) -> None:
        self.claim, self.risk = claim, risk
        self.sorting, self.choosing = int(_SORTING * draws), int(_CHOOSING * draws)
        self.measuring = draws - self.choosing
        self.z = NormalDist().inv_cdf(1 - risk)
        self.best: dict[tuple[str, str], _Event] = {}

    def interleaved(self, left: Outputs, right: Outputs) -> tuple[Outputs, int]:
        """Left and right rows in turn, and how many of them a view may learn from."""
        return np.stack([left, right], axis=1).reshape(2 * len(left), -1), 2 * self.sorting

    def look(self, name: str, sample: _Sample) -> None:
        for direction, turned in (("there", sample), ("back", sample.turned())):
            sorting, choosing, rest = self._parts(turned)
            order = _by_likelihood_ratio(sorting)
            at_least, at_most = self._expected(*choosing.shares(order))
            for goal, score in (("epsilon", self._epsilon), ("delta", self._delta)):
                scores = score(at_least, at_most)
                size = int(np.argmax(scores))
                found = self.best.get((direction, goal))
                if found is None or scores[size] > found.score:
                    self.best[direction, goal] = _Event(float(scores[size]), name, order[: size + 1], rest)

    def _parts(self, sample: _Sample) -> tuple[_Sample, _Sample, _Sample]:
        """Cells that are rare while sorting are made one, by what is seen while sorting alone."""
        seen = np.bincount(np.concatenate([side[: self.sorting] for side in sample]), minlength=_size(sample))
        renamed = np.where(seen < _RARE, 0, np.arange(1, len(seen) + 1))
        left, right = (renamed[side] for side in sample)
        ends = (0, self.sorting, self.choosing, len(left))
        first, second, third = (_Sample(left[a:b], right[a:b]) for a, b in pairwise(ends))
        return first, second, third

    def _expected(self, p: Floats, q: Floats) -> tuple[Floats, Floats]:
        """Roughly the bounds that the rest of the draws will give (Wilson's, which are quick to compute)."""
        return _wilson(p, self.measuring, -self.z), _wilson(q, self.measuring, self.z)

    def _epsilon(self, at_least: Floats, at_most: Floats) -> Floats:
        left = np.maximum(at_least - self.claim.delta, 1e-300)
        return np.log(left / at_most)

    def _delta(self, at_least: Floats, at_most: Floats) -> Floats:
        return at_least - math.exp(self.claim.epsilon) * at_most

    def measured(self) -> list[Finding]:
        return [
            Finding(
                f"{event.name}, {direction}",
                bounds.at_least(event.seen(event.rest.left), self.measuring, self.risk),
                bounds.at_most(event.seen(event.rest.right), self.measuring, self.risk),
                self.claim,
            )
            for (direction, _), event in self.best.items()
        ]


def _size(sample: _Sample) -> int:
    return int(max(side.max() for side in sample)) + 1


def _by_likelihood_ratio(sample: _Sample) -> NDArray[np.int64]:
    """Cells in the order in which an event takes them: the most telling first."""
    size = _size(sample)
    left, right = (np.bincount(side, minlength=size) + 0.5 for side in sample)
    return np.argsort(-left / right, kind="stable").astype(np.int64)


def _wilson(share: Floats, trials: int, z: float) -> Floats:
    spread = np.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    found: Floats = (share + z * z / (2 * trials) + z * spread) / (1 + z * z / trials)
    return found
