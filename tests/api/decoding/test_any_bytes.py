"""Strangers send these bytes: whatever they are, the answer is a batch or a refusal."""

import json
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.api.decoding.items import UserSet
from app.core.errors import Refusal
from tests.api.decoding.bodies import (
    ARROW,
    ENCODERS,
    LINES,
    MAX_ITEMS,
    PARQUET,
    SET_WRITERS,
    WRITERS,
    Events,
    arrow,
    decoded,
    decoded_sets,
    decoded_users,
    parquet,
    set_table,
    table,
)

_KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=100)
_EVENTS = st.lists(st.tuples(_KEYS, st.integers(1, 2**31 - 1)), max_size=20)
_USERS: st.SearchStrategy[list[str]] = st.lists(_KEYS, min_size=20, max_size=20) | st.just([])
_SETS = st.lists(st.tuples(_KEYS, st.lists(_KEYS, min_size=1, max_size=5)), max_size=8, unique_by=lambda each: each[0])
_CHANGES = st.lists(
    st.tuples(st.floats(0, 1), st.sampled_from(["set", "cut", "insert", "repeat"]), st.binary(min_size=1, max_size=8)),
    max_size=4,
)
_WORDS = ['"key"', '"count"', '"events"', '"user"', '"users"', '"keys"', "1", "null", "NaN", "\\ud800", "é"]
_JSONISH = st.lists(st.sampled_from([*'{}[]",:\n\r\\', *_WORDS]))
_DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | _KEYS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["key", "count", "user", "users", "keys", "events"]), inner, max_size=3)
    ),
    max_leaves=8,
)
_WRITTEN = _DOCUMENTS.map(lambda document: json.dumps(document).encode())

_DICTIONARY = pa.dictionary(pa.int8(), pa.string())
_BODIES: dict[str, list[Any]] = {content_type: [write] for content_type, write in WRITERS.items()}
_BODIES[PARQUET] += [
    lambda events, users: parquet(
        table(events, users=users), compression="zstd", data_page_version="2.0", row_group_size=3
    ),
    lambda events, users: parquet(table(events, users=users), use_dictionary=False, compression="none"),
]
_BODIES[ARROW] += [
    lambda events, users: arrow(table(events, pa.string_view(), users), rows_each=3),
    lambda events, users: arrow(table(events, _DICTIONARY, users), compression="zstd", rows_each=7),
]
_SET_BODIES: dict[str, list[Any]] = {content_type: [write] for content_type, write in SET_WRITERS.items()}
_SET_BODIES[PARQUET] += [
    lambda sets: parquet(set_table(sets), compression="zstd", data_page_version="2.0", row_group_size=3),
    lambda sets: parquet(set_table(sets), use_dictionary=False, compression="none", store_schema=False),
]
_SET_BODIES[ARROW] += [
    lambda sets: arrow(set_table(sets, pa.string_view(), pa.large_list), rows_each=3),
    lambda sets: arrow(set_table(sets, _DICTIONARY), compression="zstd", rows_each=7),
]

Changes = list[tuple[float, str, bytes]]


def _changed(body: bytes, changes: Changes) -> bytes:
    for where, how, what in changes:
        at = int(where * len(body))
        end = at if how in ("insert", "repeat") else at + len(what)
        piece = {"cut": b"", "repeat": body[: 8 * len(what)]}.get(how, what)
        body = body[:at] + piece + body[end:]
    return body


def _require_an_answer(content_type: str, encoding: str, body: bytes) -> None:
    with suppress(Refusal):
        events = decoded(content_type, body, encoding)
        users = decoded_users(content_type, body, encoding)
        assert all(_is_fine(key) and 1 <= count < 2**31 for key, count in events)
        assert all(user is None or _is_fine(user) for user in users)
        assert len(users) == len(events)


