"""Correlated Gaussian noise on compact sketches: how it is calibrated, what it draws and what it says about errors.

That the calibrated mechanism is private is checked twice: every number r of own keys by a quadrature of its own here,
and the discrete output laws in test_gshm_divergence.py.
"""

import math
import time
from dataclasses import replace
from fractions import Fraction

import pytest

from app.core.errors import NoMechanism
from app.core.histogram import NoiseBound, Released
from app.core.ledger.budget import Cost
from app.core.mechanisms import gshm
from app.core.mechanisms.gshm import Gshm
from app.core.noise import gaussians
from app.core.noise.gaussians import gaussian_delta
from app.core.noise.samplers import SYSTEM_NOISE
from app.core.sketches.compact import CompactSketch
from tests.core.mechanisms.recorded import Recorded, gaussian, no_noise
from tests.core.mechanisms.test_gshm_divergence import charge, needed
from tests.laws.law import Gaussian, Seeded
from tests.laws.shared import own_tail
from tests.questions import question


def cost(epsilon: float | str, delta: float | str) -> Cost:
    return Cost.charged(epsilon=str(epsilon), delta=str(delta))


@pytest.mark.parametrize(
    ("k", "thresholds"),
    [
        (64, {0.1: 912, 0.5: 204, 0.9: 118, 1: 107, 2: 57}),
        (1024, {0.1: 3599, 0.5: 800, 0.9: 463, 1: 420, 2: 223}),
        (65_536, {0.1: 31_006, 0.5: 6882, 0.9: 3980, 1: 3610, 2: 1906}),
    ],
)
def test_thresholds_are_half_of_what_independent_noise_needs(k: int, thresholds: dict[float, int]) -> None:
    """At δ = 1e-6. Independent draws need 188 (k = 64), 812 (1024) and 7188 (65,536) at ε = 1."""
    for epsilon, expected in thresholds.items():
        assert gshm.calibrate(k, cost(epsilon, "1e-6")).threshold <= expected, epsilon


