"""What each content type may hold, and how a bad item is named."""

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from app.api import decoding
from app.api.decoding import decode_events, scan_events
from app.core.errors import BadBatch
from app.refusals import UnsupportedMediaType
from tests.api.decoding.bodies import (
    ARROW,
    CSV,
    ENCODERS,
    JSON,
    LINES,
    MAX_BYTES,
    MAX_ITEMS,
    NDJSON,
    PARQUET,
    WRITERS,
    arrow,
    as_json,
    decoded,
    parquet,
    table,
)

_ODD_KEYS = ["/home", "a,b", '"', "'", " x ", "\t", "€ 😀", "\0", "\u202e", "\u2028", "x" * 512, "null", "\ufeff"]
_TABLES = {PARQUET: parquet, ARROW: arrow}


def _bad(content_type: str, body: bytes) -> BadBatch:
    with pytest.raises(BadBatch) as refusal:
        decoded(content_type, body)
    return refusal.value


def _positions(content_type: str, body: bytes) -> list[int]:
    return [position for position, _ in _bad(content_type, body).items]


@pytest.mark.parametrize("encoding", ENCODERS)
@pytest.mark.parametrize("content_type", WRITERS)
def test_the_same_events_come_out_of_every_content_type_and_encoding(content_type: str, encoding: str) -> None:
    events = [(key, 1) for key in [*_ODD_KEYS, *_ODD_KEYS]]
    body = ENCODERS[encoding](WRITERS[content_type](events))
    assert decoded(content_type, body, encoding) == events


@pytest.mark.parametrize("content_type", [each for each in WRITERS if each != LINES])
def test_counts_and_line_breaks_survive_where_they_can_be_written(content_type: str) -> None:
    events = [("a\nb", 1), ("a\r\nb", 2**31 - 1), ("\n", 7), ("\r", 1)]
    assert decoded(content_type, WRITERS[content_type](events)) == events


@pytest.mark.parametrize("content_type", WRITERS)
def test_an_empty_batch_is_fine(content_type: str) -> None:
    assert decoded(content_type, WRITERS[content_type]([])) == []


@pytest.mark.parametrize("content_type", WRITERS)
def test_a_batch_of_just_as_many_items_as_allowed_is_taken_and_one_more_is_not(content_type: str) -> None:
    body = WRITERS[content_type]([("a", 1)] * 30)
    assert len(decoded(content_type, body, max_items=30)) == 30
    with pytest.raises(BadBatch, match="at most 29 items"):
        decoded(content_type, body, max_items=29)


@pytest.mark.parametrize("content_type", WRITERS)
def test_the_first_hundred_bad_items_are_named(content_type: str) -> None:
    body = WRITERS[content_type]([("good", 1), *[("x" * 513, 1)] * 150])
    refusal = _bad(content_type, body)
    assert [position for position, _ in refusal.items] == list(range(1, 101))
    assert str(refusal) == "Item 1: a key has 1 to 512 bytes of UTF-8. Nothing of the batch was counted."


@pytest.mark.parametrize("content_type", ["text/plain; charset=utf-8", 'Text/Plain;charset="UTF-8"', "text/plain; x=y"])
def test_a_content_type_may_say_utf8(content_type: str) -> None:
    assert decoded(content_type, b"a") == [("a", 1)]


@pytest.mark.parametrize("content_type", ["text/plain; charset=latin1", "text/csv; charset=", "", "text", "a/b; q=1"])
def test_other_charsets_and_types_are_refused_with_those_that_are_taken(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType, match=r"text/csv .*, in UTF-8"):
        decoded(content_type, b"key\na\n")


@pytest.mark.parametrize("content_type", [PARQUET, ARROW])
def test_without_pyarrow_the_answer_says_what_to_install(content_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UnsupportedMediaType, match=r"pip install 'discreet\[arrow\]'"):
        decoded(content_type, WRITERS[content_type]([("a", 1)]))


# Scanned before, in vain

