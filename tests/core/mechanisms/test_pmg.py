"""What PMG reports, what it draws, and that its error bound holds as often as it says."""

import pytest

from app.core.errors import NoMechanism
from app.core.histogram import Released
from app.core.ledger.budget import Cost
from app.core.mechanisms import pmg
from app.core.mechanisms.pmg import Pmg
from app.core.noise.samplers import discrete_laplace
from app.core.noise.tails import draw_bound, noise_bound
from app.core.sketches.stream import StreamSketch
from tests.core.mechanisms.promises import BETA, PROMISES, RELEASES, TOLERATED, K, Promise, everything_at_once, failures
from tests.core.mechanisms.recorded import Recorded, laplace, no_noise
from tests.questions import question

COST = Cost.charged(epsilon="1", delta="1e-6")
NOISY = Cost.charged(epsilon="0.5", delta="1e-3")
CALIBRATED = pmg.calibrate(4, COST)
T = CALIBRATED.threshold


def test_without_noise_exactly_the_counts_from_the_threshold_on_are_reported() -> None:
    sketch = StreamSketch(4, {"below": T - 1, "at": T, "above": T + 1, "zero": 0})
    assert CALIBRATED.release(sketch, laplace(no_noise)).counts == {"at": T, "above": T + 1}


def test_one_draw_is_shared_and_each_key_has_its_own() -> None:
    sketch = StreamSketch(4, {"c": 100, "a": 200, "b": 300})
    assert CALIBRATED.release(sketch, laplace(Recorded(7, -1, 20, 3))).counts == {"a": 206, "b": 327, "c": 110}


def test_the_noisy_count_is_cut_not_the_count() -> None:
    sketch = StreamSketch(4, {"lifted": 1, "sunk": 1000})
    assert CALIBRATED.release(sketch, laplace(Recorded(0, T - 1, -1001 + T))).counts == {"lifted": T}


def test_counts_come_in_key_order_whatever_the_order_of_arrival() -> None:
    keys = ["é", "b", "\U0001f40c", "a"]
    released = CALIBRATED.release(StreamSketch(4, dict.fromkeys(keys, 1000)), laplace(no_noise)).counts
    assert list(released) == ["a", "b", "é", "\U0001f40c"]


@pytest.mark.parametrize("stored", range(5))
def test_every_sketch_draws_k_plus_one_values(stored: int) -> None:
    """So neither the time nor the entropy used tells how many keys are stored."""
    sample = Recorded()
    CALIBRATED.release(StreamSketch(4, {f"key {number}": 9 for number in range(stored)}), laplace(sample))
    assert sample.asked == [(CALIBRATED.scale, 5)]


def test_an_empty_sketch_releases_like_any_other() -> None:
    assert CALIBRATED.release(StreamSketch.empty(4), laplace(discrete_laplace)).counts == {}


def test_empty_slots_are_never_reported_even_by_huge_noise() -> None:
    sketch = StreamSketch(4, {"a": 0})
    assert CALIBRATED.release(sketch, laplace(Recorded(10**9, 10**9, 10**9, 10**9, 10**9))).counts == {"a": 2 * 10**9}


def test_counters_beyond_machine_integers_are_released_exactly() -> None:
    sketch = StreamSketch(4, {"a": 2**80})
    assert CALIBRATED.release(sketch, laplace(Recorded(-3, 1))).counts == {"a": 2**80 - 2}


def test_parameters_let_a_sceptic_recompute_the_guarantee() -> None:
    calibrated = pmg.calibrate(7, Cost.charged(epsilon="0.1", delta="1e-6"))
    assert calibrated.parameters() == {
        "noise": "discrete-laplace",
        "scale": "10.000000000000002",
        "threshold": 161,
        "k": 7,
        "max_contributions": 1,
    }
    assert float(str(calibrated.parameters()["scale"])) == calibrated.scale


