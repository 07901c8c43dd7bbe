"""Laplace noise of scale (k+1)/ε on compact sketches is private on all small neighbours, with nothing to spare.

Neighbours are all that `corol:merged-sensitivity` and `cor:merged-user-level` allow: up to k counters higher by one,
some of them of keys that the other side does not store; and what the sketch was lowered by is equal, or one more where
counters are lower. Keys that are equal on both sides cancel.
"""

import math
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from app.core.errors import NoMechanism
from app.core.histogram import NoiseBound, Released
from app.core.ledger.budget import Cost
from app.core.mechanisms import laplace_compact
from app.core.mechanisms.laplace_compact import LaplaceCompact
from app.core.noise.samplers import Noise
from app.core.noise.tails import some_draw_tail
from app.core.sketches.compact import CompactSketch
from app.core.sketches.universe import of_range, of_values
from tests.core.mechanisms.moves import Move, apart, moves_up_to
from tests.core.mechanisms.recorded import Recorded, RecordedBelow, laplace, no_noise
from tests.laws.divergence import (
    ROUNDING,
    Both,
    KeyLaws,
    cut_at,
    divergences,
    excess,
    grouped,
    unreported,
)
from tests.laws.law import Laplace, Seeded

SMALL_K = pytest.mark.parametrize("k", [1, 2, 3])
CALIBRATIONS = pytest.mark.parametrize(
    ("epsilon", "delta"), [("1", "1e-6"), ("1", "0.01"), ("3", "1e-4"), ("0.3", "0.2"), ("0.1", "0.5")]
)

COST = Cost.charged(epsilon="1", delta="1e-6")
CALIBRATED = laplace_compact.calibrate(4, COST)
T = CALIBRATED.threshold


def heights(calibrated: LaplaceCompact, step: int = 1) -> list[int]:
    """Smaller counts of a differing key: 0, where only one side stores it, up to a count that is mostly reported."""
    tall = calibrated.threshold + math.ceil(3 * calibrated.scale)
    near = calibrated.threshold
    return sorted({0, 1, 2, near - 2, near - 1, near, near + 1, tall, *range(0, tall, step)})


def differing_keys(k: int, lower: list[int]) -> Iterator[tuple[int, ...]]:
    """The smaller counts of all keys that differ."""
    for keys in range(1, k + 1):
        yield from combinations_with_replacement(lower, keys)


def key_laws(noise: Laplace, threshold: int, counts: tuple[int, int], *, everywhere: bool = False) -> KeyLaws:
    """A key with these counts; on a universe one that is not stored has noise too."""
    top = max(threshold, *counts)
    left, right = (
        cut_at(noise, threshold, count, top) if count or everywhere else unreported(top - threshold + 3)
        for count in counts
    )
    return grouped(KeyLaws(left, right))


@cache
def lowered_laws(noise: Laplace, apart_by: int) -> KeyLaws:
    """What was lowered, higher by so much on the other side; it is never cut."""
    far = math.ceil(40 * noise.scale)
    return grouped(KeyLaws(cut_at(noise, -far, 0, far + apart_by), cut_at(noise, -far, apart_by, far + apart_by)))


@cache
def measured(k: int, cost: Cost, *, shrink: float = 1.0, lowered: int = 0) -> list[Both]:
    """Divergences of all pairs, the scale of the noise shrunk or the threshold lowered."""
    calibrated = laplace_compact.calibrate(k, cost)
    noise = Laplace(calibrated.scale * shrink)
    lower = heights(calibrated, step=1 if k < 3 else 5)
    laws = {count: key_laws(noise, calibrated.threshold - lowered, (count + 1, count)) for count in lower}
    return [
        divergences(float(cost.epsilon), [lowered_laws(noise, by), *(laws[count] for count in counts)])
        for counts in differing_keys(k, lower)
        for by in (0, 1)
    ]


@SMALL_K
@CALIBRATIONS
def test_no_neighbours_diverge_by_more_than_delta(k: int, epsilon: str, delta: str) -> None:
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    assert max(both.worst for both in measured(k, cost)) + ROUNDING <= cost.delta


