"""Allowances: nobody is granted more than the limit in all, and the compiled table is its twin."""

import struct
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core import kernel
from app.core.kernel import Allowances, new_allowances, twin
from tests.core.kernel.native import compiled_only

Item = tuple[int, int]  # which person, how much


def numbers(values: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def unpacked(values: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(values) // 4}I", values))


def person(number: int) -> bytes:
    return blake2b(number.to_bytes(8, "little"), digest_size=12).digest()


def used_by(usages: bytes) -> dict[bytes, int]:
    found = dict(struct.iter_unpack("<12sH", usages))
    assert 14 * len(found) == len(usages)  # each once
    return found


def grant(allowances: Allowances, items: Sequence[Item], limit: int) -> tuple[list[int], bytes]:
    people = list(dict.fromkeys(who for who, _ in items))
    indexes = numbers([people.index(who) for who, _ in items])
    granted, changed = allowances.grant(
        indexes, numbers([want for _, want in items]), b"".join(map(person, people)), limit
    )
    return unpacked(granted), changed


EACH = pytest.mark.parametrize("make", [twin.Allowances, pytest.param(new_allowances, marks=compiled_only)])
wants = st.integers(0, 12) | st.sampled_from([999, 1000, 65_535, 65_536, 2**31 - 1, 2**32 - 1])
batches = st.lists(st.tuples(st.integers(0, 12), wants), max_size=25)
many_examples = settings(max_examples=100, deadline=None)


@EACH
def test_the_first_items_are_granted_up_to_the_limit_and_the_last_of_them_in_part(make: type[Allowances]) -> None:
    allowances = make()
    assert grant(allowances, [(0, 2), (1, 1), (0, 7), (0, 1), (1, 4), (1, 1)], 5)[0] == [2, 1, 3, 0, 4, 0]
    assert grant(allowances, [(0, 1), (2, 7), (1, 1)], 5)[0] == [0, 5, 0]
    assert len(allowances) == 3


@EACH
@many_examples
@given(st.lists(batches, max_size=5), st.integers(1, 20) | st.sampled_from([1000, 65_535]))
def test_each_person_gets_what_their_own_items_ask_for_until_the_limit(
    make: type[Allowances], stream: list[list[Item]], limit: int
) -> None:
    """A function of that person's items alone: those of others could be left out."""
    allowances = make()
    left: Counter[int] = Counter(dict.fromkeys(range(13), limit))
    for batch in stream:
        granted, changed = grant(allowances, batch, limit)
        expected = []
        for who, want in batch:
            expected.append(min(want, left[who]))
            left[who] -= expected[-1]
        assert granted == expected
        touched = {who for (who, _), share in zip(batch, granted, strict=True) if share}
        assert used_by(changed) == {person(who): limit - left[who] for who in touched}
    everybody = {person(who): limit - rest for who, rest in left.items() if rest < limit}
    assert used_by(allowances.usages()) == everybody
    assert len(allowances) == len(everybody)


@compiled_only
@many_examples
@given(st.lists(batches | st.binary(max_size=70), max_size=8), st.lists(st.integers(1, 65_535), min_size=8, max_size=8))
def test_the_compiled_table_equals_its_twin(stream: list[list[Item] | bytes], limits: list[int]) -> None:
    """Also where the limit changes, which no scope does, and where what is learnt was written by nobody."""
    compiled, plain = new_allowances(), twin.Allowances()
    for step, limit in zip(stream, limits, strict=False):
        if isinstance(step, bytes):
            learnt = b"".join(person(byte % 13) + struct.pack("<H", 1 + 257 * byte % 65_535) for byte in step)
            compiled.learn(learnt)
            plain.learn(learnt)
        else:
            assert grant(compiled, step, limit) == grant(plain, step, limit)
        assert used_by(compiled.usages()) == used_by(plain.usages())
        assert len(compiled) == len(plain)


@EACH
def test_people_whose_fingerprints_begin_alike_are_told_apart(make: type[Allowances]) -> None:
    """They meet in the table; all of their twelve bytes count."""
    prints = [b"\x07" + bytes(at) + b"\x01" + bytes(10 - at) for at in range(11)] + [b"\x07" + bytes(11)]
    allowances = make()
    indexes = numbers([*range(12), *range(12)])
    granted, changed = allowances.grant(indexes, numbers([2] * 24), b"".join(prints), 3)
    assert unpacked(granted) == [2] * 12 + [1] * 12
    assert used_by(changed) == used_by(allowances.usages()) == dict.fromkeys(prints, 3)


@EACH
def test_ten_thousand_people_are_remembered_one_by_one(make: type[Allowances]) -> None:
    allowances, number = make(), 10_000
    for start in range(0, number, 500):
        grant(allowances, [(who, 1 + who % 5) for who in range(start, start + 500)], 5)
    assert len(allowances) == number
    assert used_by(allowances.usages()) == {person(who): 1 + who % 5 for who in range(number)}
    again = make()
    again.learn(allowances.usages())
    granted, _ = grant(again, [(who, 9) for who in range(0, number, 50)], 5)
    assert granted == [4 - who % 5 for who in range(0, number, 50)]
    assert allowances.nbytes >= 14 * number


@EACH
@many_examples
@given(st.lists(batches, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_usages_may_be_learnt_in_any_order_and_again(
    make: type[Allowances], stream: list[list[Item]], rng: object
) -> None:
    """What is used only grows, so the larger number is the later one."""
    allowances = make()
    log = [grant(allowances, batch, 7)[1] for batch in stream]
    shuffled = log + log[: len(log) // 2] + [allowances.usages()]
    rng.shuffle(shuffled)  # type: ignore[attr-defined]  # random.Random
    again = make()
    for usages in shuffled:
        again.learn(usages)
    assert used_by(again.usages()) == used_by(allowances.usages())


@EACH
def test_one_person_twice_among_the_fingerprints_has_one_allowance(make: type[Allowances]) -> None:
    granted, changed = make().grant(numbers([0, 1, 0]), numbers([2, 2, 2]), person(1) * 2, 5)
    assert unpacked(granted) == [2, 2, 1]
    assert changed == (person(1) + struct.pack("<H", 5)) * 2


@compiled_only
def test_what_does_not_fit_together_is_refused_and_changes_nothing() -> None:
    allowances = new_allowances()
    for indexes, wanted, limit in (
        (numbers([1]), numbers([1]), 5),  # there is no such person
        (numbers([2**32 - 1]), numbers([1]), 5),
        (numbers([0]), numbers([1, 1]), 5),
        (numbers([0, 0]), numbers([1]), 5),
        (numbers([0]), numbers([1]), 0),
        (numbers([0]), numbers([1]), 65_536),
        (numbers([0]), numbers([1]), -1),
    ):
        with pytest.raises(ValueError, match=r"fingerprint|number"):
            allowances.grant(indexes, wanted, person(1), limit)
    for size in (1, 13, 15, 27):
        with pytest.raises(ValueError, match="14 bytes"):
            allowances.learn(bytes(size))
    assert len(allowances) == 0
    assert allowances.usages() == b""


@compiled_only
def test_what_is_no_bytes_is_refused_by_its_type() -> None:
    for wrong in (None, "text", bytearray(4), memoryview(bytes(4))):
        with pytest.raises(TypeError):
            new_allowances().learn(wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            new_allowances().grant(wrong, bytes(4), bytes(12), 1)  # type: ignore[arg-type]


# Fingerprints


@compiled_only
@many_examples
@given(
    st.lists(st.binary(min_size=1, max_size=600) | st.sampled_from([127, 128, 129, 255, 256, 257, 512]).map(bytes)),
    st.binary(min_size=32, max_size=32),
)
def test_fingerprints_are_keyed_blake2b_of_96_bits(names: list[bytes], key: bytes) -> None:
    expected = b"".join(blake2b(name, key=key, digest_size=12).digest() for name in names)
    assert kernel.fingerprints(names, key) == twin.fingerprints(names, key) == expected


@compiled_only
def test_fingerprints_of_names_of_every_length_are_right() -> None:
    names = [bytes(range(256)) * 2 for _ in range(1)] + [(b"a name" * 90)[:length] for length in range(1, 513)]
    assert kernel.fingerprints(names, bytes(32)) == twin.fingerprints(names, bytes(32))
