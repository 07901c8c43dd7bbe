"""Batches: what is taken, what is refused whole."""

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.usecases.context import Context
from tests import books
from tests.api.calls import create_sketch, post_events, problem

_PATH = "/v1/sketches/views/events"


@pytest.fixture(autouse=True)
def _sketch(client: TestClient) -> None:
    create_sketch(client)


def _send(client: TestClient, body: bytes, content_type: str = "application/json") -> Any:
    return client.post(_PATH, content=body, headers={"Content-Type": content_type})


def test_json_events_may_carry_counts(client: TestClient, context: Context) -> None:
    answer = post_events(client, ["a", {"key": "b"}, {"key": "a", "count": 2**31 - 1}])
    assert answer.json() == {"accepted": 2 + 2**31 - 1}
    assert books.counters(context.database) == {"a": 2**31, "b": 1}


def test_text_has_one_key_per_line(client: TestClient, context: Context) -> None:
    body = "a\nb c\r\n\u20ac \U0001f600\na".encode()
    assert _send(client, body, "text/plain; charset=utf-8").json() == {"accepted": 4}
    assert books.counters(context.database) == {"a": 2, "b c": 1, "\u20ac \U0001f600": 1}


def test_an_empty_batch_is_fine(client: TestClient) -> None:
    assert post_events(client, []).json() == {"accepted": 0}
    assert _send(client, b"", "text/plain").json() == {"accepted": 0}


@pytest.mark.parametrize("key", ["\0", "a\0b", "'; DROP TABLE sketches", "\u202e", "x" * 512, "\U0010ffff" * 128])
def test_odd_keys_are_kept_as_they_are(client: TestClient, context: Context, key: str) -> None:
    post_events(client, [{"key": key, "count": 100_000}])
    assert books.counters(context.database) == {key: 100_000}
    snapshot = client.post("/v1/sketches/views/snapshots", json={"epsilon": 1, "delta": "1e-6"}).json()
    assert [bar["key"] for bar in snapshot["histogram"]] == [key]
    for media_type in ("text/csv", "image/svg+xml"):
        assert client.get("/v1/sketches/views/histogram", headers={"Accept": media_type}).status_code == 200


@pytest.mark.parametrize(
    ("item", "word"),
    [
        ("", "1 to 512 bytes"),
        ("x" * 513, "1 to 512 bytes"),
        ("\u20ac" * 171, "1 to 512 bytes"),
        (7, "string"),
        (None, "string"),
        (["a"], "string"),
        ({}, "string"),
        ({"key": "a", "extra": 1}, "string"),
        ({"key": 7}, "string"),
        ({"key": "a", "count": 0}, "whole number"),
        ({"key": "a", "count": 2**31}, "whole number"),
        ({"key": "a", "count": 1.5}, "whole number"),
        ({"key": "a", "count": True}, "whole number"),
        ({"key": "a", "count": "1"}, "whole number"),
    ],
)
def test_one_bad_item_refuses_the_whole_batch(client: TestClient, context: Context, item: Any, word: str) -> None:
    answer = post_events(client, ["good", item, "good"])
    assert answer.status_code == 400
    assert problem(answer) == "bad-batch"
    (fault,) = answer.json()["errors"]
    assert fault["position"] == 1
    assert word in fault["detail"]
    assert books.counters(context.database) == {}


def test_a_lone_surrogate_is_refused(client: TestClient) -> None:
    answer = _send(client, b'{"events": ["\\ud800"]}')
    assert problem(answer) == "bad-batch"
    assert "surrogate" in answer.json()["errors"][0]["detail"]


def test_the_first_hundred_bad_items_are_named(client: TestClient) -> None:
    errors = post_events(client, ["good", *[""] * 150]).json()["errors"]
    assert [fault["position"] for fault in errors] == list(range(1, 101))


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b'{"events": 1}', b'{"events": [], "more": 1}', b"\xff", b'{"events": [NaN]}', b"null"),
        b'{"events": ' + b"[" * 100_000,
        b'{"events": [' + b"9" * 5000 + b"]}",
    ],
)
def test_what_is_not_a_batch_is_refused(client: TestClient, context: Context, body: bytes) -> None:
    answer = _send(client, body)
    assert answer.status_code == 400
    assert problem(answer) == "bad-batch"
    assert books.counters(context.database) == {}


def test_other_types_and_encodings_are_refused(client: TestClient) -> None:
    assert problem(_send(client, b"a", "application/xml")) == "unsupported-media-type"
    assert problem(client.post(_PATH, content=b"a")) == "unsupported-media-type"
    encoded = client.post(_PATH, content=b"a", headers={"Content-Type": "text/plain", "Content-Encoding": "br"})
    assert problem(encoded) == "unsupported-media-type"


def test_an_unknown_sketch_is_a_problem(client: TestClient) -> None:
    assert problem(post_events(client, ["a"], "missing")) == "unknown-sketch"


def test_a_body_over_the_limit_is_refused_by_its_declared_and_by_its_real_length(client: TestClient) -> None:
    large = json.dumps({"events": ["x" * 500] * 40_000}).encode()
    assert problem(_send(client, large)) == "body-too-large"

    def chunks() -> Any:
        for _ in range(40):
            yield b"y" * 500_000

    answer = client.post(_PATH, content=chunks(), headers={"Content-Type": "text/plain"})
    assert answer.status_code == 413
    assert problem(answer) == "body-too-large"
    assert problem(client.put("/v1/sketches/x", content=large, headers={"Content-Type": "application/json"})) == (
        "body-too-large"
    )


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_the_path_of_events_takes_no_other_method_and_counts_nothing_by_one(
    client: TestClient, context: Context, method: str
) -> None:
    create_sketch(client)
    answer = client.request(method, "/v1/sketches/views/events", json={"events": ["a"]})
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert books.counters(context.database) == {}
