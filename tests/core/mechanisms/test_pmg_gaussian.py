"""What Gaussian PMG reports, what it draws, what it costs, and that its bounds hold as often as they say."""

import math
from fractions import Fraction

import mpmath
import pytest

from app.core.errors import NoMechanism
from app.core.histogram import Released
from app.core.ledger.budget import Cost
from app.core.mechanisms import pmg, pmg_gaussian
from app.core.mechanisms.pmg_gaussian import LATTICE, MECHANISM
from app.core.noise.samplers import SYSTEM_NOISE
from app.core.sketches.stream import StreamSketch
from tests.core.mechanisms.promises import BETA, PROMISES, RELEASES, TOLERATED, K, Promise, everything_at_once, failures
from tests.core.mechanisms.recorded import Recorded, gaussian
from tests.questions import question

COST = Cost.charged_in_rho(rho="0.5", delta="1e-6")
NOISY = Cost.charged_in_rho(rho="0.02", delta="1e-3")
CALIBRATED = pmg_gaussian.calibrate(4, COST)
T, L = CALIBRATED.threshold, LATTICE


def test_one_draw_is_shared_and_each_key_has_its_own() -> None:
    sketch = StreamSketch(4, {"c": 100, "a": 200, "b": 300}, lowered=5)
    sample = Recorded(7 * L, -L, 20 * L, 3 * L)
    assert CALIBRATED.release(sketch, gaussian(sample)) == Released({"a": 206, "b": 327, "c": 110}, -2)
    assert sample.asked == [(CALIBRATED.sigma * L, 5)]


def test_counts_are_rounded_down_and_the_own_error_up() -> None:
    sketch = StreamSketch(4, {"a": 100}, lowered=5)
    assert CALIBRATED.release(sketch, gaussian(Recorded(1, -2))) == Released({"a": 99}, 5)
    assert CALIBRATED.release(sketch, gaussian(Recorded(-1, 2))) == Released({"a": 100}, 6)
    assert CALIBRATED.release(sketch, gaussian(Recorded(-L, L - 1))) == Released({"a": 99}, 6)


def test_a_count_is_listed_from_the_threshold_on_before_it_is_rounded() -> None:
    sketch = StreamSketch(4, {"below": T, "at": T})  # draws are given in key order: at, below
    assert CALIBRATED.release(sketch, gaussian(Recorded(0, 0, -1))).counts == {"at": T}


@pytest.mark.parametrize("lowered", [None, 0, 10**30])
@pytest.mark.parametrize("stored", range(5))
def test_every_sketch_draws_k_plus_one_values(stored: int, lowered: int | None) -> None:
    sample = Recorded()
    counters = {f"key {number}": 2**80 for number in range(stored)}
    released = CALIBRATED.release(StreamSketch(4, counters, lowered=lowered), gaussian(sample))
    assert released == Released(counters, lowered)
    assert sample.asked == [(CALIBRATED.sigma * L, 5)]


def continuous_tail(sigma: float, threshold: int) -> float:
    """Pr[η + max(1 + ζ₁, ζ₂) ≥ t] of continuous noise, by mpmath's quadrature."""
    a, b = (threshold - 1) / sigma, threshold / sigma

    def exceeds(eta: mpmath.mpf) -> mpmath.mpf:
        one, other = mpmath.ncdf(eta - a), mpmath.ncdf(eta - b)
        return mpmath.npdf(eta) * (one + other - one * other)

    with mpmath.workdps(30):
        return float(mpmath.quad(exceeds, [-14, -8, -4, -2, 0, *(a * i / 8 for i in range(1, 9)), a + 4, a + 12]))