def test_a_cost_without_delta_is_refused() -> None:
    with pytest.raises(NoMechanism, match="pmg cuts at a threshold and needs a delta above 0, for example 1e-6"):
        pmg.MECHANISM.calibrated(question(k=4, delta="0"))
    with pytest.raises(ValueError, match="delta of 0"):
        pmg.calibrate(4, Cost.charged(epsilon="1", delta="0"))


@pytest.mark.parametrize("k", [1, 2, 1024])
def test_less_privacy_never_raises_the_threshold_or_the_noise(k: int) -> None:
    costs = [Cost.charged(epsilon=epsilon, delta="1e-6") for epsilon in ("0.1", "0.3", "1", "3", "10")]
    calibrated = [pmg.calibrate(k, cost) for cost in costs]
    assert calibrated == sorted(calibrated, key=lambda one: (-one.scale, -one.threshold))
    deltas = [Cost.charged(epsilon="1", delta=delta) for delta in ("1e-18", "1e-9", "1e-3", "0.5")]
    thresholds = [pmg.calibrate(k, cost).threshold for cost in deltas]
    assert thresholds == sorted(thresholds, reverse=True)


def test_the_own_error_is_released_under_the_shared_draw_alone() -> None:
    sketch = StreamSketch(4, {"a": 100}, lowered=30)
    assert CALIBRATED.release(sketch, laplace(Recorded(7, -1, 20, 3))) == Released({"a": 106}, 23)
    assert CALIBRATED.release(sketch, laplace(Recorded(40))).sketch_error == -10
    assert CALIBRATED.release(StreamSketch.empty(4), laplace(Recorded(-2))).sketch_error == 2


def test_an_own_error_that_is_not_known_is_not_released() -> None:
    sample = Recorded(7)
    assert CALIBRATED.release(StreamSketch(4, {"a": 100}), laplace(sample)) == Released({"a": 107}, None)
    assert sample.asked == [(CALIBRATED.scale, 5)]


def test_the_shared_draw_is_no_part_of_what_bounds_a_count_above() -> None:
    """It is in the count and, with the other sign, in the own error."""
    bound = CALIBRATED.noise_bound(0.05)
    assert bound.below == noise_bound(CALIBRATED.scale, 4, 0.025)
    assert bound.above < bound.below
    assert bound.unlisted == T - 1 + bound.above


def test_at_a_low_threshold_a_key_that_is_not_stored_may_be_the_larger_one() -> None:
    """Then it is the shared draw that hides how large d is."""
    calibrated = pmg.calibrate(1, Cost.charged(epsilon="1", delta="0.9"))
    assert calibrated.noise_bound(0.5).unlisted == draw_bound(calibrated.scale, 1, 0.005)


@pytest.mark.parametrize("promise", [*PROMISES, everything_at_once])
@pytest.mark.parametrize("m", [1, 3])
def test_a_release_is_as_near_the_truth_as_promised(promise: Promise, m: int) -> None:
    assert failures(pmg.calibrate(K, NOISY, m), promise) <= TOLERATED


@pytest.mark.parametrize("promise", [*PROMISES, everything_at_once])
def test_a_bound_far_too_small_is_found_out(promise: Promise) -> None:
    assert failures(pmg.calibrate(K, NOISY), promise, part=0.25) > TOLERATED


def reported(count: int, calibrated: Pmg) -> int:
    """How many of the releases report a key with this count."""
    sketch = StreamSketch(K, {"a": count})
    return sum(bool(calibrated.release(sketch, laplace(discrete_laplace)).counts) for _ in range(RELEASES))


def test_a_smallest_likely_count_is_reported_as_often_as_it_says() -> None:
    """A key that is one standard deviation of the noise lower is reported six times in ten, and that is noticed."""
    calibrated = pmg.calibrate(K, Cost.charged(epsilon="0.1", delta="1e-3"))
    likely = calibrated.smallest_likely_count(BETA)
    assert RELEASES - reported(likely, calibrated) <= TOLERATED
    assert RELEASES - reported(likely - round(2 * calibrated.scale), calibrated) > TOLERATED


def test_the_proof_covers_these_families_of_sketch_and_no_others() -> None:
    assert pmg.MECHANISM.families == ("stream",)
