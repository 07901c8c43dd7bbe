"""Two worlds: the same items in the same order, but for one person (or one event), each cut into requests by count.

A sender that cuts by count moves every later cut when one person is added. So both worlds are cut in the same steps,
and what is stored must still be that of neighbours.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

from app.core.sketches.compact import CompactSketch

Person = tuple[str, list[str]]  # name, and keys as listed
Event = tuple[str, int]  # key, and how many in a row
Counts = Mapping[str, int]
_Item = TypeVar("_Item")

MOST_KEYS = 4  # of a person count
MOST_IN_A_REQUEST = 50
_KEYS = "abcdefghijklmnop"


@dataclass(frozen=True, slots=True)
class Pair(Generic[_Item]):
    """Neighbours, how large their requests are, and the counters of their sketches."""

    longer: list[_Item]
    shorter: list[_Item]
    in_a_request: int
    k: int

    def requests(self) -> tuple[list[list[_Item]], list[list[_Item]]]:
        return self._cut(self.longer), self._cut(self.shorter)

    def _cut(self, items: Sequence[_Item]) -> list[list[_Item]]:
        return [list(items[at : at + self.in_a_request]) for at in range(0, len(items), self.in_a_request)]


def pair_of_people(rng: Random, *, again: bool = True) -> Pair[Person]:
    """Some list a key twice, some more keys than count, and `again` some send several sets: the first must count."""
    keys, in_a_request = _KEYS[: rng.randint(2, len(_KEYS))], rng.randint(1, MOST_IN_A_REQUEST)
    steepness, sizes = rng.choice((0, 1, 2)), rng.choice(((1,), (1, 2), (1, 1, 2, 3, 6)))
    weights = [1 / (1 + rank) ** steepness for rank in range(len(keys))]
    people = [
        (f"user {number}", rng.choices(keys, weights, k=rng.choice(sizes)))
        for number in range(rng.randint(2, 6) * in_a_request + rng.randint(0, 5))
    ]
    for name, _ in rng.sample(people, len(people) // 10 if again else 0):
        people.insert(rng.randrange(len(people)), (name, rng.choices(keys, k=2)))
    gone = rng.choice(people)[0]
    shorter = [item for item in people if item[0] != gone]
    return Pair(people, shorter, in_a_request, rng.randint(1, max(1, len(keys) // 2)))


def pair_of_events(rng: Random) -> Pair[Event]:
    """One event less: an item is gone, or its count is one lower."""
    keys = _KEYS[: rng.randint(2, len(_KEYS))]
    in_a_request = rng.randint(1, MOST_IN_A_REQUEST)
    number = rng.randint(2, 6) * in_a_request + rng.randint(0, 5)
    events = [(rng.choice(keys), rng.choice((1, 1, 1, 2, 5))) for _ in range(number)]
    at = rng.randrange(number)
    key, count = events[at]
    left = [(key, count - 1)] if count > 1 else []
    return Pair(events, [*events[:at], *left, *events[at + 1 :]], in_a_request, rng.randint(1, max(1, len(keys) // 2)))


def counted(people: Sequence[Person]) -> Counter[str]:
    """How many people have each key, of what counts: everybody's first set, its first different keys."""
    first: dict[str, list[str]] = {}
    for name, keys in people:
        first.setdefault(name, list(dict.fromkeys(keys))[:MOST_KEYS])
    return Counter(key for keys in first.values() for key in keys)


def are_neighbours(left: Counts, right: Counts) -> bool:
    """All counters differ by 0 or 1, in one direction: `cor:merged-user-level`, `corol:merged-sensitivity`."""
    differences = {left.get(key, 0) - right.get(key, 0) for key in left.keys() | right.keys()}
    return differences <= {0, 1} or differences <= {0, -1}


def are_compact_neighbours(longer: CompactSketch, shorter: CompactSketch) -> bool:
    """Either as often lowered, and counters higher by 0 or 1; or once more, and counters lower by 0 or 1."""
    if longer.lowered is None or shorter.lowered is None:
        return False
    keys = longer.counters.keys() | shorter.counters.keys()
    gains = {longer.counters.get(key, 0) - shorter.counters.get(key, 0) for key in keys}
    rise = longer.lowered - shorter.lowered
    return rise in (0, 1) and gains <= ({-1, 0} if rise else {0, 1})


def is_close(stored: Counts, true: Counter[str], k: int) -> bool:
    """Never too high, and at most M/(k+1) too low: `lem:user-level-merge-error`."""
    total = true.total()
    within = all(0 <= (count - stored.get(key, 0)) * (k + 1) <= total for key, count in true.items())
    return within and stored.keys() <= true.keys() and len(stored) <= k


def whole_request(k: int, stored: Counts, added: Counts) -> dict[str, int]:
    """A wrong fold: a whole request as one merge, cut back once."""
    total = Counter(dict(stored))
    total.update(added)
    cut = sorted(total.values(), reverse=True)[k] if len(total) > k else 0
    return {key: count - cut for key, count in total.items() if count > cut}