def test_five_events_cost_five_times_as_much_and_no_more() -> None:
    one, five = gshm.calibrate(1024, cost(1, "1e-6")), gshm.calibrate(1024, cost(1, "1e-6"), 5)
    assert five.own == pytest.approx(5 * one.own, rel=1e-9)
    assert five.threshold <= 2099


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0])
@pytest.mark.parametrize("delta", ["1e-9", "1e-6", "0.01"])
@pytest.mark.parametrize("m", [1, 4])
def test_every_number_of_own_keys_is_within_delta_at_64_counters(epsilon: float, delta: str, m: int) -> None:
    mechanism = gshm.calibrate(64, cost(epsilon, delta), m)
    found = needed(mechanism, epsilon) + charge(mechanism, epsilon)
    assert 0.998 * float(delta) <= found <= float(delta)
    lower = replace(mechanism, threshold=mechanism.threshold - 1 - mechanism.threshold // 500)
    assert needed(lower, epsilon) > float(delta)


@pytest.mark.parametrize(
    ("k", "epsilon", "delta"), [(1, 1.0, "1e-6"), (2, 0.01, "1e-3"), (20, 0.1, "0.1"), (5, 1.0, "0.9")]
)
def test_few_keys_and_large_deltas_are_within_delta_too(k: int, epsilon: float, delta: str) -> None:
    """There own keys and common ones need more together than either alone, so the threshold is raised."""
    mechanism = gshm.calibrate(k, cost(epsilon, delta))
    assert needed(mechanism, epsilon) + charge(mechanism, epsilon) <= float(delta)
    alone = gshm._lowest_alone(mechanism, 0.999 * float(delta))
    assert needed(replace(mechanism, threshold=alone), epsilon) > float(delta) or alone == mechanism.threshold


def test_a_check_looks_at_every_number_of_own_keys() -> None:
    """With noise a hundredth too small the common counters are not hidden, with a lower threshold own keys are not, and
    with both just right for themselves alone neither is hidden beside the other."""
    epsilon, delta = 0.1, 0.1
    mechanism = gshm.calibrate(64, cost(epsilon, delta))
    assert gshm.is_enough(mechanism, epsilon, delta)
    assert not gshm.is_enough(replace(mechanism, own=mechanism.own * 0.99), epsilon, delta)
    assert not gshm.is_enough(replace(mechanism, threshold=mechanism.threshold - 1), epsilon, delta)
    beside = replace(mechanism, threshold=gshm._lowest_alone(mechanism, delta))
    assert not gshm.is_enough(beside, epsilon, delta)
    only_ends = [gshm._own(beside, r) + gshm._common(beside, r, epsilon) for r in (0, 64)]
    assert max(only_ends) < delta * 1.1  # the worst r lies between


@pytest.mark.parametrize("epsilon", ["1e-9", "0.01", "1", "20"])
@pytest.mark.parametrize(("k", "delta"), [(5, "1e-18"), (1, "0.4"), (2, "0.9"), (5, "0.999"), (65_536, "1e-3")])
def test_every_cost_is_calibrated_in_bounded_time(
    k: int, epsilon: str, delta: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A δ near 1 is foolish, and may be asked for; a search that never ends would answer nobody."""
    evaluate, evaluations = gaussians.some_reach, iter(range(20_000))

    def counted(shared: float, own: float, lattice: int, keys: int, bound: float) -> float:
        assert next(evaluations, None) is not None, "the search does not end"
        return evaluate(shared, own, lattice, keys, bound)

    monkeypatch.setattr(gshm, "some_reach", counted)
    mechanism = gshm.calibrate.__wrapped__(k, cost(epsilon, delta))
    assert gshm.is_enough(mechanism, float(epsilon), float(delta))


def test_the_most_counters_are_calibrated_within_a_second() -> None:
    started = time.process_time()
    gshm.calibrate.__wrapped__(65_536, cost("1", "1e-6"))
    assert time.process_time() - started < 1


@pytest.mark.parametrize("k", [1, 64, 65_536])
@pytest.mark.parametrize(("epsilon", "delta"), [("0.01", "1e-6"), ("1", "1e-9"), ("5", "0.01")])
def test_the_lattice_costs_at_most_a_thousandth_of_delta(k: int, epsilon: str, delta: str) -> None:
    mechanism = gshm.calibrate(k, cost(epsilon, delta))
    assert charge(mechanism, float(epsilon)) <= float(delta) / 1000
    assert mechanism.lattice & (mechanism.lattice - 1) == 0  # a power of two, so deviations in steps are exact
    assert mechanism.lattice >= 2  # half a count is a step
    assert mechanism.own * mechanism.lattice <= 2**50


@pytest.mark.parametrize("k", [1, 64, 65_536])
@pytest.mark.parametrize("rho", ["1e-9", "0.02", "0.5", "20"])
@pytest.mark.parametrize("m", [1, 3])
def test_a_cost_in_rho_gets_as_little_noise_as_it_pays_for(k: int, rho: str, m: int) -> None:
    paid = Cost.charged_in_rho(rho=rho, delta="1e-6")
    mechanism = gshm.calibrate_rho(k, paid, m)
    assert Fraction(999, 1000) * paid.rho < mechanism.rho(paid) <= paid.rho
    bound = mechanism.threshold - m - 1 / mechanism.lattice
    assert own_tail(mechanism.shared, mechanism.own, k, bound) <= 1e-6
    assert own_tail(mechanism.shared, mechanism.own, k, bound - 1 - bound / 500) > 1e-6


def test_a_question_in_rho_is_answered_in_rho() -> None:
    asked = replace(question("compact", k=64), cost=Cost.charged_in_rho(rho="0.02", delta="1e-6"))
    mechanism = gshm.MECHANISM.calibrated(asked)
    assert gshm.MECHANISM.charge(asked.cost) == asked.cost
    assert mechanism == gshm.calibrate_rho(64, asked.cost, 1)


def test_rho_is_recomputed_from_the_parameters_of_both_versions() -> None:
    mechanism = gshm.calibrate(64, cost("1", "1e-6"), 3)
    read = gshm.MECHANISM.rho_of
    assert read is not None
    assert read(mechanism.parameters()) == mechanism.rho(cost("1", "1e-6"))
    a, b = Fraction(mechanism.shared) ** 2, Fraction(mechanism.own) ** 2
    assert mechanism.rho(cost("1", "1e-6")) == Fraction(9, 8) * (1 + Fraction(2, 3 * mechanism.lattice)) * (
        1 / a + 65 / b
    )
    version_1 = {
        "noise": "discrete-gaussian",
        "sigma": "4.5",
        "lattice": 8,
        "threshold": 99,
        "k": 64,
        "max_contributions": 3,
    }
    assert read(version_1) == 9 * 64 / (2 * Fraction("4.5") ** 2)


def test_a_cost_that_cannot_be_met_is_refused() -> None:
    with pytest.raises(NoMechanism, match="gshm cuts at a threshold and needs a delta above 0, for example 1e-6"):
        gshm.MECHANISM.calibrated(question("compact", k=4, delta="0"))
    with pytest.raises(NoMechanism, match="delta"):
        gshm.calibrate(4, cost("1", "0"))
    with pytest.raises(NoMechanism, match="epsilon"):
        gshm.calibrate(4, cost("1000", "1e-6"))


def test_noise_that_would_saturate_is_refused() -> None:
    """The own deviation in counts is above 2^49: no lattice with half counts makes it smaller."""
    with pytest.raises(NoMechanism, match="epsilon"):
        gshm.calibrate(65_536, cost("1e-9", "1e-18"), 1000)
    with pytest.raises(NoMechanism, match="rho"):
        gshm.calibrate_rho(65_536, Cost.charged_in_rho(rho="1e-15", delta="1e-6"), 10**6)


CALIBRATED = Gshm(k=4, shared=1.0, own=2.0, threshold=10, lattice=8)


def test_without_noise_exactly_the_counts_from_the_threshold_on_are_reported() -> None:
    sketch = CompactSketch(4, {"below": 9, "at": 10, "above": 11}, lowered=3)
    assert CALIBRATED.release(sketch, gaussian(no_noise)) == Released({"above": 11, "at": 10}, 3)


class Scripted:
    """A sampler that gives one list after the other."""

    def __init__(self, *draws: list[int]) -> None:
        self.draws = iter(draws)

    def __call__(self, scale: float, size: int) -> list[int]:
        return next(self.draws)


def test_noisy_counts_are_cut_and_rounded_down_and_what_was_lowered_is_rounded_up() -> None:
    """The shared draw is added to each count and subtracted from what was lowered, which gets the first own draw."""
    sketch = CompactSketch(4, {"d": 9, "a": 10, "c": 2**80, "b": 9}, lowered=5)
    draws = [2], [3, -3, 5, -3, 6]
    found = CALIBRATED.release(sketch, gaussian(Scripted(*draws)))
    assert list(found.counts.items()) == [("c", 2**80 - 1), ("d", 10)]  # a and b are one step too low, d is just there
    assert found.sketch_error == 6  # 40 − 2 + 3 steps
    unknown = replace(sketch, lowered=None)
    assert CALIBRATED.release(unknown, gaussian(Scripted(*draws))) == Released(found.counts, None)


@pytest.mark.parametrize("lowered", [None, 0, 7])
@pytest.mark.parametrize("stored", range(5))
def test_every_sketch_draws_as_many_values(stored: int, lowered: int | None) -> None:
    """So neither the time nor the entropy used tells how many keys are stored, or whether their error is known."""
    sample = Recorded()
    sketch = CompactSketch(4, {f"key {number}": 9 for number in range(stored)}, lowered)
    CALIBRATED.release(sketch, gaussian(sample))
    assert sample.asked == [(8.0, 1), (16.0, 5)]


def test_parameters_let_a_sceptic_recompute_the_guarantee() -> None:
    assert CALIBRATED.parameters() == {
        "noise": "discrete-gaussian",
        "shared_sigma": "1",
        "own_sigma": "2",
        "lattice": 8,
        "threshold": 10,
        "k": 4,
        "max_contributions": 1,
    }


def broken(bound: NoiseBound, sketch: CompactSketch, released: Released) -> bool:
    """Whether a statement of the bound fails; the true counts are as high as the sketch allows."""
    error = released.sketch_error
    assert error is not None
    assert sketch.lowered is not None
    for key, counter in [*sketch.counters.items(), ("unstored", 0)]:
        count, most = released.counts.get(key), counter + sketch.lowered
        if count is None and most > error + bound.unlisted:
            return True
        if count is not None and (counter < count - bound.below or most > count + bound.above + error):
            return True
    return False


def test_errors_pass_their_bound_no_more_often_than_beta() -> None:
    """And pass a smaller bound far more often. Some counters are tall, some are near the threshold."""
    mechanism = gshm.calibrate(20, cost("1", "1e-3"))
    sketch = CompactSketch(
        20, {f"key {number}": mechanism.threshold + 20 * (number % 5) - 5 for number in range(20)}, 40
    )
    noise = gaussian(Seeded(Gaussian, 5))
    coarser = replace(mechanism, lattice=16)
    released = [coarser.release(sketch, noise) for _ in range(4000)]
    bound = coarser.noise_bound(0.1)
    failures = sum(broken(bound, sketch, each) for each in released)
    assert 0.04 * 4000 < failures <= 0.1 * 4000
    for part in ("below", "above"):
        smaller = replace(bound, **{part: getattr(bound, part) * 2 // 3})
        assert sum(broken(smaller, sketch, each) for each in released) > 0.2 * 4000


def test_a_likely_count_is_reported_with_its_probability() -> None:
    mechanism = gshm.calibrate(20, cost("1", "1e-3"))
    likely = mechanism.smallest_likely_count(0.2)
    noise = gaussian(Seeded(Gaussian, 6))
    for count, expected in ((likely, True), (likely - 3, False)):
        coarser = replace(mechanism, lattice=16)
        seen = sum("a" in coarser.release(CompactSketch(20, {"a": count}, 0), noise).counts for _ in range(4000))
        assert (seen >= 0.79 * 4000) == expected


def test_draws_of_the_service_are_taken() -> None:
    mechanism = gshm.calibrate(4, cost("1", "1e-6"))
    released = mechanism.release(CompactSketch(4, {"a": 10**6}, 10**6), SYSTEM_NOISE)
    reach = 12 * math.hypot(mechanism.shared, mechanism.own)
    assert abs(released.counts["a"] - 10**6) < reach
    assert released.sketch_error is not None
    assert abs(released.sketch_error - 10**6) < reach


def test_the_distance_of_the_common_counters_is_just_within_delta() -> None:
    mechanism = gshm.calibrate(1024, cost("1", "1e-6"), 5)
    moved = 2.5 * math.sqrt(1 / mechanism.shared**2 + 1025 / mechanism.own**2)
    assert 0.99e-6 < gaussian_delta(1.0, moved) <= 1e-6


def test_the_proof_covers_these_families_of_sketch_and_no_others() -> None:
    assert gshm.MECHANISM.families == ("compact",)
