"""Release a compact sketch with Gaussian noise, of which one draw is shared by all counters: GSHM, correlated.

The Gaussian sparse histogram mechanism (`thm:sparse-gaussian`, `thm:user-level`) for the neighbours of
`corol:merged-sensitivity` and `cor:merged-user-level`, which differ in one direction. So a shared draw can hide half of
each difference (Lebeda & Retschmeier). What the sketch was lowered by is released beside the counters, under the same
noise. (ε, δ)-private, or approximately ρ-zCDP where the cost is a ρ. Proof notes: gshm.md, shared_noise.md
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from app.core.errors import NoMechanism
from app.core.histogram import NoiseBound, Released
from app.core.ledger.budget import Cost
from app.core.mechanism import Calibrated, Mechanism, Question
from app.core.noise.gaussians import gaussian_delta, largest_distance, largest_noise, some_reach
from app.core.noise.samplers import Noise
from app.core.noise.tails import float_below, smallest
from app.core.sketches.compact import CompactSketch
from app.core.sketches.universe import Universe

_LATTICE_SHARE = 1e-3  # of δ, for drawing on a lattice
_LATTICE_OF_RHO = 1 << 12  # steps per count where the cost is a ρ
_LARGEST_SCALE = 2.0**50  # in steps: the sampler's draws saturate at 2^63, which is 2^13 deviations out (gshm.md)
_FINEST = 4096  # thresholds that are tried differ by at least this fraction of them
_MOST_LOOKS = 512  # intervals of r that a check looks at before it gives up, and the threshold rises
_UNSTORED_SHARE = 1 / 16  # of β, for keys that are not stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Gshm(Calibrated[CompactSketch]):
    """Calibrated for k counters, m contributions and one cost."""

    shared: float  # √a: the deviation of the shared draw η, in counts
    own: float  # √b: the deviation of each own draw ζ
    lattice: int  # steps per count; even, so that half a count is a step

    def release(self, sketch: CompactSketch, noise: Noise, universe: Universe | None = None) -> Released:
        """Draw noise, and return the noisy counts at or above the threshold, rounded down, in key order.

        Beside them what the sketch was lowered by, D − η + ζ, rounded up. It always makes k + 2 draws.
        """
        [shared] = noise.gaussian(self.shared * self.lattice, 1)
        of_lowered, *own = noise.gaussian(self.own * self.lattice, self.k + 1)
        noisy = {
            key: sketch.counters[key] * self.lattice + shared + draw
            for key, draw in zip(sorted(sketch.counters), own, strict=False)
        }
        least = self.threshold * self.lattice
        counts = {key: steps // self.lattice for key, steps in noisy.items() if steps >= least}
        if sketch.lowered is None:
            return Released(counts, None)
        lowered = sketch.lowered * self.lattice - shared + of_lowered
        return Released(counts, -(-lowered // self.lattice))

    def rho(self, charged: Cost) -> Fraction:
        """What the noise itself gives, whatever was charged."""
        return _rho(self.k, self.max_contributions, self.shared, self.own, self.lattice)

    def parameters(self) -> dict[str, object]:
        """What a sceptic needs to recompute the guarantee."""
        return {
            "noise": "discrete-gaussian",
            "shared_sigma": f"{self.shared:.17g}",
            "own_sigma": f"{self.own:.17g}",
            "lattice": self.lattice,
            "threshold": self.threshold,
            "k": self.k,
            "max_contributions": self.max_contributions,
        }

    def noise_bound(self, beta: float) -> NoiseBound:
        """The shared draw cancels in a noisy count and the released D together, so `above` bounds own draws alone."""
        each = beta * (1 - _UNSTORED_SHARE) / 2
        above = largest_noise(self.own, self.own, self.lattice, self.k, each)
        unstored = largest_noise(self.shared, self.own, self.lattice, 1, beta * _UNSTORED_SHARE)
        return NoiseBound(
            below=largest_noise(self.shared, self.own, self.lattice, self.k, each),
            above=above,
            unlisted=max(self.threshold - 1 + above, unstored),
        )

    def smallest_likely_count(self, beta: float) -> int:
        """The smallest count in the sketch that is reported with probability 1 − β."""
        return self.threshold + largest_noise(self.shared, self.own, self.lattice, 1, beta)


def _rho(k: int, max_contributions: int, shared: float, own: float, lattice: int) -> Fraction:
    """(m²/8)·(1 + 2/mL)·(1/a + (k+1)/b), exactly (gshm.md, "As ρ")."""
    on_a_lattice = 1 + Fraction(2, max_contributions * lattice)
    return Fraction(max_contributions**2, 8) * on_a_lattice * (1 / Fraction(shared) ** 2 + (k + 1) / Fraction(own) ** 2)


def _rho_of_parameters(parameters: Mapping[str, Any]) -> Fraction:
    """The same, from what `parameters` published; version 1 had one σ for k independent draws: m²k/2σ²."""
    k, max_contributions, lattice = (int(str(parameters[name])) for name in ("k", "max_contributions", "lattice"))
    if "sigma" in parameters:
        return Fraction(k * max_contributions**2) / (2 * Fraction(str(parameters["sigma"])) ** 2)
    shared, own = (float(str(parameters[name])) for name in ("shared_sigma", "own_sigma"))
    return _rho(k, max_contributions, shared, own, lattice)


def _least_noise(k: int, per_event: float) -> tuple[float, float]:
    """√a and √b with a + b least, if (1/a + (k+1)/b)/4 is to be the square of what one event may move: μ."""
    root = math.sqrt(k + 1)
    shared = math.sqrt(1 + root) / (2 * per_event)
    return shared, shared * math.sqrt(root)


@lru_cache(maxsize=256)
def calibrate(k: int, cost: Cost, max_contributions: int = 1) -> Gshm:
    """The lowest threshold that a cost in (ε, δ) allows, of those at which the noise is split so. Needs δ > 0."""
    if cost.delta == 0:
        raise NoMechanism("gshm cuts at a threshold and needs a delta above 0, for example 1e-6.")
    epsilon, delta = float_below(cost.epsilon), float_below(cost.delta)
    distance = largest_distance(epsilon, delta * (1 - _LATTICE_SHARE))
    shared, own = _least_noise(k, distance / max_contributions)
    lattice = _lattice(k, shared, own, epsilon, delta * _LATTICE_SHARE)
    found = Gshm(k=k, max_contributions=max_contributions, shared=shared, own=own, threshold=1, lattice=lattice)
    found = replace(found, threshold=_lowest_alone(found, delta * (1 - _LATTICE_SHARE)))
    step = 1 + found.threshold // _FINEST

    def raised(steps: int) -> Gshm:
        return replace(found, threshold=found.threshold + steps * step)

    return raised(smallest(lambda steps: is_enough(raised(steps), epsilon, delta), start=0))


def _lowest_alone(mechanism: Gshm, delta: float) -> int:
    """The lowest threshold at which own keys alone stay within δ: π_k ≤ δ."""
    return smallest(lambda t: _own(replace(mechanism, threshold=t), mechanism.k) <= delta, start=1)


def is_enough(mechanism: Gshm, epsilon: float, delta: float) -> bool:
    """Whether π_r + δ_G(ε, D_{k−r+1}) and the lattice stay within δ, r from 0 to k keys being on one side only.

    π grows with r and δ_G falls, so r = low … high are within δ if π at `high` and δ_G at `low` are. Where they are
    not, the interval is halved.
    """
    spare = delta - _lattice_charge(mechanism.k, mechanism.shared, mechanism.own, mechanism.lattice, epsilon)
    intervals = [(0, 0), (1, mechanism.k)]
    for _ in range(_MOST_LOOKS):
        if not intervals:
            return True
        low, high = intervals.pop()
        common = _common(mechanism, low, epsilon)
        if _own(mechanism, high) + common <= spare:
            continue
        if low == high or _own(mechanism, low) + common > spare:
            return False
        middle = (low + high) // 2
        intervals += [(low, middle), (middle + 1, high)]
    return False


def _own(mechanism: Gshm, keys: int) -> float:
    """π_r: the probability that some of r keys on one side, each of count m, is reported."""
    bound = mechanism.threshold - mechanism.max_contributions
    return some_reach(mechanism.shared, mechanism.own, mechanism.lattice, keys, bound) if keys else 0.0


def _common(mechanism: Gshm, keys: int, epsilon: float) -> float:
    """δ_G at the distance of all that both sides have: η, D and the other k − r counters, each moved by m/2."""
    moved = 1 / mechanism.shared**2 + (mechanism.k - keys + 1) / mechanism.own**2
    return gaussian_delta(epsilon, mechanism.max_contributions / 2 * math.sqrt(moved))


def _lattice_charge(k: int, shared: float, own: float, lattice: int, epsilon: float) -> float:
    """(1 + e^ε)·(1/8s² of all k + 2 draws): what drawing on the lattice may add to δ (shared_noise.md)."""
    return math.exp(float(np.logaddexp(0, epsilon))) * (1 / shared**2 + (k + 1) / own**2) / (8 * lattice**2)


def _lattice(k: int, shared: float, own: float, epsilon: float, slack: float) -> int:
    """Steps per count, a power of two from 2 on, so fine that the lattice's charge is at most the slack."""
    log_charge = float(np.logaddexp(0, epsilon)) + math.log((1 / shared**2 + (k + 1) / own**2) / 8)
    bits = max(1, math.ceil((log_charge - math.log(slack)) / math.log(4) + 1e-9))
    if math.ldexp(own, bits) > _LARGEST_SCALE:
        raise NoMechanism("gshm is not offered at this epsilon and delta: its noise would not fit the sampler.")
    return 1 << bits


