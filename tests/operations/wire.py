"""Requests as bytes, and the answers to them: for what no HTTP library would send."""

import asyncio
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from tests.conftest import ADMIN_KEY
from tests.server import Server

_SECONDS = 30  # a test that hangs fails
_PAUSE = 0.1  # so that what is sent in two parts is received in two
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n")


class Answer(NamedTuple):
    status: int
    head: bytes
    body: bytes


class Wire:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._heard = b""

    def send(self, *parts: bytes) -> None:
        """Each in a packet of its own. Who is hung up on sends no more."""
        with suppress(ConnectionError):
            for number, part in enumerate(parts):
                if number:
                    time.sleep(_PAUSE)
                self.connection.sendall(part)

    def answer(self) -> Answer | None:
        """The next one; none if the server hangs up before."""
        while b"\r\n\r\n" not in self._heard:
            if not self._hear():
                return None
        head, _, self._heard = self._heard.partition(b"\r\n\r\n")
        found = _LENGTH.search(head + b"\r\n")
        length = int(found[1]) if found else 0
        while len(self._heard) < length:
            assert self._hear(), "the answer breaks off"
        body, self._heard = self._heard[:length], self._heard[length:]
        return Answer(int(head.split()[1]), head, body)

    def answers(self) -> list[int]:
        """The statuses of all that come until the server hangs up."""
        found = []
        while (answer := self.answer()) is not None:
            found.append(answer.status)
        return found

    def _hear(self) -> bool:
        try:
            more = self.connection.recv(65536)
        except ConnectionError:
            return False
        self._heard += more
        return bool(more)


@contextmanager
def connected(server: Server) -> Iterator[Wire]:
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=_SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield Wire(connection)


def head(sketch: str, *headers: str, version: str = "1.1", key: str = ADMIN_KEY) -> bytes:
    """Of a batch of lines; what it declares about its body is in `headers`."""
    lines = (
        f"POST /v1/sketches/{sketch}/events HTTP/{version}",
        "Host: x",
        f"Authorization: Bearer {key}",
        "Content-Type: text/plain",
        *headers,
    )
    return "\r\n".join((*lines, "", "")).encode()


def batch(sketch: str, body: bytes, *headers: str, version: str = "1.1") -> bytes:
    return head(sketch, *headers, f"Content-Length: {len(body)}", version=version) + body


def chunked(*chunks: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


class Recorded(asyncio.Transport):
    """Keeps what is written, and sends it to nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True
