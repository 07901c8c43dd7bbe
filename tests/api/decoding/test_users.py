"""Who is named in an event, and one person's set of keys: what each content type may hold."""

import json
from typing import Any

import pyarrow as pa
import pytest

from app.api.decoding.forms import USERS, WHOLE_PEOPLE
from app.api.decoding.items import UserSet
from app.core import kernel
from app.core.errors import BadBatch, UnsupportedMediaType
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
    set_table,
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


@_EACH_TABLE
@pytest.mark.parametrize("lists", [pa.list_, pa.large_list])
@pytest.mark.parametrize("kind", _KINDS, ids=str)
def test_sets_may_be_lists_of_every_string_type(content_type: str, kind: Any, lists: Any) -> None:
    assert decoded_sets(content_type, _TABLES[content_type](set_table(_SETS, kind, lists))) == _SETS


@_EACH_TABLE
def test_a_row_is_a_person_who_need_not_be_named(content_type: str) -> None:
    """Also where somebody comes twice: it is the allowance, not the reader, that knows who has been counted."""
    write = _TABLES[content_type]
    assert decoded_sets(content_type, write(pa.table({"keys": [["b", "a"], ["c"]]}))) == [
        (None, ["b", "a"]),
        (None, ["c"]),
    ]
    twice = pa.table({"user": ["u", "v", "u"], "keys": [["a"], ["b"], ["c", "a"]]})
    sets = [("u", ["a"]), ("v", ["b"]), ("u", ["c", "a"])]
    assert decoded_sets(content_type, write(twice)) == sets
    assert decoded_sets(content_type, write(twice.select(["keys", "user"]))) == sets


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
@pytest.mark.parametrize("pages", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_parquet_of_sets_may_be_written_in_the_usual_ways(codec: str, pages: str, dictionary: bool) -> None:
    sets = [(f"u{row % 5}", [f"key {row % 7}", *(f"{key}" for key in range(row % 3))]) for row in range(400)]
    body = parquet(
        set_table(sets),
        compression=codec,
        data_page_version=pages,
        use_dictionary=dictionary,
        use_compliant_nested_type=dictionary,
        row_group_size=90,
        data_page_size=100,
        store_schema=dictionary,
    )
    assert decoded_sets(PARQUET, body) == sets


def test_a_dictionary_of_parquet_may_end_where_it_grew_too_long() -> None:
    sets = [(f"u{row}", [f"{row}", f"{row}" * 9]) for row in range(400)]
    assert decoded_sets(PARQUET, parquet(set_table(sets), dictionary_pagesize_limit=500, data_page_size=700)) == sets


@_EACH_TABLE
@pytest.mark.parametrize("is_null", [(False, False, False), (True, False, False), (False, True, True)])
def test_what_may_be_null_need_not_be_declared_so(content_type: str, is_null: tuple[bool, bool, bool]) -> None:
    user, keys, key = is_null
    kind = pa.list_(pa.field("item", pa.string(), nullable=key))
    fields = [pa.field("user", pa.string(), nullable=user), pa.field("keys", kind, nullable=keys)]
    rows = pa.table([["u", "v"], [["a", "b"], ["c"]]], pa.schema(fields))
    assert decoded_sets(content_type, _TABLES[content_type](rows)) == [("u", ["a", "b"]), ("v", ["c"])]


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
@pytest.mark.parametrize("kind", _KINDS, ids=str)
def test_an_arrow_stream_of_sets_may_be_compressed_and_come_in_many_batches(codec: str | None, kind: Any) -> None:
    sets = [(f"u{row % 5}", [f"key {row % 7}" * 9, *(f"{key}" for key in range(row % 3))]) for row in range(100)]
    assert decoded_sets(ARROW, arrow(set_table(sets, kind), rows_each=9, compression=codec)) == sets


def test_a_cut_out_of_a_table_is_read_as_what_it_shows() -> None:
    whole = pa.table({"keys": [["x" * number] for number in range(1, 30)]})
    assert decoded_sets(ARROW, arrow(whole.slice(10, 2))) == [(None, ["x" * 11]), (None, ["x" * 12])]
    assert decoded_sets(ARROW, arrow(whole.slice(10, 0))) == []
    assert decoded_sets(PARQUET, parquet(whole.slice(10, 2))) == [(None, ["x" * 11]), (None, ["x" * 12])]


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


def test_bad_rows_are_named_by_their_place_in_the_table() -> None:
    sets = [["a"], ["a"], ["b", None], [""], None, [], ["a", "x" * 513], ["c"]]
    rows = pa.table({"user": ["u", None, "v", "w", "x", "y", "z", ""], "keys": sets})
    details = [
        (1, _SENTENCE),
        (2, "a key must not be null."),
        (3, "a key has 1 to 512 bytes of UTF-8."),
        (4, "a set has at least one key."),
        (5, "a set has at least one key."),
        (6, "a key has 1 to 512 bytes of UTF-8."),
        (7, _SENTENCE),
    ]
    for each in ({}, {"row_group_size": 3}, {"data_page_version": "2.0"}):
        assert _bad_sets(PARQUET, parquet(rows, **each)).items == details
    for batch in (None, 3):
        assert _bad_sets(ARROW, arrow(rows, rows_each=batch)).items == details


@_EACH_TABLE
@pytest.mark.parametrize("bad", [None, [], [None], [""]])
def test_the_first_hundred_bad_sets_are_named(content_type: str, bad: Any) -> None:
    rows = pa.table({"keys": pa.array([["a"], *[bad] * 150], pa.list_(pa.string()))})
    assert [place for place, _ in _bad_sets(content_type, _TABLES[content_type](rows)).items] == list(range(1, 101))


_COLUMNS: dict[str, Any] = {"count": [1], "keys": [["a"]], "Keys": [["a"]], "tags": [["a"]]}


@_EACH_TABLE
@pytest.mark.parametrize(
    "names",
    [
        *(["key"], ["user"], ["user", "key"], ["key", "user"], ["user", "key", "count"], ["users", "keys"]),
        *(["user", "keys", "key"], ["user", "keys", "count"], ["user", "Keys"], ["user", "keys", "tags"], ["tags"]),
    ],
)
def test_a_table_of_users_has_a_list_column_and_its_refusal_says_how_to_send_rows(
    content_type: str, names: list[str]
) -> None:
    rows = pa.table({name: _COLUMNS.get(name, ["a"]) for name in names})
    assert _bad_sets(content_type, _TABLES[content_type](rows)).reason == WHOLE_PEOPLE


@pytest.mark.parametrize("body", [b"", b"user,key\nu,a\n", b"keys\na\n", b"a\n", b"\xff"])
@pytest.mark.parametrize("content_type", [CSV, LINES, "text/plain; charset=utf-8", "Text/CSV"])
def test_rows_and_lines_are_refused_with_how_to_send_them(content_type: str, body: bytes) -> None:
    assert _bad_sets(content_type, body).reason == WHOLE_PEOPLE
    for word in ('{"user": …, "keys": […]}', "NDJSON", "a list column keys", "sort them by user", "`discreet ingest`"):
        assert word in WHOLE_PEOPLE


_LISTS_OF_OTHER_KINDS = [
    pa.list_view(pa.string()),
    pa.large_list_view(pa.string()),
    pa.list_(pa.string(), 1),
    pa.list_(pa.list_(pa.string())),
    pa.list_(pa.struct([("key", pa.string())])),
    pa.struct([("key", pa.string())]),
    pa.map_(pa.string(), pa.string()),
    pa.list_(pa.int32()),
    pa.list_(pa.binary()),
    pa.list_(pa.dictionary(pa.int8(), pa.binary())),
    pa.list_(pa.null()),
    pa.string(),
    pa.null(),
]


@_EACH_TABLE
@pytest.mark.parametrize("kind", _LISTS_OF_OTHER_KINDS, ids=str)
def test_keys_of_other_types_are_refused(content_type: str, kind: Any) -> None:
    """But Parquet has lists alone: a list view, or one of fixed length, is written as a list."""
    rows = pa.table({"keys": pa.array([None], kind)})
    refusal = _bad_sets(content_type, _TABLES[content_type](rows))
    is_list_there = content_type == PARQUET and kind in _LISTS_OF_OTHER_KINDS[:3]
    assert refusal.reason == ("Item 0: a set has at least one key." if is_list_there else USERS.types)


@_EACH_TABLE
@pytest.mark.parametrize("user", [1, b"u", ["u"], {"user": "u"}])
def test_users_beside_their_sets_have_texts(content_type: str, user: Any) -> None:
    rows = pa.table({"user": [user], "keys": [["a"]]})
    assert _bad_sets(content_type, _TABLES[content_type](rows)).reason == USERS.types


# The wrong form


def test_each_kind_of_sketch_says_which_form_it_takes() -> None:
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
