"""A request is whole or it is nothing: what was declared is counted to the last byte, and no byte of it becomes another
request. Tried byte by byte on the real server."""

import shutil
import socket
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path

import pytest

from app.store.database import Database
from tests import books
from tests.api.calls import create_sketch
from tests.operations.serving import serving
from tests.operations.wire import Wire, batch, chunked, connected, head
from tests.server import Server

_NUMBERS = count()
_H2C = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA")
_WEBSOCKET = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
)
_UPGRADES = {"h2c": _H2C, "websocket": _WEBSOCKET, "unknown": ("Connection: keep-alive, Upgrade", "Upgrade: tea/2")}
_LINES = b"a\nb\na\n"
_SMUGGLED = b"POST /v1/sketches/stolen/events HTTP/1.1\nAuthorization: Bearer another\n"


@pytest.fixture(scope="module")
def place(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Database]]:
    path = tmp_path_factory.mktemp("framing") / "discreet.db"
    shutil.copy(migrated_sqlite, path)
    database = Database(f"sqlite:///{path}")
    with serving(f"sqlite:///{path}") as server:
        yield server, database
    database.close()


@pytest.fixture
def server(place: tuple[Server, Database]) -> Server:
    return place[0]


class Sketch:
    """One of the test's own."""

    def __init__(self, server: Server, database: Database) -> None:
        self.name = f"sketch-{next(_NUMBERS)}"
        self._server, self._database = server, database
        with server.client() as client:
            create_sketch(client, self.name)

    def counted(self) -> dict[str, int]:
        """After a last batch, so that nothing is under way any more."""
        with connected(self._server) as wire:
            wire.send(batch(self.name, b"last", "Connection: close"))
            assert wire.answers() == [200]
        counters = books.counters(self._database, self.name)
        assert counters.pop("last") == 1
        return counters


@pytest.fixture
def sketch(place: tuple[Server, Database]) -> Sketch:
    return Sketch(*place)


def _accepted(wire: Wire) -> bytes:
    answer = wire.answer()
    assert answer is not None
    assert answer.status == 200, answer
    return answer.body


def _request(sketch: Sketch, coding: str, *headers: str) -> bytes:
    if coding == "chunked":
        return head(sketch.name, *headers, "Transfer-Encoding: chunked") + chunked(_LINES[:3], _LINES[3:])
    return batch(sketch.name, _LINES, *headers)


@pytest.mark.parametrize("coding", ["length", "chunked"])
@pytest.mark.parametrize("upgrade", _UPGRADES)
def test_who_asks_for_another_protocol_is_answered_in_this_one_and_loses_no_byte(
    server: Server, sketch: Sketch, upgrade: str, coding: str
) -> None:
    request = _request(sketch, coding, *_UPGRADES[upgrade])
    end = request.index(b"\r\n\r\n") + 4
    cuts = [(), (end,), (end + 2,), (end - 2,), (20, end + 1, len(request) - 1)]
    with connected(server) as wire:
        for cut in cuts:
            edges = (0, *cut, len(request))
            wire.send(*(request[left:right] for left, right in pairwise(edges)))
            assert _accepted(wire) == b'{"accepted":3}'
    assert sketch.counted() == {"a": 2 * len(cuts), "b": len(cuts)}


def test_an_idempotency_key_is_claimed_by_the_whole_body_whatever_protocol_was_asked_for(
    server: Server, sketch: Sketch
) -> None:
    with connected(server) as wire:
        wire.send(batch(sketch.name, _LINES, "Idempotency-Key: one", *_H2C))
        assert _accepted(wire) == b'{"accepted":3}'
        wire.send(batch(sketch.name, _LINES, "Idempotency-Key: one"))
        assert _accepted(wire) == b'{"accepted":3}'
    assert sketch.counted() == {"a": 2, "b": 1}


@pytest.mark.parametrize("together", [True, False])
def test_a_body_that_looks_like_a_request_is_a_body(server: Server, sketch: Sketch, together: bool) -> None:
    request = batch(sketch.name, _SMUGGLED, *_H2C)
    parts = [request] if together else [request[: -len(_SMUGGLED)], request[-len(_SMUGGLED) :]]
    with connected(server) as wire:
        wire.send(*parts, batch(sketch.name, b"next", "Connection: close"))
        assert wire.answers() == [200, 200]
    assert sketch.counted() == {**dict.fromkeys(_SMUGGLED.decode().splitlines(), 1), "next": 1}


def test_requests_behind_one_that_asks_for_another_protocol_are_answered_each_by_itself(
    server: Server, sketch: Sketch
) -> None:
    requests = [batch(sketch.name, b"line %d" % number, *(_H2C if number % 2 else ())) for number in range(20)]
    with connected(server) as wire:
        wire.send(b"".join(requests) + batch(sketch.name, b"end", "Connection: Upgrade, close", "Upgrade: h2c"))
        assert wire.answers() == [200] * 21
    assert sketch.counted() == {**{f"line {number}": 1 for number in range(20)}, "end": 1}


