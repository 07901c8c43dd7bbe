"""What connections hold is bounded, and given up in an order that hurts least; the last answer still arrives."""

import http.client
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from app.server import connection, room, transport
from app.server.connection import Connection
from app.server.transport import PatientTransport
from tests.api.calls import create_sketch
from tests.conftest import ADMIN_KEY
from tests.operations.serving import serving
from tests.operations.wire import Wire, batch, connected, head
from tests.server import Server

_LIMIT = 100_000
_OVER = {
    "a little": _LIMIT + 1,
    "more than any buffer": 20_000_000,
}


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("headers", [{}, {"Connection": "close"}], ids=["kept", "closed"])
def test_a_client_that_sends_before_it_reads_is_told_that_its_body_is_too_large(
    database_url: str, headers: dict[str, str], chunked: bool
) -> None:
    given = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "text/plain", **headers}
    with serving(database_url, max_body_bytes=_LIMIT) as server:
        with server.client() as client:
            create_sketch(client)
        for size in _OVER.values():
            for path in ("/v1/sketches/views/events", "/v1/plan"):
                sender = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]), timeout=60)
                body = b"a" * max(size, 300_000)  # other bodies have a limit of their own
                sent = iter([body[at : at + 65536] for at in range(0, len(body), 65536)]) if chunked else body
                sender.request("POST", path, sent, given, encode_chunked=chunked)
                answer = sender.getresponse()
                assert answer.status == 413
                assert b"body-too-large" in answer.read()
                sender.close()


class _Place:
    """A server in this process, of which the constants can be changed."""

    def __init__(self, port: int, server: uvicorn.Server) -> None:
        self.port, self._server = port, server

    def connections(self) -> int:
        return len(self._server.server_state.connections)


_ANSWER = b"x" * 30_000_000


