"""The fast fold is `alg:MG`, and its neighbours obey `lem:nb-cases`."""

from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.sketches.order import BY_BYTES, Order
from app.core.sketches.state import encode
from app.core.sketches.stream import StreamSketch
from tests.core.sketches import oracle
from tests.core.sketches.oracle import Key, Sketch
from tests.states import decode_as
from tests.streams import Stream, all_distinct, in_runs, neighbours, small_streams, zipf

pytestmark = pytest.mark.long

Events = list[tuple[str, int]]
Arranged = Callable[[Stream], Events]

SMALL_K = pytest.mark.parametrize("k", [1, 2, 3])
UNIVERSE = 4  # one key more than the largest k, so that all three branches are taken
KEYED = Order((166).to_bytes(16, "little"))
EITHER_ORDER = pytest.mark.parametrize(("order", "longest"), [(BY_BYTES, 7), (KEYED, 5)], ids=["plain", "keyed"])


def test_the_keyed_order_of_these_tests_turns_the_letters_around() -> None:
    """So whoever evicts by name is found out."""
    assert sorted("abcde", key=KEYED.hash_of) == list("edcba")


def one_by_one(stream: Stream) -> Events:
    return [(key, 1) for key in stream]


def sorted_by_key(stream: Stream) -> Events:
    return in_runs(tuple(sorted(stream)))


def by_first_occurrence(stream: Stream) -> Events:
    return list(Counter(stream).items())


def by_descending_count(stream: Stream) -> Events:
    return sorted(Counter(stream).items(), key=lambda item: (-item[1], item[0]))


def oracles(k: int, order: Order, longest: int) -> Iterator[tuple[Stream, Sketch, int]]:
    """Every small stream with its sketch by the oracle, each made from the sketch of all events but the last; and how
    often all counters were lowered."""
    sketches: dict[Stream, tuple[Sketch, int]] = {(): (oracle.empty(k), 0)}
    for stream in small_streams(UNIVERSE, longest):
        if stream:
            sketch, lowered = sketches[stream[:-1]]
            lowered += oracle.paid(sketch, stream[-1], 1, order.hash_of)
            sketches[stream] = oracle.after(sketch, stream[-1], order.hash_of), lowered
        yield stream, *sketches[stream]


@SMALL_K
@pytest.mark.parametrize("events", [one_by_one, in_runs])
@EITHER_ORDER
def test_the_fold_equals_the_paper_on_every_small_stream(k: int, events: Arranged, order: Order, longest: int) -> None:
    for stream, expected, lowered in oracles(k, order, longest):
        folded = StreamSketch.empty(k, order).extended(events(stream))
        assert (folded.lowered, folded.events) == (lowered, len(stream)), stream
        assert folded.counters == oracle.without_dummies(expected), stream
        assert oracle.with_dummies(folded) == expected, stream


@SMALL_K
@pytest.mark.parametrize(("order", "longest"), [(BY_BYTES, 6), (KEYED, 5)], ids=["plain", "keyed"])
def test_a_stream_may_be_stored_between_any_two_of_its_events(k: int, order: Order, longest: int) -> None:
    stored: dict[Stream, StreamSketch] = {}
    for stream, expected, lowered in oracles(k, order, longest):
        for split in range(len(stream)):
            folded = stored[stream[:split]].extended(one_by_one(stream[split:]))
            assert folded.lowered == lowered, (stream, split)
            assert folded.counters == oracle.without_dummies(expected), (stream, split)
        stored[stream] = decode_as(StreamSketch, encode(StreamSketch.empty(k, order).extended(one_by_one(stream))))


@SMALL_K
def test_folding_leaves_the_sketch_it_started_from_alone(k: int) -> None:
    before = StreamSketch.empty(k).extended(one_by_one(("a", "b", "c")))
    counters = dict(before.counters)
    before.extended(one_by_one(("c", "d", "d", "d")))
    assert before.counters == counters


def obeys_the_lemma(longer: Sketch, shorter: Sketch) -> bool:
    """`lem:nb-cases` as it is stated; `shorter` is the sketch of the stream that lacks one event."""
    keys = longer.keys() | shorter.keys()
    common = longer.keys() & shorter.keys()
    own = [count for sketch in (longer, shorter) for key, count in sketch.items() if key not in common]
    # A key that is not stored counts zero.
    gains = {key: longer.get(key, 0) - shorter.get(key, 0) for key in keys}
    all_are_lower = all(gains[key] == (-1 if key in shorter else 0) for key in keys)
    risen = [key for key in keys if gains[key]]
    one_is_higher = len(risen) == 1 and gains[risen[0]] == 1 and risen[0] in longer
    return len(common) >= len(longer) - 2 and max(own, default=0) <= 1 and (all_are_lower or one_is_higher)


