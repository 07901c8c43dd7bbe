"""Merged sketches and people's sets: neighbours differ by 0 or 1 in one direction, and nothing is lost unseen."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import combinations, combinations_with_replacement, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.sketches.compact import CompactSketch
from app.core.sketches.stream import StreamSketch
from tests.core.sketches import oracle
from tests.core.sketches.oracle import Counts, cut_of, merge_oracle, pamg
from tests.streams import LETTERS, Stream, neighbours, small_streams

State = tuple[tuple[str, int], ...]  # sorted items, so that equal counters are one state
Pair = tuple[State, State]
Users = tuple[frozenset[str], ...]

SMALL_K = pytest.mark.parametrize("k", [1, 2, 3])
many_examples = settings(max_examples=300, deadline=None)


def state(sketch: CompactSketch) -> State:
    return tuple(sorted(sketch.counters.items()))


def sketch_of(k: int, counters: State) -> CompactSketch:
    return CompactSketch(k, dict(counters))


def one_sided(left: Counts, right: Counts) -> bool:
    """Key sets nested, and all differences 0 or 1 in one direction: `lem:user-level-sketch-sensitivity`."""
    return above_by_at_most_one(left, right) or above_by_at_most_one(right, left)


def above_by_at_most_one(high: Counts, low: Counts) -> bool:
    return low.keys() <= high.keys() and all(high[key] - low.get(key, 0) in (0, 1) for key in high)


def stream_sketches(k: int, universe: int, longest: int) -> Iterator[tuple[Stream, State]]:
    for stream in small_streams(universe, longest):
        folded = StreamSketch.empty(k).extended((key, 1) for key in stream)
        yield stream, state(CompactSketch.of_stream(folded))


def neighbouring_streams(k: int, universe: int, longest: int) -> tuple[set[State], set[Pair]]:
    """All sketches of small streams, and the pairs of those whose streams differ by one event."""
    sketches = dict(stream_sketches(k, universe, longest))
    pairs = {(sketches[stream], sketches[shorter]) for stream in sketches for shorter in neighbours(stream)}
    return set(sketches.values()), pairs


def sketches_up_to(k: int, universe: int, highest: int) -> list[State]:
    """Every compact sketch over so many keys with counters up to the highest, reached by some stream or not."""
    vectors = product(range(highest + 1), repeat=universe)
    return [
        tuple((key, count) for key, count in zip(LETTERS, vector, strict=False) if count)
        for vector in vectors
        if sum(count > 0 for count in vector) <= k
    ]


@SMALL_K
def test_merging_is_the_rule_of_the_k_plus_first_largest(k: int) -> None:
    states = sketches_up_to(k, universe=k + 2, highest=2)
    for left, right in product(states, repeat=2):
        merged = sketch_of(k, left).merged(sketch_of(k, right))
        assert merged == CompactSketch(k, merge_oracle(k, dict(left), dict(right))), (left, right)
        known = CompactSketch(k, dict(left), lowered=5, items=50).merged(CompactSketch(k, dict(right), 7, 70))
        assert known.counters == merged.counters
        assert (known.lowered, known.items) == (12 + cut_of(k, dict(left), dict(right)), 120), (left, right)


@SMALL_K
def test_neighbouring_streams_stay_neighbours_in_a_merge(k: int) -> None:
    """`corol:merged-sensitivity`: one event more or less in one of two streams, merged in either order."""
    others, pairs = neighbouring_streams(k, universe=k + 2, longest=5)
    for (left, right), other in product(pairs, others):
        first, second = (sketch_of(k, side).merged(sketch_of(k, other)) for side in (left, right))
        assert one_sided(first.counters, second.counters), (left, right, other)
        assert sketch_of(k, other).merged(sketch_of(k, left)) == first


@SMALL_K
def test_one_sided_neighbours_stay_so_through_any_merge(k: int) -> None:
    """`lem:merge-step-sensitivity`, for all small counters: by induction it covers merges of merges in any order."""
    states = sketches_up_to(k, universe=k + 2, highest=2)
    pairs = [pair for pair in combinations(states, 2) if one_sided(dict(pair[0]), dict(pair[1]))]
    assert any(len(left) == k and not right for right, left in pairs)  # all k counters on one side only
    for (left, right), other in product(pairs, states):
        first, second = (sketch_of(k, side).merged(sketch_of(k, other)) for side in (left, right))
        assert one_sided(first.counters, second.counters), (left, right, other)


@pytest.mark.parametrize("k", [1, 2])
def test_merges_of_merges_of_neighbouring_streams_are_neighbours(k: int) -> None:
    """Three streams as (A + B) + C and A + (B + C), the event removed from A."""
    others, pairs = neighbouring_streams(k, universe=3, longest=4)
    for (left, right), b, c in product(pairs, others, others):
        second, third = sketch_of(k, b), sketch_of(k, c)
        one, other = (sketch_of(k, side).merged(second).merged(third) for side in (left, right))
        assert one_sided(one.counters, other.counters), (left, right, b, c)
        one, other = (sketch_of(k, side).merged(second.merged(third)) for side in (left, right))
        assert one_sided(one.counters, other.counters), (left, right, b, c)


def batches(universe: int, longest: int) -> list[Stream]:
    """Every batch up to order."""
    sizes = range(longest + 1)
    return [batch for size in sizes for batch in combinations_with_replacement(LETTERS[:universe], size)]


def merged_one_by_one(k: int, start: Counts, events: Iterable[tuple[str, int]]) -> dict[str, int]:
    """sec:merge with a sketch of one key, event by event."""
    counters = dict(start)
    for key, count in events:
        counters = merge_oracle(k, counters, {key: count})
    return counters


@SMALL_K
def test_events_are_merged_one_by_one(k: int) -> None:
    """And streams that lack one of them leave neighbours, whatever is there before."""
    for start in sketches_up_to(k, universe=4, highest=2):
        for stream in small_streams(4, 4 if k < 3 else 3):
            longer = sketch_of(k, start).extended((key, 1) for key in stream)
            assert longer.counters == merged_one_by_one(k, dict(start), ((key, 1) for key in stream)), (start, stream)
            for shorter in neighbours(stream):
                other = sketch_of(k, start).extended((key, 1) for key in shorter)
                assert one_sided(longer.counters, other.counters), (start, stream, shorter)


@SMALL_K
def test_a_count_is_that_many_events_in_a_row(k: int) -> None:
    for start, key, count in product(sketches_up_to(k, universe=3, highest=3), "abcd", range(1, 6)):
        sketch = sketch_of(k, start)
        assert sketch.extended([(key, count)]) == sketch.extended([(key, 1)] * count), (start, key, count)


def subsets(universe: int) -> list[frozenset[str]]:
    keys = LETTERS[:universe]
    return [frozenset(chosen) for size in range(universe + 1) for chosen in combinations(keys, size)]


@SMALL_K
def test_people_of_whom_one_is_missing_leave_neighbours(k: int) -> None:
    """A person adds 1 to each key of a set, of more than k keys too."""
    people = list(combinations_with_replacement(subsets(4), 3))
    for start, users in product(sketches_up_to(k, universe=4, highest=2 if k < 3 else 1), people):
        longer = sketch_of(k, start).extended_by_people(users)
        for removed in range(len(users)):
            shorter = sketch_of(k, start).extended_by_people(users[:removed] + users[removed + 1 :])
            assert one_sided(longer.counters, shorter.counters), (start, users, removed)


def pamg_sketches(k: int, universe: int, longest: int) -> dict[Users, CompactSketch]:
    """The sketch of every short sequence of users, each made from that of all users but the last."""
    sketches: dict[Users, CompactSketch] = {}
    for length in range(longest + 1):
        for users in product(subsets(universe), repeat=length):
            sketches[users] = sketches[users[:-1]].extended_by_people(users[-1:]) if users else CompactSketch.empty(k)
    return sketches


@SMALL_K
@pytest.mark.parametrize(("universe", "longest"), [(3, 4), (4, 3)])
def test_one_user_at_a_time_is_the_privacy_aware_sketch(k: int, universe: int, longest: int) -> None:
    for users, sketch in pamg_sketches(k, universe, longest).items():
        assert sketch.counters == pamg(k, users), users
        before = (pamg(k, users[:number]).keys() | keys for number, keys in enumerate(users))
        assert (sketch.lowered, sketch.items) == (sum(len(keys) > k for keys in before), len(users)), users


@SMALL_K
def test_streams_that_lack_one_user_give_neighbours(k: int) -> None:
    """`lem:user-level-sketch-sensitivity`, and `cor:merged-user-level` for a merge with another sketch of users."""
    sketches = pamg_sketches(k, universe=3, longest=4)
    pairs = {
        (state(sketch), state(sketches[users[:removed] + users[removed + 1 :]]))
        for users, sketch in sketches.items()
        for removed in range(len(users))
    }
    others = {state(sketch) for sketch in sketches.values()}
    for left, right in pairs:
        assert one_sided(dict(left), dict(right)), (left, right)
        for other in others:
            first, second = (sketch_of(k, side).merged(sketch_of(k, other)) for side in (left, right))
            assert one_sided(first.counters, second.counters), (left, right, other)


def test_all_counters_may_differ_in_either_direction() -> None:
    """So no mechanism may count on fewer than k, nor on the direction."""
    full = CompactSketch(3, dict.fromkeys("abc", 1))
    assert full.extended([("d", 1)]).counters == {}  # one event more, and all counters are lower
    assert full.extended_by_people(["abc"]).counters == dict.fromkeys("abc", 2)  # one user more, and all are higher


@pytest.mark.parametrize("k", [2, 3])
def test_keeping_the_largest_without_subtracting_would_not_keep_neighbours(k: int) -> None:
    """The same search, with a rule that looks harmless, finds pairs that differ in both directions."""

    def largest(*parts: Counts) -> dict[str, int]:
        total: Counter[str] = Counter()
        for part in parts:
            total.update(part)
        return dict(sorted(total.items(), key=lambda item: (-item[1], item[0]))[:k])

    states = sketches_up_to(k, universe=4, highest=2)
    pairs = [pair for pair in combinations(states, 2) if one_sided(dict(pair[0]), dict(pair[1]))]
    merged = ((largest(dict(a), dict(c)), largest(dict(b), dict(c))) for (a, b), c in product(pairs, states))
    assert not all(one_sided(left, right) for left, right in merged)


def test_a_merge_leaves_what_the_lemma_for_streams_does_not_allow() -> None:
    """Two of three counters differ, and `lem:nb-cases` says one or all: the reason why PMG does not take this type."""
    other = CompactSketch(3, {"e": 1, "d": 1})
    longer, shorter = (
        CompactSketch.of_stream(StreamSketch.empty(3).extended((key, 1) for key in stream)).merged(other)
        for stream in ("cabd", "cab")
    )
    assert (longer.counters, shorter.counters) == ({"e": 1, "d": 1}, {})


def flattened(k: int, users: Iterable[Collection[str]]) -> StreamSketch:
    return StreamSketch.empty(k).extended((key, 1) for keys in users for key in sorted(keys))


@pytest.mark.parametrize(("k", "m"), [(2, 1), (3, 2), (4, 3), (5, 5), (8, 6)])
@pytest.mark.parametrize("more", [0, 7])
def test_flattening_moves_one_counter_by_m_and_user_sets_by_at_most_one(k: int, m: int, more: int) -> None:
    """The example of `lem:l2sens-MG-sketch`: k users cycle through k keys, then a user with m new ones, then only x."""
    cycle = [[f"old {(user * m + i) % k}" for i in range(m)] for user in range(k)]
    extra = [f"new {i}" for i in range(m)]
    rest = [["x"]] * (m + more)
    with_user, without = flattened(k, [*cycle, extra, *rest]), flattened(k, [*cycle, *rest])
    assert with_user.counters["x"] - without.counters.get("x", 0) == m
    longer, shorter = (CompactSketch.empty(k).extended_by_people([*cycle, *middle, *rest]) for middle in ([extra], []))
    assert one_sided(longer.counters, shorter.counters)
    assert one_sided(pamg(k, [*cycle, extra, *rest]), pamg(k, [*cycle, *rest]))


keys = st.sampled_from(LETTERS)
counts = st.integers(1, 5) | st.sampled_from([2**61, 2**62 - 1, 2**62, 2**63 - 1, 2**63, 2**64, 2**100])
event_batches = st.lists(st.tuples(keys, counts), max_size=8)
user_batches = st.lists(st.sets(keys, max_size=5), max_size=4)
trees = st.recursive(
    st.lists(event_batches | user_batches.map(tuple), max_size=4),
    lambda parts: st.tuples(parts, parts),
    max_leaves=4,
)


def built(k: int, tree: object, true: Counter[str]) -> CompactSketch:
    """A sketch by any mixture of batches and merges; the exact counts are added to `true`."""
    if isinstance(tree, tuple):
        return built(k, tree[0], true).merged(built(k, tree[1], true))
    assert isinstance(tree, list)
    sketch = CompactSketch.empty(k)
    for batch in tree:
        if isinstance(batch, tuple):
            true.update(key for user in batch for key in user)
            sketch = sketch.extended_by_people(batch)
        else:
            for key, count in batch:
                true[key] += count
            sketch = sketch.extended(batch)
    return sketch


def items_in(tree: object) -> int:
    """Events and people."""
    if isinstance(tree, tuple):
        return items_in(tree[0]) + items_in(tree[1])
    assert isinstance(tree, list)
    return sum(len(batch) if isinstance(batch, tuple) else sum(count for _, count in batch) for batch in tree)


@many_examples
@given(st.integers(1, 4), trees)
def test_estimates_are_at_most_what_was_lowered_too_low_however_a_sketch_was_made(k: int, tree: object) -> None:
    """And that is at most M/(k+1): `lem:user-level-merge-error`, in whole numbers. It also knows its items."""
    true: Counter[str] = Counter()
    sketch = built(k, tree, true)
    assert sketch.items == items_in(tree)
    assert sketch.lowered is not None
    assert sketch.lowered * (k + 1) <= true.total()
    assert len(sketch.counters) <= k
    assert all(count > 0 for count in sketch.counters.values())
    assert sketch.counters.keys() <= true.keys()
    for key, count in true.items():
        assert 0 <= count - sketch.counters.get(key, 0) <= sketch.lowered


@many_examples
@given(st.integers(1, 4), st.dictionaries(keys, counts, max_size=4), event_batches)
def test_counters_of_any_size_are_merged_exactly(k: int, stored: dict[str, int], events: list[tuple[str, int]]) -> None:
    start = CompactSketch(k, merge_oracle(k, stored))
    folded = start.extended(events)
    assert folded.counters == merged_one_by_one(k, start.counters, events)
    merged = start.merged(CompactSketch(k, merge_oracle(k, dict(events))))
    assert merged.counters == merge_oracle(k, start.counters, merge_oracle(k, dict(events)))
    for sketch in (folded, merged):
        assert {type(count) for count in sketch.counters.values()} <= {int}  # not NumPy's, which would wrap around


@pytest.mark.parametrize("size", [2**61, 2**62 - 2, 2**62, 2**63 - 2, 2**63, 2**64, 2**200])
def test_the_change_to_unbounded_integers_is_seamless(size: int) -> None:
    merged = CompactSketch(2, {"a": size, "b": size + 1}).merged(CompactSketch(2, {"c": size - 1, "b": size}))
    assert merged.counters == {"a": 1, "b": size + 2}


@SMALL_K
def test_items_may_be_cut_into_batches_anywhere(k: int) -> None:
    start = CompactSketch(k, {"d": 2} if k == 1 else {"d": 2, "b": 1})
    events = [("a", 2), ("b", 1), ("a", 1), ("c", 3), ("e", 1)]
    sets = ["ab", "bc", "aa", "e", "dab"]
    for cut in range(6):
        assert start.extended(events[:cut]).extended(events[cut:]) == start.extended(events)
        assert start.extended_by_people(sets[:cut]).extended_by_people(sets[cut:]) == start.extended_by_people(sets)


def counted_first(sketch: CompactSketch, sets: Iterable[Collection[str]]) -> CompactSketch:
    """A wrong fold: a whole request as one merge."""
    total = Counter(key for keys in sets for key in set(keys))
    return CompactSketch(sketch.k, merge_oracle(sketch.k, sketch.counters, total))


def test_a_request_as_one_merge_would_let_one_person_move_a_counter_by_as_many_as_there_are_requests() -> None:
    """Two people a request, and one person more in front: every later request is cut elsewhere."""
    others = ["a"] * 400 + ["b", "c", "c", "b"] * 50
    for fold, difference in ((counted_first, 99), (CompactSketch.extended_by_people, 1)):
        counters = []
        for people in (others, ["a", *others]):
            sketch = CompactSketch.empty(1)
            for at in range(0, len(people), 2):
                sketch = fold(sketch, people[at : at + 2])
            counters.append(sketch.counters.get("a", 0))
        assert abs(counters[0] - counters[1]) == difference, counters


@SMALL_K
def test_an_event_is_a_merge_with_a_sketch_of_one_key(k: int) -> None:
    for start, key in product(sketches_up_to(k, universe=3, highest=2), "abc"):
        sketch = sketch_of(k, start)
        assert sketch.extended([(key, 1)]) == sketch.merged(CompactSketch(k, {key: 1}))
        assert sketch.extended([(key, 1)]) == sketch.extended_by_people([[key, key]])


def test_a_stream_gives_its_positive_counters() -> None:
    folded = StreamSketch.empty(2).extended([("a", 1), ("b", 2), ("c", 1)])
    assert oracle.without_dummies(oracle.misra_gries(2, "abbc")) == folded.counters == {"a": 0, "b": 1}
    assert CompactSketch.of_stream(folded) == CompactSketch(2, {"b": 1}, lowered=1, items=4)


def test_sketches_of_different_k_are_not_merged() -> None:
    with pytest.raises(ValueError, match="same k"):
        CompactSketch.empty(2).merged(CompactSketch.empty(3))


def test_folding_leaves_the_sketch_it_started_from_alone() -> None:
    sketch = CompactSketch(2, {"a": 2, "b": 1})
    sketch.extended([("c", 5)])
    sketch.extended_by_people(["cd"])
    sketch.merged(CompactSketch(2, {"c": 1}))
    assert sketch == CompactSketch(2, {"a": 2, "b": 1})


def test_a_printed_sketch_shows_no_key_and_no_counter() -> None:
    assert repr(CompactSketch(2, {"a private key": 31_337})) == "CompactSketch(k=2)"
