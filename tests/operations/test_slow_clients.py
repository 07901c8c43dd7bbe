"""Who sends slowly, or half, is answered in time and let go; what was kept for them is given back."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.server import ServerState

from app.main import build_context, create_app
from app.refusals import BodyTimeout
from app.server import connection
from app.server.admission import Admission
from app.server.body import Body, Deadline
from app.server.connection import Connection
from app.settings import Settings
from tests import books
from tests.api.calls import create_sketch, post_events
from tests.conftest import ADMIN_KEY
from tests.operations.wire import Recorded

_HALF = b'{"events": ["' + b"a" * 1200


async def _send_half(app: FastAPI, method: str, path: str) -> tuple[int, dict[bytes, bytes], dict[str, Any]]:
    """Post half a body and then nothing."""
    parts = iter([_HALF])
    sent: list[Message] = []

    async def receive() -> Message:
        for part in parts:
            return {"type": "http.request", "body": part, "more_body": True}
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"authorization", f"Bearer {ADMIN_KEY}".encode()), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers}
    await asyncio.wait_for(app(scope, receive, send), 20)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], dict(sent[0]["headers"]), json.loads(body)


def test_half_a_body_is_answered_in_time_and_its_room_is_given_back(settings: Settings) -> None:
    settings = replace(settings, body_seconds=1, max_waiting_bytes=4000, max_body_bytes=4000)
    context = build_context(settings)
    app = create_app(settings, context)

    async def scene() -> None:
        batches = [_send_half(app, "POST", "/v1/sketches/views/events") for _ in range(3)]
        answers = await asyncio.gather(*batches, _send_half(app, "POST", "/v1/sketches/views/plan"))
        for status, headers, answer in answers:
            assert (status, answer["type"]) == (408, "urn:discreet:problem:body-timeout")
            assert headers[b"connection"] == b"close"

    with TestClient(app, headers={"Authorization": f"Bearer {ADMIN_KEY}"}) as client:
        create_sketch(client)
        started = time.monotonic()
        asyncio.run(scene())
        assert 0.9 < time.monotonic() - started < 10
        assert books.counters(context.database) == {}
        assert post_events(client, ["a" * 500]).status_code == 200  # there would not be room beside the three


def test_the_time_is_for_the_whole_body_and_a_drop_now_and_then_does_not_prolong_it() -> None:
    deadline, admission = Deadline(0.2), Admission(1000)

    async def receive() -> Message:
        await asyncio.sleep(0.05)
        return {"type": "http.request", "body": b"a", "more_body": True}

    async def scene() -> None:
        with admission.enter() as admitted, pytest.raises(BodyTimeout):
            await Body(receive, b"", deadline).read(1000, admitted.take)

    asyncio.run(scene())
    admission.take(1000)  # all was given back


def test_who_cancels_a_slow_request_is_not_told_that_it_was_slow() -> None:
    """A shutdown cancels; only a deadline that passed is a refusal. Many wait, each is given its own time."""
    deadline = Deadline(0.3)

    async def never() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def read() -> str:
        try:
            await Body(never, b"", deadline).read(10)
        except BodyTimeout:
            return "slow"
        return "read"

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        first = asyncio.create_task(read())
        cancelled = asyncio.create_task(read())
        await asyncio.sleep(0.15)
        later = asyncio.create_task(read())
        cancelled.cancel()
        assert await first == "slow"
        assert 0.25 < loop.time() - started < 0.43
        assert not later.done()
        assert await later == "slow"
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    asyncio.run(scene())
    asyncio.run(scene())  # in another loop too


async def _hello(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers without reading the body."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"hi"})


@pytest.fixture
def app() -> ASGIApp:
    return _hello


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch, app: ASGIApp) -> Iterator[int]:
    """A server of ours with little patience for heads."""
    monkeypatch.setattr(connection, "_HEAD_SECONDS", 0.5)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, http=Connection, lifespan="off", log_config=None))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join()


def _heard(port: int, *parts: bytes, pause: float = 0.1) -> tuple[bytes, float]:
    """All that the server says until it hangs up, and after how long it does."""
    started = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        heard = b""
        try:
            for part in parts:
                connection.sendall(part)
                connection.settimeout(pause)
                with suppress(TimeoutError):
                    heard += connection.recv(65536)
            connection.settimeout(10)
            while more := connection.recv(65536):
                heard += more
        except ConnectionError:
            pass
    return heard, time.monotonic() - started


def test_a_connection_that_asks_for_nothing_is_closed(port: int) -> None:
    heard, seconds = _heard(port)
    assert heard == b""
    assert 0.4 < seconds < 5


def test_a_head_that_comes_in_drops_is_not_waited_for(port: int) -> None:
    heard, seconds = _heard(port, b"GET / HTTP/1.1\r\n", *[b"X: y\r\n"] * 20)
    assert heard == b""
    assert seconds < 5


def test_a_head_without_end_is_refused(port: int) -> None:
    heard, _ = _heard(port, b"GET / HTTP/1.1\r\n", b"X: " + b"y" * 70_000, pause=0.01)
    assert heard.startswith(b"HTTP/1.1 431 ")
    assert b"urn:discreet:problem:head-too-large" in heard


def test_the_rest_of_a_body_that_nobody_reads_is_not_waited_for(port: int) -> None:
    heard, seconds = _heard(port, b"POST / HTTP/1.1\r\nContent-Length: 1000\r\n\r\n", *[b"a"] * 30)
    assert heard.startswith(b"HTTP/1.1 200 ")
    assert seconds < 5


def test_ordinary_requests_share_a_connection_in_whatever_pieces_they_come(port: int) -> None:
    request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
    pieces = [request, request[:20], request[20:], request[:-1], request[-1:]]
    heard, _ = _heard(port, *pieces, request.replace(b"Host: x", b"Connection: close"), pause=0.05)
    assert heard.count(b"HTTP/1.1 200 ") == 4


def test_a_head_behind_a_large_body_is_measured_by_itself() -> None:
    """The end of the body and the beginning of the next head come in the same packet."""
    body = b"a" * 200_000
    first = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    another = b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 1000 + b"\r\n\r\n"
    heard = _fed(first + another[:500], another[500:])
    assert heard.count(b"HTTP/1.1 200 ") == 2
    assert heard.count(b"HTTP/1.1 ") == 2


@pytest.mark.parametrize("pieces", [1, 3, 100])
@pytest.mark.parametrize(("length", "status"), [(60_000, b"200"), (70_000, b"431"), (200_000, b"431")])
def test_a_head_is_measured_alike_in_however_many_pieces_it_comes(
    port: int, pieces: int, length: int, status: bytes
) -> None:
    fields = b"".join(b"X: %b\r\n" % (b"y" * 995) for _ in range(length // 1000))
    head = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + fields + b"\r\n"
    size = -(-len(head) // pieces)
    heard, _ = _heard(port, *(head[at : at + size] for at in range(0, len(head), size)), pause=0.001)
    assert heard.startswith(b"HTTP/1.1 %b " % status)
    assert heard.count(b"HTTP/1.1 ") == 1


def _fed(*packets: bytes) -> bytes:
    """What a connection writes when it is given just these packets."""
    transport = Recorded()

    async def scene() -> None:
        receiving = Connection(uvicorn.Config(_hello, lifespan="off", log_config=None), ServerState(), {})
        receiving.connection_made(transport)
        for packet in packets:
            receiving.data_received(packet)
            for _ in range(5000):  # so that all of them are answered
                await asyncio.sleep(0)
        receiving.connection_lost(None)

    asyncio.run(scene())
    return transport.written


def test_many_small_heads_in_one_packet_are_not_a_large_one() -> None:
    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    many = 80_000 // len(request)
    for end in (b"", b"GET / HTT", b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n"):
        heard = _fed(request * many + end)
        assert heard.count(b"HTTP/1.1 200 ") == many + end.startswith(b"POST")
        assert heard.count(b"HTTP/1.1 ") == many + end.startswith(b"POST")


async def _echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Reads the body first."""
    message = await receive()
    while message.get("more_body", False):
        message = await receive()
    await _hello(scope, receive, send)


@pytest.mark.parametrize("app", [_echo])
def test_the_time_for_a_head_ends_with_the_head(port: int) -> None:
    """A body has its own time, and whoever reads it answers when that is over."""
    head = b"POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: 3\r\n\r\n"
    heard, _ = _heard(port, head, b"abc", pause=1.0)
    assert heard.startswith(b"HTTP/1.1 200 ")
