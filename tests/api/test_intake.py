"""What is on its way in is bounded, is given back whatever happens, and never holds up the event loop."""

import asyncio
import gzip
import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import httpx2
import pyarrow as pa
import pytest
from fastapi.testclient import TestClient
from starlette.types import Message

from app.api import decoding, intake
from app.api.decoding import decode_events, footer
from app.core import kernel
from app.main import Service, build_context, create_app
from app.refusals import Overloaded
from app.server import callers
from app.server.admission import Admission
from app.server.turns import Turns
from app.settings import Settings
from app.store import states
from app.store.database import Database
from app.usecases import manage_api_keys
from app.usecases.access import Principal
from app.usecases.context import Context
from app.usecases.ingest import queue
from app.usecases.manage_api_keys import revoke_key
from tests import books
from tests.api.calls import create_sketch, post_events, problem
from tests.api.decoding.bodies import arrow, parquet
from tests.conftest import ADMIN_KEY

_PATH = "/v1/sketches/views/events"
_ROOM = 10_000
_LONG = 60  # seconds: a test that hangs fails
_TEXT = {"content-type": "text/plain"}


@pytest.fixture
def settings(database_url: str) -> Settings:
    return Settings(database_url=database_url, admin_key=ADMIN_KEY, max_waiting_bytes=_ROOM, max_body_bytes=8000)


@pytest.fixture
def app(settings: Settings, context: Context) -> Iterator[Service]:
    app = create_app(settings, context)
    with TestClient(app, headers={"Authorization": f"Bearer {ADMIN_KEY}"}) as client:
        create_sketch(client)
        yield app


@pytest.fixture(autouse=True)
def _all_is_given_back(app: Service) -> Iterator[None]:
    """At the end of every test here."""
    yield
    assert _free(app) == _ROOM


def _free(app: Service) -> int:
    """How much would still be let in, found out by trying."""
    admission: Admission = app.intake.admission
    for size in range(_ROOM, -1, -1):
        try:
            with admission.enter() as admitted:
                admitted.take(size)
        except Overloaded:
            continue
        return size
    return -1


@dataclass
class _Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def slug(self) -> str:
        return str(json.loads(self.body)["type"]).rpartition(":")[2]


async def _call(
    app: Service, body: AsyncIterator[bytes] | Sequence[bytes], headers: dict[str, str], path: str = _PATH
) -> _Answer:
    """Post straight to the app, chunk by chunk; a body that ends with None is broken off."""
    chunks = body if isinstance(body, AsyncIterator) else _chunks(body)
    given = {"authorization": f"Bearer {ADMIN_KEY}", **headers}
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }
    sent: list[Message] = []

    async def receive() -> Message:
        try:
            return {"type": "http.request", "body": await anext(chunks), "more_body": True}
        except StopAsyncIteration:
            return {"type": "http.request", "body": b"", "more_body": False}
        except ConnectionError:
            return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start: Message = sent[0] if sent else {"status": 0, "headers": []}  # nobody was there to be answered
    answered = {name.decode(): value.decode() for name, value in start["headers"]}
    return _Answer(start["status"], answered, b"".join(message.get("body", b"") for message in sent[1:]))


