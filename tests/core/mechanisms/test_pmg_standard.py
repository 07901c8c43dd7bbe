"""PMG at the threshold for sketches that drop zero counters, by exact output laws (sec:MG-without-ordering)."""

import math
from functools import cache

import pytest

from app.core.ledger.budget import Cost
from app.core.mechanisms import pmg
from app.core.mechanisms.pmg import StandardPmg
from app.core.noise.tails import many_key_tail
from app.core.sketches.standard import StandardSketch
from tests.core.mechanisms.exact_laws import LOST, ROUNDING, Divergence, Laws
from tests.core.mechanisms.recorded import Recorded, laplace
from tests.core.mechanisms.stream_pairs import Pair, pairs_apart, positive

EVENTS = {1: 7, 2: 7, 3: 5}

pytestmark = pytest.mark.long

SMALL_K = pytest.mark.parametrize("k", [1, 2, 3])
CALIBRATIONS = pytest.mark.parametrize(
    ("epsilon", "delta"), [("1", "1e-6"), ("1", "0.01"), ("2", "1e-4"), ("1", "0.3")]
)


def height(calibrated: StandardPmg) -> int:
    return calibrated.threshold + math.ceil(3 * calibrated.scale)


@cache
def pairs(k: int, tall: int) -> list[Pair]:
    """D is not released here, so how often each was lowered is left out."""
    return sorted({pair._replace(gap=0) for pair in pairs_apart(k, tall, EVENTS[k], kept=positive)})


@cache
def measured(k: int, cost: Cost, *, shrink: float = 1.0) -> list[Divergence]:
    calibrated = pmg.calibrate_standard(k, cost)
    laws = Laws(calibrated.scale * shrink, calibrated.threshold, height(calibrated) + EVENTS[k])
    return laws.divergences_of_counts(float(cost.epsilon), pairs(k, height(calibrated)))


@SMALL_K
@CALIBRATIONS
def test_sketches_that_drop_zero_counters_diverge_by_at_most_delta(k: int, epsilon: str, delta: str) -> None:
    """At the threshold for k keys on one side, in both directions."""
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    assert max(divergence.total for divergence in measured(k, cost)) + LOST + ROUNDING <= cost.delta


@SMALL_K
@CALIBRATIONS
def test_k_keys_of_count_one_on_one_side_attain_the_tail_of_the_calibration(k: int, epsilon: str, delta: str) -> None:
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    calibrated = pmg.calibrate_standard(k, cost)
    worst = max(divergence.total for divergence in measured(k, cost))
    assert worst == pytest.approx(many_key_tail(calibrated.scale, k, calibrated.threshold), rel=1e-8)


@SMALL_K
@CALIBRATIONS
def test_a_threshold_one_lower_is_not_private_for_sketches_that_drop_zeros(k: int, epsilon: str, delta: str) -> None:
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    calibrated = pmg.calibrate_standard(k, cost)
    laws = Laws(calibrated.scale, calibrated.threshold - 1, height(calibrated) + EVENTS[k])
    sides = [side for pair in pairs(k, height(calibrated)) for side in (pair.left, pair.right)]
    assert max(laws.own_key_reported(side) for side in sides) > cost.delta


@SMALL_K
def test_noise_a_tenth_too_small_is_found_out_for_sketches_that_drop_zeros(k: int) -> None:
    cost = Cost.charged(epsilon="1", delta="1e-6")
    assert max(divergence.total for divergence in measured(k, cost, shrink=0.9)) > cost.delta


@pytest.mark.parametrize("k", [3, 1024])
def test_the_threshold_for_ordered_sketches_would_not_do_for_those_that_drop_zeros(k: int) -> None:
    cost = Cost.charged(epsilon="1", delta="1e-6")
    assert many_key_tail(pmg.calibrate(k, cost).scale, k, pmg.calibrate(k, cost).threshold) > cost.delta


def test_a_sketch_that_drops_zeros_is_released_like_any_other() -> None:
    calibrated = pmg.calibrate_standard(3, Cost.charged(epsilon="1", delta="1e-6"))
    t = calibrated.threshold
    sketch = StandardSketch(3, {"c": t, "a": t - 1, "b": 2**80})
    sample = Recorded(1, -1, 0, -1)
    assert list(calibrated.release_standard(sketch, laplace(sample)).items()) == [("b", 2**80 + 1), ("c", t)]
    assert sample.asked == [(calibrated.scale, 4)]
    assert repr(sketch) == "StandardSketch(k=3)"
