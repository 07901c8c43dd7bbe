"""A compiled batch of people is what it was made of, and so is what is left of it without some of them."""

import gc
import struct

import pytest

from app.core import kernel
from app.core.kernel import twin
from tests.core.kernel.native import EQUAL_HASHES, KEYED, compiled_only
from tests.core.kernel.reading import People

pytestmark = compiled_only


def test_a_batch_outlives_the_body_that_it_was_read_from() -> None:
    batches = [kernel.scan_ndjson_sets(b'["key-%d"]\n' % number * 50, 50, 1) for number in range(200)]
    assert all(sets and sets.keys() == [[f"key-{number}"]] * 50 for number, sets in enumerate(batches))


def test_a_batch_is_what_it_was_made_of() -> None:
    people: People = [("u", ["a", "b", "a"]), (None, []), ("é" * 256, ["x" * 512, "\0"]), ("u", ["c"])]
    for made in (kernel.sets_of(people, 2), twin.Sets(people, 2)):
        assert list(zip(made.users(), made.keys(), strict=True)) == people
        assert made.kept() == [["a", "b"], [], ["x" * 512, "\0"], ["c"]]
        assert len(made) == made.events == 4
        assert made.nbytes >= 4 * 16 + 6 * 8
        assert made.people(KEYED.multipliers) == ([b"u", b"", "é".encode() * 256], struct.pack("<4I", 0, 1, 2, 0))
        assert [made.unnamed(most) for most in (1, 9)] == [[1], [1]]
    assert kernel.sets_of([], 1).keys() == []


# A batch without some of its people


def shares(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def test_a_batch_without_some_of_its_people_keeps_the_keys_after_the_whole_one_is_gone() -> None:
    people = [(f"user-{number}", [f"key-{number}-{at}" for at in range(1 + number % 5)]) for number in range(300)]
    whole, plain = kernel.sets_of(people, 3), twin.Sets(people, 3)
    granted = shares(*([1, 0, 2] * 100))
    again = shares(*([0, 1] * 100))
    kept = whole.limited(granted).limited(again)
    del whole
    others = [kernel.sets_of([(None, ["other"] * 900)], 1) for _ in range(20)]  # would take memory that was let go
    expected = plain.limited(granted).limited(again)
    assert (kept.keys(), kept.kept(), kept.users()) == (expected.keys(), expected.kept(), expected.users())
    assert (len(kept), kept.most_keys, len(others)) == (100, 3, 20)


def test_the_garbage_collector_takes_a_batch_apart_without_letting_its_keys_go_twice() -> None:
    """It drops what a batch refers to before the batch itself goes."""
    for number in range(5):
        whole = kernel.sets_of([("u", [f"key-{number}"] * 9)] * 50, 1)
        part = whole.limited(shares(*[1] * 50))
        cycle: list[object] = [part]
        cycle.append(cycle)
        del part, cycle
        gc.collect()
        assert whole.keys() == [[f"key-{number}"] * 9] * 50  # and those of the whole batch stay
        part, cycle = whole.limited(shares(*[1] * 50)), []
        cycle += [part, cycle]
        del part, cycle, whole
        gc.collect()


def test_a_batch_is_not_limited_by_numbers_that_do_not_fit() -> None:
    batch = kernel.sets_of([("u", ["a"])], 1)
    for wrong in (b"", bytes(3), bytes(8)):
        with pytest.raises(ValueError, match="one number for each person"):
            batch.limited(wrong)
    with pytest.raises(ValueError, match="multipliers"):
        batch.people(bytes(16))
    assert batch.people(KEYED.multipliers) == batch.people(EQUAL_HASHES.multipliers) == ([b"u"], bytes(4))
