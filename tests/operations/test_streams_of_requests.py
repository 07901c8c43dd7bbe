"""Requests are what they are, however a network cuts them: whatever the sizes of packets, the app is given the same."""

import asyncio
from dataclasses import dataclass, field
from itertools import pairwise

import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from app.server.connection import Connection
from tests.operations.wire import Recorded, chunked

_BODIES = [b"", b"a", b"0\r\n\r\n", b"GET /stolen HTTP/1.1\r\n\r\n", b"\r\n\r\n", b"x" * 300]
_UPGRADE = ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c"]


@dataclass
class _App:
    """Reads whole bodies, and tells each what it has read."""

    read: list[tuple[str, bytes]] = field(default_factory=list)  # path, body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message["body"]
            if not message["more_body"]:
                break
        self.read.append((scope["path"], body))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})


@st.composite
def _requests(draw: st.DrawFn) -> list[tuple[bytes, bytes]]:
    """Each as bytes, and its body. Bodies look like requests, since those are what a confused parser would find."""
    found = []
    for number in range(draw(st.integers(1, 4))):
        body = draw(
            st.sampled_from([b"", b"a", b"0\r\n\r\n", b"GET /stolen HTTP/1.1\r\n\r\n", b"\r\n\r\n", b"x" * 300])
        )
        headers = [*draw(st.sampled_from([[], _UPGRADE, ["Upgrade: h2c"], ["Expect: 100-continue"]]))]
        in_chunks = draw(st.booleans())
        headers.append("Transfer-Encoding: chunked" if in_chunks else f"Content-Length: {len(body)}")
        lines = (f"POST /{number} HTTP/1.1", "Host: x", *draw(st.permutations(headers)), "", "")
        cut = draw(st.integers(0, len(body)))
        pieces = [piece for piece in (body[:cut], body[cut:]) if piece]
        found.append(("\r\n".join(lines).encode() + (chunked(*pieces) if in_chunks else body), body))
    return found


def _received(stream: bytes, cuts: list[int]) -> tuple[_App, Recorded]:
    app, transport = _App(), Recorded()
    edges = [0, *sorted(cuts), len(stream)]

    async def scene() -> None:
        connection = Connection(uvicorn.Config(app, lifespan="off", log_config=None), ServerState(), {})
        connection.connection_made(transport)
        for left, right in pairwise(edges):
            if left < right and not transport.closed:
                connection.data_received(stream[left:right])
                await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        if connection.cycle is not None and not connection.cycle.response_complete:
            connection.connection_lost(None)  # it waits for more
        for _ in range(5):
            await asyncio.sleep(0)
        connection._stop_waiting()
        connection._unset_keepalive_if_required()

    asyncio.run(scene())
    return app, transport


@settings(max_examples=150, deadline=None)
@given(requests=_requests(), data=st.data())
def test_requests_are_the_same_however_they_are_cut(requests: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    stream = b"".join(request for request, _ in requests)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8))
    app, transport = _received(stream, cuts)
    assert app.read == [(f"/{number}", body) for number, (_, body) in enumerate(requests)]
    assert transport.written.count(b"HTTP/1.1 200 ") == len(requests)


@settings(max_examples=150, deadline=None)
@given(requests=_requests(), data=st.data())
def test_a_stream_that_ends_anywhere_gives_the_requests_that_were_whole(
    requests: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    stream = b"".join(request for request, _ in requests)
    end = data.draw(st.integers(0, len(stream)))
    app, _ = _received(stream[:end], data.draw(st.lists(st.integers(0, end), max_size=4)))
    whole, length = [], 0
    for number, (request, body) in enumerate(requests):
        length += len(request)
        if length <= end:
            whole.append((f"/{number}", body))
    assert app.read == whole


@settings(max_examples=300, deadline=None)
@given(requests=_requests(), data=st.data())
def test_a_stream_with_wrong_bytes_in_it_gives_at_most_one_answer_for_each_request(
    requests: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    """Whatever was changed, all before it stands, and nothing fails."""
    stream = bytearray(b"".join(request for request, _ in requests))
    at = data.draw(st.integers(0, len(stream) - 1))
    stream[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    app, transport = _received(bytes(stream), data.draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    untouched, length = [], 0
    for number, (request, body) in enumerate(requests):
        length += len(request)
        if length <= at:
            untouched.append((f"/{number}", body))
    assert app.read[: len(untouched)] == untouched
    refused = transport.written.count(b"connection: close\r\n\r\n{")
    assert refused <= 1
    assert transport.written.count(b"HTTP/1.1 200 ") <= len(app.read)
