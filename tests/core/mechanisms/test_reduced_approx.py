"""Reduced counters, rounded at random, noised and cut, are (ε, δ)-private on all small neighbours, n and Σc too.

Two kinds of neighbours are enumerated, with counters where something happens: near 0, near D, near the threshold and
above. Those that `lem:nb-cases` allows for one event, and all that the proof allows for m events: at most m·k steps up,
at most m·k down, and at most D together with what moves beside the counters. Real streams are checked as such too.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from app.core.errors import NoMechanism
from app.core.histogram import Released
from app.core.ledger.budget import Cost
from app.core.mechanisms import reduced_approx
from app.core.mechanisms.reduced_approx import ReducedApprox
from app.core.noise.samplers import Noise
from app.core.noise.tails import draw_bound
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch, beside, sensitivity
from tests.core.mechanisms.moves import Move, parts
from tests.core.mechanisms.recorded import Recorded, RecordedBelow, laplace, no_noise
from tests.laws.divergence import ROUNDING, KeyLaws, cut_at, divergences, grouped, unreported
from tests.laws.law import Array, Laplace
from tests.questions import question
from tests.streams import LETTERS, neighbours, small_streams

CALIBRATIONS = pytest.mark.parametrize(
    ("epsilon", "delta"), [("1", "1e-6"), ("1", "0.01"), ("4", "1e-4"), ("0.3", "0.05"), ("0.01", "0.1")]
)
SIZES = pytest.mark.parametrize(("k", "m"), [(1, 1), (2, 1), (3, 1), (1, 2), (1, 3), (2, 2)])
SOURCES = pytest.mark.parametrize("sources", [1, 2])

CALIBRATED = reduced_approx.calibrate(3, 1, 1, Cost.charged(epsilon="1", delta="1e-6"))
D = CALIBRATED.sensitivity
STEP = 4
BETA = 0.05


class Moved(tuple[tuple[Move, ...], tuple[int, ...]]):
    """How two neighbours differ: the keys' counters on both sides, and by how much each number beside them moves."""

    __slots__ = ()

    @classmethod
    def of(cls, keys: Iterable[Move], others: Iterable[int]) -> "Moved":
        return cls((tuple(sorted(keys)), tuple(sorted(abs(by) for by in others if by))))


def key_law(noise: Laplace, calibrated: ReducedApprox, counter: int, top: int) -> Array:
    """What is reported of a key, in steps: nothing, or a value from the threshold to the top, or more."""
    raised = cut_at(noise, steps(calibrated), max(counter, calibrated.sensitivity), top)
    stays = min(1.0, counter / calibrated.sensitivity)
    return stays * raised + (1 - stays) * unreported(len(raised))


def steps(calibrated: ReducedApprox) -> int:
    return calibrated.threshold * (calibrated.k + 1)


class Laws:
    """Laws of what moves, at one calibration, its noise shrunk or its threshold lowered."""

    def __init__(self, cost: Cost, calibrated: ReducedApprox, *, shrink: float = 1.0, lowered: int = 0) -> None:
        self.epsilon = float(cost.epsilon)
        self.noise = Laplace(calibrated.scale * shrink)
        self.calibrated = replace(calibrated, threshold=calibrated.threshold - lowered)
        self.of_key, self.of_other = cache(self._of_key), cache(self._of_other)

    def _of_key(self, move: Move) -> KeyLaws:
        top = max(steps(self.calibrated), self.calibrated.sensitivity, *move)
        left, right = (key_law(self.noise, self.calibrated, counter, top) for counter in move)
        return grouped(KeyLaws(left, right))

    def _of_other(self, by: int) -> KeyLaws:
        """A number with noise and no threshold, on one side higher; it is the same ratio from both ends on."""
        return grouped(KeyLaws(cut_at(self.noise, 1, 0, by - 1), cut_at(self.noise, 1, by, by - 1)))

    def worst(self, pairs: Iterable[Moved]) -> float:
        """In both directions. Which way a number beside the counters moves does not matter: its noise is symmetric."""
        return max(
            divergences(self.epsilon, [*map(self.of_key, keys), *map(self.of_other, others)]).worst
            for keys, others in pairs
        )


