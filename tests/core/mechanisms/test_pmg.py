"""What PMG reports, what it draws, and that its error bound holds as often as it says."""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from app.core.errors import NoMechanism
from app.core.histogram import Bar, Counts, ErrorBound
from app.core.ledger.budget import Cost
from app.core.mechanisms import pmg
from app.core.mechanisms.pmg import Pmg
from app.core.noise.samplers import discrete_laplace
from app.core.noise.tails import noise_bound
from app.core.sketches.stream import StreamSketch
from tests.core.mechanisms.recorded import Recorded, laplace, no_noise
from tests.laws.law import most_failures
from tests.questions import question
from tests.streams import Stream, in_runs, zipf

COST = Cost.charged(epsilon="1", delta="1e-6")
CALIBRATED = pmg.calibrate(4, COST)
T = CALIBRATED.threshold


def test_without_noise_exactly_the_counts_from_the_threshold_on_are_reported() -> None:
    sketch = StreamSketch(4, {"below": T - 1, "at": T, "above": T + 1, "zero": 0})
    assert CALIBRATED.release(sketch, laplace(no_noise)) == {"at": T, "above": T + 1}


def test_one_draw_is_shared_and_each_key_has_its_own() -> None:
    sketch = StreamSketch(4, {"c": 100, "a": 200, "b": 300})
    assert CALIBRATED.release(sketch, laplace(Recorded(7, -1, 20, 3))) == {"a": 206, "b": 327, "c": 110}


def test_the_noisy_count_is_cut_not_the_count() -> None:
    sketch = StreamSketch(4, {"lifted": 1, "sunk": 1000})
    assert CALIBRATED.release(sketch, laplace(Recorded(0, T - 1, -1001 + T))) == {"lifted": T}


def test_counts_come_in_key_order_whatever_the_order_of_arrival() -> None:
    keys = ["é", "b", "\U0001f40c", "a"]
    released = CALIBRATED.release(StreamSketch(4, dict.fromkeys(keys, 1000)), laplace(no_noise))
    assert list(released) == ["a", "b", "é", "\U0001f40c"]


@pytest.mark.parametrize("stored", range(5))
def test_every_sketch_draws_k_plus_one_values(stored: int) -> None:
    """So neither the time nor the entropy used tells how many keys are stored."""
    sample = Recorded()
    CALIBRATED.release(StreamSketch(4, {f"key {number}": 9 for number in range(stored)}), laplace(sample))
    assert sample.asked == [(CALIBRATED.scale, 5)]


def test_an_empty_sketch_releases_like_any_other() -> None:
    assert CALIBRATED.release(StreamSketch.empty(4), laplace(discrete_laplace)) == {}


def test_empty_slots_are_never_reported_even_by_huge_noise() -> None:
    sketch = StreamSketch(4, {"a": 0})
    assert CALIBRATED.release(sketch, laplace(Recorded(10**9, 10**9, 10**9, 10**9, 10**9))) == {"a": 2 * 10**9}


def test_counters_beyond_machine_integers_are_released_exactly() -> None:
    sketch = StreamSketch(4, {"a": 2**80})
    assert CALIBRATED.release(sketch, laplace(Recorded(-3, 1))) == {"a": 2**80 - 2}


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


def test_the_error_bound_keeps_noise_and_sketch_apart() -> None:
    noise = noise_bound(CALIBRATED.scale, 4, 0.025)
    assert CALIBRATED.error_bound(0.05, 1004) == ErrorBound(noise + T - 1, noise, sketch_low=200)


def test_without_declared_events_nothing_is_said_about_the_sketch() -> None:
    """The true number of events is private, so it is never put in its place."""
    bound = CALIBRATED.error_bound(0.05, None)
    assert bound.sketch_low is None
    assert [bar.high for bar in CALIBRATED.bars({"a": 90, "b": 80}, bound)] == [None, None]