@SMALL_K
@CALIBRATIONS
def test_the_worst_neighbours_attain_the_tail_of_the_calibration(k: int, epsilon: str, delta: str) -> None:
    """All k keys of count 1 on one side."""
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    calibrated = laplace_compact.calibrate(k, cost)
    tail = float(some_draw_tail(calibrated.scale, k, calibrated.threshold - 1))
    assert max(both.worst for both in measured(k, cost)) == pytest.approx(tail, rel=1e-9)


@SMALL_K
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("1", "0.01"), ("3", "1e-4"), ("0.3", "0.2")])
def test_a_threshold_one_lower_is_not_private(k: int, epsilon: str, delta: str) -> None:
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    assert max(both.worst for both in measured(k, cost, lowered=1)) > cost.delta


@SMALL_K
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("1", "0.01"), ("3", "1e-4")])
def test_noise_a_tenth_too_small_is_found_out(k: int, epsilon: str, delta: str) -> None:
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    assert max(both.worst for both in measured(k, cost, shrink=0.9)) > cost.delta


@pytest.mark.parametrize(
    ("left", "right", "lowered"),
    [({"a": 1}, {}, (0, 0)), ({"a": 1}, {}, (0, 1)), ({"a": 7}, {"a": 6}, (4, 5)), ({"a": 3}, {"a": 2}, (0, 0))],
)
def test_the_release_itself_has_these_laws(
    left: dict[str, int], right: dict[str, int], lowered: tuple[int, int]
) -> None:
    """`release` run on every pair of draws gives the divergence that the formulas above give."""
    calibrated = laplace_compact.calibrate(1, Cost.charged(epsilon="2", delta="0.01"))
    noise, values = Laplace(calibrated.scale), np.arange(-35, 36.0)
    weights = noise.probability(values)
    laws: list[defaultdict[object, float]] = []
    for sketch in (CompactSketch(1, left, lowered[0]), CompactSketch(1, right, lowered[1])):
        laws.append(defaultdict(float))
        for one, other in product(range(len(values)), repeat=2):
            drawn = iter([int(values[one]), int(values[other])])
            released = calibrated.release(sketch, laplace(lambda scale, size: [next(drawn)]))  # noqa: B023
            laws[-1][tuple(released.counts.items()), released.sketch_error] += weights[one] * weights[other]
    outputs = list(laws[0].keys() | laws[1].keys())
    p, q = (np.array([law[output] for output in outputs]) for law in laws)
    counts = (left["a"], right.get("a", 0))
    keys = [key_laws(noise, calibrated.threshold, counts), lowered_laws(noise, lowered[1] - lowered[0])]
    assert (excess(2.0, p, q), excess(2.0, q, p)) == pytest.approx(divergences(2.0, keys), abs=1e-11)


@SMALL_K
@pytest.mark.parametrize("epsilon", ["0.3", "1", "3"])
@pytest.mark.parametrize("universe_size", [4, 10**6])
def test_noise_on_the_whole_universe_needs_no_delta(k: int, epsilon: str, universe_size: int) -> None:
    cost = Cost.charged(epsilon=epsilon, delta="0")
    calibrated = laplace_compact.calibrate_everywhere(k, universe_size, cost, 0.05)
    lower = heights(calibrated, step=10)

    def worst(scale: float) -> float:
        noise, cutoff = Laplace(scale), calibrated.threshold
        laws = {count: key_laws(noise, cutoff, (count + 1, count), everywhere=True) for count in lower}
        pairs = differing_keys(k, lower)
        with_lowered = [[lowered_laws(noise, 1), *(laws[count] for count in counts)] for counts in pairs]
        return max(divergences(float(cost.epsilon), each).worst for each in with_lowered)

    assert worst(calibrated.scale) <= ROUNDING
    assert worst(calibrated.scale * 0.9) > 1e-3  # the test can fail


def falls(m: int, keys: tuple[Move, ...]) -> int:
    """How many of m steps may lower counters, and so what was lowered be higher: at most as many as do not rise."""
    return m + min(0, *(left - right for left, right in keys))