def heights(calibrated: ReducedApprox, *, few: bool) -> list[int]:
    """Counters from which keys move."""
    cut, reach = steps(calibrated), calibrated.sensitivity
    tall = cut + math.ceil(3 * calibrated.scale)
    return [0, reach - 1, tall] if few else sorted({0, 1, reach - 2, reach - 1, reach, cut - 1, cut, tall} - {-1})


def one_event(calibrated: ReducedApprox) -> Iterator[Moved]:
    """One counter higher, others lower, n and Σc higher by one; or all lower, n higher by one and Σc lower by k.

    Where a reduced counter is zero on one side, it moves by less.
    """
    k, both = calibrated.k, beside(calibrated.sources) == 2
    lower = heights(calibrated, few=k == 3)
    falling = [
        fallen
        for number in range(k + 1)
        for fallen in combinations_with_replacement([(low, low + 1) for low in lower], number)
    ]
    for fallen in falling:
        yield Moved.of(fallen, [1, k] if both else [1])
        if len(fallen) < k:
            for by in range(1, k + 1):
                for low in lower:
                    yield Moved.of([*fallen, (low + by, low)], [1, 1] if both else [1])


def allowed_by_the_proof(calibrated: ReducedApprox) -> Iterator[Moved]:
    """At most m·k steps up and as many down; what is left of D moves beside them."""
    most, lower = calibrated.k * calibrated.max_contributions, heights(calibrated, few=True)
    ups = [
        tuple((low + by, low) for by, low in zip(lengths, lows, strict=True))
        for total in range(most + 1)
        for lengths in parts(total, total)
        for lows in product(lower, repeat=len(lengths))
    ]
    for up, down in product({tuple(sorted(keys)) for keys in ups}, repeat=2):
        left = calibrated.sensitivity - sum(high - low for high, low in (*up, *down))
        if left >= 0 and len(up) + len(down) <= 4:
            yield Moved.of([*up, *((low, high) for high, low in down)], [left])


@cache
def worst_of_all(k: int, m: int, sources: int, cost: Cost) -> float:
    calibrated = reduced_approx.calibrate(k, m, sources, cost)
    pairs = {*allowed_by_the_proof(calibrated), *(one_event(calibrated) if m == 1 else [])}
    pairs.discard(Moved.of([], []))
    return Laws(cost, calibrated).worst(pairs)


def tail(calibrated: ReducedApprox) -> float:
    """q: the probability that a counter of D is reported."""
    needed = steps(calibrated) - calibrated.sensitivity
    return float(Laplace(calibrated.scale).at_least(np.array([needed]))[0])


def share(k: int, sources: int) -> float:
    """r: by how much of D the counters can rise."""
    return k / sensitivity(k, 1, sources)


@SIZES
@SOURCES
@CALIBRATIONS
def test_no_neighbours_diverge_by_more_than_delta(k: int, m: int, sources: int, epsilon: str, delta: str) -> None:
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    assert worst_of_all(k, m, sources, cost) + ROUNDING <= cost.delta


@SIZES
@SOURCES
@CALIBRATIONS
def test_no_neighbours_diverge_by_more_than_the_proof_says(
    k: int, m: int, sources: int, epsilon: str, delta: str
) -> None:
    """A·q; up to ε = 1/r it is r·q, which one key with k steps more than nothing attains."""
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    r, q = share(k, sources), tail(reduced_approx.calibrate(k, m, sources, cost))
    worst = worst_of_all(k, m, sources, cost)
    if q > float(epsilon) * (1 - q):  # counters that fall cost δ too
        assert r * q * (1 - 1e-9) <= worst <= q
    elif float(epsilon) * r <= 1:
        assert worst == pytest.approx(r * q, rel=1e-9)
    else:
        assert r * q * (1 - 1e-9) <= worst <= math.exp(float(epsilon) * r - 1) / float(epsilon) * q


