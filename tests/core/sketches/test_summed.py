"""Reduced counters are `alg:MG-pure-DP` scaled by k + 1, and neighbours are at most 2k − 1 apart in those units.

With n beside them they are at most 2k apart, with n and Σc 2k + 1.
"""

from collections import Counter
from fractions import Fraction
from functools import cache, reduce
from itertools import combinations_with_replacement, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch, beside, sensitivity, squared_distance
from tests.core.sketches import oracle
from tests.streams import LETTERS, Stream, neighbours, small_streams

SMALL_K = pytest.mark.parametrize("k", [1, 2, 3])


def reduced_oracle(k: int, stream: Stream) -> dict[str, Fraction]:
    """`alg:MG-pure-DP` line by line, in fractions of a count."""
    counters = oracle.misra_gries(k, stream)
    gamma = Fraction(sum(counters.values()), k + 1)
    return {key.name: count - gamma for key, count in counters.items() if count > gamma}


def of_stream(k: int, stream: Stream) -> SummedSketch:
    return SummedSketch.of_stream(StreamSketch.empty(k).extended((key, 1) for key in stream))


def added(sketches: list[SummedSketch]) -> SummedSketch:
    return reduce(SummedSketch.plus, sketches)


def distance(left: SummedSketch, right: SummedSketch) -> int:
    """ℓ1, an absent key counting zero."""
    keys = left.counters.keys() | right.counters.keys()
    return sum(abs(left.counters.get(key, 0) - right.counters.get(key, 0)) for key in keys)


@cache
def reduced_streams(k: int, universe: int, longest: int) -> dict[Stream, SummedSketch]:
    return {stream: of_stream(k, stream) for stream in small_streams(universe, longest)}


@SMALL_K
def test_reduced_counters_are_those_of_the_paper_times_k_plus_one(k: int) -> None:
    for stream, sketch in reduced_streams(k, universe=4, longest=6).items():
        assert sketch.sources == 1
        assert {key: Fraction(count, k + 1) for key, count in sketch.counters.items()} == reduced_oracle(k, stream)


@SMALL_K
def test_neighbours_are_at_most_two_k_minus_one_apart_and_some_are(k: int) -> None:
    """The exact value behind the 2 of `lem:pure-dp-postprocessing-sensitivity`: (2k−1)/(k+1) counts."""
    sketches = reduced_streams(k, universe=4, longest=7)  # room for three keys twice, and one of them once more
    distances = {distance(sketches[stream], sketches[shorter]) for stream in sketches for shorter in neighbours(stream)}
    assert max(distances) == 2 * k - 1


def beside_them(left: SummedSketch, right: SummedSketch, number: int) -> list[int]:
    """By how much n moves, and where two numbers are released beside the counters, Σc."""
    assert None not in (left.events, right.events, left.reduction, right.reduction)
    return [(left.events or 0) - (right.events or 0), (left.reduction or 0) - (right.reduction or 0)][:number]


def squares(left: SummedSketch, right: SummedSketch) -> int:
    keys = left.counters.keys() | right.counters.keys()
    return sum((left.counters.get(key, 0) - right.counters.get(key, 0)) ** 2 for key in keys)


@SMALL_K
@pytest.mark.parametrize("sources", [1, 2])
def test_with_what_is_released_beside_them_neighbours_are_as_far_apart_as_the_sensitivity(k: int, sources: int) -> None:
    """In ℓ1 and in ℓ2. n alone is released of several sources, and Σc too of one."""
    sketches = reduced_streams(k, universe=4, longest=7)
    pairs = [(sketches[stream], sketches[shorter]) for stream in sketches for shorter in neighbours(stream)]
    moves = [(pair, beside_them(*pair, beside(sources))) for pair in pairs]
    in_l1 = max(distance(*pair) + sum(map(abs, others)) for pair, others in moves)
    in_l2 = max(squares(*pair) + sum(by * by for by in others) for pair, others in moves)
    assert in_l1 == sensitivity(k, 1, sources) == (2 * k + 1 if sources == 1 else 2 * k)
    assert in_l2 == squared_distance(k, 1, sources) == (k * k + k + 1 if sources == 1 else k * k + k)


@SMALL_K
def test_counters_rise_by_at_most_k_steps_in_all_and_fall_by_at_most_k(k: int) -> None:
    """What `reduced_approx` rests on: either one key by up to k, or up to k keys by one each."""
    sketches = reduced_streams(k, universe=4, longest=7)
    for stream in sketches:
        for shorter in neighbours(stream):
            left, right = sketches[stream].counters, sketches[shorter].counters
            gains = [left.get(key, 0) - right.get(key, 0) for key in left.keys() | right.keys()]
            rising, falling = ([by for by in gains if by * sign > 0] for sign in (1, -1))
            assert len(rising) <= 1
            assert sum(rising) <= k
            assert falling == [-1] * len(falling)
            assert len(falling) <= (k - 1 if rising else k)