@pytest.mark.parametrize(("k", "m"), [(1, 2), (1, 3), (2, 2)])
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-4"), ("3", "0.01")])
def test_m_events_cost_no_more_than_is_charged(k: int, m: int, epsilon: str, delta: str) -> None:
    """Both where m steps add up in one counter, and where they bring in other keys."""
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    calibrated = laplace_compact.calibrate(k, cost, m)
    near = calibrated.threshold
    lower = [0, 1, near - 1, near, near + math.ceil(4 * calibrated.scale)]

    def worst(scale: float) -> float:
        noise = Laplace(scale)
        laws = {counts: key_laws(noise, near, counts) for counts in moves_up_to(m, lower)}
        pairs = [
            [lowered_laws(noise, falls(m, keys)), *(laws[counts] for counts in keys)] for keys in apart(k, m, lower)
        ]
        return max(divergences(float(cost.epsilon), each).worst for each in pairs)

    assert worst(calibrated.scale) + ROUNDING <= cost.delta
    assert worst(calibrated.scale * 0.9) > cost.delta  # the test can fail
    assert worst(laplace_compact.calibrate(k, cost).scale) > cost.delta  # the noise for one event is not enough


@pytest.mark.parametrize(("k", "m"), [(1, 2), (1, 3), (2, 2)])
def test_m_events_need_no_delta_on_a_universe_either(k: int, m: int) -> None:
    cost = Cost.charged(epsilon="1", delta="0")
    calibrated = laplace_compact.calibrate_everywhere(k, 5, cost, 0.05, m)
    cutoff, lower = calibrated.threshold, [0, 1, calibrated.threshold, 2 * calibrated.threshold]

    def worst(scale: float) -> float:
        noise = Laplace(scale)
        laws = {both: key_laws(noise, cutoff, both, everywhere=True) for both in moves_up_to(m, lower)}
        pairs = [[lowered_laws(noise, falls(m, keys)), *(laws[both] for both in keys)] for keys in apart(k, m, lower)]
        return max(divergences(1.0, each).worst for each in pairs)

    assert worst(calibrated.scale) <= ROUNDING
    assert worst(calibrated.scale * 0.9) > 1e-3  # the test can fail


def test_a_cost_without_delta_needs_a_universe() -> None:
    cost = Cost.charged(epsilon="1", delta="0")
    with pytest.raises(NoMechanism, match="universe"):
        laplace_compact.calibrate(4, cost)
    assert laplace_compact.calibrate_everywhere(4, 100, cost, 0.05).scale >= 4


def test_the_cutoff_on_a_universe_keeps_noise_only_keys_rare_and_is_the_smallest_that_does() -> None:
    cost = Cost.charged(epsilon="1", delta="0")
    calibrated = laplace_compact.calibrate_everywhere(2, 1000, cost, 0.05)
    tails = Laplace(calibrated.scale).at_least(np.array([calibrated.threshold, calibrated.threshold - 1.0]))
    assert 1000 * tails[0] <= 0.05 / 3 < 1000 * tails[1]


def test_without_noise_exactly_the_counts_from_the_threshold_on_are_reported() -> None:
    sketch = CompactSketch(4, {"below": T - 1, "at": T, "above": T + 1}, lowered=3)
    assert CALIBRATED.release(sketch, laplace(no_noise)) == Released({"at": T, "above": T + 1}, 3)


class Scripted:
    """A sampler that gives one list after the other."""

    def __init__(self, *draws: list[int]) -> None:
        self.draws = iter(draws)

    def __call__(self, scale: float, size: int) -> list[int]:
        return next(self.draws)


def test_the_noisy_count_is_cut_and_keys_come_in_order() -> None:
    """The first draw goes to what was lowered, and is made where that is not known too."""
    sketch = CompactSketch(4, {"sunk": 1000, "lifted": 1, "big": 2**80}, lowered=8)
    draws = [-9], [-3, T - 1, T - 1001, 0]
    found = CALIBRATED.release(sketch, laplace(Scripted(*draws)))
    assert list(found.counts.items()) == [("big", 2**80 - 3), ("lifted", T)]
    assert found.sketch_error == -1
    unknown = CompactSketch(4, sketch.counters, None)
    assert CALIBRATED.release(unknown, laplace(Scripted(*draws))) == Released(found.counts, None)


