"""What Gaussian noise gives away, and how far it reaches where keys share a draw: upper bounds, all of them.

η has the deviation `shared` and each ζ the deviation `own`, in counts. They are drawn from the discrete Gaussian law on
a lattice of so many steps a count. Why the bounds hold: shared_noise.md beside the mechanisms.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from app.core.noise.normal import log_phi
from app.core.noise.tails import smallest

_OUTWARD = 1 + 1e-6  # a hundred times what double precision loses below, and more than draws beyond 64 bits cost
_NEAR = 1e-4  # up to this distance the divergence is bounded by its slope, where the exact form would cancel
_CELLS = 1 << 12
_REACH = 11.0  # deviations of the shared draw; what lies further out is added whole


def gaussian_delta(epsilon: float, distance: float) -> float:
    """Φ(Δ/2 − ε/Δ) − e^ε·Φ(−Δ/2 − ε/Δ): how far a Gaussian law is from itself, moved by Δ deviations, at ε.

    It is ∫ φ(x)·(1 − e^(−Δ(x − z))) dx over x > z = ε/Δ − Δ/2, so at most Δ·(φ(z) − z·Φ(−z)).
    """
    z = epsilon / distance - distance / 2
    log_plus, log_minus = log_phi(np.array([-z, -z - distance])).tolist()
    if distance < _NEAR:
        return distance * (math.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * math.exp(log_plus)) * _OUTWARD
    return math.exp(log_plus) * -math.expm1(min(epsilon + log_minus - log_plus, 0.0)) * _OUTWARD


def largest_distance(epsilon: float, delta: float) -> float:
    """The largest Δ, but for the last digits, with `gaussian_delta` at most δ, for 0 < δ < 1."""
    above = 1.0
    while gaussian_delta(epsilon, above) <= delta:
        above *= 2
    below = above / 2
    while gaussian_delta(epsilon, below) > delta:
        below, above = below / 2, below
    while above - below > 1e-12 * above:
        middle = (below + above) / 2
        below, above = (middle, above) if gaussian_delta(epsilon, middle) <= delta else (below, middle)
    return below


def some_reach(shared: float, own: float, lattice: int, keys: int, bound: float) -> float:
    """At least Pr[η + ζ_i ≥ bound for some of `keys` draws ζ_i].

    Summed over η in cells, each taken at its upper end, where the probability is largest. Draws from the lattice are
    compared with rounded normal ones: two of these may be half a step above the normal ones each, and no value of a
    discrete draw is more likely than that of a rounded one by more than 1/(1 − 1/8s²), s its deviation in steps.
    """
    _, mass = _cells()
    log_below = _log_below(shared, own, bound - 1 / lattice)
    log_more_likely = -math.log1p(-1 / (8 * (shared * lattice) ** 2)) - keys * math.log1p(
        -1 / (8 * (own * lattice) ** 2)
    )
    outside = 2 * math.exp(float(log_phi(np.array([-_REACH]))[0]))
    found = float(mass @ -np.expm1(keys * log_below)) + outside
    return found * math.exp(log_more_likely) * _OUTWARD


@lru_cache(maxsize=16)  # a search asks for many numbers of keys at one bound
def _log_below(shared: float, own: float, bound: float) -> NDArray[np.float64]:
    """log Pr[η + ζ < bound] for normal draws, η at the upper end of each cell."""
    ends, _ = _cells()
    return log_phi((bound - ends * shared) / own)


@lru_cache(maxsize=1)
def _cells() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where the cells of a normal draw end, and the probability of each."""
    edges = np.linspace(-_REACH, _REACH, _CELLS + 1)
    tails = np.exp(log_phi(-np.abs(edges)))
    return edges[1:], np.abs(np.diff(tails))


@lru_cache(maxsize=256)
def largest_noise(shared: float, own: float, lattice: int, keys: int, beta: float) -> int:
    """A whole b with Pr[η + ζ_i > b for some of `keys` draws ζ_i] ≤ β. By symmetry it bounds −η − ζ too."""
    by_union = own * math.sqrt(2 * math.log(2 * keys / beta)) + shared * math.sqrt(2 * math.log(2 / beta))
    return smallest(
        lambda b: some_reach(shared, own, lattice, keys, b + 1 / lattice) <= beta, start=0, guess=math.ceil(by_union)
    )