def states(longer: Sketch, shorter: Sketch) -> list[str]:
    """Which of the states in the proof of `lem:nb-cases` describe the pair: one, if the proof is right."""
    common = longer.keys() & shorter.keys()
    gains = sorted(longer[key] - shorter[key] for key in common)  # c − c′ on A
    own = sorted(longer[key] for key in longer.keys() - common)  # c on B
    other = sorted(shorter[key] for key in shorter.keys() - common)  # c′ on B′
    all_lower = gains == [-1] * len(common)
    one_higher = gains == [0] * (len(common) - 1) + [1]
    equal = gains == [0] * len(common)
    descriptions = {
        "S1": all_lower and own == other == [],
        "S2": all_lower and own == [0] and other == [1],
        "S3": one_higher and own == other == [],
        "S4": equal and own == [1] and other == [0],
        "S5": one_higher and own == other == [0],
        "S6": equal and own == [0, 1] and other == [0, 0] and smallest_zero(shorter) not in longer,
    }
    return [state for state, holds in descriptions.items() if holds]


def smallest_zero(sketch: Sketch) -> Key:
    return min(key for key, count in sketch.items() if count == 0)


@pytest.mark.parametrize(
    ("k", "universe", "longest", "order", "reached"),
    [
        (1, 4, 7, BY_BYTES, {"S1", "S2", "S3", "S4"}),  # S5 and S6 need two slots
        (2, 4, 7, BY_BYTES, {"S1", "S2", "S3", "S4", "S5", "S6"}),
        (3, 4, 7, BY_BYTES, {"S1", "S2", "S3", "S4", "S5"}),  # S6 names k + 2 keys
        (3, 5, 6, BY_BYTES, {"S1", "S2", "S3", "S4", "S5", "S6"}),
        (1, 4, 5, KEYED, {"S1", "S2", "S3", "S4"}),
        (2, 4, 6, KEYED, {"S1", "S2", "S3", "S4", "S5", "S6"}),
        (3, 5, 6, KEYED, {"S1", "S2", "S3", "S4", "S5", "S6"}),
    ],
)
def test_neighbouring_streams_share_all_but_two_keys(
    k: int, universe: int, longest: int, order: Order, reached: set[str]
) -> None:
    """`lem:nb-cases` for every small stream and every event removed, with empty slots as keys.

    With the event more, counters were lowered once more in the states S1 and S2, where all of them are lower by one,
    and as often in the others.
    """
    sketches: dict[Stream, tuple[Sketch, int]] = {}
    seen: set[str] = set()
    for stream in small_streams(universe, longest):
        folded = StreamSketch.empty(k, order).extended(one_by_one(stream))
        assert folded.lowered is not None
        longer = oracle.with_dummies(folded)
        sketches[stream] = longer, folded.lowered
        for removed in neighbours(stream):
            shorter, lowered = sketches[removed]
            (state,) = states(longer, shorter)
            assert obeys_the_lemma(longer, shorter), (stream, removed)
            assert folded.lowered - lowered == (state in ("S1", "S2")), (stream, removed, state)
            seen.add(state)
    assert seen == reached


def starts(k: int, order: Order) -> list[StreamSketch]:
    """Every sketch that at most three events leave behind: what a batch may find."""
    sketches = [StreamSketch.empty(k, order).extended(one_by_one(stream)) for stream in small_streams(UNIVERSE, 3)]
    return list({encode(sketch): sketch for sketch in sketches}.values())


def broken_neighbours(k: int, arranged: Arranged, order: Order, longest: int) -> int:
    """How many neighbouring batches, so arranged and folded into equal sketches, break `lem:nb-cases`."""
    broken = 0
    batches = list(small_streams(UNIVERSE, longest))
    for start in starts(k, order):
        folded = {batch: oracle.with_dummies(start.extended(arranged(batch))) for batch in batches}
        pairs = ((folded[batch], folded[removed]) for batch in folded for removed in neighbours(batch))
        broken += sum(not obeys_the_lemma(longer, shorter) for longer, shorter in pairs)
    return broken


SMALL_BATCHES = pytest.mark.parametrize(
    ("k", "order", "longest"),
    [(1, BY_BYTES, 5), (2, BY_BYTES, 5), (1, KEYED, 4)],
    ids=["1-plain", "2-plain", "1-keyed"],
)


