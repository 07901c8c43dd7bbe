"""Keys, addresses and releases are limited, by nothing that depends on events."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from app.core.noise.samplers import SYSTEM_NOISE
from app.main import build_context, create_app
from app.refusals import TooManyRequests
from app.server import limits, metrics
from app.server.limits import Buckets, Limits
from app.settings import Settings
from tests.api.calls import create_sketch, post_events, problem, release
from tests.conftest import ADMIN_KEY
from tests.operations.serving import serving


class _Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def _taken(buckets: Buckets, who: str) -> int:
    """As many as there are."""
    taken = 0
    while buckets.wait(who) == 0:
        buckets.take(who)
        taken += 1
    return taken


def test_a_bucket_holds_a_minutes_worth_and_fills_evenly() -> None:
    clock = _Clock()
    buckets = Buckets(30, clock)
    assert _taken(buckets, "a") == 30
    assert buckets.wait("a") == pytest.approx(2)
    assert _taken(buckets, "b") == 30
    clock.now += 10
    assert _taken(buckets, "a") == 5
    clock.now += 3600
    assert _taken(buckets, "a") == 30


def test_memory_is_bounded_and_the_busiest_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_MOST_KNOWN", 10)
    clock = _Clock()
    buckets = Buckets(2, clock)
    for number in range(1000):
        _taken(buckets, "busy")
        buckets.take(f"passer-by {number}")
        buckets.take("busy")
    assert len(buckets._full_at) == 10
    assert buckets.wait("busy") > 0


@contextmanager
def _client(settings: Settings, **more: int) -> Iterator[TestClient]:
    changed = replace(settings, **more)  # type: ignore[arg-type]  # whole numbers, all of them
    with TestClient(
        create_app(changed, build_context(changed)), headers={"Authorization": f"Bearer {ADMIN_KEY}"}
    ) as client:
        yield client


def _as(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def test_a_key_that_asks_too_often_is_told_when_to_come_back_and_others_are_not_held_up(settings: Settings) -> None:
    with _client(settings, requests_per_minute=6) as client:
        create_sketch(client)
        new = {"name": "other", "scopes": ["ingest"]}
        other = client.post("/v1/keys", json=new).json()["secret"]
        answers = [post_events(client, ["a"]) for _ in range(6)]
        assert [answer.status_code for answer in answers] == [200] * 4 + [429] * 2
        assert problem(answers[-1]) == "too-many-requests"
        assert 1 <= int(answers[-1].headers["Retry-After"]) <= 10
        assert problem(client.get("/v1/sketches")) == "too-many-requests"
        for disguise in ("bearer ", "BEARER ", "Bearer  "):
            refused = client.get("/v1/sketches", headers={"Authorization": f"{disguise}{ADMIN_KEY}"})
            assert refused.status_code == 429
        events = {"events": ["a"]}
        assert client.post("/v1/sketches/views/events", json=events, headers=_as(other)).status_code == 200
        assert client.get("/livez", headers={"Authorization": ""}).status_code == 200


def test_no_limit_is_the_default_for_keys(client: TestClient) -> None:
    create_sketch(client)
    assert {post_events(client, ["a"]).status_code for _ in range(40)} == {200}


def test_an_address_that_sends_wrong_keys_is_slowed_but_not_the_keys_that_were_right(settings: Settings) -> None:
    with _client(settings, failures_per_minute=5) as client:
        create_sketch(client)
        tries = [client.get("/v1/sketches", headers=_as(f"guess {number}")) for number in range(8)]
        assert [answer.status_code for answer in tries] == [401] * 5 + [429] * 3
        assert int(tries[-1].headers["Retry-After"]) >= 1
        guess = client.post("/v1/sketches/views/events", content=b"a", headers=_as("another guess"))
        assert problem(guess) == "too-many-requests"
        assert client.get("/v1/sketches").status_code == 200
        assert post_events(client, ["a"]).status_code == 200


def _guesses(database_url: str, proxies: str | None) -> list[int]:
    """What wrong keys are answered that say, from this machine, to come from many others."""
    with serving(database_url, proxies=proxies, failures_per_minute=5) as server, server.client() as client:
        said = [{**_as(f"guess {number}"), "X-Forwarded-For": f"10.0.0.{number}"} for number in range(8)]
        return [client.get("/v1/sketches", headers=headers).status_code for headers in said]


def test_whoever_connects_is_counted_by_the_address_they_have_and_not_by_the_one_they_say(database_url: str) -> None:
    assert _guesses(database_url, None) == [401] * 5 + [429] * 3
    assert _guesses(database_url, "") == [401] * 5 + [429] * 3
    assert _guesses(database_url, "10.9.9.9") == [401] * 5 + [429] * 3


def test_a_proxy_that_the_operator_names_tells_who_connects(database_url: str) -> None:
    assert _guesses(database_url, "127.0.0.1") == [401] * 8


def test_no_key_at_all_is_not_a_wrong_one(settings: Settings) -> None:
    with _client(settings, failures_per_minute=2) as client:
        none = [client.get("/v1/sketches", headers={"Authorization": ""}).status_code for _ in range(5)]
        assert none == [401] * 5


@pytest.mark.parametrize("path", ["/livez", "/nothing", "/docs", "/openapi.json", "/static/console.css"])
def test_a_path_that_asks_for_no_key_does_not_make_a_guess_a_known_key(settings: Settings, path: str) -> None:
    with _client(settings, failures_per_minute=1) as client:
        client.get(path, headers=_as("fresh guess"))
        client.get("/v1/sketches", headers=_as("wrong"))
        assert client.get("/v1/sketches", headers=_as("fresh guess")).status_code == 429


@pytest.mark.parametrize("space", [" ", "  ", " \t "])
@pytest.mark.parametrize("path", ["/v1/sketches", "/v1/sketches/views/events"])
def test_however_a_key_is_written_it_is_the_same_key_on_every_route(settings: Settings, space: str, path: str) -> None:
    """If one writing of a valid key were refused, a sender could make the service forget how often it has asked."""
    with _client(settings, requests_per_minute=6) as client:
        create_sketch(client)
        sent = {"Authorization": f"Bearer{space}{ADMIN_KEY}"}
        method, body = ("POST", {"events": ["a"]}) if path.endswith("events") else ("GET", None)
        statuses = [client.request(method, path, json=body, headers=sent).status_code for _ in range(8)]
        assert statuses == [200] * 5 + [429] * 3


def test_a_batch_that_comes_too_soon_is_counted_under_its_operation(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[tuple[str, int]] = []
    monkeypatch.setattr(metrics, "count", lambda operation, status: counted.append((operation, status)))
    with _client(settings, requests_per_minute=2) as client:
        create_sketch(client)
        for _ in range(3):
            post_events(client, ["a"])
    assert counted[-3:] == [("post_events", 200), ("post_events", 429), ("post_events", 429)]


def test_a_network_of_addresses_counts_as_one() -> None:
    some = Limits(requests_per_minute=0, failures_per_minute=2, max_releases=1, clock=_Clock())
    for host in ("2001:db8:1:2::1", "2001:db8:1:2:ffff::2"):
        some.wrong(some.admit(b"Bearer wrong", (host, 1)), (host, 1))
    with pytest.raises(TooManyRequests):
        some.admit(b"Bearer guess", ("2001:db8:1:2:3::9", 1))
    assert some.admit(b"Bearer guess", ("2001:db8:1:3::9", 1))
    assert some.admit(b"Bearer guess", ("192.0.2.1", 1))
    assert some.admit(b"Bearer guess", None)


def _blocked(go_on: threading.Event, started: threading.Semaphore) -> Callable[[float, int], list[int]]:
    def laplace(_scale: float, size: int) -> list[int]:
        started.release()
        go_on.wait(30)
        return [0] * size

    return laplace


def test_releases_beyond_the_limit_wait_a_little_and_are_refused_before_anything_is_drawn_or_charged(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_TURN_SECONDS", 0.2)
    settings = replace(settings, max_releases=2)
    go_on, started = threading.Event(), threading.Semaphore(0)
    context = build_context(settings, noise=replace(SYSTEM_NOISE, laplace=_blocked(go_on, started)))
    app = create_app(settings, context)
    with TestClient(app, headers=_as(ADMIN_KEY)) as client, ThreadPoolExecutor(3) as threads:
        create_sketch(client)
        running = [threads.submit(release, client) for _ in range(2)]
        for _ in running:
            assert started.acquire(timeout=30)
        refused = release(client, key="later")
        monkeypatch.setattr(limits, "_TURN_SECONDS", 30.0)
        assert (refused.status_code, problem(refused)) == (503, "overloaded")
        assert refused.headers["Retry-After"] == "1"
        assert not started.acquire(blocking=False)  # nothing was drawn
        patient = threads.submit(release, client)
        go_on.set()
        assert patient.result().status_code == 201
        assert [each.result().status_code for each in running] == [201, 201]
        spent = client.get("/v1/ledgers/views").json()["spent"]["epsilon"]
        assert spent == "0.3"
        assert release(client, key="later").status_code == 201
