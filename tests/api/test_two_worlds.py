"""Two worlds through the real API, on one and on two workers one after the other: the stored sketches are neighbours.

More pairs, and the proof that a fold of whole requests would fail, are in `tests/usecases/test_two_worlds.py`.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient

from app.main import build_context, create_app
from app.settings import Settings
from app.usecases.context import Context
from tests import books
from tests.api.calls import merge
from tests.conftest import ADMIN_KEY
from tests.worlds import MOST_KEYS, Counts, are_neighbours, counted, is_close, pair_of_events, pair_of_people

pytestmark = pytest.mark.long

PAIRS = 300
EVENT_PAIRS = 40


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    return replace(settings, user_key_file=str(tmp_path / "user.key"))


@pytest.fixture
def workers(settings: Settings, client: TestClient) -> Iterator[list[httpx2.Client]]:
    """Two apps with open sketches of their own, on one database and with one key of people."""
    with ExitStack() as stack:
        other = build_context(settings)
        stack.callback(other.database.close)
        second = stack.enter_context(TestClient(create_app(settings, other), headers=dict(client.headers)))
        assert client.put("/v1/ledgers/all", json={"epsilon": "1", "delta": "1e-3"}).status_code == 201
        yield [client, second]


def _send(
    workers: Sequence[httpx2.Client], name: str, member: str, requests: Sequence[Sequence[Any]], rng: Random
) -> None:
    """In order; each by whichever worker, some of them twice."""
    for number, request in enumerate(requests):
        worker = rng.choice(workers)
        for _ in range(rng.choice((1, 1, 2))):
            headers = {"Idempotency-Key": f"{name}-{number}"}
            answer = worker.post(f"/v1/sketches/{name}/events", json={member: list(request)}, headers=headers)
            assert answer.status_code == 200, answer.text


def test_one_person_more_moves_stored_counters_by_at_most_one_in_one_direction(
    workers: list[httpx2.Client], context: Context
) -> None:
    """`cor:merged-user-level`, and the error stays at most M/(k+1)."""
    for number in range(PAIRS):
        rng = Random(10_000 + number)
        pair = pair_of_people(rng)
        stored: list[Counts] = []
        for world, requests in zip(("longer", "shorter"), pair.requests(), strict=True):
            name = f"{world}-{number}"
            parameters = {"k": pair.k, "unit": "user", "max_contributions": MOST_KEYS, "ledger": "all"}
            assert workers[0].put(f"/v1/sketches/{name}", json=parameters).status_code == 201
            people = [[{"user": user, "keys": keys} for user, keys in request] for request in requests]
            _send(workers[: 1 + number % 2], name, "users", people, rng)
            stored.append(books.counters(context.database, name))
        assert are_neighbours(*stored), number
        assert is_close(stored[0], counted(pair.longer), pair.k), number
        assert is_close(stored[1], counted(pair.shorter), pair.k), number


def test_one_event_more_in_a_merged_sketch_moves_counters_by_at_most_one_in_one_direction(
    workers: list[httpx2.Client], context: Context
) -> None:
    """`corol:merged-sensitivity`; what was merged counts towards the error too."""
    for number in range(EVENT_PAIRS):
        pair = pair_of_events(Random(number))
        stored: list[Counts] = []
        for world, requests in zip(("longer", "shorter"), pair.requests(), strict=True):
            rng, true, name = Random(number), Counter[str](), f"{world}-{number}"
            sources = [f"{source}-{name}" for source in "ab"]
            before = [[(rng.choice("abcdefgh"), rng.randint(1, 9)) for _ in range(8)] for _ in sources]
            for source, events in zip(sources, before, strict=True):
                assert workers[0].put(f"/v1/sketches/{source}", json={"k": pair.k, "ledger": "all"}).status_code == 201
                _send(workers, source, "events", [_items(events)], rng)
            assert merge(workers[0], name, *sources).status_code == 201
            _send(workers[: 1 + number % 2], name, "events", [_items(request) for request in requests], rng)
            stored.append(books.counters(context.database, name))
            for key, count in (event for part in (*before, *requests) for event in part):
                true[key] += count
            assert is_close(stored[-1], true, pair.k), number
        assert are_neighbours(*stored), number


def _items(events: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"key": key, "count": count} for key, count in events]


_HANDED_OVER = 16 * 1024, 256 * 1024  # bytes beyond which a body is decoded in another thread


def _user(number: int, key: str) -> dict[str, Any]:
    return {"user": f"{key}-{number:06}", "keys": [key]}


@pytest.mark.parametrize("size", _HANDED_OVER)
def test_one_more_who_makes_a_body_just_too_large_for_the_event_loop_moves_nobody_else(
    client: TestClient, context: Context, size: int
) -> None:
    """Two requests in flight, begun in the same order in both worlds. With one counter, their order shows."""
    few = _number_of_people(size)
    stored: list[Counts] = []
    for name, number in (("shorter", few), ("longer", few + 1)):
        parameters = {"k": 1, "unit": "user", "budget": {"epsilon": "1", "delta": "1e-3"}}
        assert client.put(f"/v1/sketches/{name}", json=parameters).status_code == 201
        first = json.dumps({"users": [_user(at, "a") for at in range(number)]}).encode()
        assert (len(first) > size) == (name == "longer")
        second = json.dumps({"users": [_user(at, key) for key in "bc" for at in range(200)]}).encode()
        assert client.portal is not None
        client.portal.call(_post_both, client.app, f"/v1/sketches/{name}/events", first, second)
        stored.append(books.counters(context.database, name))
    assert are_neighbours(*stored), stored


def _number_of_people(size: int) -> int:
    one = len(json.dumps(_user(0, "a"))) + len(", ")
    return (size - len('{"users": []}') + len(", ")) // one


async def _post_both(app: Any, path: str, first: bytes, second: bytes) -> None:
    await _post(app, path, b'{"users": []}')  # what it remembers of the sketch, it knows from now on
    begun = asyncio.create_task(_post(app, path, first))
    await asyncio.sleep(0)
    await asyncio.gather(begun, _post(app, path, second))


async def _post(app: Any, path: str, body: bytes) -> None:
    headers = {"authorization": f"Bearer {ADMIN_KEY}", "content-type": "application/json"}
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    coming = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Any] = []

    async def receive() -> Any:
        return coming.pop() if coming else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    assert sent[0]["status"] == 200
