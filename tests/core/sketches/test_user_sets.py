"""People's sets on the way that batches take, from `kernel.Sets` over `kernel.Fold` to stored bytes and merges.

That one person at a time is `alg:user-level-sketch`, and that neighbours stay so in merges, is in `test_compact.py`;
here whole batches come in any grouping, sets may be too large or list a key twice, and each person may try again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, combinations_with_replacement, pairwise, permutations, product

import pytest

from app.core.kernel import Fold, new_allowances, sets_of
from app.core.people import Fingerprints, Rules
from app.core.sketches import state
from app.core.sketches.compact import CompactSketch
from app.core.sketches.stream import StreamSketch
from tests.states import decode_as
from tests.streams import LETTERS

Counts = Mapping[str, int]
Set = tuple[str, ...]  # keys as listed
Named = tuple[str, Set]
Batches = tuple[tuple[Set, ...], ...]

SMALL_K = pytest.mark.parametrize("k", [1, 2, 3])


def folded(k: int, batches: Iterable[Sequence[Set]], m: int, start: CompactSketch | None = None) -> CompactSketch:
    """Each batch as the service folds it, from stored bytes to stored bytes."""
    stored = state.encode(start or CompactSketch.empty(k))
    for sets in batches:
        fold = Fold(state.by_slot(stored))
        fold.add(sets_of([(None, keys) for keys in sets], m))
        stored = fold.stored()
    return decode_as(CompactSketch, state.by_slot(stored))


def one_sided(left: Counts, right: Counts) -> bool:
    """All differences 0 or 1, in one direction."""
    differences = {left.get(key, 0) - right.get(key, 0) for key in left.keys() | right.keys()}
    return differences <= {0, 1} or differences <= {0, -1}


def groupings(sets: tuple[Set, ...]) -> Iterator[Batches]:
    """All ways to cut a sequence into batches."""
    places = range(1, len(sets))
    for size in range(len(sets)):
        for cuts in combinations(places, size):
            edges = (0, *cuts, len(sets))
            yield tuple(sets[begin:end] for begin, end in pairwise(edges))


def without(batches: Batches) -> Iterator[Batches]:
    """One person less: each in turn; the batch stays, perhaps empty."""
    for at, batch in enumerate(batches):
        for place in range(len(batch)):
            yield (*batches[:at], (*batch[:place], *batch[place + 1 :]), *batches[at + 1 :])


def small_sets(universe: int, largest: int) -> list[Set]:
    return [chosen for size in range(1, largest + 1) for chosen in combinations(LETTERS[:universe], size)]


def require_error(sketch: CompactSketch, batches: Batches, m: int) -> None:
    """`lem:user-level-sketch-error`: at most M/(k+1) too low and never too high, M the keys that count."""
    true: Counter[str] = Counter(key for batch in batches for keys in batch for key in list(dict.fromkeys(keys))[:m])
    assert sketch.counters.keys() <= true.keys()
    assert len(sketch.counters) <= sketch.k
    for key, count in true.items():
        assert 0 <= (count - sketch.counters.get(key, 0)) * (sketch.k + 1) <= true.total(), (batches, key)


@SMALL_K
def test_one_person_less_cut_anywhere_moves_every_counter_by_at_most_one_in_one_direction(k: int) -> None:
    """`lem:user-level-sketch-sensitivity` and `lem:user-level-sketch-error`, for all small inputs.

    However either of the two worlds is cut into batches, its sketch is that of its people.
    """
    for sets in product(small_sets(3, 3), repeat=3):
        (sketch,) = {tuple(sorted(folded(k, batches, 3).counters.items())) for batches in groupings(sets)}
        require_error(CompactSketch(k, dict(sketch)), (sets,), 3)
        for (fewer,) in without((sets,)):
            (other,) = {tuple(sorted(folded(k, batches, 3).counters.items())) for batches in groupings(fewer)}
            assert one_sided(dict(sketch), dict(other)), (sets, fewer)


@SMALL_K
def test_sketches_that_are_merged_keep_both_promises(k: int) -> None:
    """`cor:merged-user-level`: one person less in one of two sketches, merged, and further batches on top."""
    halves: list[Batches] = [(sets,) for sets in combinations_with_replacement(small_sets(3, 2), 2)]
    after: Batches = ((("a", "b"), ("c",)), (("a", "d"),))
    for ours, theirs in product(halves, repeat=2):
        other = folded(k, theirs, 2)
        merged = folded(k, ours, 2).merged(other)
        require_error(merged, ours + theirs, 2)
        later = folded(k, after, 2, merged)
        require_error(later, ours + theirs + after, 2)
        for fewer in without(ours):
            neighbour = folded(k, fewer, 2).merged(other)
            assert one_sided(merged.counters, neighbour.counters), (ours, theirs, fewer)
            assert one_sided(later.counters, folded(k, after, 2, neighbour).counters), (ours, theirs, fewer)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_large_sets_and_repeated_keys_count_as_their_first_different_keys(m: int) -> None:
    """In the order given, so that a person's own list alone decides."""
    for listed in product("abc", repeat=4):
        cut = tuple(dict.fromkeys(listed))[:m]
        whole = CompactSketch(3, dict.fromkeys(cut, 1), lowered=0, items=1)
        assert folded(3, [[listed]], m) == folded(3, [[cut]], m) == whole
    for order in permutations("abcd"):
        assert folded(4, [[order]], m).counters == dict.fromkeys(order[:m], 1)


