"""One row of a table is one person: a list column of their keys and, where people are named, a column of users."""

from typing import Any

import pyarrow as pa
import pytest

from app.api.decoding.items import UserSet
from app.api.decoding.shapes import USERS, WHOLE_PEOPLE
from app.core.errors import BadBatch
from tests.api.decoding.bodies import ARROW, CSV, LINES, PARQUET, arrow, decoded_sets, parquet, set_table

_KINDS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
_TABLES = {PARQUET: parquet, ARROW: arrow}
_EACH_TABLE = pytest.mark.parametrize("content_type", _TABLES)
_BAD_USER = "a user has 1 to 512 bytes of UTF-8."
_SETS: list[UserSet] = [("u", ["a", "b", "a"]), ("€ 😀", ["\0", "x" * 512, "null", "\r\n"]), ("v", ["a"])]


def _refusal(content_type: str, body: bytes) -> BadBatch:
    with pytest.raises(BadBatch) as refusal:
        decoded_sets(content_type, body)
    return refusal.value


# What is taken


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


# What is refused


def test_bad_rows_are_named_by_their_place_in_the_table() -> None:
    sets = [["a"], ["a"], ["b", None], [""], None, [], ["a", "x" * 513], ["c"]]
    rows = pa.table({"user": ["u", None, "v", "w", "x", "y", "z", ""], "keys": sets})
    details = [
        (1, _BAD_USER),
        (2, "a key must not be null."),
        (3, "a key has 1 to 512 bytes of UTF-8."),
        (4, "a set has at least one key."),
        (5, "a set has at least one key."),
        (6, "a key has 1 to 512 bytes of UTF-8."),
        (7, _BAD_USER),
    ]
    for each in ({}, {"row_group_size": 3}, {"data_page_version": "2.0"}):
        assert _refusal(PARQUET, parquet(rows, **each)).items == details
    for batch in (None, 3):
        assert _refusal(ARROW, arrow(rows, rows_each=batch)).items == details


@_EACH_TABLE
@pytest.mark.parametrize("bad", [None, [], [None], [""]])
def test_the_first_hundred_bad_sets_are_named(content_type: str, bad: Any) -> None:
    rows = pa.table({"keys": pa.array([["a"], *[bad] * 150], pa.list_(pa.string()))})
    assert [place for place, _ in _refusal(content_type, _TABLES[content_type](rows)).items] == list(range(1, 101))


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
    assert _refusal(content_type, _TABLES[content_type](rows)).reason == WHOLE_PEOPLE


@pytest.mark.parametrize("body", [b"", b"user,key\nu,a\n", b"keys\na\n", b"a\n", b"\xff"])
@pytest.mark.parametrize("content_type", [CSV, LINES, "text/plain; charset=utf-8", "Text/CSV"])
def test_rows_and_lines_are_refused_with_how_to_send_them(content_type: str, body: bytes) -> None:
    assert _refusal(content_type, body).reason == WHOLE_PEOPLE
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
    refusal = _refusal(content_type, _TABLES[content_type](rows))
    is_list_there = content_type == PARQUET and kind in _LISTS_OF_OTHER_KINDS[:3]
    assert refusal.reason == ("Item 0: a set has at least one key." if is_list_there else USERS.types)


@_EACH_TABLE
@pytest.mark.parametrize("user", [1, b"u", ["u"], {"user": "u"}])
def test_users_beside_their_sets_have_texts(content_type: str, user: Any) -> None:
    rows = pa.table({"user": [user], "keys": [["a"]]})
    assert _refusal(content_type, _TABLES[content_type](rows)).reason == USERS.types
