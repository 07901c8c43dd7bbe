"""Who is behind a batch, and what of it counts: decided by each person's own items, from the request alone."""

import struct
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.errors import MAX_REPORTED, BadBatch
from app.core.kernel import Batch, batch_of, new_allowances, twin
from app.core.people import Fingerprints, OnExcess, People, Rules, Unit, UserSets, people_of_events, people_of_sets
from app.core.sketches.order import multipliers
from tests.core.kernel.native import compiled_only

_KEY, _OTHER_KEY = bytes(range(32)), bytes(range(1, 33))
_PRINTS = Fingerprints(_KEY, "sketch/views")
_MULTIPLIERS = multipliers(bytes(range(16)))
_NAMES = [b"alice", b"bob", "zoë".encode(), b"\0", b"x" * 512, b"alice ", b"Alice"]


def _rules(m: int, unit: Unit = "event", on_excess: OnExcess = "drop") -> Rules:
    return Rules(unit, m, True, on_excess)


def _batch(items: Sequence[tuple[str, str, int]]) -> Batch:
    return batch_of([(key, count) for _, key, count in items], [user for user, _, _ in items])


def _each(fingerprints: bytes) -> list[bytes]:
    return [fingerprints[at : at + 12] for at in range(0, len(fingerprints), 12)]


def _who(people: People) -> list[bytes]:
    """The fingerprint behind each item."""
    prints = _each(people.fingerprints)
    return [prints[index] for (index,) in struct.iter_unpack("<I", people.indexes)]


# Fingerprints


def test_a_person_has_one_fingerprint_in_a_scope_and_another_in_every_other() -> None:
    found = [_each(Fingerprints(_KEY, scope).of(_NAMES)) for scope in ("sketch/a", "sketch/b", "ledger/a", "sketch/a")]
    assert found[0] == found[3]
    assert len({one for each in found[:3] for one in each}) == 3 * len(_NAMES)


def test_without_the_key_a_guess_cannot_be_tested() -> None:
    """Another key gives other fingerprints and another check, of every name."""
    ours, theirs = _PRINTS, Fingerprints(_OTHER_KEY, "sketch/views")
    assert not set(_each(ours.of(_NAMES))) & set(_each(theirs.of(_NAMES)))
    assert ours.check != theirs.check
    assert ours.check == Fingerprints(_KEY, "sketch/views").check
    assert ours.check not in _each(ours.of(_NAMES))


def test_a_fingerprint_does_not_contain_the_name() -> None:
    found = _PRINTS.of(_NAMES)
    assert all(form not in found for name in _NAMES[:2] for form in (name, name.hex().encode(), b64encode(name)))


# Events


def test_people_are_named_once_and_items_know_whose_they_are() -> None:
    people = people_of_events(_batch([("u", "a", 1), ("v", "b", 2), ("u", "c", 3)]), _PRINTS, _rules(5), _MULTIPLIERS)
    assert people.fingerprints == _PRINTS.of([b"u", b"v"])
    assert _who(people) == _each(_PRINTS.of([b"u", b"v", b"u"]))


def test_items_without_a_user_are_refused_with_their_positions() -> None:
    batch = batch_of([(key, 1) for key in "abcde"], ["u", None, "v", None, "u"])
    with pytest.raises(BadBatch) as refusal:
        people_of_events(batch, _PRINTS, _rules(5), _MULTIPLIERS)
    assert [position for position, _ in refusal.value.items] == [1, 3]
    assert 'name the user: {"user": …, "key": …}; this sketch counts at most 5 events of each.' in str(refusal.value)
    with pytest.raises(BadBatch) as refusal:
        people_of_events(batch_of([("a", 1)] * 300), _PRINTS, _rules(5), _MULTIPLIERS)
    assert [position for position, _ in refusal.value.items] == list(range(MAX_REPORTED))


def test_excess_within_a_batch_is_refused_at_each_item_that_goes_beyond() -> None:
    items = [("u", "a", 2), ("v", "a", 3), ("u", "b", 1), ("u", "c", 1), ("v", "a", 1), ("w", "a", 4)]
    people_of_events(_batch(items[:3]), _PRINTS, _rules(3, on_excess="refuse"), _MULTIPLIERS)
    with pytest.raises(BadBatch) as refusal:
        people_of_events(_batch(items), _PRINTS, _rules(3, on_excess="refuse"), _MULTIPLIERS)
    assert [position for position, _ in refusal.value.items] == [3, 4, 5]
    assert "more than 3 events in this batch" in str(refusal.value)
    people_of_events(_batch(items), _PRINTS, _rules(3), _MULTIPLIERS)  # dropped later, without a word


_users = st.sampled_from(["u", "v", "w", "u ", "x" * 512, "zoë", "€"])
_items = st.lists(st.tuples(_users, st.sampled_from(["a", "b", "é" * 256]), st.integers(1, 9)), max_size=20)


