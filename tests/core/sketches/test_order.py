"""The eviction order: total, that of the bytes where it is plain, and the same in the compiled fold."""

import random
from hashlib import shake_128
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core import kernel
from app.core.sketches.order import BY_BYTES, MULTIPLIERS, Order, multipliers
from app.core.sketches.state import encode
from app.core.sketches.stream import StreamSketch
from tests.states import decode_as

KEYED = Order(bytes(range(16)))

keys = st.text(min_size=1, max_size=40) | st.text(
    st.sampled_from(["\0", "a", "é", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"]), min_size=1, max_size=20
)
orders = st.just(BY_BYTES) | st.builds(Order, st.binary(min_size=16, max_size=16))


def rank(order: Order, key: str) -> tuple[int, str]:
    """What the heap of `stream.py` compares."""
    return order.hash_of(key), key


def hash_by_hand(secret: bytes, key: str) -> int:
    """The formula of `order.py` in one big number for all: the message as one integer, cut into words by arithmetic."""
    stream = int.from_bytes(shake_128(b"discreet: eviction order\0" + secret).digest(65 * 16), "little")
    message = int.from_bytes(key.encode(), "little")
    total = (stream % 2**128) * len(key.encode())
    for number in range(1, 65):
        total += (stream >> 128 * number) % 2**128 * ((message >> 64 * (number - 1)) % 2**64)
    value = total // 2**64 % 2**64
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = (value ^ value // 2**33) * factor % 2**64
    return value ^ value // 2**33


@settings(max_examples=300, deadline=None)
@given(orders, keys, keys, keys)
def test_the_order_is_total_and_antisymmetric(order: Order, a: str, b: str, c: str) -> None:
    ranks = {key: rank(order, key) for key in (a, b, c)}
    for x, y in product(ranks, repeat=2):
        assert (ranks[x] < ranks[y]) + (ranks[x] == ranks[y]) + (ranks[y] < ranks[x]) == 1
        assert (ranks[x] == ranks[y]) == (x == y)
    assert not (ranks[a] < ranks[b] < ranks[c] < ranks[a])
    assert Order(order.secret).hash_of(a) == order.hash_of(a)  # of the secret and the key, and of nothing else


@settings(max_examples=500, deadline=None)
@given(keys, keys)
def test_the_plain_order_is_that_of_the_utf_8_bytes_and_of_code_points(a: str, b: str) -> None:
    assert BY_BYTES.hash_of(a) == BY_BYTES.hash_of(b) == 0
    plainly = rank(BY_BYTES, a) < rank(BY_BYTES, b)
    assert plainly == (a.encode() < b.encode()) == ([*map(ord, a)] < [*map(ord, b)])


@settings(max_examples=300, deadline=None)
@given(st.binary(min_size=16, max_size=16).filter(any), keys | st.integers(1, 512).map(lambda length: "y" * length))
def test_a_place_is_the_formula_in_big_integers(secret: bytes, key: str) -> None:
    assert Order(secret).hash_of(key) == hash_by_hand(secret, key)


def test_keys_of_every_length_are_placed_by_the_formula() -> None:
    for length in range(1, 513):
        key = "".join(chr(33 + (7 * at + length) % 90) for at in range(length))
        assert KEYED.hash_of(key) == hash_by_hand(KEYED.secret, key), length


def test_a_place_never_changes() -> None:
    """Stored sketches rely on it: a changed order is another sketch."""
    order = Order(b"0123456789abcdef")
    assert [order.hash_of(key) for key in ("a", "a key of 16 byte", "é" * 256)] == [
        4796419295749691386,
        9589950475319094314,
        15841704412378952702,
    ]


def test_multipliers_are_one_for_the_length_and_one_for_each_word() -> None:
    assert len(multipliers(KEYED.secret)) == 16 * MULTIPLIERS == 16 * 65
    assert len({multipliers(KEYED.secret)[at : at + 16] for at in range(0, 16 * 65, 16)}) == 65
    assert multipliers(bytes(16)) == bytes(16 * 65)


def test_different_secrets_give_different_orders() -> None:
    letters = "abcdefghijklmnop"
    orders = {tuple(sorted(letters, key=Order(number.to_bytes(16, "big")).hash_of)) for number in range(1, 51)}
    assert len(orders) == 50


def test_structured_keys_do_not_collide() -> None:
    """200,000 keys of the kinds that weak hashes confuse. By chance two would meet once in a billion secrets."""
    numbered = [f"{number:06}" for number in range(60_000)] + [f"user/{number}" for number in range(60_000)]
    stretched = [letter * length for letter in "abcdefghijklmnopqrst" for length in range(1, 513)]
    flipped = [f"{'x' * at}y{'x' * (255 - at)}{tail}" for at in range(256) for tail in range(200)]
    swapped = [f"{left:08}{right:08}" for left in range(140) for right in range(140)]
    keys = {*numbered, *stretched, *flipped, *swapped}
    assert len(keys) >= 200_000
    assert len({KEYED.hash_of(key) for key in keys}) == len(keys)


def test_keys_that_differ_only_in_trailing_nuls_or_in_length_have_places_of_their_own() -> None:
    """Words are filled up with zeros; the length is what tells such keys apart."""
    keys = [stem + "\0" * nuls for stem in ("", "a", "a" * 7, "a" * 8, "é" * 9) for nuls in range(1, 100)]
    assert len({KEYED.hash_of(key) for key in keys}) == len(set(keys))
    assert len({KEYED.hash_of("a" * length) for length in range(1, 513)}) == 512


def evicted_in_turn(k: int, order: Order, keys: list[str]) -> list[str]:
    """k keys at one each, all brought to zero by one more; the order in which new keys push them out."""
    fold = kernel.Fold(encode(StreamSketch.empty(k, order)))
    fold.add(kernel.batch_of([(key, 1) for key in keys] + [("spoiler", 1)]))
    gone: list[str] = []
    for number in range(k):
        before = decode_as(StreamSketch, fold.state()).counters
        fold.add(kernel.batch_of([(f"new-{number}", 1)]))
        after = decode_as(StreamSketch, fold.state()).counters
        gone += before.keys() - after.keys()
    return gone


@pytest.mark.parametrize("seed", range(5))
def test_the_kernel_evicts_zero_counters_in_this_order(seed: int) -> None:
    rng = random.Random(seed)
    lengths = rng.sample(range(1, 513), 60)
    keys = ["".join(rng.choices("\0az~", k=length)) for length in lengths] + [f"{number:02}" for number in range(20)]
    keys = list(dict.fromkeys(keys))
    order = Order(rng.randbytes(16))
    assert evicted_in_turn(len(keys), order, keys) == sorted(keys, key=order.hash_of)
    assert evicted_in_turn(len(keys), BY_BYTES, keys) == sorted(keys)