async def _chunks(chunks: Sequence[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def _play(scene: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(scene(), _LONG)

    asyncio.run(bounded())


def _post(app: Service, body: Sequence[bytes], headers: dict[str, str]) -> _Answer:
    return asyncio.run(_call(app, body, headers))


class _Slow:
    """A client that has sent the first part of its body, and takes its time for the rest."""

    def __init__(self, first: bytes, rest: bytes | None) -> None:
        self._first, self._rest = first, rest
        self.go_on = asyncio.Event()

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._first
        await self.go_on.wait()
        if self._rest is None:
            raise ConnectionError
        yield self._rest


def test_when_the_room_is_used_up_a_batch_is_refused_and_welcome_later(app: Service, context: Context) -> None:
    async def scene() -> None:
        clients = [_Slow(b"slow\n" * 900, b"slow\n") for _ in range(2)]
        waiting = [asyncio.create_task(_call(app, client.chunks(), _TEXT)) for client in clients]
        await _until(lambda: _free(app) == _ROOM - 9000)
        refused = await _call(app, [b"late\n" * 201], _TEXT)
        assert (refused.status, refused.slug()) == (503, "overloaded")
        assert int(refused.headers["retry-after"]) >= 1
        assert books.counters(context.database) == {}
        for client in clients:
            client.go_on.set()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert [answer.status for answer in answers if isinstance(answer, _Answer)] == [503, 503]  # items take room too
        assert (await _call(app, [b"late\n"], _TEXT)).status == 200

    _play(scene)
    assert books.counters(context.database) == {"late": 1}


def test_what_waits_for_its_commit_takes_up_room(app: Service, context: Context, settings: Settings) -> None:
    elsewhere = Database(settings.database_url)
    body = b"x" * 500
    batch = kernel.scan_lines(body, 1) or kernel.batch_of([(body.decode(), 1)])
    fit = _ROOM // max(len(body), batch.nbytes)
    assert 1 < fit < 30

    async def scene() -> None:
        with elsewhere.writing() as session:
            states.lock(session, "views")
            waiting = [asyncio.create_task(_call(app, [body], _TEXT)) for _ in range(30)]
            await _until(lambda: sum(task.done() for task in waiting) == 30 - fit)
            refused = [task.result() for task in waiting if task.done()]
            assert {(answer.status, answer.slug()) for answer in refused} == {(503, "overloaded")}
        answers = [await task for task in waiting]
        assert sum(answer.status == 200 for answer in answers) == fit

    _play(scene)
    elsewhere.close()
    assert books.counters(context.database) == {body.decode(): fit}


_JSON = {"content-type": "application/json"}
_REFUSED: dict[str, tuple[list[bytes], dict[str, str], int]] = {
    "bad batch": ([b'{"events": [""]}'], _JSON, 400),
    "not a batch": ([b"{"], _JSON, 400),
    "no key": ([b"a"], {**_TEXT, "authorization": "Bearer wrong"}, 401),
    "declared too large": ([b"a"], {**_TEXT, "content-length": "8001"}, 413),
    "declared absurdly large": ([b"a"], {**_TEXT, "content-length": "9" * 5000}, 413),
    "shorter than declared": ([b"a\n", b"a\n"], {**_TEXT, "content-length": "6"}, 400),
    "empty, but declared": ([], {**_TEXT, "content-length": "6"}, 400),
    "longer than declared": ([b"a\n", b"a\n"], {**_TEXT, "content-length": "2"}, 400),
    "really too large": ([b"a" * 3000] * 3, _TEXT, 413),
    "too large when decompressed": ([gzip.compress(b"a\n" * 5000)], {**_TEXT, "content-encoding": "gzip"}, 413),
    "unknown type": ([b"a"], {"content-type": "application/xml"}, 415),
    "unknown encoding": ([b"a"], {**_TEXT, "content-encoding": "br"}, 415),
    "idempotency key": ([b"a"], {**_TEXT, "idempotency-key": "with space"}, 422),
}


@pytest.mark.parametrize("case", _REFUSED)
def test_a_refused_body_is_given_back_and_counts_nothing(app: Service, context: Context, case: str) -> None:
    body, headers, status = _REFUSED[case]
    assert _post(app, body, headers).status == status
    assert books.counters(context.database) == {}
    assert _free(app) == _ROOM


def test_a_body_that_is_declared_too_large_is_not_even_read(app: Service) -> None:
    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("read")
        yield b""

    answer = asyncio.run(_call(app, never(), {**_TEXT, "content-length": "8001"}))
    assert (answer.status, answer.slug()) == (413, "body-too-large")


def test_a_body_is_refused_at_the_chunk_that_makes_it_too_large(app: Service) -> None:
    given = []

    async def endless() -> AsyncIterator[bytes]:
        while True:
            given.append(1)
            yield b"a" * 1000

    assert asyncio.run(_call(app, endless(), {**_TEXT, "content-length": "10"})).status == 413
    assert len(given) == 9


def test_a_counted_body_is_given_back(app: Service, context: Context) -> None:
    for _ in range(5):
        assert _post(app, [b"a\n" * 10, b"b\n"], _TEXT).status == 200
        assert _free(app) == _ROOM
    assert books.counters(context.database) == {"a": 50, "b": 5}


def test_what_the_database_refuses_is_given_back(app: Service) -> None:
    assert asyncio.run(_call(app, [b"a"], _TEXT, "/v1/sketches/missing/events")).status == 404
    assert _free(app) == _ROOM


def test_a_fault_gives_the_room_back(app: Service, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: object, **_more: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(intake, "scan_events", broken)
        assert _post(app, [b"a" * 100], _TEXT).status == 500
    assert _free(app) == _ROOM
    with monkeypatch.context() as patched:
        patched.setattr(queue, "count_submissions", broken)
        assert _post(app, [b"a" * 100], _TEXT).status == 500
    assert _free(app) == _ROOM
    assert books.counters(context.database) == {}


def test_a_client_that_breaks_off_leaves_nothing(app: Service, context: Context) -> None:
    async def scene() -> None:
        client = _Slow(b"a\n" * 1000, None)
        waiting = asyncio.create_task(_call(app, client.chunks(), _TEXT))
        await _until(lambda: _free(app) == _ROOM - 2000)
        client.go_on.set()
        assert (await waiting).status == 0

    _play(scene)
    assert books.counters(context.database) == {}


def test_a_request_that_is_cancelled_gives_the_room_back(app: Service) -> None:
    async def scene() -> None:
        client = _Slow(b"a\n" * 1000, b"")
        waiting = asyncio.create_task(_call(app, client.chunks(), _TEXT))
        await _until(lambda: _free(app) == _ROOM - 2000)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    _play(scene)


def test_a_compressed_body_takes_the_room_of_what_is_in_it(app: Service, context: Context) -> None:
    """It fits when nothing else is there, but not beside a batch of which it leaves room for its compressed form."""
    body = gzip.compress(b"abcdefghi\n" * 150)
    headers = {**_TEXT, "content-encoding": "gzip"}
    assert len(body) < 100

    async def scene() -> None:
        client = _Slow(b"x" * 7900, b"")
        waiting = asyncio.create_task(_call(app, client.chunks(), _TEXT))
        await _until(lambda: _free(app) == _ROOM - 7900)
        refused = await _call(app, [body], headers)
        assert (refused.status, refused.slug()) == (503, "overloaded")
        assert _free(app) == _ROOM - 7900
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert (await _call(app, [body], headers)).status == 200

    _play(scene)
    assert books.counters(context.database) == {"abcdefghi": 150}


def test_a_name_is_checked_to_its_end(app: Service) -> None:
    for name in ("views\n", "Views", "views ", "", "x" * 101):
        answer = asyncio.run(_call(app, [b"a"], _TEXT, f"/v1/sketches/{name}/events"))
        assert answer.status == (404 if name == "" else 422), repr(name)


@pytest.mark.parametrize("path", ["/v1/sketches/events", "/v1/ledgers/events"])
def test_other_bodies_are_bounded_whatever_the_name_at_the_end_of_the_path(client: TestClient, path: str) -> None:
    large = b'{"k": 8, "description": "' + b"x" * 300_000 + b'"}'
    answer = client.put(path, content=large, headers={"Content-Type": "application/json"})
    assert problem(answer) == "body-too-large"


@pytest.mark.parametrize("events", [2, 4000])
def test_a_body_that_the_scanner_gives_up_on_is_scanned_once(
    settings: Settings, context: Context, monkeypatch: pytest.MonkeyPatch, events: int
) -> None:
    """Whether it is small, and read on the event loop, or not."""
    app = create_app(replace(settings, max_body_bytes=2**20, max_waiting_bytes=2**24), context)
    body = json.dumps({"events": ["\u20ac"] * events}).encode()  # escaped: the scanner leaves it to the reader
    scans: list[int] = []

    def scan(content: bytes, most: int) -> None:
        scans.append(len(content))

    monkeypatch.setitem(decoding._SCANNERS, "application/json", scan)
    assert _post(app, [body], {"content-type": "application/json"}).status == 200
    app.intake.close()
    assert scans == [len(body)]
    assert books.counters(context.database) == {"\u20ac": events}


def test_large_bodies_are_decoded_beside_the_event_loop(
    settings: Settings, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decoding does not end before /livez was answered. If it ran on the event loop, that would be never."""
    app = create_app(replace(settings, max_body_bytes=2**24, max_waiting_bytes=2**28), context)
    body = json.dumps({"events": ["\u20ac" * 36] * 45_000}).encode()  # escaped: the scanner leaves it to the reader
    assert len(body) > 10_000_000 - 500_000
    assert kernel.scan_json(body, 100_000) is None
    answered, decoding = threading.Event(), threading.Semaphore(0)

    def held(*arguments: Any, **limits: Any) -> Any:
        decoding.release()
        batch = decode_events(*arguments, **limits)
        in_time = answered.wait(_LONG)
        answered.set()  # so that a failure takes no longer than once
        assert in_time
        return batch

    monkeypatch.setattr(intake, "decode_events", held)

    async def scene() -> None:
        transport = httpx2.ASGITransport(app)
        headers = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"}
        async with httpx2.AsyncClient(transport=transport, base_url="http://test", headers=headers) as client:
            posts = [asyncio.create_task(client.post(_PATH, content=body)) for _ in range(4)]
            for _ in range(intake.DECODED_AT_ONCE):
                await _until(lambda: decoding.acquire(blocking=False))
            assert (await client.get("/livez")).status_code == 200
            assert not any(post.done() for post in posts)
            answered.set()
            assert [(await post).status_code for post in posts] == [200] * 4

    _play(scene)
    app.intake.close()
    assert books.counters(context.database) == {"\u20ac" * 36: 4 * 45_000}


def _long_key_many_times(rows: int) -> bytes:
    """A few thousand bytes that become a hundred thousand rows."""
    return parquet(pa.table({"key": pa.array(["k" * 512] * rows)}), compression="zstd")


def test_a_body_is_admitted_by_what_it_becomes_before_it_is_decoded(
    settings: Settings, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While others take up room; and once they are gone, it is welcome."""
    room = 2**24
    app = create_app(replace(settings, max_body_bytes=2**23, max_waiting_bytes=room), context)
    body, headers = _long_key_many_times(100_000), {"content-type": "application/vnd.apache.parquet"}
    assert len(body) < 10_000
    joined: list[int] = []
    join = footer.joined

    def recorded(pages: memoryview, described: footer.Footer) -> bytes:
        joined.append(len(pages))
        return join(pages, described)

    monkeypatch.setattr(footer, "joined", recorded)

    async def scene() -> None:
        with app.intake.admission.enter() as other:
            other.take(1)
            refused = await _call(app, [body], headers)
            assert (refused.status, refused.slug()) == (503, "overloaded")
            assert not joined  # pyarrow has not seen it
        assert (await _call(app, [body], headers)).status == 200

    _play(scene)
    app.intake.close()
    assert joined
    assert books.counters(context.database) == {"k" * 512: 100_000}


@pytest.mark.parametrize(
    ("content_type", "encoding", "body"),
    [
        ("text/plain", "gzip", gzip.compress(b"a\n" * 50_000)),
        ("application/json", "", json.dumps({"events": ["\u20ac"] * 9000}).encode()),
        ("application/x-ndjson", "", b'{"key": "\\u20ac"}\n' * 9000),
        ("text/csv", "", b"key\n" + b"a\n" * 20_000),
        ("application/vnd.apache.arrow.stream", "", arrow(pa.table({"key": ["a"] * 50_000}))),
    ],
)
def test_every_format_asks_for_room_before_it_grows(content_type: str, encoding: str, body: bytes) -> None:
    asked: list[int] = []

    def refuse(size: int) -> None:
        asked.append(size)
        raise Overloaded("full")

    with pytest.raises(Overloaded):
        decode_events(content_type, encoding, body, max_items=10**6, max_bytes=10**7, admit=refuse)
    assert len(asked) == 1
    asked.clear()
    batch = decode_events(content_type, encoding, body, max_items=10**6, max_bytes=10**7, admit=asked.append)
    assert sum(asked) > len(batch)


def test_a_text_that_comes_again_and_again_is_kept_once() -> None:
    one = kernel.batch_of([("k" * 512, 1)] * 10_000, ["u" * 512] * 10_000)
    assert one.nbytes < 512 * 1000
    assert (one.keys()[-1], one.users()[-1], one.events) == (["k" * 512], "u" * 512, 10_000)
    sets = kernel.sets_of([("u" * 512, ["k" * 512] * 3)] * 10_000, 3)
    assert sets.nbytes < 512 * 2000
    assert (sets.keys()[-1], sets.users()[-1]) == (["k" * 512] * 3, "u" * 512)


def test_senders_take_turns_at_decoding() -> None:
    """One who waits with many bodies does not hold up another with one."""
    done: list[str] = []

    async def scene() -> None:
        turns, gate = Turns(1), threading.Event()
        first = asyncio.create_task(turns.run("busy", lambda: gate.wait(_LONG)))
        await asyncio.sleep(0)
        many = [asyncio.create_task(turns.run("busy", lambda: done.append("busy"))) for _ in range(5)]
        gone = asyncio.create_task(turns.run("gone", lambda: done.append("gone")))
        one = asyncio.create_task(turns.run("other", lambda: done.append("other")))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(first, one, *many)
        assert (await turns.run("busy", lambda: "free again")) == "free again"
        turns.close()

    _play(scene)
    assert sorted(done) == ["busy"] * 5 + ["other"]
    assert done.index("other") == 1


def test_many_requests_of_a_sender_who_is_not_remembered_ask_the_database_once(
    app: Service, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a wrong key is asked about once for all who wait, and refused to each; the next one is asked about anew."""
    asked: list[str] = []
    authenticate = manage_api_keys.authenticate

    def slowly(context: Context, secret: str) -> Principal:
        asked.append(secret)
        time.sleep(0.05)
        return authenticate(context, secret)

    monkeypatch.setattr(callers, "authenticate", slowly)
    wrong = {"authorization": "Bearer wrong", **_TEXT}

    async def scene() -> None:
        right = await asyncio.gather(*(_call(app, [b"a"], _TEXT) for _ in range(5)))
        assert {answer.status for answer in right} == {200}
        for _ in range(2):
            refused = await asyncio.gather(*(_call(app, [b"a"], wrong) for _ in range(5)))
            assert {answer.status for answer in refused} == {401}

    _play(scene)
    assert asked == [ADMIN_KEY, "wrong", "wrong"]
    assert books.counters(context.database) == {"a": 5}


def _ingester(client: httpx2.Client) -> tuple[str, dict[str, str]]:
    made = client.post("/v1/keys", json={"name": "n", "scopes": ["ingest"]}).json()
    return made["id"], {"Authorization": f"Bearer {made['secret']}"}


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_revoked_key_counts_nothing_more_although_it_is_remembered(
    client: TestClient, context: Context, settings: Settings, elsewhere: bool
) -> None:
    key_id, headers = _ingester(client)
    admin = dict(client.headers)
    client.headers.update(headers)
    assert post_events(client, ["a"], key="1").status_code == 200
    assert sha256(headers["Authorization"].split()[1].encode()).digest() in client.app.callers._recent  # type: ignore[attr-defined]
    if elsewhere:
        other = build_context(settings)
        revoke_key(other, key_id)
        other.database.close()
    else:
        assert client.delete(f"/v1/keys/{key_id}", headers={"Authorization": admin["authorization"]}).status_code == 204
    for answer in (post_events(client, ["b"]), post_events(client, ["a"], key="1"), post_events(client, [])):
        assert answer.status_code == 401
        assert problem(answer) == "unauthenticated"
        assert answer.headers["www-authenticate"] == "Bearer"
    assert books.counters(context.database) == {"a": 1}
