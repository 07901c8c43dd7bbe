"""Attacks with list columns in Arrow streams: each is refused before anything is read that it does not hold."""

from collections.abc import Sequence
from itertools import pairwise
from time import process_time
from typing import Any

import pyarrow as pa
import pytest

from app.api.decoding.shapes import EVENTS, USERS
from app.core.errors import BadBatch
from app.refusals import BodyTooLarge
from tests.api.decoding.bodies import ARROW, arrow, decoded, decoded_sets

_KEYS = ["a", "b", "c", "d", "e", "f"]
_LISTS = {pa.list_: 4, pa.large_list: 8}  # and the bytes of an offset
_EACH_LIST = pytest.mark.parametrize("lists", _LISTS)
_NOT_VALID = "The body is not a valid Arrow stream."


def _refusal(body: bytes) -> str:
    with pytest.raises(BadBatch) as refusal:
        decoded_sets(ARROW, body)
    return refusal.value.reason


def _packed(numbers: Sequence[int], size: int) -> bytes:
    return b"".join(number.to_bytes(size, "little", signed=True) for number in numbers)


def _replaced(body: bytes, old: bytes, new: bytes) -> bytes:
    assert body.count(old) == 1
    return body.replace(old, new)


def _with_offsets(lists: Any, offsets: Sequence[int]) -> bytes:
    """Three people with a, b; c; and d, e, f. Then other places for where each begins and ends."""
    body = arrow(pa.table({"keys": pa.array([_KEYS[:2], _KEYS[2:3], _KEYS[3:]], lists(pa.string()))}))
    size = _LISTS[lists]
    return _replaced(body, _packed([0, 2, 3, 6], size), _packed(offsets, size))


# Offsets


@_EACH_LIST
def test_offsets_tell_who_has_which_keys(lists: Any) -> None:
    for offsets in ([0, 2, 3, 6], [0, 1, 5, 6], [1, 2, 3, 4], [3, 4, 5, 6]):
        keys = [_KEYS[at:end] for at, end in pairwise(offsets)]
        assert decoded_sets(ARROW, _with_offsets(lists, offsets)) == [(None, each) for each in keys]


@_EACH_LIST
@pytest.mark.parametrize(
    "offsets",
    [
        *([0, 6, 0, 6], [0, 3, 2, 6], [6, 4, 2, 0], [0, 2, 3, 2]),  # one list begins inside another
        *([0, 2, 3, 7], [0, 2, 7, 6], [0, 2, 3, 2**31 - 1], [7, 8, 9, 10], [2**30, 2**30, 2**30, 2**30]),
        *([-1, 2, 3, 6], [0, -1, 3, 6], [-(2**31), 2, 3, 6], [0, 2, 3, -1], [-3, -2, -1, 0]),
    ],
)
def test_offsets_that_go_back_or_beyond_are_refused(lists: Any, offsets: Sequence[int]) -> None:
    assert _refusal(_with_offsets(lists, offsets)) == _NOT_VALID


@pytest.mark.parametrize("offsets", [[0, 2**62, -(2**62), 6], [0, 2, 3, 2**62], [-(2**63), 2, 3, 2**63 - 1]])
def test_differences_of_offsets_that_overflow_are_refused(offsets: Sequence[int]) -> None:
    assert _refusal(_with_offsets(pa.large_list, offsets)) == _NOT_VALID


def test_a_null_hides_what_its_offsets_show() -> None:
    lists = pa.ListArray.from_arrays([0, 2, 3], pa.array(["a", "b", "c"]), mask=pa.array([True, False]))
    with pytest.raises(BadBatch) as refusal:
        decoded_sets(ARROW, arrow(pa.table({"keys": lists})))
    assert refusal.value.items == [(0, "a set has at least one key.")]


# Lengths


@_EACH_LIST
@pytest.mark.parametrize("length", [1001, 2**31, 2**40, 2**62, 2**63 - 1])
def test_a_list_of_more_keys_than_allowed_is_refused_for_what_it_declares(lists: Any, length: int) -> None:
    body = arrow(pa.table({"keys": pa.array([_KEYS], lists(pa.string()))}))
    longer = _replaced(body, _packed([6, 0], 8), _packed([length, 0], 8))  # a FieldNode: length and nulls
    assert "at most 1000 keys in all its sets together" in _refusal(longer)


