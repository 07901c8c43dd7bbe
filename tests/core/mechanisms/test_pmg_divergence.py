"""PMG is (ε, δ)-private on every small neighbouring pair, by its exact output laws, and with nothing to spare.

An output is the reported counts and D = d − η together. The divergence is computed for sketches of neighbouring streams
(k ≤ 3) in both directions (`exact_laws.py`, `stream_pairs.py`).
"""

import math
from functools import cache

import pytest

from app.core.ledger.budget import Cost
from app.core.mechanisms import pmg
from app.core.mechanisms.pmg import Pmg
from app.core.noise.tails import one_key_tail, two_key_tail
from tests.core.mechanisms.exact_laws import LOST, ROUNDING, Divergence, Laws
from tests.core.mechanisms.stream_pairs import Pair, every_slot, pairs_apart, real_keys

EVENTS = {1: 7, 2: 7, 3: 5}  # how far streams are enumerated for each k

pytestmark = pytest.mark.long

CALIBRATIONS = pytest.mark.parametrize(
    ("epsilon", "delta"), [("1", "1e-6"), ("1", "0.01"), ("2", "1e-4"), ("0.5", "0.05"), ("0.5", "0.5"), ("4", "1e-8")]
)
SMALL_K = pytest.mark.parametrize("k", [1, 2, 3])
SLOTS = pytest.mark.parametrize("dropped", [False, True], ids=["slots-kept", "slots-dropped"])


def height(calibrated: Pmg) -> int:
    """A count that is mostly reported, and cut now and then."""
    return calibrated.threshold + math.ceil(3 * calibrated.scale)


@cache
def pairs(k: int, tall: int, *, dropped: bool) -> list[Pair]:
    return pairs_apart(k, tall, EVENTS[k], kept=real_keys if dropped else every_slot)


@cache
def measured(k: int, cost: Cost, *, dropped: bool, shrink: float = 1.0, sign: int = -1) -> list[Divergence]:
    """Divergences of all pairs at the calibrated threshold, the scale of the noise shrunk, D = d + sign·η."""
    calibrated = pmg.calibrate(k, cost)
    laws = Laws(calibrated.scale * shrink, calibrated.threshold, height(calibrated) + EVENTS[k])
    return laws.divergences(float(cost.epsilon), pairs(k, height(calibrated), dropped=dropped), sign)


def worst_case(k: int, calibrated: Pmg) -> float:
    tail = one_key_tail if k == 1 else two_key_tail
    return float(tail(calibrated.scale, calibrated.threshold))


def test_neighbours_of_both_kinds_are_looked_at() -> None:
    """Those in which d is one more, all counters being lower, and those in which it is not."""
    for k in (1, 2, 3):
        found = pairs(k, 40, dropped=False)
        assert {pair.gap for pair in found} == {0, 1}
        assert len(found) > 20


@SMALL_K
@CALIBRATIONS
@SLOTS
def test_no_neighbours_diverge_by_more_than_delta(k: int, epsilon: str, delta: str, dropped: bool) -> None:
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    worst = max(divergence.total for divergence in measured(k, cost, dropped=dropped))
    assert worst + LOST + ROUNDING <= cost.delta


@SMALL_K
@CALIBRATIONS
@SLOTS
def test_the_worst_neighbours_attain_the_tail_of_the_calibration(
    k: int, epsilon: str, delta: str, dropped: bool
) -> None:
    """So the threshold rests on an equality, not on a bound that could be improved."""
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    worst = max(divergence.total for divergence in measured(k, cost, dropped=dropped))
    assert worst == pytest.approx(worst_case(k, pmg.calibrate(k, cost)), rel=1e-9)


@SMALL_K
@CALIBRATIONS
def test_outputs_that_both_neighbours_have_cost_epsilon_alone(k: int, epsilon: str, delta: str) -> None:
    """The first part of the argument in pmg.md, which counts empty slots as keys."""
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    assert max(divergence.common for divergence in measured(k, cost, dropped=False)) <= ROUNDING


@SMALL_K
@CALIBRATIONS
def test_noise_a_tenth_too_small_is_found_out(k: int, epsilon: str, delta: str) -> None:
    """The same measure at the same threshold, a hundred thousand times above what rounding explains."""
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    assert max(divergence.common for divergence in measured(k, cost, dropped=False, shrink=0.9)) > 1e5 * ROUNDING


@SMALL_K
def test_noise_a_tenth_too_small_passes_a_small_delta(k: int) -> None:
    cost = Cost.charged(epsilon="1", delta="1e-6")
    assert max(divergence.total for divergence in measured(k, cost, dropped=False, shrink=0.9)) > cost.delta


@pytest.mark.parametrize("k", [1, 2])
@CALIBRATIONS
def test_the_shared_draw_must_be_taken_from_the_own_error_and_not_added(k: int, epsilon: str, delta: str) -> None:
    """With D = d + η, all counters of a neighbour seem to move by two."""
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    worst = max(divergence.total for divergence in measured(k, cost, dropped=False, sign=+1))
    assert worst > cost.delta
    assert worst > 0.05


@SMALL_K
@CALIBRATIONS
@SLOTS
def test_a_threshold_one_lower_is_not_private(k: int, epsilon: str, delta: str, dropped: bool) -> None:
    """Shown by the set of outputs with an own key, which the other side never has."""
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    calibrated = pmg.calibrate(k, cost)
    laws = Laws(calibrated.scale, calibrated.threshold - 1, height(calibrated) + EVENTS[k])
    found = pairs(k, height(calibrated), dropped=dropped)
    assert max(laws.own_key_reported(side) for pair in found for side in (pair.left, pair.right)) > cost.delta


def published_threshold(epsilon: float, delta: float) -> int:
    """The paper's, for this noise: six single samples stay below it."""
    odds = math.exp(epsilon) / (math.exp(epsilon) + 1)
    return 1 + 2 * math.ceil(math.log(6 * odds / delta) / epsilon)


@pytest.mark.parametrize(("epsilon", "exact", "published"), [("1", 17, 33), ("0.5", 33, 63), ("0.1", 161, 301)])
def test_the_exact_threshold_is_about_half_the_published_one(epsilon: str, exact: int, published: int) -> None:
    assert pmg.calibrate(1024, Cost.charged(epsilon=epsilon, delta="1e-6")).threshold == exact
    assert published_threshold(float(epsilon), 1e-6) == published