_SCANNED = [JSON, NDJSON, LINES]


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The content types that were scanned, once for each time; every scanner gives up."""
    scanned: list[str] = []

    def scanner(content_type: str) -> Callable[[bytes, int], None]:
        return lambda _body, _most: scanned.append(content_type)

    monkeypatch.setattr(decoding, "_SCANNERS", {each: scanner(each) for each in _SCANNED})
    return scanned


def _decode(content_type: str, encoding: str, body: bytes, *, gave_up: bool) -> list[tuple[str, int]]:
    return decode_events(
        content_type, encoding, body, max_items=MAX_ITEMS, max_bytes=MAX_BYTES, scanner_gave_up=gave_up
    ).pairs()


@pytest.mark.parametrize("content_type", _SCANNED)
def test_what_a_scanner_gave_up_on_is_not_scanned_again(content_type: str, scans: list[str]) -> None:
    events = [("é", 1), ("b", 1)]
    body = WRITERS[content_type](events)
    assert scan_events(content_type, "", body, max_items=MAX_ITEMS) is None
    assert _decode(content_type, "", body, gave_up=True) == events
    assert scans == [content_type]
    assert _decode(content_type, "", body, gave_up=False) == events
    assert scans == [content_type] * 2


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "identity"])
@pytest.mark.parametrize("content_type", _SCANNED)
def test_what_an_encoding_hid_from_the_scanner_is_scanned_once(
    content_type: str, encoding: str, scans: list[str]
) -> None:
    body = ENCODERS[encoding](WRITERS[content_type]([("a", 1)]))
    assert scan_events(content_type, encoding, body, max_items=MAX_ITEMS) is None
    assert scans == []
    assert _decode(content_type, encoding, body, gave_up=True) == [("a", 1)]
    assert scans == [content_type]


# NDJSON


def test_an_ndjson_line_is_a_key_or_an_object() -> None:
    body = b'"a"\r\n{"key": "b"}\n {"count": 3, "key": "c"} \n"d"'
    assert decoded(NDJSON, body) == [("a", 1), ("b", 1), ("c", 3), ("d", 1)]


@pytest.mark.parametrize(
    "line",
    [
        *(
            b"",
            b" ",
            b"\r",
            b"a",
            b"7",
            b"null",
            b"[]",
            b'["a"]',
            b"{}",
            b'"a" "b"',
            b'{"key": "a"',
            b"NaN",
            b'"\\ud800"',
        ),
        *(b'{"key": "a", "person": "u"}', b'{"key": "a", "count": NaN}', b'{"key": "a", "count": "1"}'),
        *(b'"' + b"x" * 513 + b'"', b"[" * 5_000, b'{"key": "a", "count": ' + b"9" * 5000 + b"}"),
    ],
)
def test_a_bad_line_is_a_bad_item(line: bytes) -> None:
    assert _positions(NDJSON, b'"a"\n' + line + b'\n"b"\n') == [1]


def test_text_that_is_not_utf8_is_refused_whole() -> None:
    for content_type in (JSON, NDJSON, LINES, CSV):
        assert f"not valid UTF-8 {content_type}" in str(_bad(content_type, b'key\n"\xff"\n'))


# CSV


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"key\na\nb\n", [("a", 1), ("b", 1)]),
        (b"key\r\na\r\nb", [("a", 1), ("b", 1)]),
        (b"\xef\xbb\xbfkey,count\na,2\n", [("a", 2)]),
        (b'count,key\n007,"a,""b""\r\nc"\n', [("a,\"b\"\r\nc", 7)]),
        (b'"key"\n" a "\n', [(" a ", 1)]),
        (b"key\n", []),
        (b"key", []),
    ],
)  # fmt: skip
def test_csv_has_a_header_row_and_quotes(body: bytes, events: Sequence[tuple[str, int]]) -> None:
    assert decoded(CSV, body) == events


@pytest.mark.parametrize(
    "body", [b"", b"\n", b"a\nb\n", b"key,person\na,u\n", b"Key\na\n", b"key,key\na,a\n", b"count\n1\n", b'"key\na\n']
)
def test_csv_with_other_columns_is_refused_without_quoting_them(body: bytes) -> None:
    refusal = _bad(CSV, body)
    assert "leave the others out" in refusal.reason
    assert "person" not in refusal.reason


@pytest.mark.parametrize(
    "row",
    [
        *(b"", b"a", b"a,", b"a,0", b"a,-1", b"a,+1", b"a, 1", b"a,1_0", b"a,1.0", b"a,2147483648", b"a,1,"),
        *("a,\u0661".encode(), b",1", b"a," + b"9" * 5000, b"x" * 513 + b",1"),
    ],
)
def test_a_bad_row_is_a_bad_item(row: bytes) -> None:
    assert _positions(CSV, b"key,count\na,1\n" + row + b"\nb,1\n") == [1]


@pytest.mark.parametrize("row", [b'"a', b'"a"b', b"a\rb", b"x" * 5000, b"," * 5000, b'"' + b"\n" * 200_000 + b'"'])
def test_a_row_that_cannot_be_read_is_named_and_ends_the_reading(row: bytes) -> None:
    assert _positions(CSV, b'key\n""\na\n' + row + b"\n\n\n\n") == [0, 2]


# Parquet and Arrow

_KEY_TYPES = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.uint64(), pa.large_string()),
]


@pytest.mark.parametrize("content_type", _TABLES)
@pytest.mark.parametrize("kind", _KEY_TYPES, ids=str)
def test_keys_may_be_of_every_string_type(content_type: str, kind: Any) -> None:
    events = [("a", 1), ("b" * 100, 2), ("a", 3)]
    assert decoded(content_type, _TABLES[content_type](table(events, kind))) == events


@pytest.mark.parametrize("content_type", _TABLES)
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("sign", ["", "u"])
def test_counts_may_be_of_every_integer_type(content_type: str, bits: int, sign: str) -> None:
    counts = pa.array([1, 127], f"{sign}int{bits}")
    body = _TABLES[content_type](pa.table({"count": counts, "key": ["a", "b"]}))
    assert decoded(content_type, body) == [("a", 1), ("b", 127)]


@pytest.mark.parametrize("content_type", _TABLES)
def test_a_table_may_have_keys_alone(content_type: str) -> None:
    assert decoded(content_type, _TABLES[content_type](pa.table({"key": ["a", "b"]}))) == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("content_type", _TABLES)
@pytest.mark.parametrize("kind", _KEY_TYPES, ids=str)
def test_nulls_are_bad_items(content_type: str, kind: Any) -> None:
    keys = pa.array(["a", None, "b", "c"], kind)
    refusal = _bad(content_type, _TABLES[content_type](pa.table({"key": keys, "count": [1, 1, None, 0]})))
    assert [position for position, _ in refusal.items] == [1, 2, 3]
    assert "null" in refusal.items[0][1]
    assert "whole number" in refusal.items[1][1]


@pytest.mark.parametrize("content_type", _TABLES)
@pytest.mark.parametrize(
    "columns",
    [
        {"key": ["a"], "person": ["u"]},
        {"user": ["u"]},
        {"key": ["a"], "user": [1]},
        {"count": [1]},
        {"key": [b"a"]},
        {"key": [1]},
        {"key": [["a"]]},
        {"key": [{"key": "a"}]},
        {"key": ["a"], "count": [1.0]},
        {"key": ["a"], "count": ["1"]},
        {"key": ["a"], "count": [True]},
        {"key": ["a"], "count": pa.array([1], pa.timestamp("us"))},
        {"key": ["a"], "count": pa.array([1], pa.decimal128(5))},
        {f"key{index}": ["a"] for index in range(40)},
    ],
)
def test_other_columns_and_types_are_refused(content_type: str, columns: dict[str, Any]) -> None:
    refusal = _bad(content_type, _TABLES[content_type](pa.table(columns)))
    assert refusal.items == ()


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
@pytest.mark.parametrize("pages", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_parquet_may_be_written_in_the_usual_ways(codec: str, pages: str, dictionary: bool) -> None:
    events = [(f"key {index % 7}", index + 1) for index in range(500)]
    body = parquet(
        table(events),
        compression=codec,
        data_page_version=pages,
        use_dictionary=dictionary,
        row_group_size=90,
        data_page_size=100,
        store_schema=dictionary,
    )
    assert decoded(PARQUET, body) == events


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_parquet_encodings_that_can_grow_are_refused_with_those_that_are_taken(encoding: str) -> None:
    body = parquet(pa.table({"key": ["a"]}), use_dictionary=False, column_encoding={"key": encoding})
    assert "PLAIN and RLE_DICTIONARY" in str(_bad(PARQUET, body))


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
@pytest.mark.parametrize("kind", _KEY_TYPES, ids=str)
def test_an_arrow_stream_may_be_compressed_and_come_in_many_batches(codec: str | None, kind: Any) -> None:
    events = [(f"key {index % 7}" * 9, index + 1) for index in range(100)]
    assert decoded(ARROW, arrow(table(events, kind), rows_each=9, compression=codec)) == events


def test_an_arrow_stream_may_replace_its_dictionary_but_not_extend_it() -> None:
    arrays = [pa.array(keys).dictionary_encode() for keys in (["a", "b"], ["a", "b", "c"], ["d"])]
    chunks = pa.table({"key": pa.chunked_array(arrays)})
    assert decoded(ARROW, arrow(chunks)) == [(key, 1) for key in "ababcd"]
    assert "without dictionary deltas" in str(_bad(ARROW, arrow(chunks, emit_dictionary_deltas=True)))


def test_an_arrow_stream_may_end_without_its_end_mark_and_with_nothing_else() -> None:
    body = arrow(pa.table({"key": ["a"]}))
    assert decoded(ARROW, body[:-8]) == [("a", 1)]
    for broken in (body[:-9], body[:-4], body + b"x", body + body, b""):
        assert "not a valid Arrow stream" in str(_bad(ARROW, broken))


def test_a_refusal_of_a_table_quotes_nothing_of_it() -> None:
    body = parquet(pa.table({"key": ["secret"] * 9}), compression="none")
    refusal = _bad(PARQUET, body.replace(b"secret", b"\xff\xfe\xfd\xfc\xfb\xfa", 1))
    assert str(refusal) == "The body is not a valid Parquet file. Nothing of the batch was counted."
    assert refusal.__suppress_context__


def test_a_table_from_pandas_brings_its_metadata() -> None:
    metadata = {"pandas": json.dumps({"columns": ["key"] * 100})}
    whole = pa.table({"key": ["a"]}).replace_schema_metadata(metadata)
    assert decoded(ARROW, arrow(whole)) == decoded(PARQUET, parquet(whole)) == decoded(JSON, as_json([("a", 1)]))
