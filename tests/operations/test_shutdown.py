"""SIGTERM under load: what was acknowledged is counted, what was in flight is answered, and then the process ends."""

import signal
import socket
import threading
import time

import httpx2
import pytest

from app.store.database import Database
from tests import books
from tests.api.calls import create_sketch
from tests.conftest import ADMIN_KEY
from tests.operations.serving import serving
from tests.server import Server

_SENDERS = 3
_SECONDS = 30  # in which it must have ended


class Sender(threading.Thread):
    """Sends one event after the other until the server is gone."""

    def __init__(self, server: Server, key: str) -> None:
        super().__init__(daemon=True)
        self.key, self.acknowledged, self.refused = key, 0, 0
        self._server = server

    def run(self) -> None:
        with self._server.client() as client:
            try:
                while True:
                    body = {"events": [self.key]}
                    answer = client.post("/v1/sketches/views/events", json=body)
                    self.acknowledged += answer.status_code == 200
                    self.refused += answer.status_code != 200
                    time.sleep(0.005)
            except httpx2.TransportError:
                return


class _HalfSent:
    """A batch of which the second half comes after the signal."""

    def __init__(self, server: Server) -> None:
        self._connection = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=_SECONDS)
        self._send(
            f"POST /v1/sketches/views/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN_KEY}\r\n"
            "Content-Type: text/plain\r\nContent-Length: 20\r\n\r\nhalf\nhalf\n"
        )

    def _send(self, text: str) -> None:
        self._connection.sendall(text.encode())

    def finish(self) -> bytes:
        """All that is answered until the server closes the connection."""
        self._send("half\nhalf\n")
        answer = b""
        while more := self._connection.recv(65536):
            answer += more
        self._connection.close()
        return answer


@pytest.mark.parametrize("workers", [1, 2])
def test_a_terminated_server_has_counted_all_it_acknowledged_and_answers_what_is_in_flight(
    database_url: str, workers: int
) -> None:
    with serving(database_url, workers=workers) as server:
        with server.client() as client:
            create_sketch(client)
        senders = [Sender(server, f"sender-{number}") for number in range(_SENDERS)]
        for sender in senders:
            sender.start()
        half = _HalfSent(server)
        while sum(sender.acknowledged for sender in senders) < 30:
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.7)  # the parent of several workers looks for signals twice a second
        answer = half.finish()
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b'{"accepted":4}')
        assert server.process.wait(timeout=_SECONDS) in (0, -signal.SIGTERM)
        for sender in senders:
            sender.join(_SECONDS)
    database = Database(database_url)
    counted = books.counters(database)
    database.close()
    assert counted.pop("half") == 4
    for sender in senders:  # the last one of each may have been counted without an answer reaching it
        assert sender.refused == 0
        assert sender.acknowledged <= counted[sender.key] <= sender.acknowledged + 1
