"""Races over real worker processes. The entries are summed, because a running total can agree with itself."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from app.store.database import Database
from tests import books
from tests.api.calls import create_sketch, post_events, problem, release
from tests.server import Server, running

pytestmark = pytest.mark.long


def _at_once(server: Server, requests: int, send: object) -> list[httpx2.Response]:
    assert callable(send)
    with server.client() as client, ThreadPoolExecutor(requests) as threads:
        return list(threads.map(lambda number: send(client, number), range(requests)))


def test_concurrent_releases_cannot_overspend(database_url: str) -> None:
    with running(database_url, workers=2) as server:
        with server.client() as client:
            create_sketch(client, epsilon="2", delta="1e-3", k=256)
        answers = _at_once(server, 64, lambda client, _: release(client, epsilon="0.1"))
        assert Counter(answer.status_code for answer in answers) == {201: 20, 409: 44}
        assert {problem(answer) for answer in answers if answer.status_code == 409} == {"budget-exhausted"}
    database = Database(database_url)
    found = books.read(database)
    found.balance()
    assert found.payments == 20
    assert found.entries == (2 * 10**9, 20 * 10**12)
    database.close()


def test_concurrent_batches_are_all_counted(database_url: str) -> None:
    with running(database_url, workers=2) as server:
        with server.client() as client:
            create_sketch(client, k=64)
        answers = _at_once(server, 64, lambda client, number: post_events(client, ["a", f"k{number % 8}"]))
        assert {answer.status_code for answer in answers} == {200}
    database = Database(database_url)
    assert books.counters(database) == {"a": 64} | {f"k{number}": 8 for number in range(8)}
    database.close()


def test_requests_with_one_key_at_once_have_one_effect(database_url: str) -> None:
    with running(database_url, workers=2) as server:
        with server.client() as client:
            create_sketch(client)
        batches = _at_once(server, 16, lambda client, _: post_events(client, ["a"], key="batch-1"))
        assert {answer.content for answer in batches} == {b'{"accepted":1}'}
        snapshots = _at_once(server, 16, lambda client, _: release(client, key="release-1"))
        assert {answer.status_code for answer in snapshots} == {201}
        assert len({answer.content for answer in snapshots}) == 1
    database = Database(database_url)
    assert books.counters(database) == {"a": 1}
    found = books.read(database)
    found.balance()
    assert found.payments == 1
    database.close()


def test_a_sketch_created_by_many_at_once_is_created_once(database_url: str) -> None:
    body = {"k": 16, "budget": {"epsilon": "1", "delta": "1e-5"}}
    with running(database_url, workers=2) as server:
        answers = _at_once(server, 16, lambda client, _: client.put("/v1/sketches/views", json=body))
    assert Counter(answer.status_code for answer in answers) == {201: 1, 200: 15}