def test_bars_reach_as_far_as_noise_and_sketch_do() -> None:
    """A reported key was not cut, so the threshold is no part of its error."""
    bound = ErrorBound(noise_low=30, noise_high=10, sketch_low=5)
    assert CALIBRATED.bars({"a": 90, "b": 11}, bound) == [Bar("a", 90, 80, 105), Bar("b", 11, 1, 26)]


def test_a_bar_never_starts_below_one() -> None:
    """A reported key is stored, and a stored key is in the stream."""
    bound = ErrorBound(noise_low=30, noise_high=10, sketch_low=None)
    assert [bar.low for bar in CALIBRATED.bars({"a": 10, "b": 3}, bound)] == [1, 1]


# The tests below draw real noise. A release breaks its promise with probability at most β, independently of the others;
# more than `TOLERATED` then do so with the probability `law.FALSE_ALARM`.
BETA = 0.1
RELEASES = 600
TOLERATED = most_failures(RELEASES, BETA)
K = 8


def streams() -> list[Stream]:
    """Short and long ones, of fewer and of more keys than the sketch holds."""
    shapes = random.Random(5)
    return [zipf(shapes.randrange(1500), keys=shapes.randrange(5, 11), seed=seed) for seed in range(RELEASES)]


def within_the_bound(counts: Counts, stream: Stream, bound: ErrorBound, bars: list[Bar]) -> bool:
    """`thm:final_theorem`: every key of the stream, an absent one with the count 0."""
    true = Counter(stream)
    lowest = bound.noise_low + (bound.sketch_low or 0)
    return all(-lowest <= counts.get(key, 0) - true[key] <= bound.noise_high for key in true)


def within_the_bars(counts: Counts, stream: Stream, bound: ErrorBound, bars: list[Bar]) -> bool:
    """Every reported key."""
    true = Counter(stream)
    return all(bar.high is not None and bar.low <= true[bar.key] <= bar.high for bar in bars)


Promise = Callable[[Counts, Stream, ErrorBound, list[Bar]], bool]
PROMISES = pytest.mark.parametrize("promise", [within_the_bound, within_the_bars])


def failures(promise: Promise, divisor: int) -> int:
    """How many releases break a promise whose noise is understated by a divisor."""
    calibrated = pmg.calibrate(K, Cost.charged(epsilon="0.5", delta="1e-3"))
    failed = 0
    for stream in streams():
        exact = calibrated.error_bound(BETA, len(stream))
        bound = ErrorBound(exact.noise_low // divisor, exact.noise_high // divisor, exact.sketch_low)
        counts = calibrated.release(StreamSketch.empty(K).extended(in_runs(stream)), laplace(discrete_laplace))
        assert counts.keys() <= set(stream)  # f(x) = 0 is never reported, without exception
        failed += not promise(counts, stream, bound, calibrated.bars(counts, bound))
    return failed


@PROMISES
def test_all_keys_are_within_the_error_bound_as_often_as_promised(promise: Promise) -> None:
    assert failures(promise, divisor=1) <= TOLERATED


@PROMISES
def test_a_bound_far_too_small_is_found_out(promise: Promise) -> None:
    """At a quarter of the noise about 220 releases fail, with a standard deviation of 12: nine above the tolerated."""
    assert failures(promise, divisor=4) > TOLERATED


def reported(count: int, calibrated: Pmg) -> int:
    """How many of the releases report a key with this count."""
    sketch = StreamSketch(K, {"a": count})
    return sum(bool(calibrated.release(sketch, laplace(discrete_laplace))) for _ in range(RELEASES))


def test_a_smallest_likely_count_is_reported_as_often_as_it_says() -> None:
    """A key that is one standard deviation of the noise lower is reported six times in ten, and that is noticed."""
    calibrated = pmg.calibrate(K, Cost.charged(epsilon="0.1", delta="1e-3"))
    likely = calibrated.smallest_likely_count(BETA)
    assert RELEASES - reported(likely, calibrated) <= TOLERATED
    assert RELEASES - reported(likely - round(2 * calibrated.scale), calibrated) > TOLERATED


def test_the_proof_covers_these_families_of_sketch_and_no_others() -> None:
    assert pmg.MECHANISM.families == ("stream",)