def test_a_handshake_for_a_websocket_is_an_ordinary_request(server: Server) -> None:
    with connected(server) as wire:
        wire.send("\r\n".join(("GET /livez HTTP/1.1", "Host: x", *_WEBSOCKET, "", "")).encode())
        answer = wire.answer()
        assert answer is not None
        assert answer.status == 200


_CHUNKS = chunked(_LINES)
_UNREADABLE: dict[str, tuple[list[str], bytes, str, int]] = {  # headers, body, version, status
    "a length and chunks": (["Content-Length: 6", "Transfer-Encoding: chunked"], _CHUNKS, "1.1", 400),
    "chunks and a length": (["Transfer-Encoding: chunked", "Content-Length: 6"], _CHUNKS, "1.1", 400),
    "two lengths": (["Content-Length: 6", "Content-Length: 2"], _LINES, "1.1", 400),
    "a length twice": (["Content-Length: 6", "Content-Length: 6"], _LINES, "1.1", 400),
    "a list of lengths": (["Content-Length: 6, 6"], _LINES, "1.1", 400),
    "a signed length": (["Content-Length: +6"], _LINES, "1.1", 400),
    "an empty length": (["Content-Length: "], _LINES, "1.1", 400),
    "a folded length": (["Content-Length: 1\r\n 2"], _LINES, "1.1", 400),
    "a length beyond all numbers": ([f"Content-Length: {'9' * 30}"], _LINES, "1.1", 400),
    "two lengths and an upgrade": ([*_H2C, "Content-Length: 6", "Content-Length: 2"], _LINES, "1.1", 400),
    "a length, chunks and an upgrade": ([*_H2C, "Content-Length: 6", "Transfer-Encoding: chunked"], b"", "1.1", 400),
    "gzip": (["Transfer-Encoding: gzip"], _CHUNKS, "1.1", 501),
    "gzip in chunks": (["Transfer-Encoding: gzip, chunked"], _CHUNKS, "1.1", 501),
    "gzip in chunks and an upgrade": ([*_H2C, "Transfer-Encoding: gzip, chunked"], _CHUNKS, "1.1", 501),
    "identity and chunks": (["Transfer-Encoding: identity", "Transfer-Encoding: chunked"], _CHUNKS, "1.1", 501),
    "chunks twice": (["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], _CHUNKS, "1.1", 400),
    "no coding": (["Transfer-Encoding: "], _CHUNKS, "1.1", 400),
    "a chunk that is longer than it says": (["Transfer-Encoding: chunked"], b"2\r\na\nb\n\r\n0\r\n\r\n", "1.1", 400),
    "a chunk without a size": (["Transfer-Encoding: chunked"], b"2\r\na\n\r\nx\r\n\r\n", "1.1", 400),
    "a later chunk without a size": ([*_H2C, "Transfer-Encoding: chunked"], b"2\r\na\n\r\n-1\r\n\r\n", "1.1", 400),
    "chunks in HTTP/1.0": (["Transfer-Encoding: chunked"], _CHUNKS, "1.0", 400),
    "no length in HTTP/1.0": ([], _LINES, "1.0", 411),
    "HTTP/2.0": (["Content-Length: 6"], _LINES, "2.0", 505),
    "HTTP/0.9": (["Content-Length: 6"], _LINES, "0.9", 505),
}


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("case", _UNREADABLE)
def test_a_request_whose_end_is_in_doubt_is_refused_with_all_that_follows(
    server: Server, sketch: Sketch, case: str, together: bool
) -> None:
    headers, body, version, status = _UNREADABLE[case]
    parts = [head(sketch.name, *headers, version=version), body + batch(sketch.name, b"behind")]
    with connected(server) as wire:
        wire.send(*([b"".join(parts)] if together else parts))
        assert wire.answers() == [status]
    assert sketch.counted() == {}


def test_a_tunnel_is_refused_with_all_that_is_sent_into_it(server: Server, sketch: Sketch) -> None:
    with connected(server) as wire:
        wire.send(b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n" + batch(sketch.name, b"behind"))
        assert wire.answers() == [501]
    assert sketch.counted() == {}


def test_what_is_sent_beyond_the_declared_length_is_refused_after_the_answer_to_what_was_declared(
    server: Server, sketch: Sketch
) -> None:
    with connected(server) as wire:
        wire.send(batch(sketch.name, b"first") + batch(sketch.name, b"second") + b"third\nfourth\n")
        assert wire.answers() == [200, 200, 400]
    assert sketch.counted() == {"first": 1, "second": 1}


def test_a_body_that_cannot_be_read_is_refused_after_the_answer_to_the_request_before_it(
    server: Server, sketch: Sketch
) -> None:
    with connected(server) as wire:
        broken = head(sketch.name, "Transfer-Encoding: chunked") + b"2\r\nab\r\nno size\r\n"
        wire.send(batch(sketch.name, b"first") + broken + batch(sketch.name, b"behind"))
        assert wire.answers() == [200, 400]
    assert sketch.counted() == {"first": 1}


_HALVES: dict[str, tuple[list[str], bytes]] = {
    "half of the declared length": (["Content-Length: 6"], _LINES[:3]),
    "nothing of the declared length": (["Content-Length: 6"], b""),
    "all but the last chunk": (["Transfer-Encoding: chunked"], _CHUNKS[:-5]),
    "all but the last line break": (["Transfer-Encoding: chunked"], _CHUNKS[:-2]),
    "half of the length behind an upgrade": ([*_H2C, "Content-Length: 6"], _LINES[:3]),
    "nothing of the length behind an upgrade": ([*_H2C, "Content-Length: 6"], b""),
    "half of the chunks behind an upgrade": ([*_WEBSOCKET, "Transfer-Encoding: chunked"], _CHUNKS[:-5]),
    "half of what was to be awaited": (["Expect: 100-continue", "Content-Length: 6"], _LINES[:3]),
}


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("case", _HALVES)
def test_a_body_that_breaks_off_counts_nothing_and_claims_no_key(
    server: Server, sketch: Sketch, case: str, together: bool
) -> None:
    headers, body = _HALVES[case]
    parts = [head(sketch.name, "Idempotency-Key: one", *headers), *([body] if body else [])]
    with connected(server) as wire:
        wire.send(*([b"".join(parts)] if together else parts))
        wire.connection.shutdown(socket.SHUT_WR)
        assert {*wire.answers()} <= {100}
    with connected(server) as wire:
        wire.send(batch(sketch.name, _LINES, "Idempotency-Key: one", "Connection: close"))
        assert wire.answers() == [200]
    assert sketch.counted() == {"a": 2, "b": 1}


def test_a_client_that_asks_whether_to_go_on_is_told_to_and_keeps_its_connection(
    server: Server, sketch: Sketch
) -> None:
    with connected(server) as wire:
        for headers in (("Expect: 100-continue",), ("Expect: 100-continue", *_H2C)):
            wire.send(head(sketch.name, *headers, "Content-Length: 6"))
            goes_on = wire.answer()
            assert goes_on is not None
            assert goes_on.status == 100
            wire.send(_LINES)
            assert _accepted(wire) == b'{"accepted":3}'
    assert sketch.counted() == {"a": 4, "b": 2}


def test_a_client_that_is_refused_before_it_goes_on_may_keep_its_body_so_nothing_more_is_read(
    server: Server, sketch: Sketch
) -> None:
    with connected(server) as wire:
        wire.send(
            head(sketch.name, "Expect: 100-continue", "Content-Length: 6", key="wrong"),
            batch(sketch.name, b"behind"),
        )
        answer = wire.answer()
        assert answer is not None
        assert answer.status == 401
        assert b"\r\nconnection: close" in answer.head
        assert wire.answers() == []
    assert sketch.counted() == {}


def test_http_1_0_with_a_length_is_counted_and_never_told_to_go_on(server: Server, sketch: Sketch) -> None:
    for headers in ((), ("Expect: 100-continue",), _H2C):
        with connected(server) as wire:
            wire.send(batch(sketch.name, _LINES, *headers, version="1.0"))
            assert wire.answers() == [200]
    assert sketch.counted() == {"a": 6, "b": 3}


def test_what_stands_behind_a_chunked_body_is_not_a_header(server: Server, sketch: Sketch) -> None:
    request = head(sketch.name, "Transfer-Encoding: chunked", "Connection: close")
    trailer = b"Idempotency-Key: with spaces\r\nContent-Encoding: gzip\r\n\r\n"
    with connected(server) as wire:
        wire.send(request + chunked(_LINES)[:-2], trailer)
        assert wire.answers() == [200]
    assert sketch.counted() == {"a": 2, "b": 1}


@pytest.mark.parametrize("flood", [b"x" * 1000, b"x: y\r\n" * 200])
def test_what_stands_behind_a_chunked_body_is_bounded(server: Server, sketch: Sketch, flood: bytes) -> None:
    with connected(server) as wire:
        wire.send(head(sketch.name, "Transfer-Encoding: chunked") + chunked(_LINES)[:-2] + b"x: ")
        for _ in range(300):
            try:
                wire.connection.sendall(flood)
            except ConnectionError:
                break
        assert wire.answers() == [431]
    assert sketch.counted() == {}
