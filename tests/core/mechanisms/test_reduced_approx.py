"""Reduced counters, rounded at random, noised and cut, are (ε, δ)-private on all small neighbours.

Neighbours are all vectors of whole steps at an ℓ1 distance of at most D = (2k−1)·m, on any number of keys, with
counters where something happens: near 0, near D, near the threshold and above. Those of real streams are among them,
and are checked as such too.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from app.core.errors import NoMechanism
from app.core.histogram import Bar, ErrorBound
from app.core.ledger.budget import Cost
from app.core.mechanisms import reduced_approx
from app.core.mechanisms.reduced_approx import ReducedApprox
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch, sensitivity
from tests.core.mechanisms.moves import Move, moves_by, within
from tests.core.mechanisms.recorded import Recorded, RecordedBelow, laplace, no_noise
from tests.laws.divergence import (
    ROUNDING,
    KeyLaws,
    cut_at,
    divergences,
    grouped,
    law_divergences,
    output_law,
    unreported,
)
from tests.laws.law import Array, Laplace
from tests.questions import question
from tests.streams import LETTERS, neighbours, small_streams

CALIBRATIONS = pytest.mark.parametrize(
    ("epsilon", "delta"), [("1", "1e-6"), ("1", "0.01"), ("3", "1e-4"), ("0.3", "0.05")]
)
SIZES = pytest.mark.parametrize(("k", "m"), [(1, 1), (2, 1), (3, 1), (1, 2), (1, 3), (2, 2)])

CALIBRATED = reduced_approx.calibrate(3, 1, Cost.charged(epsilon="1", delta="1e-6"))
D = CALIBRATED.sensitivity
STEP = 4


def key_law(noise: Laplace, calibrated: ReducedApprox, counter: int, top: int) -> Array:
    """What is reported of a key, in steps: nothing, or a value from the threshold to the top, or more."""
    raised = cut_at(noise, steps(calibrated), max(counter, calibrated.sensitivity), top)
    stays = min(1.0, counter / calibrated.sensitivity)
    return stays * raised + (1 - stays) * unreported(len(raised))


def steps(calibrated: ReducedApprox) -> int:
    return calibrated.threshold * (calibrated.k + 1)


class Laws:
    """Laws of moved keys at one calibration, its noise shrunk or its threshold lowered."""

    def __init__(self, cost: Cost, calibrated: ReducedApprox, *, shrink: float = 1.0, lowered: int = 0) -> None:
        self.epsilon = float(cost.epsilon)
        self.noise = Laplace(calibrated.scale * shrink)
        self.calibrated = replace(calibrated, threshold=calibrated.threshold - lowered)
        self.of = cache(self._of)

    def _of(self, move: Move) -> KeyLaws:
        top = max(steps(self.calibrated), self.calibrated.sensitivity, *move)
        left, right = (key_law(self.noise, self.calibrated, counter, top) for counter in move)
        return grouped(KeyLaws(left, right))

    def worst(self, pairs: Iterable[tuple[Move, ...]]) -> float:
        return max(divergences(self.epsilon, [self.of(move) for move in keys]).worst for keys in pairs)


def lower_ends(calibrated: ReducedApprox) -> list[int]:
    """Counters from which keys move: all that matter where few keys can, fewer where many can."""
    cut, reach = steps(calibrated), calibrated.sensitivity
    tall = cut + math.ceil(3 * calibrated.scale)
    if reach == 1:
        return list(range(tall + 1))
    if reach <= 3:
        return sorted({0, 1, reach - 1, reach, cut - 1, cut, tall})
    return [0, reach - 1, tall]


@cache
def worst_of_all(k: int, m: int, cost: Cost) -> float:
    calibrated = reduced_approx.calibrate(k, m, cost)
    return Laws(cost, calibrated).worst(within(calibrated.sensitivity, lower_ends(calibrated)))


def tail(calibrated: ReducedApprox) -> float:
    """q: the probability that a counter of D is reported."""
    needed = steps(calibrated) - calibrated.sensitivity
    return float(Laplace(calibrated.scale).at_least(np.array([needed]))[0])


@SIZES
@CALIBRATIONS
def test_no_neighbours_diverge_by_more_than_delta(k: int, m: int, epsilon: str, delta: str) -> None:
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    assert worst_of_all(k, m, cost) + ROUNDING <= cost.delta


@SIZES
@CALIBRATIONS
def test_no_neighbours_diverge_by_more_than_a_counter_of_d_beside_none(
    k: int, m: int, epsilon: str, delta: str
) -> None:
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    assert worst_of_all(k, m, cost) == pytest.approx(tail(reduced_approx.calibrate(k, m, cost)), rel=1e-9)


@SIZES
@CALIBRATIONS
def test_one_key_may_move_from_anywhere(k: int, m: int, epsilon: str, delta: str) -> None:
    """By every distance up to D, from every counter up to one that is mostly reported."""
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    calibrated = reduced_approx.calibrate(k, m, cost)
    everywhere = range(steps(calibrated) + math.ceil(3 * calibrated.scale))
    moves = [(move,) for by in range(1, calibrated.sensitivity + 1) for move in moves_by(by, everywhere)]
    assert Laws(cost, calibrated).worst(moves) + ROUNDING <= cost.delta


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("sources", [1, 2])
def test_real_neighbouring_streams_diverge_by_at_most_delta(k: int, sources: int) -> None:
    """Small streams after a start with counters as high as the threshold, alone or beside another source."""
    cost = Cost.charged(epsilon="1", delta="0.01")
    calibrated = reduced_approx.calibrate(k, 1, cost)
    beside = SummedSketch.of_stream(StreamSketch.empty(k).extended([("a", 3), ("e", calibrated.threshold)]))
    pairs: set[tuple[Move, ...]] = set()
    for tall in range(k + 1):
        start = StreamSketch.empty(k).extended((key, 2 * calibrated.threshold) for key in LETTERS[:tall])
        for stream in small_streams(k + 1, 4):
            longer = SummedSketch.of_stream(start.extended((key, 1) for key in stream))
            for removed in neighbours(stream):
                shorter = SummedSketch.of_stream(start.extended((key, 1) for key in removed))
                if sources == 2:
                    pairs.add(moved(longer.plus(beside), shorter.plus(beside)))
                else:
                    pairs.add(moved(longer, shorter))
    pairs.discard(())
    assert len(pairs) > 2 * k
    assert Laws(cost, calibrated).worst(pairs) + ROUNDING <= cost.delta


def moved(left: SummedSketch, right: SummedSketch) -> tuple[Move, ...]:
    keys = left.counters.keys() | right.counters.keys()
    both = ((left.counters.get(key, 0), right.counters.get(key, 0)) for key in keys)
    return tuple(sorted(move for move in both if move[0] != move[1]))


@SIZES
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("1", "0.01"), ("3", "1e-4")])
def test_noise_a_tenth_too_small_is_found_out(k: int, m: int, epsilon: str, delta: str) -> None:
    """A tall counter that moves by D: what noise of the right scale covers at the price of ε alone."""
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    calibrated = reduced_approx.calibrate(k, m, cost)
    tall = steps(calibrated) + math.ceil(5 * calibrated.scale)
    pairs = [((tall + calibrated.sensitivity, tall),)]
    assert Laws(cost, calibrated).worst(pairs) <= ROUNDING
    assert Laws(cost, calibrated, shrink=0.9).worst(pairs) > cost.delta


@SIZES
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("1", "0.01"), ("0.3", "0.05")])
def test_up_to_epsilon_one_a_threshold_one_lower_is_not_private(k: int, m: int, epsilon: str, delta: str) -> None:
    """There A = 1, and a counter of D beside none attains the tail of the calibration."""
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    calibrated = reduced_approx.calibrate(k, m, cost)
    pairs = [((calibrated.sensitivity, 0),)]
    assert Laws(cost, calibrated).worst(pairs) == pytest.approx(tail(calibrated), rel=1e-9)
    assert Laws(cost, calibrated, lowered=1).worst(pairs) > cost.delta


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"a": 3}, {}),
        ({"a": 2, "b": 20}, {"a": 1, "b": 22}),
        ({"a": 5, "b": 1}, {"a": 2, "b": 1}),
        ({"a": 1, "b": 2}, {}),
    ],
)
def test_the_release_itself_has_these_laws(left: dict[str, int], right: dict[str, int]) -> None:
    """`release` run on all draws and coins, which reports steps rounded down to whole counts."""
    cost = Cost.charged(epsilon="3", delta="0.05")
    calibrated = reduced_approx.calibrate(2, 1, cost)
    noise = Laplace(calibrated.scale)
    p, q = (
        output_law(
            lambda sample, below: calibrated.release(sketch, laplace(sample, below)),  # noqa: B023
            noise,
            draws=2,
            reach=28,
            coins=calibrated.sensitivity,
        )
        for sketch in (SummedSketch(2, 1, left), SummedSketch(2, 1, right))
    )
    for law, counters in ((p, left), (q, right)):
        for key in "ab":
            expected = whole_counts(calibrated, key_law(noise, calibrated, counters.get(key, 0), top=90), top=90)
            found = {
                count: math.fsum(weight for output, weight in law.items() if dict(output).get(key) == count)
                for count in expected
            }
            assert found == pytest.approx(expected, abs=1e-11)
    assert law_divergences(3.0, p, q).worst + ROUNDING <= cost.delta


def whole_counts(calibrated: ReducedApprox, law: Array, top: int) -> dict[int | None, float]:
    """The law of the reported count: steps rounded down, None for nothing."""
    found: dict[int | None, float] = {None: float(law[0])}
    for value, weight in zip(range(steps(calibrated), top + 1), law[1:], strict=False):
        count = value // (calibrated.k + 1)
        found[count] = found.get(count, 0.0) + float(weight)
    return found


def test_counters_from_d_on_are_noised_and_cut_in_steps_and_reported_in_counts() -> None:
    t = CALIBRATED.threshold
    sketch = SummedSketch(3, 1, {"below": t * STEP - 1, "at": t * STEP, "above": t * STEP + 9})
    assert CALIBRATED.release(sketch, laplace(no_noise, RecordedBelow())) == {"at": t, "above": t + 2}


@pytest.mark.parametrize("counter", range(1, 2 * D))
def test_a_counter_below_d_stays_with_probability_counter_over_d_and_is_raised(counter: int) -> None:
    """Each coin once: a counter c below D stays for c of D coins, with the value D."""
    lift = CALIBRATED.threshold * STEP - D
    found = [
        CALIBRATED.release(SummedSketch(3, 1, {"a": counter}), laplace(Recorded(lift), RecordedBelow(coin)))
        for coin in range(D)
    ]
    assert sum(bool(released) for released in found) == min(counter, D)
    assert all(released in ({}, {"a": (max(counter, D) + lift) // STEP}) for released in found)


@pytest.mark.parametrize("stored", [0, 1, 3, 7])
def test_as_many_draws_and_coins_are_made_as_there_can_be_keys(stored: int) -> None:
    """So neither the time nor the entropy used tells how many keys are stored."""
    sample, below = Recorded(), RecordedBelow()
    CALIBRATED.release(SummedSketch(3, 3, {f"key {number}": 9 for number in range(stored)}), laplace(sample, below))
    assert sample.asked == [(CALIBRATED.scale, 9)]
    assert below.asked == [D] * 9


def test_counts_come_in_key_order_and_in_any_size() -> None:
    sketch = SummedSketch(3, 1, {"b": 2**80 * STEP, "a": 10**6 * STEP})
    assert list(CALIBRATED.release(sketch, laplace(no_noise, RecordedBelow())).items()) == [("a", 10**6), ("b", 2**80)]


def test_the_scale_is_that_of_the_exact_sensitivity() -> None:
    """Below 2/ε counts, for any number of sources."""
    assert D == sensitivity(3, 1) == 5
    assert CALIBRATED.scale == pytest.approx(5, rel=1e-9)
    assert CALIBRATED.parameters() == {
        "noise": "discrete-laplace",
        "scale": f"{CALIBRATED.scale / STEP:.17g}",
        "threshold": CALIBRATED.threshold,
        "k": 3,
        "max_contributions": 1,
    }


@pytest.mark.parametrize("k", [16, 1024])
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("0.1", "1e-6"), ("1", "1e-12")])
def test_the_threshold_is_lower_than_the_published_one(k: int, epsilon: str, delta: str) -> None:
    """2Δ + Δ·ln(1/δ)/ε with Δ = (2k−1)/(k+1), as sec:pure derives it."""
    reach = (2 * k - 1) / (k + 1)
    published = 2 * reach + reach * math.log(1 / float(delta)) / float(epsilon)
    assert reduced_approx.calibrate(k, 1, Cost.charged(epsilon=epsilon, delta=delta)).threshold < published


def test_a_cost_without_delta_is_refused() -> None:
    with pytest.raises(
        NoMechanism, match="reduced-approx cuts at a threshold and needs a delta above 0, for example 1e-6"
    ):
        reduced_approx.MECHANISM.calibrated(question(k=3, delta="0"))
    with pytest.raises(ValueError, match="delta of 0"):
        reduced_approx.calibrate(3, 1, Cost.charged(epsilon="1", delta="0"))


def test_a_bar_allows_for_both_roundings() -> None:
    bound = ErrorBound(noise_low=30, noise_high=10, sketch_low=5)
    assert CALIBRATED.bars({"a": 90, "b": 11}, bound) == [Bar("a", 90, 80, 107), Bar("b", 11, 1, 28)]


def test_the_proof_covers_these_families_of_sketch_and_no_others() -> None:
    assert reduced_approx.MECHANISM.families == ("stream", "summed")
