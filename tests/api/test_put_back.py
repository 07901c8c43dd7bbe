"""A database that was put back to an earlier day under a running server: nothing that it remembers is believed.

A failover that loses the last commits looks the same. Here rows are taken out, as if they had never been written, and
the sketch is made anew through another server.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import delete, select

from app.main import build_context, create_app
from app.settings import Settings
from app.store.tables import (
    AllowanceRow,
    ApiKeyRow,
    LineageRow,
    OriginRow,
    PartRow,
    RegisterRow,
    SketchRow,
    StateRow,
)
from app.usecases.context import Context
from tests import books
from tests.api.calls import post_events, problem


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    return replace(settings, user_key_file=str(tmp_path / "user.key"))


@pytest.fixture
def elsewhere(settings: Settings, client: TestClient) -> Iterator[httpx2.Client]:
    """Another server on the same database."""
    with ExitStack() as stack:
        context = build_context(settings)
        stack.callback(context.database.close)
        yield stack.enter_context(TestClient(create_app(settings, context), headers=dict(client.headers)))


def _forget_sketches(context: Context) -> None:
    """As if none had been made."""
    with context.database.writing() as session:
        for table in (AllowanceRow, PartRow, StateRow, OriginRow, LineageRow, SketchRow, RegisterRow):
            session.execute(delete(table))


def _make(client: httpx2.Client, **parameters: Any) -> None:
    client.put("/v1/ledgers/all", json={"epsilon": "1", "delta": "1e-3"})
    answer = client.put("/v1/sketches/views", json={"k": 64, "ledger": "all", **parameters})
    assert answer.status_code == 201, answer.text


def _events(user: str, number: int) -> list[dict[str, Any]]:
    return [{"user": user, "key": "a", "count": number}]


def test_a_sketch_made_anew_counts_no_more_of_a_person_than_it_says_now(
    client: TestClient, elsewhere: httpx2.Client, context: Context
) -> None:
    _make(client, max_contributions=1000)
    assert post_events(client, _events("u", 5)).status_code == 200
    _forget_sketches(context)
    _make(elsewhere, max_contributions=2)
    assert post_events(client, _events("u", 900)).json() == {"accepted": 900}
    assert post_events(client, _events("u", 900)).json() == {"accepted": 900}
    assert books.counters(context.database) == {"a": 2}


def test_a_sketch_made_anew_takes_what_it_asks_for_now(
    client: TestClient, elsewhere: httpx2.Client, context: Context
) -> None:
    """Plain events before, people who are counted after; then sets of users."""
    _make(client)
    assert post_events(client, ["a"]).status_code == 200
    _forget_sketches(context)
    _make(elsewhere, max_contributions=3)
    refused = post_events(client, ["a"])
    assert (problem(refused), refused.json()["errors"][0]["position"]) == ("bad-batch", 0)
    assert post_events(client, _events("u", 9)).status_code == 200
    assert books.counters(context.database) == {"a": 3}
    _forget_sketches(context)
    _make(elsewhere, unit="user")
    assert problem(post_events(client, _events("u", 9))) == "bad-batch"
    sets = {"users": [{"user": "u", "keys": ["b"]}]}
    assert client.post("/v1/sketches/views/events", json=sets).status_code == 200
    assert books.counters(context.database) == {"b": 1}


def test_a_sketch_made_anew_with_the_same_rules_is_counted_from_nothing(
    client: TestClient, elsewhere: httpx2.Client, context: Context
) -> None:
    _make(client, max_contributions=3)
    assert post_events(client, _events("u", 2)).status_code == 200
    _forget_sketches(context)
    _make(elsewhere, max_contributions=3)
    for _ in range(2):
        assert post_events(client, _events("u", 2)).status_code == 200
    assert books.counters(context.database) == {"a": 3}


@pytest.mark.parametrize("key", [None, "retry"], ids=["single statement", "transaction"])
def test_an_api_key_that_is_not_there_any_more_counts_nothing(
    client: TestClient, context: Context, key: str | None
) -> None:
    """Though it was recognised a moment ago."""
    _make(client)
    made = client.post("/v1/keys", json={"name": "shop", "scopes": ["ingest"]}).json()
    headers = {"Authorization": f"Bearer {made['secret']}", **({"Idempotency-Key": key} if key else {})}
    for number in range(3):
        again = headers | ({"Idempotency-Key": f"{key}-{number}"} if key else {})
        assert client.post("/v1/sketches/views/events", json={"events": ["a"]}, headers=again).status_code == 200
    with context.database.writing() as session:
        assert session.scalars(select(ApiKeyRow.id)).all()
        session.execute(delete(ApiKeyRow))
    refused = client.post("/v1/sketches/views/events", json={"events": ["a"]}, headers=headers)
    assert problem(refused) == "unauthenticated"
    assert books.counters(context.database) == {"a": 3}
