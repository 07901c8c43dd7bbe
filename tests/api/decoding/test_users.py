"""Who is named in an event, and one person's set of keys: what each content type may hold."""

import json
from typing import Any

import pyarrow as pa
import pytest

from app.api.decoding.items import UserSet
from app.core import kernel
from app.core.errors import BadBatch
from app.refusals import UnsupportedMediaType
from tests.api.decoding.bodies import (
    ARROW,
    CSV,
    ENCODERS,
    JSON,
    LINES,
    NDJSON,
    PARQUET,
    SET_WRITERS,
    WRITERS,
    arrow,
    decoded,
    decoded_sets,
    decoded_users,
    parquet,
    table,
)

_ODD_TEXTS = ["u", "a,b", '"' * 512, "\n", "\r\n", "\t", "€ 😀", "\0", "\u2028", "x" * 512, "null", "\ufeff"]
_BAD_USERS: list[Any] = [None, "", "x" * 513, 7, [], {}, True, "\ud800"]
_KINDS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
_TABLES = {PARQUET: parquet, ARROW: arrow}
_SENTENCE = "a user has 1 to 512 bytes of UTF-8."
_EACH_TABLE = pytest.mark.parametrize("content_type", _TABLES)


def _bad(content_type: str, body: bytes) -> BadBatch:
    with pytest.raises(BadBatch) as refusal:
        decoded(content_type, body)
    return refusal.value


def _bad_sets(content_type: str, body: bytes) -> BadBatch:
    with pytest.raises(BadBatch) as refusal:
        decoded_sets(content_type, body)
    return refusal.value


# Events


@pytest.mark.parametrize("encoding", ENCODERS)
@pytest.mark.parametrize("content_type", [each for each in WRITERS if each != LINES])
def test_the_same_users_come_out_of_every_content_type_and_encoding(content_type: str, encoding: str) -> None:
    events = [(key, count + 1) for count, key in enumerate(_ODD_TEXTS)]
    users = _ODD_TEXTS[::-1]
    body = ENCODERS[encoding](WRITERS[content_type](events, users))
    assert decoded(content_type, body, encoding) == events
    assert decoded_users(content_type, body, encoding) == users


@pytest.mark.parametrize("native", [False, kernel.NATIVE])
@pytest.mark.parametrize("content_type", [JSON, NDJSON])
def test_some_events_may_name_a_user_and_others_not(
    content_type: str, native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "NATIVE", native)
    users = [None, "u", None, None, "v", "u"]
    body = WRITERS[content_type]([("a", 1)] * 6, users)
    assert decoded_users(content_type, body) == users


@pytest.mark.parametrize("content_type", WRITERS)
def test_nobody_need_be_named(content_type: str) -> None:
    assert decoded_users(content_type, WRITERS[content_type]([("a", 1), ("b", 1)])) == [None, None]


@pytest.mark.parametrize("user", _BAD_USERS)
def test_a_bad_user_is_a_bad_item(user: Any) -> None:
    items = [{"key": "a", "user": "u"}, {"key": "a", "user": user}, "a"]
    lines = b"\n".join(json.dumps(item).encode() for item in items)
    for refusal in (_bad(JSON, json.dumps({"events": items}).encode()), _bad(NDJSON, lines)):
        ((position, detail),) = refusal.items
        assert position == 1
        assert detail == (_SENTENCE if user != "\ud800" else "a user must be valid Unicode, without lone surrogates.")


def test_a_bad_user_is_a_bad_row() -> None:
    assert _bad(CSV, b"key,user\na,u\nb,\n").items == [(1, _SENTENCE)]
    assert _bad(CSV, b"user,key\n" + b"x" * 513 + b",a\nu,\n").items == [
        (0, _SENTENCE),
        (1, "a key has 1 to 512 bytes of UTF-8."),
    ]
    assert _bad(CSV, b"user,key\nu\n").items == [(0, "a row must have a cell for each column of the header row.")]


@_EACH_TABLE
@pytest.mark.parametrize("kind", _KINDS, ids=str)
def test_users_may_be_of_every_string_type_and_not_null(content_type: str, kind: Any) -> None:
    events = [("a", 1), ("b" * 100, 2), ("a", 3)]
    write = _TABLES[content_type]
    assert decoded_users(content_type, write(table(events, kind, ["u", "v" * 100, "u"]))) == ["u", "v" * 100, "u"]
    refusal = _bad(content_type, write(table(events, kind, ["u", None, ""])))
    assert refusal.items == [(1, _SENTENCE), (2, _SENTENCE)]


def test_keys_and_users_may_each_have_a_dictionary_in_many_batches() -> None:
    events = [(f"key {index % 7}", 1) for index in range(100)]
    users = [f"user {index % 11}" for index in range(100)]
    whole = table(events, pa.dictionary(pa.int8(), pa.string()), users)
    for content_type, body in ((ARROW, arrow(whole, rows_each=9)), (PARQUET, parquet(whole, row_group_size=9))):
        assert decoded(content_type, body) == events
        assert decoded_users(content_type, body) == users