def test_where_delta_is_large_beside_epsilon_counters_that_fall_cost_delta_too() -> None:
    """At k = 2 and ε = 0.01 a threshold for the counters that rise alone is too low."""
    cost = Cost.charged(epsilon="0.01", delta="0.1")
    calibrated = reduced_approx.calibrate(2, 1, 1, cost)
    too_low = replace(calibrated, threshold=118)
    assert share(2, 1) * tail(too_low) <= cost.delta < tail(calibrated) * 1.1
    assert Laws(cost, too_low).worst(one_event(too_low)) > 1.05 * float(cost.delta)


def test_real_streams_attain_delta_within_a_step() -> None:
    """One event beside none, k = 3: what is calibrated for is reached, but for the whole counts of a threshold."""
    cost = Cost.charged(epsilon="1", delta="1e-6")
    left, right = (SummedSketch.of_stream(StreamSketch.empty(3).extended(events)) for events in ([("a", 1)], []))
    worst = Laws(cost, CALIBRATED).worst([moved(left, right)])
    assert worst == pytest.approx(3 / 7 * tail(CALIBRATED), rel=1e-9)
    assert Laws(cost, CALIBRATED, lowered=1).worst([moved(left, right)]) > cost.delta >= worst


@SOURCES
@pytest.mark.parametrize("k", [1, 2, 3])
def test_real_neighbouring_streams_diverge_by_at_most_delta(k: int, sources: int) -> None:
    """Small streams after a start with counters as high as the threshold, alone or beside another source."""
    cost = Cost.charged(epsilon="1", delta="0.01")
    calibrated = reduced_approx.calibrate(k, 1, sources, cost)
    other = SummedSketch.of_stream(StreamSketch.empty(k).extended([("a", 3), ("e", calibrated.threshold)]))
    pairs: set[Moved] = set()
    for tall in range(k + 1):
        start = StreamSketch.empty(k).extended((key, 2 * calibrated.threshold) for key in LETTERS[:tall])
        for stream in small_streams(k + 1, 4):
            longer = SummedSketch.of_stream(start.extended((key, 1) for key in stream))
            for removed in neighbours(stream):
                shorter = SummedSketch.of_stream(start.extended((key, 1) for key in removed))
                if sources == 2:
                    pairs.add(moved(longer.plus(other), shorter.plus(other)))
                else:
                    pairs.add(moved(longer, shorter))
    assert len(pairs) > 2 * k
    assert Laws(cost, calibrated).worst(pairs) + ROUNDING <= cost.delta


def moved(left: SummedSketch, right: SummedSketch) -> Moved:
    keys = left.counters.keys() | right.counters.keys()
    both = ((left.counters.get(key, 0), right.counters.get(key, 0)) for key in keys)
    assert None not in (left.events, right.events, left.reduction, right.reduction)
    others = [(left.events or 0) - (right.events or 0), (left.reduction or 0) - (right.reduction or 0)]
    return Moved.of([move for move in both if move[0] != move[1]], others[: beside(left.sources)])


@SIZES
@SOURCES
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("1", "0.01"), ("4", "1e-4")])
def test_noise_for_the_counters_alone_is_too_little(k: int, m: int, sources: int, epsilon: str, delta: str) -> None:
    """A sensitivity of 2k − 1 forgets what is released beside them: tall counters move as far, and n and Σc too."""
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    calibrated = reduced_approx.calibrate(k, m, sources, cost)
    tall = steps(calibrated) + math.ceil(5 * calibrated.scale)
    keys = [(tall + m * k, tall), *[(tall, tall + m)] * (k - 1)]
    pairs = [Moved.of(keys, [m] * beside(sources))]
    assert Laws(cost, calibrated).worst(pairs) <= ROUNDING
    assert Laws(cost, calibrated, shrink=(2 * k - 1) / sensitivity(k, 1, sources)).worst(pairs) > 1e-4