@pytest.mark.parametrize("length", [-1, -(2**63), 0, 5, 7, 1000])
def test_a_column_of_another_length_than_its_buffers_is_refused(length: int) -> None:
    body = arrow(pa.table({"keys": [_KEYS]}))
    assert _refusal(_replaced(body, _packed([6, 0], 8), _packed([length, 0], 8))) == _NOT_VALID


@_EACH_LIST
def test_the_keys_of_all_batches_are_counted_together(lists: Any) -> None:
    rows = pa.table({"keys": pa.array([["a"] * 300] * 4, lists(pa.string()))})
    assert "at most 1000 keys in all its sets together" in _refusal(arrow(rows, rows_each=1))
    assert len(decoded_sets(ARROW, arrow(rows, rows_each=1), max_items=1200)) == 4


# Types


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow would refuse too, but only after it has copied all that the schema refers to."""
    monkeypatch.setattr(pa.ipc, "open_stream", None)


def _nested(depth: int) -> Any:
    kind: Any = pa.string()
    for _ in range(depth):
        kind = pa.list_(kind)
    return kind


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize("depth", [2, 3, 20, 60])
def test_lists_in_lists_are_refused(depth: int) -> None:
    rows = pa.table({"keys": pa.array([None], _nested(depth))})
    assert _refusal(arrow(rows)) == USERS.types
    with pytest.raises(BadBatch) as refusal:
        decoded(ARROW, arrow(rows.rename_columns(["key"])))
    assert refusal.value.reason == EVENTS.types


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize("kind", [pa.list_view(pa.string()), pa.large_list_view(pa.string())], ids=str)
def test_list_views_are_refused_since_all_of_them_may_show_the_same_keys(kind: Any) -> None:
    rows = pa.array([_KEYS] * 9, kind)
    assert _refusal(arrow(pa.table({"keys": rows}))) == USERS.types


@pytest.mark.usefixtures("unread")
def test_a_dictionary_of_lists_is_refused() -> None:
    rows = pa.DictionaryArray.from_arrays(pa.array([0] * 9), pa.array([_KEYS]))
    assert _refusal(arrow(pa.table({"keys": rows}))) == USERS.types


@pytest.mark.usefixtures("unread")
def test_a_list_for_an_event_is_refused() -> None:
    with pytest.raises(BadBatch) as refusal:
        decoded(ARROW, arrow(pa.table({"key": [_KEYS]})))
    assert refusal.value.reason == EVENTS.types


# Time


def test_a_long_dictionary_is_read_once_though_many_batches_have_lists_of_it() -> None:
    dictionary = pa.array(["é" * 200 + str(number) for number in range(20_000)])  # eight megabytes
    keys = pa.DictionaryArray.from_arrays(pa.array(range(3000), pa.int32()), dictionary)
    rows = pa.table({"keys": pa.ListArray.from_arrays(pa.array(range(3001), pa.int32()), keys)})
    body = arrow(rows, rows_each=1)
    started = process_time()
    assert len(decoded_sets(ARROW, body, max_items=20_000, max_bytes=20_000_000)) == 3000
    assert process_time() - started < 3  # twelve, if it were validated with each


@pytest.mark.parametrize("in_lists", [True, False])
def test_views_of_one_long_text_are_counted_before_they_are_validated(in_lists: bool) -> None:
    text = ("é" * 2_500_000).encode()
    view = len(text).to_bytes(4, "little") + text[:4] + bytes(8)
    views = pa.Array.from_buffers(pa.string_view(), 20_000, [None, pa.py_buffer(view * 20_000), pa.py_buffer(text)])
    lists = pa.ListArray.from_arrays(pa.array([0, 20_000], pa.int32()), views)
    body = arrow(pa.table({"keys": lists} if in_lists else {"key": views}))
    decode: Any = decoded_sets if in_lists else decoded
    started = process_time()
    with pytest.raises(BodyTooLarge):
        decode(ARROW, body, max_items=20_000, max_bytes=10_000_000)
    assert process_time() - started < 1  # to validate them takes forty seconds


def test_a_view_of_a_length_below_zero_makes_no_room_for_others() -> None:
    text = b"x" * 900_000
    view = len(text).to_bytes(4, "little") + text[:4] + bytes(8)
    below = (-(2**31)).to_bytes(4, "little", signed=True) + bytes(12)
    views = pa.Array.from_buffers(pa.string_view(), 9, [None, pa.py_buffer(view * 8 + below), pa.py_buffer(text)])
    with pytest.raises(BodyTooLarge):
        decoded(ARROW, arrow(pa.table({"key": views})))