@pytest.mark.parametrize("lowered", [None, 0, 7])
@pytest.mark.parametrize("stored", range(5))
def test_every_sketch_draws_as_many_values(stored: int, lowered: int | None) -> None:
    """So neither the time nor the entropy used tells how many keys are stored, or whether their error is known."""
    sample = Recorded()
    sketch = CompactSketch(4, {f"key {number}": 9 for number in range(stored)}, lowered)
    CALIBRATED.release(sketch, laplace(sample))
    assert sample.asked == [(CALIBRATED.scale, 1), (CALIBRATED.scale, 4)]


def test_on_a_universe_the_k_largest_from_the_cutoff_on_are_reported() -> None:
    calibrated = LaplaceCompact(k=2, universe_size=5, scale=4.0, threshold=3)
    sketch, universe = CompactSketch(2, {"b": 5, "d": 9}, lowered=1), of_values("abcde")
    none_passes, all_pass = 0, 10**60 - 10**40  # uniform numbers at the ends: of unstored keys none passes, or each

    def released(number: int, *draws: int) -> Released:
        """All calls of the sampler begin with the same draws, so the first goes to what was lowered too."""
        noise = laplace(Recorded(*draws), RecordedBelow(number, *range(5)))
        return calibrated.release(sketch, noise, universe)

    assert released(none_passes) == Released({"b": 5, "d": 9}, 1)
    assert released(none_passes, -3) == Released({"d": 9}, -2)
    # e passes as well, and is the third of equals
    assert released(all_pass, -3, -3, 9) == Released({"a": 3 + 8, "c": 3 + 8}, -2)
    assert released(all_pass, 4, 4, 9) == Released({"b": 9, "d": 13}, 5)


def broken(bound: NoiseBound, sketch: CompactSketch, released: Released) -> bool:
    """Whether a statement of the bound fails; the true counts are as high as the sketch allows."""
    error, lowered = released.sketch_error or 0, sketch.lowered or 0
    for key, counter in [*sketch.counters.items(), ("unstored", 0)]:
        count = released.counts.get(key)
        if count is None and counter + lowered > error + bound.unlisted:
            return True
        if count is not None and (counter < count - bound.below or counter + lowered > count + bound.above + error):
            return True
    return False


@pytest.mark.parametrize("universe_size", [None, 500])
def test_errors_pass_their_bound_no_more_often_than_beta(universe_size: int | None) -> None:
    """And pass a smaller bound far more often."""
    if universe_size is None:
        calibrated = laplace_compact.calibrate(8, Cost.charged(epsilon="1", delta="1e-3"))
    else:
        calibrated = laplace_compact.calibrate_everywhere(8, 500, Cost.charged(epsilon="1", delta="0"), 0.3)
    sample = Seeded(Laplace, 7)
    sketch = CompactSketch(8, {str(number): calibrated.threshold - 9 + 40 * (number % 4) for number in range(8)}, 40)
    noise = Noise(sample, sample, random.Random(8).randrange)
    released = [calibrated.release(sketch, noise, of_range(0, 499)) for _ in range(1500)]
    bound = calibrated.noise_bound(0.3)
    assert sum(broken(bound, sketch, each) for each in released) <= 0.3 * 1500
    for part in ("below", "above"):
        smaller = replace(bound, **{part: getattr(bound, part) // 2})
        assert sum(broken(smaller, sketch, each) for each in released) > 0.3 * 1500


def test_over_a_universe_noise_alone_may_list_a_key() -> None:
    assert CALIBRATED.least == 1
    assert LaplaceCompact(k=4, universe_size=100, scale=4.0, threshold=3).least == 0


def test_parameters_let_a_sceptic_recompute_the_guarantee() -> None:
    assert CALIBRATED.parameters() == {
        "noise": "discrete-laplace",
        "scale": f"{CALIBRATED.scale:.17g}",
        "threshold": T,
        "k": 4,
        "max_contributions": 1,
    }
    assert LaplaceCompact(k=4, universe_size=100, scale=4.0, threshold=3).parameters()["universe_size"] == 100


def test_the_proof_covers_these_families_of_sketch_and_no_others() -> None:
    assert laplace_compact.MECHANISM.families == ("compact",)