def enforced(k: int, batches: Sequence[Sequence[Named]], m: int) -> CompactSketch:
    """The same with names and allowances, as an enforced sketch takes them."""
    rules, allowances = Rules("user", m, fingerprints=Fingerprints(bytes(32), "sketch/views")), new_allowances()
    fold = Fold(state.encode(CompactSketch.empty(k)))
    for named in batches:
        sets = sets_of(named, m)
        people = rules.people_in(sets)
        assert people is not None
        granted, _ = allowances.grant(people.indexes, sets.counts(), people.fingerprints, 1)
        fold.add(sets.limited(granted))
    return decode_as(CompactSketch, fold.state())


@pytest.mark.parametrize("k", [1, 2])
def test_a_person_who_sends_many_sets_moves_every_counter_by_at_most_one(k: int) -> None:
    """With all of it taken out: four sets of up to three people, in all orders, in two batches."""
    sets: list[Set] = [("a", "b"), ("d", "b", "c")]
    for names in product("uvw", repeat=4):
        for chosen in product(sets, repeat=4):
            named = list(zip(names, chosen, strict=True))
            batches = [named[:2], named[2:]]
            whole = enforced(k, batches, 2).counters
            fewer = [[one for one in batch if one[0] != "u"] for batch in batches]
            assert one_sided(whole, enforced(k, fewer, 2).counters), batches


def test_without_allowances_a_person_with_two_sets_would_move_a_counter_by_two() -> None:
    """So the test above can fail."""
    both = folded(2, [[("a", "b")], [("a", "b")]], 2).counters
    assert not one_sided(both, folded(2, [], 2).counters)
    assert one_sided(enforced(2, [[("u", ("a", "b"))], [("u", ("a", "b"))]], 2).counters, {})


@pytest.mark.parametrize(("k", "m"), [(3, 2), (5, 5), (8, 6)])
@pytest.mark.parametrize("together", [False, True], ids=["one by one", "in one batch"])
def test_flattened_sets_move_one_counter_by_m_and_batches_of_sets_by_at_most_one(
    k: int, m: int, together: bool
) -> None:
    """The example of `lem:l2sens-MG-sketch` by the way of batches; each user's keys one after the other as contrast."""
    cycle = [tuple(f"old {(user * m + i) % k}" for i in range(m)) for user in range(k)]
    extra = tuple(f"new {i}" for i in range(m))
    rest = [("x",)] * (m + 3)
    longer, shorter = [*cycle, extra, *rest], [*cycle, *rest]

    def sketch(sets: list[Set]) -> CompactSketch:
        return folded(k, [sets] if together else [[one] for one in sets], m)

    assert one_sided(sketch(longer).counters, sketch(shorter).counters)
    flat, less = (
        StreamSketch.empty(k).extended((key, 1) for keys in sets for key in keys) for sets in (longer, shorter)
    )
    assert flat.counters["x"] - less.counters.get("x", 0) == m