@SMALL_BATCHES
@pytest.mark.parametrize("arranged", [one_by_one, sorted_by_key])
def test_batches_in_arrival_or_key_order_stay_neighbours(
    k: int, arranged: Arranged, order: Order, longest: int
) -> None:
    assert broken_neighbours(k, arranged, order, longest) == 0


@SMALL_BATCHES
@pytest.mark.parametrize("arranged", [by_first_occurrence, by_descending_count])
def test_counting_a_batch_before_folding_it_would_break_the_lemma(
    k: int, arranged: Arranged, order: Order, longest: int
) -> None:
    """One event more or less can move a key within these orders; the same search finds nothing in the others."""
    assert broken_neighbours(k, arranged, order, longest) > 0


def test_an_order_that_breaks_the_lemma_leaves_counters_no_noise_covers() -> None:
    """The smallest case by descending count, where `c` is first in one batch and second in its neighbour."""
    start = StreamSketch.empty(1).extended([("a", 2)])
    longer = start.extended(by_descending_count(("b", "b", "c", "c")))
    shorter = start.extended(by_descending_count(("b", "c", "c")))
    assert longer.counters == {"c": 2}
    assert shorter.counters == {"b": 1}


odd_keys = st.sampled_from(
    [
        "\0",
        "\0\0",
        "a",
        "a\0",
        "A",
        "\x7f",
        "é",
        "e\u0301",
        "\ud7ff",
        "\uffff",
        "\U00010000",
        "\U0010ffff",
        "x" * 512,
    ]
) | st.text(min_size=1, max_size=8)
counts = st.integers(1, 4) | st.integers(1, 2**31 - 1)


@st.composite
def weighted_streams(draw: st.DrawFn) -> Events:
    """A few keys that come again and again, so that every branch is taken."""
    pool = draw(st.lists(odd_keys, min_size=1, max_size=12, unique=True))
    return draw(st.lists(st.tuples(st.sampled_from(pool), counts), max_size=60))


many_examples = settings(max_examples=300, deadline=None)


@many_examples
@given(st.integers(1, 8), st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 6)), max_size=30))
def test_a_weighted_step_is_so_many_events_in_a_row(k: int, events: Events) -> None:
    expected = oracle.misra_gries(k, (key for key, count in events for _ in range(count)))
    assert oracle.misra_gries_weighted(k, events) == expected
    lowered = oracle.lowered(k, ((key, 1) for key, count in events for _ in range(count)))
    assert StreamSketch.empty(k).extended(events).lowered == oracle.lowered(k, events) == lowered
    assert oracle.with_dummies(StreamSketch.empty(k).extended(events)) == expected


@many_examples
@given(st.integers(1, 8), weighted_streams(), st.integers(0, 60), st.builds(Order, st.binary(min_size=16, max_size=16)))
def test_huge_counts_and_odd_keys_are_folded_like_any_other(k: int, events: Events, split: int, order: Order) -> None:
    first = decode_as(StreamSketch, encode(StreamSketch.empty(k, order).extended(events[:split])))
    folded = first.extended(events[split:])
    assert folded.order == order
    assert folded.lowered == oracle.lowered(k, events, order.hash_of)
    assert oracle.with_dummies(folded) == oracle.misra_gries_weighted(k, events, order.hash_of)


@many_examples
@given(st.integers(1, 8), weighted_streams())
def test_estimates_are_at_most_what_was_lowered_too_low_and_that_is_at_most_n_over_k_plus_one(
    k: int, events: Events
) -> None:
    """`fact:MG-error`, in whole numbers."""
    folded = StreamSketch.empty(k).extended(events)
    assert_estimates_are_close(folded, events)


@pytest.mark.parametrize(
    "stream", [zipf(5000, keys=300, seed=1), all_distinct(2000), ()], ids=["zipf", "distinct", "empty"]
)
@pytest.mark.parametrize("k", [1, 7, 64])
def test_named_streams_are_estimated_within_the_same_error(k: int, stream: Stream) -> None:
    assert_estimates_are_close(StreamSketch.empty(k).extended(one_by_one(stream)), one_by_one(stream))


def assert_estimates_are_close(folded: StreamSketch, events: Events) -> None:
    true: Counter[str] = Counter()
    for key, count in events:
        true[key] += count
    assert len(folded.counters) <= folded.k
    assert folded.counters.keys() <= true.keys()
    assert folded.events == true.total()
    assert folded.lowered is not None
    assert folded.lowered * (folded.k + 1) <= true.total()
    for key, count in true.items():
        assert 0 <= count - folded.counters.get(key, 0) <= folded.lowered