@lru_cache(maxsize=256)
def calibrate_rho(k: int, cost: Cost, max_contributions: int = 1) -> Gshm:
    """The least noise that a cost in (ρ, δ) allows, and the lowest threshold with π_k ≤ δ."""
    shared, own = _least_noise(k, math.sqrt(2 * cost.rho) / max_contributions)
    lattice = _LATTICE_OF_RHO
    while own * lattice > _LARGEST_SCALE / 2:
        lattice //= 2
        if lattice < 2:
            raise NoMechanism("gshm is not offered at so small a rho: its noise would not fit the sampler.")
    wider = math.sqrt(1 + 2 / (max_contributions * lattice))
    shared, own = shared * wider, own * wider
    while _rho(k, max_contributions, shared, own, lattice) > cost.rho:
        shared, own = math.nextafter(shared, math.inf), math.nextafter(own, math.inf)
    found = Gshm(k=k, max_contributions=max_contributions, shared=shared, own=own, threshold=1, lattice=lattice)
    return replace(found, threshold=_lowest_alone(found, float_below(cost.delta)))


def _calibrated(question: Question) -> Gshm:
    """For a cost in ρ where there is one, else in ε."""
    by = calibrate_rho if question.cost.rho_units else calibrate
    return by(question.k, question.cost, question.max_contributions)


MECHANISM = Mechanism(
    name="gshm",
    version=2,
    theorem="thm:user-level",
    description="Gaussian noise with a draw that all share, cut at a threshold; for merged sketches and people's sets.",
    rank=40,
    sketches=(CompactSketch,),
    needs_delta=True,
    needs_universe=False,
    is_pure=False,
    calibrate=_calibrated,
    rho_of=_rho_of_parameters,
)