def _require_sets(content_type: str, encoding: str, body: bytes) -> None:
    with suppress(Refusal):
        sets = decoded_sets(content_type, body, encoding)
        assert all(user is None or _is_fine(user) for user, _ in sets)
        assert all(keys and all(map(_is_fine, keys)) for _, keys in sets)
        assert sum(len(keys) for _, keys in sets) <= MAX_ITEMS


def _is_fine(text: str) -> bool:
    return 1 <= len(text.encode()) <= 512


@pytest.mark.parametrize("content_type", WRITERS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    data=st.data(),
    events=_EVENTS,
    users=_USERS,
    encoding=st.sampled_from(list(ENCODERS)),
    inside=_CHANGES,
    outside=_CHANGES,
)
def test_a_changed_batch_is_taken_or_refused(
    content_type: str,
    data: st.DataObject,
    events: Events,
    users: list[str],
    encoding: str,
    inside: Changes,
    outside: Changes,
) -> None:
    write = data.draw(st.sampled_from(_BODIES[content_type]))
    body = _changed(write(events, users[: len(events)]), inside)
    _require_an_answer(content_type, encoding, _changed(ENCODERS[encoding](body), outside))


@pytest.mark.parametrize("content_type", SET_WRITERS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), sets=_SETS, inside=_CHANGES)
def test_a_changed_batch_of_sets_is_taken_or_refused(
    content_type: str, data: st.DataObject, sets: list[UserSet], inside: Changes
) -> None:
    write = data.draw(st.sampled_from(_SET_BODIES[content_type]))
    body = _changed(write(sets), inside)
    _require_sets(content_type, "", body)
    _require_an_answer(content_type, "", body)


@settings(max_examples=100, deadline=None)
@given(
    content_type=st.sampled_from(list(WRITERS)) | st.text(),
    encoding=st.sampled_from(list(ENCODERS)) | st.text(),
    body=st.binary(max_size=200) | _JSONISH.map(lambda parts: "".join(parts).encode()) | _WRITTEN,
    is_packed=st.booleans(),
)
def test_any_headers_and_bytes_are_taken_or_refused(
    content_type: str, encoding: str, body: bytes, is_packed: bool
) -> None:
    packed = ENCODERS.get(encoding, bytes)(body) if is_packed else body
    _require_an_answer(content_type, encoding, packed)
    _require_sets(content_type, encoding, packed)


@settings(max_examples=200, deadline=None)
@given(
    content_type=st.sampled_from(["application/json", "application/x-ndjson"]),
    items=st.lists(_DOCUMENTS, max_size=3),
    member=st.sampled_from(["events", "users"]),
)
def test_any_items_are_taken_or_refused(content_type: str, items: list[Any], member: str) -> None:
    document = {member: items}
    whole = [document] if content_type == "application/json" else items
    body = b"\n".join(json.dumps(each).encode() for each in whole)
    _require_an_answer(content_type, "", body)
    _require_sets(content_type, "", body)


@pytest.mark.parametrize("content_type", [each for each in WRITERS if each != LINES])
@settings(max_examples=20, deadline=None)
@given(events=_EVENTS, users=_USERS, encoding=st.sampled_from(list(ENCODERS)))
def test_what_went_in_comes_out(content_type: str, events: Events, users: list[str], encoding: str) -> None:
    body = ENCODERS[encoding](WRITERS[content_type](events, users[: len(events)]))
    assert decoded(content_type, body, encoding) == events
    assert decoded_users(content_type, body, encoding) == [users[at] if users else None for at in range(len(events))]


@pytest.mark.parametrize("content_type", SET_WRITERS)
@settings(max_examples=20, deadline=None)
@given(sets=_SETS, encoding=st.sampled_from(list(ENCODERS)))
def test_the_sets_that_went_in_come_out(content_type: str, sets: list[UserSet], encoding: str) -> None:
    assert decoded_sets(content_type, ENCODERS[encoding](SET_WRITERS[content_type](sets)), encoding) == sets