@SIZES
@SOURCES
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("1", "0.01"), ("0.3", "0.05")])
def test_a_threshold_one_lower_is_not_private(k: int, m: int, sources: int, epsilon: str, delta: str) -> None:
    """One key beside nothing, whose m·k steps are all below D."""
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    calibrated = reduced_approx.calibrate(k, m, sources, cost)
    assert Laws(cost, calibrated, lowered=1).worst([Moved.of([(m * k, 0)], [])]) > cost.delta


@pytest.mark.parametrize("sources", [1, 3])
@pytest.mark.parametrize(("epsilon", "threshold"), [("1", 27), ("0.1", 251)])
def test_the_thresholds_of_a_usual_sketch(epsilon: str, threshold: int, sources: int) -> None:
    cost = Cost.charged(epsilon=epsilon, delta="1e-6")
    assert reduced_approx.calibrate(1024, 1, sources, cost).threshold == threshold


PAIRS = [({"a": 1}, {}), ({"a": 2}, {"a": 1}), ({"a": 4}, {"a": 3}), ({"a": 5}, {"a": 6})]


@SOURCES
@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_the_release_itself_diverges_no_more(left: dict[str, int], right: dict[str, int], sources: int) -> None:
    """`release` run on all draws and coins: counts, sketch error and reduction together."""
    cost = Cost.charged(epsilon="4", delta="0.05")
    calibrated = reduced_approx.calibrate(1, 1, sources, cost)
    p, q = (
        whole_law(calibrated, SummedSketch(1, sources, counters, reduction=7 + more, events=9 + more))
        for counters, more in ((left, 1), (right, 0))
    )
    both = [np.array([law.get(output, 0.0) for output in p.keys() | q.keys()]) for law in (p, q)]
    assert [math.fsum(law) for law in both] == pytest.approx([1, 1], abs=1e-9)
    assert divergences(4.0, [KeyLaws(*both)]).worst + ROUNDING <= cost.delta
    expected = key_law(Laplace(calibrated.scale), calibrated, left["a"], top=90)
    listed = math.fsum(weight for (counts, *_), weight in p.items() if counts)
    assert listed == pytest.approx(1 - expected[0], abs=1e-9)
    if sources == 1 and right:
        sharper = divergences(4.0 * 0.6, [KeyLaws(*both)]).worst
        assert sharper > divergences(4.0, [KeyLaws(*both)]).worst  # it does see what differs


def whole_law(calibrated: ReducedApprox, sketch: SummedSketch) -> dict[tuple[object, ...], float]:
    """Of one key, and of one or two numbers beside it."""
    noise, reach = Laplace(calibrated.scale), math.ceil(22 * calibrated.scale)
    weights = noise.probability(np.arange(-reach, reach + 1.0))
    found: defaultdict[tuple[object, ...], float] = defaultdict(float)
    others = beside(calibrated.sources)
    for places in product(range(2 * reach + 1), repeat=1 + others):
        weight = math.prod(weights[place] for place in places) / calibrated.sensitivity
        draws = [place - reach for place in places]
        for coin in range(calibrated.sensitivity):
            given = iter((draws[:others], [draws[others]] * sketch.most_keys))
            tossed = Noise(lambda scale, size: next(given), no_noise, lambda limit: coin)  # noqa: B023
            found[tuple(as_output(calibrated.release(sketch, tossed)))] += weight
    return found


def as_output(released: Released) -> Iterator[object]:
    yield tuple(released.counts.items())
    yield released.sketch_error
    yield released.reduction


def test_counters_from_d_on_are_noised_and_cut_in_steps_and_reported_in_counts() -> None:
    t = CALIBRATED.threshold
    sketch = SummedSketch(3, 1, {"below": t * STEP - 1, "at": t * STEP, "above": t * STEP + 9})
    assert CALIBRATED.release(sketch, laplace(no_noise, RecordedBelow())).counts == {"at": t, "above": t + 2}