async def _long_answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers at length, without reading the body."""
    headers = [(b"content-length", b"%d" % len(_ANSWER))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": _ANSWER})


async def _short_answer(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body"})


@contextmanager
def _serving(app: Callable[..., Any]) -> Iterator[_Place]:
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, http=Connection, lifespan="off", log_config=None))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield _Place(listening.getsockname()[1], server)
    finally:
        server.should_exit = True
        thread.join()


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("headers", [b"", b"Connection: close\r\n"], ids=["kept", "closed"])
def test_the_rest_of_a_refused_body_is_bounded(monkeypatch: pytest.MonkeyPatch, headers: bytes) -> None:
    monkeypatch.setattr(connection, "_REST_BYTES", 1_000_000)
    with _serving(_short_answer) as place, socket.create_connection(("127.0.0.1", place.port), timeout=60) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n%bContent-Length: 9000000000\r\n\r\n" % headers)
        assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
        with pytest.raises(ConnectionError):
            client.sendall(b"a" * 300_000_000)


@pytest.mark.parametrize("headers", [b"", b"Connection: close\r\n"], ids=["kept", "closed"])
def test_a_client_that_does_not_read_its_answer_is_given_up(monkeypatch: pytest.MonkeyPatch, headers: bytes) -> None:
    monkeypatch.setattr(transport, "_WRITE_SECONDS", 0.5)
    with _serving(_long_answer) as place, socket.create_connection(("127.0.0.1", place.port), timeout=60) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n%b\r\n" % headers)
        assert client.recv(10).startswith(b"HTTP/1.1 2")
        _wait_until(lambda: place.connections() == 0)


class _Buffer:
    """A transport of which the test says what is unread."""

    def __init__(self) -> None:
        self.unread = 0
        self.closed = self.aborted = False

    def write(self, data: bytes) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return self.unread

    def is_closing(self) -> bool:
        return self.closed or self.aborted

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


class _Timers:
    """A loop of which the test says when time is over."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], None]] = []

    def call_later(self, _seconds: float, callback: Callable[[], None]) -> "_Timers":
        self._callbacks = [callback]
        return self

    def cancel(self) -> None:
        self._callbacks = []

    def run(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


def _watched(unread: int) -> tuple[PatientTransport, _Buffer, _Timers]:
    buffer, timers = _Buffer(), _Timers()
    patient = PatientTransport(buffer, timers, lambda: None)  # type: ignore[arg-type]  # as much of them as is used
    buffer.unread = unread
    patient.watch_client()
    return patient, buffer, timers


def test_a_client_that_reads_on_slowly_is_waited_for() -> None:
    _, buffer, timers = _watched(1_000_000)
    while buffer.unread:
        buffer.unread = max(0, buffer.unread - 100_000)
        timers.run()
    timers.run()
    assert not buffer.aborted


@pytest.mark.parametrize("read", [0, 100])
def test_a_client_that_reads_next_to_nothing_is_not_waited_for(read: int) -> None:
    _, buffer, timers = _watched(1_000_000)
    buffer.unread -= 100_000
    timers.run()
    assert not buffer.aborted
    buffer.unread -= read
    timers.run()
    assert buffer.aborted


def test_a_closed_connection_is_given_up_too_where_the_client_does_not_read() -> None:
    patient, buffer, timers = _watched(0)
    buffer.unread = 1000
    patient.hang_up()
    patient.stop_watching()  # that little is below what asyncio calls full
    timers.run()
    assert buffer.aborted


def test_a_client_that_has_read_is_not_watched_any_more() -> None:
    patient, buffer, timers = _watched(100_000)
    buffer.unread = 1000
    patient.stop_watching()
    timers.run()
    assert not buffer.aborted


_DESCRIPTORS = 256
_CROWD = 400  # more than there are descriptors


def _answers(server: Server) -> list[int]:
    """To newcomers."""
    found = []
    for _ in range(20):
        with connected(server) as wire:
            wire.send(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            found += wire.answers()
    return found


def _crowd(stack: ExitStack, server: Server, size: int, said: bytes) -> list[Wire]:
    wires = []
    for _ in range(size):
        wire = stack.enter_context(connected(server))
        wire.send(said)
        wires.append(wire)
    return wires


@pytest.mark.parametrize("said", [b"", b"GET /livez HT"], ids=["nothing", "half a head"])
def test_newcomers_are_admitted_in_place_of_those_who_have_waited_longest(database_url: str, said: bytes) -> None:
    with serving(database_url, descriptors=(_DESCRIPTORS, _DESCRIPTORS)) as server, ExitStack() as stack:
        with server.client() as client:
            create_sketch(client)
        begun = stack.enter_context(connected(server))
        begun.send(head("views", "Content-Length: 4") + b"a\n")
        regular = stack.enter_context(connected(server))
        for _ in range(_CROWD // 20):
            _crowd(stack, server, 20, said)
            regular.send(batch("views", b"b"))
            answer = regular.answer()
            assert answer is not None
            assert answer.status == 200
        assert _answers(server) == [200] * 20
        begun.send(b"a\n")
        answer = begun.answer()
        assert answer is not None
        assert answer.status == 200


def test_where_all_are_at_work_newcomers_are_told_so(database_url: str) -> None:
    with serving(database_url, descriptors=(_DESCRIPTORS, _DESCRIPTORS)) as server, ExitStack() as stack:
        with server.client() as client:
            create_sketch(client)
        wires = _crowd(stack, server, 100, head("views", "Content-Length: 4") + b"a\n")
        assert _answers(server) == [503] * 20
        for wire in wires:
            wire.send(b"a\n")
        statuses = [answer.status for wire in wires if (answer := wire.answer()) is not None]
        assert set(statuses) == {200, 503}
        assert statuses.count(200) > 50
        assert _answers(server) == [200] * 20


def test_a_server_permits_itself_as_many_descriptors_as_it_may(database_url: str) -> None:
    with serving(database_url, descriptors=(_DESCRIPTORS, 2 * _DESCRIPTORS)) as server:
        assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE) == (2 * _DESCRIPTORS, 2 * _DESCRIPTORS)


def test_there_are_descriptors_left_for_a_full_queue_and_for_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in (1024, 4096, 20_000, 1_048_576, resource.RLIM_INFINITY):
        monkeypatch.setattr(resource, "getrlimit", lambda _kind, limit=limit: (limit, limit))
        most = 10**9 if limit == resource.RLIM_INFINITY else limit
        assert 100 < room.queue_length() <= 2048
        assert 500 < room.most_connections() <= most - room.queue_length() - 100
