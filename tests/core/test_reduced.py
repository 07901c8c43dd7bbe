"""What is published of reduced counters, n and Σc with noise, and that bars made of it hold, whatever the noise was."""

import math
from collections import Counter
from collections.abc import Sequence
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.histogram import Released
from app.core.mechanisms.reduced_gaussian import ReducedGaussian
from app.core.noise.samplers import Noise
from app.core.noise.tails import draw_tail, some_exceeds
from app.core.reduced import laplace_high, laplace_low
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch, as_sum, beside
from tests.core.mechanisms.recorded import Recorded, gaussian, no_noise
from tests.streams import LETTERS

Events = list[tuple[str, int]]


def stream(k: int, events: Events) -> StreamSketch:
    return StreamSketch.empty(k).extended(events)


def added(k: int, sources: Sequence[Events]) -> SummedSketch:
    return reduce(SummedSketch.plus, (SummedSketch.of_stream(stream(k, events)) for events in sources))


def calibrated(k: int, sources: int, *, threshold: int = 1, finer: int = 1) -> ReducedGaussian:
    return ReducedGaussian(k=k, sources=sources, sigma=1.0, lattice=(k + 1) * finer, threshold=threshold)


@pytest.mark.parametrize("finer", [1, 8])
def test_of_one_stream_the_counters_and_how_often_they_were_lowered_come_back(finer: int) -> None:
    sketch = stream(2, [("a", 10), ("b", 9), ("c", 4)])
    assert (sketch.counters, sketch.lowered) == ({"a": 6, "b": 5}, 4)
    for each in (sketch, as_sum(sketch)):
        found = calibrated(2, 1, finer=finer).release(each, gaussian(no_noise))
        assert found == Released({"a": 6, "b": 5}, sketch_error=4, reduction=4)


def test_a_count_is_cut_by_its_reduced_part() -> None:
    """Of 6 and 5 counts, 11/3 were taken away."""
    sketch = stream(2, [("a", 10), ("b", 9), ("c", 4)])
    assert calibrated(2, 1, threshold=2).release(sketch, gaussian(no_noise)).counts == {"a": 6}
    assert calibrated(2, 1, threshold=3).release(sketch, gaussian(no_noise)).counts == {}


def test_of_several_sources_reduced_counters_and_n_come_back() -> None:
    sketch = added(2, [[("a", 6)], [("b", 5), ("c", 1)]])
    assert sketch.counters == {"a": 12, "b": 9}
    found = calibrated(2, 2).release(sketch, gaussian(no_noise))
    assert found == Released({"a": 4, "b": 3}, sketch_error=4, reduction=0)


def test_what_several_sources_were_reduced_by_must_not_be_added() -> None:
    """The first source has no counter of b: with its reduction, b would get a lower end above its true count."""
    sketch = added(2, [[("a", 600)], [("b", 50)]])
    found = calibrated(2, 2).release(sketch, gaussian(no_noise))
    assert found.counts["b"] <= 50
    assert sketch.reduction is not None
    with_reduction = (sketch.counters["b"] + sketch.reduction) // 3
    assert with_reduction > 50 + 100  # and a calibration for one source, which adds it, does not do so for two
    assert calibrated(2, 1).release(sketch, gaussian(no_noise)).counts == found.counts


@pytest.mark.parametrize("sources", [1, 2])
def test_a_sketch_that_does_not_know_its_own_error_says_so(sources: int) -> None:
    sketch = SummedSketch(2, sources, {"a": 12})
    assert calibrated(2, sources).release(sketch, gaussian(no_noise)) == Released({"a": 4}, None, 0)
    old = StreamSketch(2, {"a": 6})  # its counters are known, and so is what they were reduced by
    assert calibrated(2, 1).release(old, gaussian(no_noise)) == Released({"a": 6}, None, 2)


def test_noise_on_n_and_the_reduction_is_drawn_first() -> None:
    """In steps of a third: R = 12, n = 6, Σc = 6."""
    sketch = stream(2, [("a", 6)])
    draws = iter(([5, 3], [1, 0]))
    noise = Noise(no_noise, lambda scale, size: next(draws), lambda limit: 0)
    assert calibrated(2, 1).release(sketch, noise) == Released({"a": (13 + 9) // 3}, -(-(11 - 9) // 3), 9 // 3)


def test_a_noisy_reduction_below_zero_is_none() -> None:
    """So no listed count is below the threshold."""
    sketch = stream(2, [("a", 6)])
    found = calibrated(2, 1, threshold=4).release(sketch, gaussian(Recorded(0, -100)))
    assert found == Released({"a": 4}, 2, 0)


streams = st.lists(st.tuples(st.sampled_from(LETTERS), st.integers(1, 30)), max_size=12)


@settings(max_examples=500, deadline=None)
@given(
    k=st.integers(1, 4),
    sources=st.lists(streams, min_size=1, max_size=3),
    finer=st.sampled_from([1, 4]),
    threshold=st.integers(1, 8),
    draws=st.lists(st.integers(-60, 60), min_size=20, max_size=20),
)
def test_bars_hold_for_every_noise_that_they_allow_for(
    k: int, sources: list[Events], finer: int, threshold: int, draws: list[int]
) -> None:
    """The bound is given exactly what this noise does, and no statement may fail."""
    mechanism = calibrated(k, len(sources), threshold=threshold, finer=finer)
    sketch = added(k, sources)
    others, own = draws[: beside(len(sources))], draws[2 : 2 + sketch.most_keys]
    given_out = iter((others, own))
    noise = Noise(no_noise, lambda scale, size: next(given_out), lambda limit: 0)
    found = mechanism.release(sketch, noise)
    assert sketch.reduction is not None
    of_reduction = max(others[1], -sketch.reduction * finer) if len(sources) == 1 else 0
    bound = mechanism.bound(low=max(own) + of_reduction, high=max(-min(own), 0) - others[0])
    true, counted = Counter[str](), Counter[str]()
    for events in sources:
        counted.update(stream(k, events).counters)
        for key, count in events:
            true[key] += count
    assert found.sketch_error is not None
    for key, count in true.items():
        if key in found.counts:
            assert counted[key] >= found.counts[key] - bound.below
            assert count <= found.counts[key] + bound.above + found.sketch_error
        else:
            assert count <= found.sketch_error + found.reduction + bound.unlisted


def some_exceeds_alone(scale: float, keys: int, b: int) -> float:
    return -math.expm1(keys * math.log1p(-float(draw_tail(scale, b + 1))))


@pytest.mark.parametrize("scale", [0.7, 3.0, 40.0])
@pytest.mark.parametrize("keys", [1, 12, 1024])
@pytest.mark.parametrize("room", [0, 100])
def test_reaches_of_laplace_noise_are_the_smallest_that_hold(scale: float, keys: int, room: int) -> None:
    def fails(b: int) -> float:
        return some_exceeds(scale, keys, b) + float(draw_tail(scale, b + 1 + room))

    for beta in (0.3, 0.01):
        high = laplace_high(scale, keys, room, beta)
        assert fails(high) <= beta
        assert high == 0 or fails(high - 1) > beta
        one, several = (laplace_low(scale, keys, sources, beta) for sources in (1, 3))
        assert several <= one  # of several sources the draw of Σc is not there
        assert some_exceeds(scale, keys, one) + some_exceeds_alone(scale, keys, one) / 2 <= beta
        assert one == 0 or some_exceeds(scale, keys, one - 1) + some_exceeds_alone(scale, keys, one - 1) / 2 > beta
        assert keys * draw_tail(scale, several + 1) <= beta
