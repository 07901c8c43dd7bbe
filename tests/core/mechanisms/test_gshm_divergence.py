"""The discrete mechanism itself, noisy counts and noisy D together: no neighbours diverge by more than gshm.md says.

On coarse lattices, where all outputs can be enumerated; and on the lattice that is really used for neighbours that are
told apart by their own keys. Then the conditioned laws of approximate zCDP, at several orders.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from app.core.ledger.budget import Cost
from app.core.mechanisms import gshm
from app.core.mechanisms.gshm import Gshm
from app.core.noise.gaussians import gaussian_delta
from app.core.noise.samplers import Sampler
from app.core.sketches.compact import CompactSketch
from tests.core.mechanisms.recorded import gaussian
from tests.laws.divergence import Both, excess
from tests.laws.law import Array, Gaussian
from tests.laws.shared import Neighbours, SharedLaws, one_step_apart, own_tail, steps_apart, told_by_own_keys

ROUNDING = 1e-10  # of what is neglected far out
SMALL_K = pytest.mark.parametrize("k", [1, 2, 3])


def laws(mechanism: Gshm) -> SharedLaws:
    return SharedLaws(mechanism.shared, mechanism.own, mechanism.lattice, mechanism.threshold)


def needed(mechanism: Gshm, epsilon: float) -> float:
    """The bound of gshm.md but for the lattice: the largest π_r + δ_G(ε, D_{k−r+1})."""
    k, m, a, b = mechanism.k, mechanism.max_contributions, mechanism.shared**2, mechanism.own**2
    bound = mechanism.threshold - m - 1 / mechanism.lattice
    own = [0.0, *(own_tail(mechanism.shared, mechanism.own, r, bound) for r in range(1, k + 1))]
    return max(own[r] + gaussian_delta(epsilon, m / 2 * math.sqrt(1 / a + (k - r + 1) / b)) for r in range(k + 1))


def charge(mechanism: Gshm, epsilon: float) -> float:
    """What the lattice may add."""
    spread = 1 / mechanism.shared**2 + (mechanism.k + 1) / mechanism.own**2
    return (1 + math.exp(epsilon)) * spread / (8 * mechanism.lattice**2)


def coarse(k: int, per_event: float, threshold: int, lattice: int, m: int = 1) -> Gshm:
    shared, own = gshm._least_noise(k, per_event)
    return Gshm(k=k, max_contributions=m, shared=shared, own=own, threshold=threshold, lattice=lattice)


def tall(mechanism: Gshm) -> int:
    """A count that is never cut."""
    return mechanism.threshold + math.ceil(9 * math.hypot(mechanism.shared, mechanism.own))


def neighbours(mechanism: Gshm) -> Iterator[Neighbours]:
    near, high = mechanism.threshold, tall(mechanism)
    lower = {1: [0, 1, near - 1, near, high], 2: [0, near, high], 3: [0, high]}
    return one_step_apart(mechanism.k, lower[mechanism.k], [high])


COARSE = pytest.mark.parametrize(
    ("epsilon", "per_event", "threshold", "lattice"), [(1.0, 0.6, 6, 4), (0.3, 0.3, 12, 2), (2.0, 1.2, 5, 4)]
)


@SMALL_K
@COARSE
def test_no_neighbours_diverge_by_more_than_the_bound(
    k: int, epsilon: float, per_event: float, threshold: int, lattice: int
) -> None:
    """Nor by much less: the bound is nearly attained."""
    mechanism = coarse(k, per_event, threshold, lattice)
    worst = max(laws(mechanism).divergence(epsilon, pair) for pair in neighbours(mechanism))
    assert 0.75 * needed(mechanism, epsilon) < worst <= needed(mechanism, epsilon) + charge(mechanism, epsilon)


@pytest.mark.parametrize(("k", "m"), [(1, 2), (1, 3), (2, 2)])
def test_m_events_of_any_kind_stay_within_the_bound(k: int, m: int) -> None:
    """Some raise counters and others lower them, with own keys on both sides; the noise for one event is too little."""
    mechanism = coarse(k, 0.8 / m, 3 * m + 3, 2, m)
    worst = max(laws(mechanism).divergence(1.0, pair) for pair in steps_apart(k, m, [0, tall(mechanism)]))
    assert worst <= min(1.05 * needed(mechanism, 1.0), needed(mechanism, 1.0) + charge(mechanism, 1.0))
    high = tall(mechanism)
    for_one = coarse(k, 0.8, 6, 2)
    assert laws(for_one).divergence(1.0, Neighbours(((high + m, high),), (0, m))) > 2 * needed(for_one, 1.0)


def test_three_counters_attain_the_distance_of_the_bound() -> None:
    """Three counters rise and D does not: at k = 3 that is as far as D_{k+1}, so no less noise would do."""
    mechanism = coarse(3, 0.6, 6, 8)
    high = tall(mechanism)
    rising = Neighbours(((high, high + 1),) * 3, (0, 0))
    exact = gaussian_delta(1.0, 0.6)
    for pair in (rising, rising.turned()):
        assert laws(mechanism).divergence(1.0, pair) == pytest.approx(exact, rel=0.01)
        shrunk = replace(mechanism, shared=mechanism.shared * 0.9, own=mechanism.own * 0.9)
        assert laws(shrunk).divergence(1.0, pair) > 1.2 * exact


def test_the_shared_draw_is_needed() -> None:
    """Without it, own draws of the same deviation hide too little of what all counters have in common."""
    mechanism = coarse(3, 0.6, 12, 2)
    high = tall(mechanism)
    rising = Neighbours(((high, high + 1),) * 3, (0, 0))
    assert laws(mechanism).divergence(1.0, rising) <= 1.01 * needed(mechanism, 1.0)
    assert laws(replace(mechanism, shared=1e-3)).divergence(1.0, rising) > 2 * needed(mechanism, 1.0)


CALIBRATIONS = pytest.mark.parametrize(("epsilon", "delta"), [("1", "0.01"), ("0.5", "1e-3"), ("2", "1e-3")])


@SMALL_K
@CALIBRATIONS
def test_a_calibrated_mechanism_is_within_delta_on_a_coarser_lattice_too(k: int, epsilon: str, delta: str) -> None:
    """But for what the coarser lattice may cost."""
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    mechanism = replace(gshm.calibrate(k, cost), lattice=2)
    high = tall(mechanism)
    pairs = one_step_apart(k, [0, high], [high])
    worst = max(laws(mechanism).divergence(float(epsilon), pair) for pair in pairs)
    assert worst <= float(delta) + charge(mechanism, float(epsilon))


@SMALL_K
@CALIBRATIONS
def test_own_keys_stay_within_delta_on_the_lattice_that_is_used_and_not_one_count_lower(
    k: int, epsilon: str, delta: str
) -> None:
    """All k keys on one side: every output but D is a key that tells all."""
    mechanism = gshm.calibrate(k, Cost.charged(epsilon=epsilon, delta=delta))
    for lowered in ((0, 0), (0, 1)):
        assert told_by_own_keys(laws(mechanism), float(epsilon), k, lowered).worst + ROUNDING <= float(delta)
    lower = laws(replace(mechanism, threshold=mechanism.threshold - 1))
    assert told_by_own_keys(lower, float(epsilon), k, (0, 1)).there > float(delta)


def test_own_keys_are_told_alike_by_both_ways_to_compute_it() -> None:
    mechanism = laws(coarse(2, 0.6, 6, 4))
    for lowered in ((0, 0), (0, 1), (3, 1)):
        pair = Neighbours(((1, 0),) * 2, lowered)
        expected = mechanism.divergence(1.0, pair), mechanism.divergence(1.0, pair.turned())
        assert told_by_own_keys(mechanism, 1.0, 2, lowered) == pytest.approx(expected, abs=1e-11)


def enumerated(mechanism: Gshm, sketch: CompactSketch, reach: int) -> dict[object, float]:
    """The law of `release` by running it on every vector of draws within reach of its deviation."""
    found: defaultdict[object, float] = defaultdict(float)
    scales = [mechanism.shared * mechanism.lattice, *[mechanism.own * mechanism.lattice] * (mechanism.k + 1)]
    ranges = [range(-reach, reach + 1) for _ in scales]
    weights = [
        Gaussian(scale).probability(np.array(values, float)) for scale, values in zip(scales, ranges, strict=True)
    ]
    for vector in product(*ranges):
        released = mechanism.release(sketch, gaussian(served(vector)))
        weight = math.prod(float(law[draw + reach]) for law, draw in zip(weights, vector, strict=True))
        found[tuple(released.counts.items()), released.sketch_error] += weight
    return dict(found)


def served(vector: tuple[int, ...]) -> Sampler:
    remaining = iter(vector)
    return lambda scale, size: [next(remaining) for _ in range(size)]


@pytest.mark.parametrize(
    ("left", "right", "lowered"),
    [({"a": 1}, {}, (0, 0)), ({"a": 1}, {}, (4, 5)), ({"a": 5}, {"a": 4}, (0, 1)), ({"a": 9}, {"a": 8}, (3, 3))],
)
def test_the_release_itself_has_these_laws(
    left: dict[str, int], right: dict[str, int], lowered: tuple[int, int]
) -> None:
    """`release` run on every vector of draws. With two steps a count it loses a little by rounding to whole counts."""
    mechanism = Gshm(k=1, shared=1.0, own=1.25, threshold=4, lattice=2)
    p, q = (
        enumerated(mechanism, CompactSketch(1, counters, down), reach=17)
        for counters, down in zip((left, right), lowered, strict=True)
    )
    outputs = list(p.keys() | q.keys())
    there, back = (np.array([law.get(output, 0.0) for output in outputs]) for law in (p, q))
    found = Both(excess(1.0, there, back), excess(1.0, back, there))
    pair = Neighbours(((left["a"], right.get("a", 0)),), lowered)
    expected = Both(laws(mechanism).divergence(1.0, pair), laws(mechanism).divergence(1.0, pair.turned()))
    for exact, bound in zip(found, expected, strict=True):
        assert 0.75 * bound - 1e-5 <= exact <= bound + 1e-9


def renyi(alpha: float, p: Array, q: Array) -> float:
    """D_α of two laws that are given by logarithms, but for their masses."""
    return float(_log_mass(alpha * _to_mass_1(p) + (1 - alpha) * _to_mass_1(q))) / (alpha - 1)


def _to_mass_1(p: Array) -> Array:
    return p - _log_mass(p)


def _log_mass(p: Array) -> float:
    return float(np.max(p) + math.log(np.sum(np.exp(p - np.max(p)))))


ORDERS = [1.01, 1.1, 1.5, 2.0, 3.7, 10.0]


def conditioned(mechanism: Gshm, theta: float, left: list[int], right: list[int]) -> tuple[Array, Array]:
    """log(κ·P̂) and log(κ·Q̂) of the shared draw, own keys having these counts on each side."""
    scale, steps = mechanism.shared * mechanism.lattice, mechanism.lattice
    reach = math.ceil(25 * scale)
    etas = np.arange(-reach, reach + 1, dtype=np.float64)
    log_sum = -math.log(float(Gaussian(scale).probability(np.zeros(1))[0]))

    def log_all_cut(counts: list[int], shift: float) -> Array:
        cut = np.zeros_like(etas)
        for count in counts:
            below = Gaussian(mechanism.own * steps).less_than((mechanism.threshold - count + shift) * steps - etas)
            cut += np.log(np.maximum(below, 1e-290))
        return cut

    kappa = np.minimum(log_all_cut(left, theta), log_all_cut(right, 0.0))
    moved, still = (kappa - (etas - shift * steps) ** 2 / (2 * scale**2) - log_sum for shift in (theta, 0.0))
    return moved, still


@pytest.mark.parametrize("lattice", [2, 4, 16])
@pytest.mark.parametrize(
    ("m", "falls", "left", "right"),
    [
        (1, 1, [1, 1, 1], []),
        (1, 0, [], [1, 1]),
        (1, 1, [], []),
        (2, 1, [1], [1, 1]),
        (2, 2, [2, 1], []),
        (3, 1, [1], [2]),
    ],
)
def test_conditioned_laws_are_within_rho_at_every_order(
    lattice: int, m: int, falls: int, left: list[int], right: list[int]
) -> None:
    """And their mass is at least 1 − π_k."""
    mechanism = Gshm(k=3, max_contributions=m, shared=0.9, own=1.1, threshold=m + 3, lattice=lattice)
    theta = (falls - (m - falls)) / 2
    both = conditioned(mechanism, theta, left, right)
    assert min(math.exp(_log_mass(part)) for part in both) >= 1 - gshm._own(mechanism, 3)
    common = 4 - max(len(left), len(right))  # with D
    for alpha in ORDERS:
        for p, q in (both, both[::-1]):
            shared = renyi(alpha, p, q)
            assert shared <= alpha * (theta**2 + abs(theta) / lattice) / (2 * mechanism.shared**2) + 1e-9
            whole = shared + common * alpha * (m / 2) ** 2 / (2 * mechanism.own**2)
            assert whole <= alpha * float(mechanism.rho(Cost.charged(epsilon="1", delta="0.1")))


def test_on_a_lattice_the_shared_draw_costs_more_than_without() -> None:
    """So the factor 1 + 1/N is needed: where own keys cut it, integer noise exceeds αθ²/2a."""
    mechanism = Gshm(k=50, shared=0.15, own=4.0, threshold=2, lattice=2)
    both = conditioned(mechanism, 0.5, [1] * 50, [])
    costs = [renyi(1.1, p, q) / (1.1 * 0.25 / (2 * mechanism.shared**2)) for p, q in (both, both[::-1])]
    assert 1.2 < max(costs) <= 2