@SMALL_K
def test_a_key_more_than_counters_does_not_bring_neighbours_further_apart(k: int) -> None:
    """State S6 of `lem:nb-cases` names k + 2 keys."""
    sketches = reduced_streams(k, universe=k + 2, longest=5)
    assert all(
        distance(sketches[stream], sketches[shorter]) <= 2 * k - 1
        for stream in sketches
        for shorter in neighbours(stream)
    )


def moves(left: SummedSketch, right: SummedSketch) -> tuple[list[int], int, int]:
    """By how much the reduced counters, Σc and n differ."""
    keys = left.counters.keys() | right.counters.keys()
    assert left.reduction is not None
    assert left.events is not None
    assert right.reduction is not None
    assert right.events is not None
    reduced = [abs(left.counters.get(key, 0) - right.counters.get(key, 0)) for key in keys]
    return reduced, abs(left.reduction - right.reduction), abs(left.events - right.events)


def assert_close(k: int, left: SummedSketch, right: SummedSketch) -> tuple[int, int, int]:
    """In ℓ1, ℓ1 without Σc, and ℓ2 squared."""
    reduced, reduction, events = moves(left, right)
    in_l1, without_reduction = sum(reduced) + reduction + events, sum(reduced) + events
    in_l2 = sum(move**2 for move in (*reduced, reduction, events))
    assert in_l1 <= 2 * k + 1
    assert without_reduction <= 2 * k
    assert in_l2 <= k * k + k + 1
    return in_l1, without_reduction, in_l2


@SMALL_K
def test_the_reduction_and_the_events_bring_neighbours_hardly_further_apart_and_some_are(k: int) -> None:
    """Both besides the reduced counters: 2k + 1 in ℓ1, 2k without the reduction, and k² + k + 1 in ℓ2 squared."""
    sketches = reduced_streams(k, universe=4, longest=7)
    found = {
        assert_close(k, sketches[stream], sketches[shorter]) for stream in sketches for shorter in neighbours(stream)
    }
    assert tuple(map(max, zip(*found, strict=True))) == (2 * k + 1, 2 * k, k * k + k + 1)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 6), st.lists(st.lists(st.sampled_from(LETTERS), max_size=40), min_size=1, max_size=4), st.data())
def test_neighbours_are_as_close_in_a_sum_of_any_sources(k: int, sources: list[list[str]], data: st.DataObject) -> None:
    first = [*sources[0], "a"]
    at = data.draw(st.integers(0, len(first) - 1))
    longer, shorter = (
        added([of_stream(k, tuple(source)) for source in (changed, *sources[1:])])
        for changed in (first, first[:at] + first[at + 1 :])
    )
    assert_close(k, longer, shorter)
    assert longer.events == sum(map(len, sources)) + 1


def test_what_the_sources_have_counted_lies_between_the_reduced_counters_with_and_without_the_reduction() -> None:
    streams = [StreamSketch.empty(2).extended((key, 1) for key in text) for text in ("abacabcdd", "ddddab", "e")]
    total = added([SummedSketch.of_stream(stream) for stream in streams])
    assert total.reduction == sum(sum(stream.counters.values()) for stream in streams)
    for key in LETTERS:
        counted = sum(stream.counters.get(key, 0) for stream in streams)
        assert total.counters.get(key, 0) <= 3 * counted <= total.counters.get(key, 0) + total.reduction


def shorter_by(m: int, stream: Stream) -> set[Stream]:
    """The stream with m events removed, in every way."""
    found = {stream}
    for _ in range(m):
        found = {further for shorter in found for further in neighbours(shorter)}
    return found


@SMALL_K
@pytest.mark.parametrize("m", [2, 3])
def test_m_events_bring_streams_at_most_m_times_as_far_apart(k: int, m: int) -> None:
    """`lem:pure-dp-user-level`: the events may be anywhere in the stream."""
    sketches = reduced_streams(k, universe=3, longest=6)
    for stream, sketch in sketches.items():
        for shorter in (sketches[each] for each in shorter_by(m, stream)):
            for sources in (1, 2):
                others = beside_them(sketch, shorter, beside(sources))
                assert distance(sketch, shorter) + sum(map(abs, others)) <= sensitivity(k, m, sources)
                squared = squares(sketch, shorter) + sum(by * by for by in others)
                assert squared <= squared_distance(k, m, sources)