@pytest.mark.parametrize("counter", range(1, 2 * D))
def test_a_counter_below_d_stays_with_probability_counter_over_d_and_is_raised(counter: int) -> None:
    """Each coin once: a counter c below D stays for c of D coins, with the value D."""
    lift = CALIBRATED.threshold * STEP - D
    found = [
        CALIBRATED.release(SummedSketch(3, 1, {"a": counter}), laplace(Recorded(lift), RecordedBelow(coin))).counts
        for coin in range(D)
    ]
    assert sum(bool(released) for released in found) == min(counter, D)
    assert all(released in ({}, {"a": (max(counter, D) + lift) // STEP}) for released in found)


@pytest.mark.parametrize("stored", [0, 1, 3, 7])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("sources", [1, 3])
def test_as_many_draws_and_coins_are_made_as_there_can_be_keys(stored: int, known: bool, sources: int) -> None:
    """So neither the time nor the entropy used tells how many keys are stored, nor what the sketch knows of itself."""
    sample, below = Recorded(), RecordedBelow()
    counters = {f"key {number}": 9 for number in range(stored)}
    sketch = SummedSketch(3, 3, counters, *((5, 6) if known else ()))
    replace(CALIBRATED, sources=sources).release(sketch, laplace(sample, below))
    assert sample.asked == [(CALIBRATED.scale, beside(sources)), (CALIBRATED.scale, 9)]
    assert below.asked == [D] * 9


def test_counts_come_in_key_order_and_in_any_size() -> None:
    sketch = SummedSketch(3, 1, {"b": 2**80 * STEP, "a": 10**6 * STEP})
    found = CALIBRATED.release(sketch, laplace(no_noise, RecordedBelow()))
    assert list(found.counts.items()) == [("a", 10**6), ("b", 2**80)]


def test_the_scale_is_that_of_the_exact_sensitivity() -> None:
    """Below 2/ε counts, for any number of sources."""
    assert D == sensitivity(3, 1, 1) == 7
    assert sensitivity(3, 1, 2) == 6
    assert CALIBRATED.scale == pytest.approx(7, rel=1e-9)
    assert CALIBRATED.parameters() == {
        "noise": "discrete-laplace",
        "scale": f"{CALIBRATED.scale / STEP:.17g}",
        "threshold": CALIBRATED.threshold,
        "k": 3,
        "max_contributions": 1,
        "sources": 1,
    }


@pytest.mark.parametrize("k", [16, 1024])
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("0.1", "1e-6"), ("1", "1e-12")])
def test_the_threshold_is_lower_than_the_published_one(k: int, epsilon: str, delta: str) -> None:
    """2Δ + Δ·ln(1/δ)/ε with Δ = (2k−1)/(k+1), as sec:pure derives it."""
    reach = (2 * k - 1) / (k + 1)
    published = 2 * reach + reach * math.log(1 / float(delta)) / float(epsilon)
    assert reduced_approx.calibrate(k, 1, 1, Cost.charged(epsilon=epsilon, delta=delta)).threshold < published


def test_a_cost_without_delta_is_refused() -> None:
    with pytest.raises(
        NoMechanism, match="reduced-approx cuts at a threshold and needs a delta above 0, for example 1e-6"
    ):
        reduced_approx.MECHANISM.calibrated(question(k=3, delta="0"))
    with pytest.raises(ValueError, match="delta of 0"):
        reduced_approx.calibrate(3, 1, 1, Cost.charged(epsilon="1", delta="0"))


@pytest.mark.parametrize("delta", ["0.3", "1e-3", "1e-9"])
def test_a_small_counter_that_is_listed_is_allowed_for(delta: str) -> None:
    """Where the threshold is so low that some counter below D is raised to D and listed too often, D is added."""
    calibrated = reduced_approx.calibrate(3, 1, 3, Cost.charged(epsilon="1", delta=delta))
    too_often = 9 * tail(calibrated) > BETA / 4
    noise = draw_bound(calibrated.scale, 9, BETA / 2)
    assert too_often == (delta != "1e-9")
    low = noise + calibrated.sensitivity if too_often else noise
    assert low // 4 <= calibrated.noise_bound(BETA).below <= (low + calibrated.scale) // 4


def test_the_proof_covers_these_families_of_sketch_and_no_others() -> None:
    assert reduced_approx.MECHANISM.families == ("stream", "summed")