@pytest.mark.parametrize(
    ("rho", "delta", "threshold"),
    [
        ("0.001", "1e-6", 156),
        ("0.005", "1e-6", 70),
        ("0.005", "1e-9", 87),
        ("0.02", "1e-6", 36),
        ("0.125", "1e-6", 15),
        ("0.5", "1e-6", 8),
    ],
)
def test_the_threshold_is_the_lowest_at_which_own_keys_stay_within_delta(rho: str, delta: str, threshold: int) -> None:
    """As mpmath has it, and less than half of that of Laplace noise at the same ρ."""
    cost = Cost.charged_in_rho(rho=rho, delta=delta)
    calibrated = pmg_gaussian.calibrate(1024, cost)
    assert calibrated.threshold == threshold
    assert continuous_tail(calibrated.sigma, threshold) <= cost.delta < continuous_tail(calibrated.sigma, threshold - 1)
    assert 2 * threshold < pmg.calibrate(1024, cost.in_epsilon()).threshold


def test_rho_is_what_was_asked_for_and_no_more() -> None:
    for rho in ("1e-15", "0.003", "0.5", "1000"):
        for m in (1, 7, 1000):
            cost = Cost.charged_in_rho(rho=rho, delta="1e-6")
            calibrated = pmg_gaussian.calibrate(16, cost, m)
            exact = Fraction(m**2) * (1 + Fraction(1, L)) / 2 / Fraction(calibrated.sigma) ** 2
            assert calibrated.rho(cost) == exact <= cost.rho
            assert MECHANISM.rho_of is not None
            assert MECHANISM.rho_of(calibrated.parameters()) == exact
            assert calibrated.sigma == pytest.approx(m * math.sqrt((1 + 1 / L) / 2 / float(cost.rho)), rel=1e-14)
            assert calibrated.sigma * L < 2.0**50  # 64 bits are far away


def test_m_events_take_m_times_the_noise() -> None:
    thresholds = {m: pmg_gaussian.calibrate(1024, COST, m).threshold for m in (1, 2, 5, 40)}
    assert thresholds == {1: 8, 2: 16, 5: 40, 40: 333}


def test_it_is_offered_for_a_cost_in_rho_alone() -> None:
    with pytest.raises(NoMechanism, match="pmg-gaussian is priced in ρ"):
        MECHANISM.calibrated(question(k=4))
    with pytest.raises(NoMechanism, match="pmg-gaussian cuts at a threshold and needs a delta above 0"):
        MECHANISM.calibrated(question(k=4, delta="0", rho="0.5"))
    assert MECHANISM.calibrated(question(k=4, rho="0.5")) == CALIBRATED
    assert MECHANISM.families == ("stream",)


def test_parameters_let_a_sceptic_recompute_the_guarantee() -> None:
    assert CALIBRATED.parameters() == {
        "noise": "discrete-gaussian",
        "sigma": f"{CALIBRATED.sigma:.17g}",
        "lattice": 4096,
        "threshold": 8,
        "k": 4,
        "max_contributions": 1,
    }


@pytest.mark.parametrize("promise", [*PROMISES, everything_at_once])
@pytest.mark.parametrize("m", [1, 3])
def test_a_release_is_as_near_the_truth_as_promised(promise: Promise, m: int) -> None:
    assert failures(pmg_gaussian.calibrate(K, NOISY, m), promise) <= TOLERATED


@pytest.mark.parametrize("promise", [*PROMISES, everything_at_once])
def test_a_bound_far_too_small_is_found_out(promise: Promise) -> None:
    assert failures(pmg_gaussian.calibrate(K, NOISY), promise, part=0.25) > TOLERATED


def test_a_smallest_likely_count_is_reported_as_often_as_it_says() -> None:
    calibrated = pmg_gaussian.calibrate(K, NOISY)
    likely = calibrated.smallest_likely_count(BETA)

    def missed(count: int) -> int:
        sketch = StreamSketch(K, {"a": count})
        return sum(not calibrated.release(sketch, SYSTEM_NOISE).counts for _ in range(RELEASES))

    assert missed(likely) <= TOLERATED < missed(likely - round(1.5 * calibrated.sigma))
