"""The worst neighbours of each family, each built from real streams by the sketches' own methods.

A pair is (longer, shorter): the longer stream has one event, one person's events or one user more.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from app.core import kernel
from app.core.sketches import state as states
from app.core.sketches.compact import CompactSketch
from app.core.sketches.standard import StandardSketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch
from tests.states import decode_as
from tests.streams import LETTERS, Stream, neighbours, small_streams
from tests.worlds import whole_request

STATES = ("S1", "S2", "S3", "S4", "S5", "S6")

_LONGEST = 7  # events after the start in which a state is looked for
_FLOOR = 5  # what a merge cuts from both neighbours


def folded(k: int, events: Iterable[tuple[str, int]]) -> StreamSketch:
    return StreamSketch.empty(k).extended(events)


def state(longer: Mapping[str, int], shorter: Mapping[str, int]) -> str | None:
    """Which state of the proof of `lem:nb-cases` (the table in pmg.md) describes two full sketches."""
    common = longer.keys() & shorter.keys()
    gains = sorted(longer[key] - shorter[key] for key in common)  # c − c′ on A
    own = sorted(longer[key] for key in longer.keys() - common)  # c on B
    other = sorted(shorter[key] for key in shorter.keys() - common)  # c′ on B′
    if gains and gains == [-1] * len(gains):
        return {((), ()): "S1", ((0,), (1,)): "S2"}.get((tuple(own), tuple(other)))
    if gains and gains == [0] * (len(gains) - 1) + [1]:
        return {((), ()): "S3", ((0,), (0,)): "S5"}.get((tuple(own), tuple(other)))
    if not any(gains):
        return {((1,), (0,)): "S4", ((0, 1), (0, 0)): "S6"}.get((tuple(own), tuple(other)))
    return None


def in_state(wanted: str, k: int, height: int) -> tuple[StreamSketch, StreamSketch]:
    """Streams that differ by one event, whose sketches are in this state; counters on both sides as high as said.

    Later events of a key that both store leave the state as it is.
    """
    longer, shorter = small_in_state(wanted, k)
    common = sorted(longer.counters.keys() & shorter.counters.keys())
    raised = [(key, height - shorter.counters[key]) for key in common if height > shorter.counters[key]]
    return longer.extended(raised), shorter.extended(raised)


@lru_cache(maxsize=64)
def small_in_state(wanted: str, k: int) -> tuple[StreamSketch, StreamSketch]:
    """Found by trying small streams, after a start that fills all but two slots.

    Which key a full sketch evicts is not assumed, so the search follows whatever the fold does.
    """
    filled = max(0, k - 2)
    start = folded(k, ((key, _LONGEST) for key in LETTERS[:filled]))
    renamed = dict(zip(LETTERS, LETTERS[filled:], strict=False))
    sketches: dict[Stream, StreamSketch] = {}
    for stream in small_streams(4, _LONGEST):  # S6 names four keys besides those that stay
        longer = start.extended((renamed[key], 1) for key in stream)
        sketches[stream] = longer
        for removed in neighbours(stream):
            shorter = sketches[removed]
            both_full = len(longer.counters) == len(shorter.counters) == k
            if both_full and state(longer.counters, shorter.counters) == wanted:
                return longer, shorter
    raise LookupError(f"no small streams for k = {k} are in state {wanted}")


def twice_in_s6(k: int) -> tuple[StreamSketch, StreamSketch]:
    """Two events of a person: the second raises the key of count 1 that the first brought in. Own keys: 2 and 0."""
    longer, shorter = in_state("S6", k, 0)
    raised = [key for key, count in longer.counters.items() if count == 1 and key not in shorter.counters]
    return longer.extended((key, 1) for key in raised), shorter


def beside_nothing(k: int, events: Iterable[tuple[str, int]]) -> tuple[StreamSketch, StreamSketch]:
    return folded(k, events), StreamSketch.empty(k)


def one_counter_higher(k: int, height: int, by: int = 1) -> tuple[StreamSketch, StreamSketch]:
    """k counters of one height, and the first of them higher.

    Reduced counts are rounded down to whole ones, k + 1 steps. For k = 1 an odd height shows all of the noise: the
    shorter stream is one step below a whole count, the longer at it.
    """
    start = folded(k, ((key, height) for key in LETTERS[:k]))
    return start.extended([(LETTERS[0], by)]), start


def standard_pair(k: int) -> tuple[StandardSketch, StandardSketch]:
    """Nothing beside k keys of count 1: one more event takes all of them to zero, and zero is not stored."""
    shorter = folded(k, ((key, 1) for key in LETTERS[:k]))
    longer = shorter.extended([(LETTERS[k], 1)])
    return _standard(longer), _standard(shorter)


def _standard(sketch: StreamSketch) -> StandardSketch:
    return StandardSketch(sketch.k, {key: count for key, count in sketch.counters.items() if count > 0})


def merged(k: int, height: int, differing: int) -> tuple[CompactSketch, CompactSketch]:
    """Two merged streams of which the first has one event more; so many of the k counters are one lower by that.

    The event finds no slot in its own sketch and takes one from all k counters. The merge keeps `differing` of them
    beside counters of the other stream, and subtracts the largest counter that it drops, which is another stream's.
    """
    tops = dict.fromkeys(LETTERS[:differing], _FLOOR + height)
    lows = dict.fromkeys(LETTERS[differing:k], 2)
    shorter = folded(k, {**tops, **lows}.items())
    longer = shorter.extended([(LETTERS[k], 1)])
    kept = {f"other {number}": _FLOOR + height for number in range(k - differing)}
    dropped = {f"other {number}": _FLOOR for number in range(k - differing, k)}
    other = CompactSketch.of_stream(folded(k, {**kept, **dropped}.items()))
    return CompactSketch.of_stream(longer).merged(other), CompactSketch.of_stream(shorter).merged(other)


def lowered_twice(k: int, height: int) -> tuple[CompactSketch, CompactSketch]:
    """Two events more, of which each lowers all counters."""
    shorter = folded(k, ((key, height) for key in LETTERS[:k]))
    longer = shorter.extended([(LETTERS[k], 1), (LETTERS[k + 1], 1)])
    empty = CompactSketch.empty(k)
    return CompactSketch.of_stream(longer).merged(empty), CompactSketch.of_stream(shorter).merged(empty)


def users(k: int, others: int) -> tuple[CompactSketch, CompactSketch]:
    """One user with a set of k keys, beside so many others with the same set."""
    shorter = CompactSketch.empty(k).extended_by_people([LETTERS[:k]] * others)
    return shorter.extended_by_people([LETTERS[:k]]), shorter


PeopleFold = Callable[[CompactSketch, Sequence[str]], CompactSketch]  # a request's people into a sketch


def cut_by_count(fold: PeopleFold, others: int) -> tuple[CompactSketch, CompactSketch]:
    """One person more in front of all others, in requests of two people each: every later request is cut elsewhere.

    With one counter, which each person of the second half lowers: together with the next, if a request is one merge and
    the two differ.
    """
    shorter = ["a"] * (4 * others) + ["b", "c", "c", "b"] * (others // 2)
    left, right = (_in_requests(fold, people, 2) for people in (["a", *shorter], shorter))
    return left, right


def _in_requests(fold: PeopleFold, people: Sequence[str], size: int) -> CompactSketch:
    sketch = CompactSketch.empty(1)
    for at in range(0, len(people), size):
        sketch = fold(sketch, people[at : at + size])
    return sketch


def one_by_one(sketch: CompactSketch, people: Sequence[str]) -> CompactSketch:
    """As the service folds a request: through the kernel, from stored bytes to stored bytes."""
    opened = kernel.Fold(states.encode(sketch))
    opened.add(kernel.sets_of([(None, keys) for keys in people], 1))
    return decode_as(CompactSketch, states.by_slot(opened.stored()))


def as_one_merge(sketch: CompactSketch, people: Sequence[str]) -> CompactSketch:
    """A mistake: the request is counted first, and cut back once."""
    return CompactSketch(sketch.k, whole_request(sketch.k, sketch.counters, Counter("".join(people))))


def summed(k: int, pair: tuple[StreamSketch, StreamSketch], height: int) -> tuple[SummedSketch, SummedSketch]:
    """The neighbours as one of two sources; the other has one key, of its own."""
    other = SummedSketch.of_stream(folded(k, [("other", height)]))
    longer, shorter = pair
    return SummedSketch.of_stream(longer).plus(other), SummedSketch.of_stream(shorter).plus(other)


def summed_at_whole_counts(height: int) -> tuple[SummedSketch, SummedSketch]:
    """Two sources of one counter each; all of the noise is seen, on the count and on n, for an even height.

    A count is two steps. With one event more the reduced counter reaches a whole count, and n/2, which is rounded up,
    the next one.
    """
    return summed(1, one_counter_higher(1, height - 1), height + 1)
