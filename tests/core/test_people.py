"""Who is behind a batch, and what of it counts: decided by each person's own items, from the request alone."""

import struct
from base64 import b64encode
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.errors import MAX_REPORTED, BadBatch
from app.core.kernel import Batch, Events, batch_of, new_allowances, sets_of, twin
from app.core.people import Fingerprints, People, Rules, Unit
from app.core.sketches.order import multipliers
from tests.core.kernel.native import compiled_only

_KEY, _OTHER_KEY = bytes(range(32)), bytes(range(1, 33))
_PRINTS = Fingerprints(_KEY, "sketch/views")
_MULTIPLIERS = multipliers(bytes(range(16)))
_NAMES = [b"alice", b"bob", "zoë".encode(), b"\0", b"x" * 512, b"alice ", b"Alice"]


def _rules(m: int, unit: Unit = "event") -> Rules:
    return Rules(unit, m, fingerprints=_PRINTS)


def _people(batch: Batch, rules: Rules) -> People:
    found = rules.people_in(batch)
    assert found is not None
    return found


def _batch(items: Sequence[tuple[str, str, int]]) -> Events:
    return batch_of([(key, count) for _, key, count in items], [user for user, _, _ in items])


def _each(fingerprints: bytes) -> list[bytes]:
    return [fingerprints[at : at + 12] for at in range(0, len(fingerprints), 12)]


def _who(people: People) -> list[bytes]:
    """The fingerprint behind each item."""
    prints = _each(people.fingerprints)
    return [prints[index] for (index,) in struct.iter_unpack("<I", people.indexes)]


# Fingerprints


def test_a_person_has_one_fingerprint_in_a_register_and_another_in_every_other() -> None:
    found = [
        _each(Fingerprints(_KEY, register).of(_NAMES)) for register in ("sketch/a", "sketch/b", "ledger/a", "sketch/a")
    ]
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
    people = _people(_batch([("u", "a", 1), ("v", "b", 2), ("u", "c", 3)]), _rules(5))
    assert people.fingerprints == _PRINTS.of([b"u", b"v"])
    assert _who(people) == _each(_PRINTS.of([b"u", b"v", b"u"]))


def test_items_without_a_user_are_refused_with_their_positions() -> None:
    batch = batch_of([(key, 1) for key in "abcde"], ["u", None, "v", None, "u"])
    with pytest.raises(BadBatch) as refusal:
        _people(batch, _rules(5))
    assert [position for position, _ in refusal.value.items] == [1, 3]
    assert 'name the user: {"user": …, "key": …}; this sketch counts at most 5 events of each.' in str(refusal.value)
    with pytest.raises(BadBatch) as refusal:
        _people(batch_of([("a", 1)] * 300), _rules(5))
    assert [position for position, _ in refusal.value.items] == list(range(MAX_REPORTED))


def test_no_batch_is_refused_for_what_somebody_has_too_much_of() -> None:
    """It would take everybody else's items with it."""
    items = [("u", "a", 2), ("v", "a", 3), ("u", "b", 1), ("u", "c", 1), ("v", "a", 1), ("w", "a", 4)]
    _people(_batch(items), _rules(3))
    _people(sets_of([("u", "abcd"), ("u", "a")], 2), _rules(2, "user"))


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
    people = _people(ours, _rules(limit))
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
        people = _people(batch, _rules(limit))
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
    sets = sets_of([("u", ["c", "a", "c", "b", "a", "d"]), ("v", ["a"]), ("w", ["d", "d", "d"])], 3)
    assert sets.kept() == [["c", "a", "b"], ["a"], ["d"]]
    assert sets.limited(struct.pack("<3I", 0, 1, 0)).kept() == [["a"]]


_sets = st.lists(st.tuples(st.none() | _users, st.lists(st.sampled_from("abcd"), min_size=1, max_size=6)), max_size=12)


@compiled_only
@settings(max_examples=100, deadline=None)
@given(_sets, st.integers(1, 5))
def test_compiled_sets_know_their_people_as_their_twin_does(
    people: list[tuple[str | None, list[str]]], most: int
) -> None:
    ours, plain = sets_of(people, most), twin.Sets(people, most)
    assert len(ours) == ours.events == plain.events == len(people)
    assert ours.keys() == plain.keys() == [keys for _, keys in people]
    assert ours.users() == plain.users() == [user for user, _ in people]
    assert ours.kept() == plain.kept()
    assert ours.unnamed(3) == plain.unnamed(3)
    assert ours.counts() == plain.counts()
    if not ours.unnamed(1):
        assert ours.people(_MULTIPLIERS) == plain.people(b"")
    granted = struct.pack(f"<{len(people)}I", *(at % 2 for at in range(len(people))))
    for left in (ours.limited(granted), ours.limited(granted).limited(struct.pack("<I", 1) * (len(people) // 2))):
        assert left.keys() == plain.limited(granted).keys()
        assert left.users() == plain.limited(granted).users()
        assert left.most_keys == most


def test_sets_without_a_user_are_refused_with_their_positions() -> None:
    unnamed = sets_of([("u", ["a"]), (None, ["a"]), (None, ["b"])], 3)
    with pytest.raises(BadBatch) as refusal:
        _people(unnamed, _rules(3, "user"))
    assert [position for position, _ in refusal.value.items] == [1, 2]
    assert 'name the user: {"user": …, "keys": […]}; this sketch counts each once.' in str(refusal.value)


def test_a_set_and_an_event_of_one_name_have_one_fingerprint() -> None:
    names = ["u", "zoë", "\0", "x" * 512]
    sets = _people(sets_of([(name, ["a"]) for name in [*names, "u"]], 1), _rules(1, "user"))
    events = _people(_batch([(name, "a", 1) for name in [*names, "u"]]), _rules(1))
    assert sets == events


def test_the_allowance_is_events_or_one_set() -> None:
    assert [_rules(m).allowance for m in (1, 5)] == [1, 5]
    assert [_rules(m, "user").allowance for m in (1, 5)] == [1, 1]


def test_a_printed_batch_of_sets_shows_no_user_and_no_key() -> None:
    for made in (sets_of([("a private user", ["a private key"])], 3), twin.Sets([("a private user", ["private"])], 3)):
        assert "private" not in repr(made)


def test_a_receipt_counts_sets_whatever_they_hold() -> None:
    assert sets_of([("u", "abc"), ("u", "d")], 2).events == len(sets_of([("u", "abc"), ("u", "d")], 2)) == 2
    assert sets_of([], 2).kept() == sets_of([], 2).keys() == []
