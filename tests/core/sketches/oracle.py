"""The paper's algorithms word for word, one event or one person after another: slow, and obviously right.

`alg:MG` has real dummy keys. The zero key that goes first is the smallest in an order on keys that does not depend on
the stream: by place, which `Places` gives, and keys of equal place by name.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from app.core.sketches.stream import StreamSketch

Places = Callable[[str], int]
Counts = Mapping[str, int]


class Key(NamedTuple):
    """Compared field by field, so every dummy sorts after every real key, whatever the real keys are."""

    is_dummy: bool
    place: int
    name: str


Sketch = Mapping[Key, int]  # T and c; always k keys


def by_name(_name: str) -> int:
    """The plain order."""
    return 0


def real_key(name: str, places: Places = by_name) -> Key:
    return Key(False, places(name), name)


def dummy_key(number: int) -> Key:
    return Key(True, 0, f"{number:05}")


def empty(k: int) -> Sketch:
    return {dummy_key(number): 0 for number in range(k)}


def after(sketch: Sketch, name: str, places: Places = by_name) -> Sketch:
    """One event."""
    x = real_key(name, places)
    if x in sketch:  # branch 1
        return {key: count + (key == x) for key, count in sketch.items()}
    if all(count >= 1 for count in sketch.values()):  # branch 2
        return {key: count - 1 for key, count in sketch.items()}
    y = min(key for key, count in sketch.items() if count == 0)  # branch 3
    return {key: count for key, count in sketch.items() if key != y} | {x: 1}


def after_weighted(sketch: Sketch, name: str, count: int, places: Places = by_name) -> Sketch:
    """`count` events in a row in three strokes; the tests show that it is `after` so many times."""
    x = real_key(name, places)
    if x not in sketch:
        paid = min(count, *sketch.values())
        sketch = {key: value - paid for key, value in sketch.items()}
        count -= paid
        if count == 0:
            return sketch
        y = min(key for key, value in sketch.items() if value == 0)
        sketch = {key: value for key, value in sketch.items() if key != y} | {x: 0}
    return {**sketch, x: sketch[x] + count}


def paid(sketch: Sketch, name: str, count: int, places: Places = by_name) -> int:
    """How many of `count` events in a row take branch 2, which lowers all counters."""
    return 0 if real_key(name, places) in sketch else min(count, *sketch.values())


def lowered(k: int, events: Iterable[tuple[str, int]], places: Places = by_name) -> int:
    """How often all counters were lowered."""
    sketch, times = empty(k), 0
    for name, count in events:
        times += paid(sketch, name, count, places)
        sketch = after_weighted(sketch, name, count, places)
    return times


def misra_gries(k: int, stream: Iterable[str]) -> Sketch:
    sketch = empty(k)
    for name in stream:
        sketch = after(sketch, name)
    return sketch


def misra_gries_weighted(k: int, events: Iterable[tuple[str, int]], places: Places = by_name) -> Sketch:
    sketch = empty(k)
    for name, count in events:
        sketch = after_weighted(sketch, name, count, places)
    return sketch


def without_dummies(sketch: Sketch) -> dict[str, int]:
    return {key.name: count for key, count in sketch.items() if not key.is_dummy}


def with_dummies(sketch: StreamSketch) -> Sketch:
    """Empty slots as the dummies that are left. The smallest are replaced first, so the largest are left."""
    dummies = {dummy_key(number): 0 for number in range(len(sketch.counters), sketch.k)}
    return {real_key(name, sketch.order.hash_of): count for name, count in sketch.counters.items()} | dummies


# Compact sketches


def merge_oracle(k: int, *parts: Counts) -> dict[str, int]:
    """sec:merge word for word: add up, subtract the k+1'th largest, drop what is not positive."""
    total, cut = _added(parts), cut_of(k, *parts)
    return {key: count - cut for key, count in total.items() if count > cut}


def cut_of(k: int, *parts: Counts) -> int:
    """What a merge subtracts: the k+1'th largest sum, or nothing."""
    largest = sorted(_added(parts).values(), reverse=True)
    return largest[k] if len(largest) > k else 0


def _added(parts: Iterable[Counts]) -> Counter[str]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return total


def pamg_after(k: int, counters: Counts, keys: Collection[str]) -> dict[str, int]:
    """`alg:user-level-sketch` line by line, for one person."""
    counters = dict(counters)
    for key in sorted(set(keys)):
        counters[key] = counters.get(key, 0) + 1
    if len(counters) > k:
        counters = {key: count - 1 for key, count in counters.items() if count > 1}
    return counters


def pamg(k: int, users: Iterable[Collection[str]]) -> dict[str, int]:
    counters: dict[str, int] = {}
    for keys in users:
        counters = pamg_after(k, counters, keys)
    return counters