@pytest.mark.parametrize("k", [1, 2, 3, 8])
@pytest.mark.parametrize("m", [1, 2, 5])
def test_m_equal_events_attain_the_sensitivity(k: int, m: int) -> None:
    """Its own reduced counter rises by m·k, the others fall by m each: in this direction the paper's proof errs."""
    start = StreamSketch.empty(k).extended((key, 10) for key in LETTERS[:k])
    before, after = SummedSketch.of_stream(start), SummedSketch.of_stream(start.extended([("a", m)]))
    assert distance(before, after) == m * (2 * k - 1)
    assert distance(before, after) + 2 * m == sensitivity(k, m, 1)
    assert {key: after.counters[key] - before.counters[key] for key in before.counters} == {
        key: m * k if key == "a" else -m for key in LETTERS[:k]
    }


@SMALL_K
@pytest.mark.parametrize(("others", "longest"), [(1, 5), (2, 3)])
def test_a_sum_of_sources_keeps_neighbours_as_close(k: int, others: int, longest: int) -> None:
    """One event more or less in one of two or three sources, whatever the others hold."""
    sketches = reduced_streams(k, universe=3, longest=longest)
    distinct = {items(sketch): sketch for sketch in sketches.values()}
    pairs = {
        (items(sketches[stream]), items(sketches[shorter])) for stream in sketches for shorter in neighbours(stream)
    }
    beside = [added(list(chosen)) for chosen in combinations_with_replacement(distinct.values(), others)]
    for (left, right), rest in product(pairs, beside):
        first, second = distinct[left].plus(rest), distinct[right].plus(rest)
        assert distance(first, second) <= 2 * k - 1, (left, right, rest)
        assert first.sources == others + 1


def items(sketch: SummedSketch) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(sketch.counters.items()))


@SMALL_K
def test_counters_that_are_not_reduced_would_be_further_apart(k: int) -> None:
    """One event more lowers all k counters by one: k·(k+1) in the same units."""
    longer, shorter = (
        StreamSketch.empty(k).extended((key, 1) for key in stream) for stream in (LETTERS[: k + 1], LETTERS[:k])
    )
    lost = sum(shorter.counters.values()) - sum(longer.counters.values())
    assert (k + 1) * lost == k * (k + 1) > 2 * k - 1
    assert distance(SummedSketch.of_stream(longer), SummedSketch.of_stream(shorter)) == k


streams = st.lists(st.tuples(st.sampled_from(LETTERS), st.integers(1, 3) | st.integers(1, 2**70)), max_size=15)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 5), st.lists(streams, min_size=1, max_size=4))
def test_estimates_are_at_most_n_over_k_plus_one_too_low(k: int, sources: list[list[tuple[str, int]]]) -> None:
    """`lem:pure-dp-postprocessing-error` for a sum: n counts the events of all sources. In steps, whole numbers."""
    sketch = added([SummedSketch.of_stream(StreamSketch.empty(k).extended(source)) for source in sources])
    true: Counter[str] = Counter()
    for source in sources:
        for key, count in source:
            true[key] += count
    assert sketch.counters.keys() <= true.keys()
    assert len(sketch.counters) <= sketch.most_keys == k * len(sources)
    assert all(count > 0 for count in sketch.counters.values())
    assert sketch.events == true.total()
    for key, count in true.items():
        missing = (k + 1) * count - sketch.counters.get(key, 0)
        assert 0 <= missing <= sketch.events


@SMALL_K
def test_the_error_bound_is_attained(k: int) -> None:
    """A stream of one key loses n/(k+1) to the reduction, and one of k + 1 keys to the sketch."""
    assert of_stream(k, ("a",) * 6).counters == {"a": 6 * (k + 1) - 6}
    assert of_stream(k, tuple(LETTERS[: k + 1])).counters == {}


def test_adding_is_key_by_key_and_cuts_nothing() -> None:
    left, right = SummedSketch(2, 1, {"a": 3, "b": 1}), SummedSketch(2, 2, {"b": 2**70, "c": 5, "d": 1})
    assert left.plus(right) == SummedSketch(2, 3, {"a": 3, "b": 2**70 + 1, "c": 5, "d": 1})
    assert left.plus(right) == right.plus(left)
    known = SummedSketch(2, 1, {"a": 3}, 5, 7).plus(SummedSketch(2, 1, {"a": 1}, 10, 2**70))
    assert known == SummedSketch(2, 2, {"a": 4}, reduction=15, events=2**70 + 7)
    for unknown in (left, SummedSketch(2, 1, {}, 0, None), SummedSketch(2, 1, {}, None, 0)):
        added_up = known.plus(unknown)
        assert (added_up.reduction is None, added_up.events is None) == (
            unknown.reduction is None,
            unknown.events is None,
        )
    assert left == SummedSketch(2, 1, {"a": 3, "b": 1})


def test_sketches_of_different_k_are_not_added() -> None:
    with pytest.raises(ValueError, match="same k"):
        of_stream(2, ()).plus(of_stream(3, ()))


def test_a_printed_sketch_shows_no_key_and_no_counter() -> None:
    assert repr(SummedSketch(2, 1, {"a private key": 31_337})) == "SummedSketch(k=2, sources=1)"
