"""Reduced counters with noise on every key of a universe are ε-private, without any δ, on all small neighbours.

Neighbours are all vectors of whole steps at an ℓ1 distance of at most D: (2k+1)·m, or with several sources 2k·m. What
the keys leave of D moves beside them, as n and Σc do. That `everywhere.py` draws from the law used here is shown in
`tests/laws/test_everywhere.py`.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

from app.core.histogram import Released, largest
from app.core.ledger.budget import Cost
from app.core.mechanisms import reduced_pure
from app.core.mechanisms.reduced_pure import ReducedPure
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch, beside, sensitivity
from app.core.sketches.universe import of_range, of_values
from tests.core.mechanisms.moves import Move, within
from tests.core.mechanisms.recorded import Recorded, RecordedBelow, laplace
from tests.laws.divergence import ROUNDING, KeyLaws, Output, cut_at, divergences, grouped, law_divergences
from tests.laws.law import Laplace

SIZES = pytest.mark.parametrize(("k", "m"), [(1, 1), (2, 1), (3, 1), (1, 2), (1, 3), (2, 2)])
SOURCES = pytest.mark.parametrize("sources", [1, 2])
EPSILONS = pytest.mark.parametrize("epsilon", ["0.3", "1", "3"])
BETA = 0.05


def cost(epsilon: str) -> Cost:
    return Cost.charged(epsilon=epsilon, delta="0")


def worst(calibrated: ReducedPure, epsilon: float, pairs: Iterable[tuple[Move, ...]], shrink: float = 1.0) -> float:
    """The largest divergence at ε, by steps: rounding to counts and the k largest come after.

    What the keys leave of D moves beside them, with noise and without a cut-off.
    """
    noise, cutoff = Laplace(calibrated.scale * shrink), calibrated.threshold * (calibrated.k + 1)

    @cache
    def laws(move: Move) -> KeyLaws:
        top = max(cutoff, *move)
        return grouped(KeyLaws(cut_at(noise, cutoff, move[0], top), cut_at(noise, cutoff, move[1], top)))

    @cache
    def others(by: int) -> KeyLaws:
        return grouped(KeyLaws(cut_at(noise, 1, 0, by - 1), cut_at(noise, 1, by, by - 1)))

    reach = sensitivity(calibrated.k, calibrated.max_contributions, calibrated.sources)
    found = 0.0
    for keys in pairs:
        left = reach - sum(abs(high - low) for high, low in keys)
        found = max(found, divergences(epsilon, [*map(laws, keys), *map(others, [left] if left else [])]).worst)
    return found


def lower_ends(calibrated: ReducedPure) -> list[int]:
    cutoff = calibrated.threshold * (calibrated.k + 1)
    tall = cutoff + math.ceil(3 * calibrated.scale)
    reach = sensitivity(calibrated.k, calibrated.max_contributions, calibrated.sources)
    return [0, cutoff - 1, cutoff, tall] if reach <= 3 else [0, cutoff] if reach <= 6 else [cutoff]


@SIZES
@SOURCES
@EPSILONS
@pytest.mark.parametrize("universe_size", [7, 10**9])
def test_no_neighbours_diverge_at_all(k: int, m: int, sources: int, epsilon: str, universe_size: int) -> None:
    calibrated = reduced_pure.calibrate(k, m, sources, universe_size, cost(epsilon), BETA)
    pairs = list(within(sensitivity(k, m, sources), lower_ends(calibrated)))
    assert worst(calibrated, float(epsilon), pairs) <= ROUNDING


@SIZES
@SOURCES
@EPSILONS
def test_noise_for_the_counters_alone_is_too_little(k: int, m: int, sources: int, epsilon: str) -> None:
    """A sensitivity of 2k − 1 forgets n and Σc."""
    calibrated = reduced_pure.calibrate(k, m, sources, 7, cost(epsilon), BETA)
    tall = calibrated.threshold * (k + 1) + math.ceil(5 * calibrated.scale)
    pairs = [((tall + m * k, tall), *[(tall, tall + m)] * (k - 1))]
    assert worst(calibrated, float(epsilon), pairs) <= ROUNDING
    assert worst(calibrated, float(epsilon), pairs, shrink=(2 * k - 1) / sensitivity(k, 1, sources)) > 1e-3


TALLEST = 9
PAIRS = [
    (1, (5, 0, 0), (4, 0, 0)),
    (1, (5, 5, 0), (5, 4, 0)),
    (2, (6, 3, 0), (8, 2, 0)),
    (2, (9, 4, 0), (6, 4, 0)),
    (2, (1, 1, 1), (0, 0, 0)),
]


def whole_law(calibrated: ReducedPure, counters: tuple[int, ...]) -> dict[Output, float]:
    """The law of everything that is published, drawing every key of a universe of three directly."""
    step, noise = calibrated.k + 1, Laplace(calibrated.scale)
    cutoff = calibrated.threshold * step
    values = range(cutoff - 1, TALLEST + math.ceil(32 * calibrated.scale))  # the first stands for all that is cut
    columns = [
        [float(noise.less_than(np.array([cutoff - c]))[0]), *noise.probability(np.array(values[1:]) - c).tolist()]
        for c in counters
    ]
    found: defaultdict[Output, float] = defaultdict(float)
    for places in product(range(len(values)), repeat=len(counters)):
        kept = {key: values[at] // step for key, at in zip("xyz", places, strict=True) if at}
        output = tuple(largest(kept, calibrated.k).items())
        found[output] += math.prod(column[at] for column, at in zip(columns, places, strict=True))
    return dict(found)


def test_what_is_published_in_the_end_diverges_no_more() -> None:
    """Rounded to counts and cut to the k largest, every output counted; the window leaves out less than 1e-12."""
    pairs = []
    for k, left, right in PAIRS:
        calibrated = ReducedPure(
            k=k, universe_size=3, scale=(2 * k - 1) / 4, threshold=1
        )  # ε = 4: a small window; n and Σc are left out here
        pairs.append((whole_law(calibrated, left), whole_law(calibrated, right)))
    assert all(math.fsum(p.values()) == pytest.approx(1, abs=1e-12) for p, _ in pairs)
    assert max(law_divergences(4.0, p, q).worst for p, q in pairs) <= ROUNDING
    assert max(law_divergences(3.6, p, q).worst for p, q in pairs) > 1e-4  # the test can fail


CALIBRATED = ReducedPure(k=2, universe_size=5, scale=3.0, threshold=2)
UNIVERSE = of_values("abcde")
NONE_PASSES, ALL_PASS = 0, 10**60 - 10**40  # uniform numbers at the ends: of unstored keys none passes, or each


def test_counters_are_noised_in_steps_and_reported_in_counts() -> None:
    sketch = SummedSketch(2, 1, {"d": 10**30, "b": 6})
    found = CALIBRATED.release(sketch, laplace(Recorded(2, 1), RecordedBelow(NONE_PASSES)), UNIVERSE)
    assert list(found.counts.items()) == [("b", 2), ("d", (10**30 + 1) // 3)]
    at_the_cutoff, one_step_below = (
        CALIBRATED.release(sketch, laplace(Recorded(draw), RecordedBelow(NONE_PASSES)), UNIVERSE) for draw in (0, -1)
    )
    assert at_the_cutoff.counts.keys() == {"b", "d"}
    assert one_step_below.counts.keys() == {"d"}


def test_noise_alone_may_lift_a_key_of_the_universe() -> None:
    noise = laplace(Recorded(5), RecordedBelow(ALL_PASS, 0, 1, 1, 2, 3, 4))
    found = CALIBRATED.release(SummedSketch(2, 1, {}), noise, UNIVERSE)
    assert found.counts == {"a": (6 + 4) // 3, "b": (6 + 4) // 3}  # of five equals the first two


@SOURCES
@pytest.mark.parametrize("known", [(), (5, 6)])
@pytest.mark.parametrize("counters", [{}, {"a": 1, "b": 2, "c": 3}])
def test_every_sketch_asks_for_as_many_draws_as_it_can_have_keys_and_one_uniform_number(
    counters: dict[str, int], known: tuple[int, ...], sources: int
) -> None:
    """And for one draw for each number that is released beside the counters, known or not."""
    sample, below = Recorded(), RecordedBelow(NONE_PASSES)
    sketch = SummedSketch(2, 2, counters, *known)
    replace(CALIBRATED, sources=sources).release(sketch, laplace(sample, below), UNIVERSE)
    assert sample.asked == [(3.0, beside(sources)), (3.0, 4)]
    assert len(below.asked) == 1


@pytest.mark.parametrize(("k", "universe_size"), [(1, 10), (3, 1000), (64, 2**63)])
def test_the_cutoff_keeps_noise_only_keys_rare_and_is_the_smallest_that_does(k: int, universe_size: int) -> None:
    calibrated = reduced_pure.calibrate(k, 1, 1, universe_size, cost("1"), BETA)
    cutoffs = np.array([calibrated.threshold, calibrated.threshold - 1.0]) * (k + 1)
    tails = Laplace(calibrated.scale).at_least(cutoffs)
    assert universe_size * tails[0] <= BETA / 3 < universe_size * tails[1]


def test_delta_does_not_matter() -> None:
    with_delta = Cost.charged(epsilon="1", delta="1e-6")
    assert reduced_pure.calibrate(3, 1, 1, 7, with_delta, BETA) == reduced_pure.calibrate(3, 1, 1, 7, cost("1"), BETA)


def test_the_scale_is_that_of_the_exact_sensitivity_times_m() -> None:
    """`lem:pure-dp-user-level`, with 2k/(k+1) in place of 2, or (2k+1)/(k+1) where Σc is released too."""
    calibrated = reduced_pure.calibrate(3, 4, 2, 7, cost("0.5"), BETA)
    assert calibrated.scale == pytest.approx(4 * 6 / 0.5, rel=1e-9)
    assert reduced_pure.calibrate(3, 4, 1, 7, cost("0.5"), BETA).scale == pytest.approx(4 * 7 / 0.5, rel=1e-9)
    assert calibrated.parameters() == {
        "noise": "discrete-laplace",
        "scale": f"{calibrated.scale / 4:.17g}",
        "threshold": calibrated.threshold,
        "k": 3,
        "max_contributions": 4,
        "sources": 2,
        "universe_size": 7,
    }


def test_the_largest_universe_is_released() -> None:
    """Without a draw for each of its 2^63 keys."""
    universe = of_range(-(2**62), 2**62 - 1)
    calibrated = reduced_pure.calibrate(4, 1, 1, universe.size, cost("1"), BETA)
    counters = StreamSketch.empty(4).extended([("-7", 10**6), ("12", 10**6)])
    found = calibrated.release(
        SummedSketch.of_stream(counters), laplace(Recorded(), RecordedBelow(NONE_PASSES)), universe
    )
    assert found.counts.keys() == {"-7", "12"}


def test_a_key_with_a_count_beyond_the_bound_is_reported_from_a_sum_too() -> None:
    """Of two sources at k = 2 three keys may be equally large, and none of them small beside n/(k+1)."""
    size = 10**6
    sources = [[("y", 2 * size), ("z", size)], [("x", 3 * size), ("z", 3 * size)]]
    sketches = [SummedSketch.of_stream(StreamSketch.empty(2).extended(source)) for source in sources]
    calibrated = reduced_pure.calibrate(2, 1, 2, 4, cost("1"), BETA)
    universe = of_values("wxyz")
    found = calibrated.release(sketches[0].plus(sketches[1]), laplace(Recorded(), RecordedBelow(NONE_PASSES)), universe)
    assert found == Released({"x": 1 * size, "y": 1 * size, "z": 1 * size}, sketch_error=3 * size)
    assert found.counts["z"] + 3 * size + calibrated.noise_bound(BETA).above >= 4 * size


def test_the_proof_covers_these_families_of_sketch_and_no_others() -> None:
    assert reduced_pure.MECHANISM.families == ("stream", "summed")