@compiled_only
@settings(max_examples=100, deadline=None)
@given(_items, st.integers(1, 9))
def test_the_compiled_batch_knows_its_people_as_its_twin_does(items: list[tuple[str, str, int]], limit: int) -> None:
    ours = _batch(items)
    plain = twin.Batch([(key, count) for _, key, count in items], [user for user, _, _ in items])
    assert ours.users() == plain.users()
    assert ours.unnamed(3) == plain.unnamed(3) == []
    assert ours.people(_MULTIPLIERS) == plain.people(b"")
    assert ours.counts() == plain.counts()
    people = people_of_events(ours, _PRINTS, _rules(limit), _MULTIPLIERS)
    granted, _ = new_allowances().grant(people.indexes, ours.counts(), people.fingerprints, limit)
    assert ours.limited(granted).pairs() == plain.limited(granted).pairs()
    assert ours.limited(granted).users() == plain.limited(granted).users()
    assert ours.limited(granted).events == plain.limited(granted).events


@settings(max_examples=100, deadline=None)
@given(_items, st.integers(1, 9))
def test_taking_a_person_out_takes_out_what_was_kept_of_them_and_nothing_else(
    items: list[tuple[str, str, int]], limit: int
) -> None:
    def kept(items: Sequence[tuple[str, str, int]]) -> list[tuple[str | None, str, int]]:
        batch = _batch(items)
        people = people_of_events(batch, _PRINTS, _rules(limit), _MULTIPLIERS)
        left = batch.limited(new_allowances().grant(people.indexes, batch.counts(), people.fingerprints, limit)[0])
        return [(user, key, count) for user, (key, count) in zip(left.users(), left.pairs(), strict=True)]

    whole = kept(items)
    for user in {user for user, _, _ in items}:
        assert kept([item for item in items if item[0] != user]) == [item for item in whole if item[0] != user]
        own = sum(count for who, _, count in items if who == user)
        assert sum(count for who, _, count in whole if who == user) == min(own, limit)


@pytest.mark.parametrize("colliding", [False, True])
def test_what_comes_out_does_not_depend_on_the_multipliers(colliding: bool) -> None:
    batch = _batch([(f"user {number * number % 37}", "a", 1) for number in range(200)])
    names, indexes = batch.people(multipliers(bytes(16)) if colliding else _MULTIPLIERS)
    assert names == list(dict.fromkeys(f"user {number * number % 37}".encode() for number in range(200)))
    assert [names[index].decode() for (index,) in struct.iter_unpack("<I", indexes)] == batch.users()


# Sets


def test_a_set_is_cut_to_its_first_different_keys_in_the_order_given() -> None:
    sets = UserSets([("u", ["c", "a", "c", "b", "a", "d"]), ("v", ["a"]), ("w", ["d", "d", "d"])], 3)
    assert [list(keys) for keys in sets.kept([True, True, True])] == [["c", "a", "b"], ["a"], ["d"]]
    assert [list(keys) for keys in sets.kept([False, True, False])] == [["a"]]


def test_sets_without_a_user_are_refused_with_their_positions() -> None:
    with pytest.raises(BadBatch) as refusal:
        people_of_sets(UserSets([("u", ["a"]), (None, ["a"]), (None, ["b"])], 3), _PRINTS, _rules(3, "user"))
    assert [position for position, _ in refusal.value.items] == [1, 2]


def test_a_set_and_an_event_of_one_name_have_one_fingerprint() -> None:
    names = ["u", "zoë", "\0", "x" * 512]
    sets = people_of_sets(UserSets([(name, ["a"]) for name in [*names, "u"]], 1), _PRINTS, _rules(1, "user"))
    events = people_of_events(_batch([(name, "a", 1) for name in [*names, "u"]]), _PRINTS, _rules(1), _MULTIPLIERS)
    assert sets == events


def test_what_is_refused_of_sets_is_visible_in_the_batch() -> None:
    rules = _rules(2, "user", "refuse")

    def refused(sets: Sequence[tuple[str, Sequence[str]]]) -> list[int]:
        with pytest.raises(BadBatch) as refusal:
            people_of_sets(UserSets(sets, 2), _PRINTS, rules)
        return [position for position, _ in refusal.value.items]

    assert refused([("u", "a"), ("v", "a"), ("u", "b"), ("u", "a")]) == [2, 3]  # somebody twice
    assert refused([("u", "ab"), ("v", "abc"), ("w", "aabb"), ("x", "abcd")]) == [1, 3]  # too many keys
    people_of_sets(UserSets([("u", "aabb"), ("v", "a")], 2), _PRINTS, rules)


def test_the_allowance_is_events_or_one_set() -> None:
    assert [_rules(m).allowance for m in (1, 5)] == [1, 5]
    assert [_rules(m, "user").allowance for m in (1, 5)] == [1, 1]


def test_a_printed_batch_of_sets_shows_no_user_and_no_key() -> None:
    assert "private" not in repr(UserSets([("a private user", ["a private key"])], 3))


def test_a_receipt_counts_sets_whatever_they_hold() -> None:
    assert UserSets([("u", "abc"), ("u", "d")], 2).events == len(UserSets([("u", "abc"), ("u", "d")], 2)) == 2
    assert Counter(UserSets([], 2).kept([])) == {}