@pytest.mark.parametrize("columns", [{"user": [b"u"]}, {"user": [1]}, {"user": [["u"]]}, {"User": ["u"]}], ids=str)
@_EACH_TABLE
def test_a_column_of_users_has_texts(content_type: str, columns: dict[str, Any]) -> None:
    assert _bad(content_type, _TABLES[content_type](pa.table({"key": ["a"], **columns}))).items == ()


# Sets of keys

_SETS: list[UserSet] = [("u", ["a", "b", "a"]), ("v", _ODD_TEXTS), *((user, ["a"]) for user in _ODD_TEXTS[1:])]


@pytest.mark.parametrize("encoding", ENCODERS)
@pytest.mark.parametrize("content_type", SET_WRITERS)
def test_the_same_sets_come_out_of_every_content_type_and_encoding(content_type: str, encoding: str) -> None:
    assert decoded_sets(content_type, ENCODERS[encoding](SET_WRITERS[content_type](_SETS)), encoding) == _SETS


@pytest.mark.parametrize("content_type", SET_WRITERS)
def test_nobody_is_fine(content_type: str) -> None:
    assert decoded_sets(content_type, SET_WRITERS[content_type]([])) == []


def test_a_set_need_not_say_whose_it_is() -> None:
    document = b'{"users": [["a", "b"], {"user": "u1", "keys": ["c"]}, {"keys": ["d", "d"]}]}'
    sets = [(None, ["a", "b"]), ("u1", ["c"]), (None, ["d", "d"])]
    assert decoded_sets(JSON, document) == sets
    assert decoded_sets(NDJSON, b'["a", "b"]\r\n{"user": "u1", "keys": ["c"]}\n {"keys": ["d", "d"]}') == sets


_NO_SET = 'an item is the keys of one person: [string, …] or {"user": string, "keys": [string, …]}.'


@pytest.mark.parametrize(
    ("item", "detail"),
    [
        *(([], "a set has at least one key."), ({"keys": []}, "a set has at least one key.")),
        *((item, _NO_SET) for item in ("a", 7, None, {}, {"user": "u"}, {"user": "u", "key": "a"}, {"keys": "a"})),
        *((item, _NO_SET) for item in ([["a"]], [1], ["a", None], {"keys": ["a", {}]}, {"keys": ["a"], "count": 1})),
        *((keys, "a key has 1 to 512 bytes of UTF-8.") for keys in (["a", ""], ["x" * 513], {"keys": [""]})),
        (["\ud800"], "a key must be valid Unicode, without lone surrogates."),
        *(({"user": user, "keys": ["a"]}, _SENTENCE) for user in _BAD_USERS[:-1]),
        ({"user": "\ud800", "keys": ["a"]}, "a user must be valid Unicode, without lone surrogates."),
    ],
)
def test_a_bad_set_is_a_bad_item(item: Any, detail: str) -> None:
    items = [["a"], item, ["b"]]
    lines = b"\n".join(json.dumps(each).encode() for each in items)
    assert _bad_sets(JSON, json.dumps({"users": items}).encode()).items == [(1, detail)]
    assert _bad_sets(NDJSON, lines).items == [(1, detail)]


def test_a_line_that_is_no_json_is_a_bad_item_among_sets() -> None:
    assert [position for position, _ in _bad_sets(NDJSON, b'["a"]\n\n["a"\n[NaN]\n["b"]\n').items] == [1, 2, 3]


# The wrong shape


def test_each_kind_of_sketch_says_which_shape_it_takes() -> None:
    assert 'A sketch of events takes {"events": [ … ]}' in str(_bad(JSON, b'{"users": [["a"]]}'))
    assert 'A sketch of users takes {"users": [ … ]}' in str(_bad_sets(JSON, b'{"events": ["a"]}'))
    for body in (b'{"users": [["a"]], "events": ["a"]}', b'{"users": {}}', b"[]", b'"users"', b"{}"):
        assert "A sketch of users takes" in str(_bad_sets(JSON, body))
        assert "A sketch of events takes" in str(_bad(JSON, body))
    assert "an event is a string" in str(_bad(NDJSON, b'["a"]'))
    assert "an item is the keys of one person" in str(_bad_sets(NDJSON, b'"a"'))


def test_other_types_and_bytes_are_refused_for_sets_too() -> None:
    with pytest.raises(UnsupportedMediaType):
        decoded_sets("text/html", b"")
    for content_type in (JSON, NDJSON):
        assert f"not valid UTF-8 {content_type}" in str(_bad_sets(content_type, b'user,key\n"\xff"\n'))
