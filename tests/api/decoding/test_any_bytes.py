"""Strangers send these bytes: whatever they are, the answer is a batch or a refusal."""

from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.core.errors import Refusal
from tests.api.decoding.bodies import ARROW, ENCODERS, LINES, PARQUET, WRITERS, Events, arrow, decoded, parquet, table

_KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=100)
_EVENTS = st.lists(st.tuples(_KEYS, st.integers(1, 2**31 - 1)), max_size=20)
_CHANGES = st.lists(
    st.tuples(st.floats(0, 1), st.sampled_from(["set", "cut", "insert", "repeat"]), st.binary(min_size=1, max_size=8)),
    max_size=4,
)
_JSONISH = st.lists(st.sampled_from([*'{}[]",:\n\r\\', '"key"', '"count"', '"events"', "1", "NaN", "\\ud800", "é"]))

_BODIES = {content_type: [write] for content_type, write in WRITERS.items()}
_BODIES[PARQUET] += [
    lambda events: parquet(table(events), compression="zstd", data_page_version="2.0", row_group_size=3),
    lambda events: parquet(table(events), use_dictionary=False, compression="none"),
]
_BODIES[ARROW] += [
    lambda events: arrow(table(events, pa.string_view()), rows_each=3),
    lambda events: arrow(table(events, pa.dictionary(pa.int8(), pa.string())), compression="zstd", rows_each=7),
]


def _changed(body: bytes, changes: list[tuple[float, str, bytes]]) -> bytes:
    for where, how, what in changes:
        at = int(where * len(body))
        end = at if how in ("insert", "repeat") else at + len(what)
        piece = {"cut": b"", "repeat": body[: 8 * len(what)]}.get(how, what)
        body = body[:at] + piece + body[end:]
    return body


def _require_an_answer(content_type: str, encoding: str, body: bytes) -> None:
    with suppress(Refusal):
        events = decoded(content_type, body, encoding)
        assert all(1 <= len(key.encode()) <= 512 and 1 <= count < 2**31 for key, count in events)


@pytest.mark.parametrize("content_type", WRITERS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), events=_EVENTS, encoding=st.sampled_from(list(ENCODERS)), inside=_CHANGES, outside=_CHANGES)
def test_a_changed_batch_is_taken_or_refused(
    content_type: str,
    data: st.DataObject,
    events: Events,
    encoding: str,
    inside: list[tuple[float, str, bytes]],
    outside: list[tuple[float, str, bytes]],
) -> None:
    write = data.draw(st.sampled_from(_BODIES[content_type]))
    body = _changed(write(events), inside)
    _require_an_answer(content_type, encoding, _changed(ENCODERS[encoding](body), outside))


@settings(max_examples=100, deadline=None)
@given(
    content_type=st.sampled_from(list(WRITERS)) | st.text(),
    encoding=st.sampled_from(list(ENCODERS)) | st.text(),
    body=st.binary(max_size=200) | _JSONISH.map(lambda parts: "".join(parts).encode()),
    is_packed=st.booleans(),
)
def test_any_headers_and_bytes_are_taken_or_refused(
    content_type: str, encoding: str, body: bytes, is_packed: bool
) -> None:
    _require_an_answer(content_type, encoding, ENCODERS.get(encoding, bytes)(body) if is_packed else body)


@pytest.mark.parametrize("content_type", [each for each in WRITERS if each != LINES])
@settings(max_examples=20, deadline=None)
@given(events=_EVENTS, encoding=st.sampled_from(list(ENCODERS)))
def test_what_went_in_comes_out(content_type: str, events: Events, encoding: str) -> None:
    assert decoded(content_type, ENCODERS[encoding](WRITERS[content_type](events)), encoding) == events
