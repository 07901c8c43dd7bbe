"""A retry has the effect of one request."""

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from app.store.tables import RequestRow
from app.usecases import release_snapshot
from app.usecases.context import Context
from tests import books
from tests.api.calls import create_sketch, post_events, problem, release


def test_a_replayed_release_is_identical_and_charged_once(client: TestClient, context: Context) -> None:
    create_sketch(client)
    post_events(client, [{"key": "a", "count": 10_000}])
    first, second = release(client, key="r1"), release(client, key="r1")
    assert first.content == second.content
    assert first.headers["location"] == second.headers["location"]
    assert first.json()["histogram"][0]["key"] == "a"
    assert books.read(context.database).payments == 1


def test_a_replayed_release_is_answered_when_the_budget_is_gone(client: TestClient) -> None:
    create_sketch(client, epsilon="0.1")
    first = release(client, key="r1")
    assert problem(release(client, key="r2")) == "budget-exhausted"
    assert release(client, key="r1").content == first.content


@pytest.mark.parametrize("stage", ["_prepare", "_commit"])
def test_a_retry_that_overlaps_with_its_first_request_is_answered_although_the_sketch_was_deleted(
    client: TestClient, context: Context, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """The retry has looked for the first request and found none; then that one released, and the sketch was deleted."""
    create_sketch(client)
    go_on, answers = getattr(release_snapshot, stage), []

    def meanwhile(*arguments: object) -> object:
        monkeypatch.setattr(release_snapshot, stage, go_on)
        answers.append(release(client, key="r1"))
        assert client.delete("/v1/sketches/views").status_code == 204
        return go_on(*arguments)

    monkeypatch.setattr(release_snapshot, stage, meanwhile)
    retry = release(client, key="r1")
    assert [answer.status_code for answer in answers] == [201]
    assert (retry.status_code, retry.content) == (201, answers[0].content)
    assert books.read(context.database).payments == 1


def test_a_replayed_batch_is_counted_once(client: TestClient, context: Context) -> None:
    create_sketch(client)
    answers = [post_events(client, ["a", "b", "a"], key="b1") for _ in range(3)]
    assert {answer.content for answer in answers} == {b'{"accepted":3}'}
    assert books.counters(context.database) == {"a": 2, "b": 1}


def test_a_key_with_another_request_is_refused_and_has_no_effect(client: TestClient, context: Context) -> None:
    create_sketch(client)
    post_events(client, ["a"], key="x")
    release(client, key="x")  # another operation: its own key space
    for answer in (post_events(client, ["b"], key="x"), release(client, epsilon="0.2", key="x")):
        assert answer.status_code == 422
        assert problem(answer) == "key-reused"
    assert books.counters(context.database) == {"a": 1}
    assert books.read(context.database).payments == 1


def test_a_refused_request_does_not_use_up_its_key(client: TestClient) -> None:
    create_sketch(client, epsilon="0.1")
    assert problem(release(client, epsilon="0.2", key="x")) == "budget-exhausted"
    assert problem(post_events(client, [""], key="y")) == "bad-batch"
    assert release(client, epsilon="0.1", key="x").status_code == 201
    assert post_events(client, ["a"], key="y").status_code == 200


def test_an_idempotency_key_belongs_to_its_api_key(client: TestClient, context: Context) -> None:
    """Otherwise the answer to a guessed batch under another sender's key would tell whether the guess was right."""
    create_sketch(client)
    secret = client.post("/v1/keys", json={"name": "other", "scopes": ["ingest"]}).json()["secret"]
    post_events(client, ["a"], key="x")
    client.headers["Authorization"] = f"Bearer {secret}"
    assert post_events(client, ["b"], key="x").status_code == 200
    assert books.counters(context.database) == {"a": 1, "b": 1}


def test_neither_the_key_nor_the_request_is_stored_in_clear(client: TestClient, context: Context) -> None:
    create_sketch(client)
    post_events(client, ["a"], key="batch-1")
    with context.database.reading() as session:
        row = session.scalars(select(RequestRow)).one()
    assert len(row.claim) == len(row.fingerprint) == 32
    assert row.claim != row.fingerprint
