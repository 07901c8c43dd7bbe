"""Several processes, started together or apart, on one database: every acknowledged event is counted once."""

import gzip
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx2
import pytest
import zstandard

from app.store.database import Database
from tests import books
from tests.api.calls import create_sketch, post_events, problem
from tests.server import Server, start, wait_until_ready

_SENDERS, _BATCHES = 8, 25
_KEYS = [f"k{number}" for number in range(40)]


@pytest.fixture
def servers(database_url: str) -> Iterator[list[Server]]:
    """Two workers; and, on PostgreSQL, which is there for it, a replica that was started on its own."""
    servers = [start(database_url, workers=2)]
    if database_url.startswith("postgresql"):
        servers.append(start(database_url))
    try:
        for server in servers:
            wait_until_ready(server)
        yield servers
    finally:
        for server in servers:
            if server.process.poll() is None:
                server.kill()
            server.log.unlink()


class _Sender:
    """Sends batches in every form to a server at random; every other one so that it can be repeated, and some of those
    again, elsewhere."""

    def __init__(self, number: int, servers: list[Server]) -> None:
        self._choice = random.Random(number)
        self._name = f"sender-{number}"
        self._servers = servers
        self.counted: Counter[str] = Counter()

    def run(self) -> None:
        with ExitStack() as open_clients:
            clients = [open_clients.enter_context(server.client()) for server in self._servers]
            for number in range(_BATCHES):
                keys = self._choice.choices(_KEYS, k=self._choice.randrange(1, 60))
                content, headers = self._form(keys)
                if number % 2:
                    headers["Idempotency-Key"] = f"{self._name}-{number}"
                for _ in range(self._choice.choice((1, 1, 2, 3)) if number % 2 else 1):
                    self._send(clients, content, headers, len(keys))
                self.counted.update(keys)

    def _form(self, keys: list[str]) -> tuple[bytes, dict[str, str]]:
        document, lines = json.dumps({"events": keys}).encode(), "\n".join(keys).encode()
        forms = [
            (document, {"Content-Type": "application/json"}),
            (gzip.compress(document), {"Content-Type": "application/json", "Content-Encoding": "gzip"}),
            (lines, {"Content-Type": "text/plain"}),
            (zstandard.compress(lines), {"Content-Type": "text/plain", "Content-Encoding": "zstd"}),
        ]
        return self._choice.choice(forms)

    def _send(self, clients: list[httpx2.Client], content: bytes, headers: dict[str, str], events: int) -> None:
        """Until it is acknowledged; 503 asks for a retry, which may go to another server."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            client = self._choice.choice(clients)
            answer = client.post("/v1/sketches/views/events", content=content, headers=headers)
            if answer.status_code != 503 or "Idempotency-Key" not in headers:
                assert answer.json() == {"accepted": events}
                return
            time.sleep(float(answer.headers["retry-after"]))
        raise AssertionError("not acknowledged")


def _send_everything(servers: list[Server]) -> Counter[str]:
    senders = [_Sender(number, servers) for number in range(_SENDERS)]
    with ThreadPoolExecutor(_SENDERS) as threads:
        for done in [threads.submit(sender.run) for sender in senders]:
            done.result()
    return sum((sender.counted for sender in senders), Counter[str]())


def _send_before_and_after_a_revocation(servers: list[Server]) -> int:
    """How many batches the key sent before. There are many connections, which the workers share out among them."""
    with servers[0].client() as admin:
        made = admin.post("/v1/keys", json={"name": "n", "scopes": ["ingest"]}).json()
    with ExitStack() as open_clients:
        clients = [open_clients.enter_context(server.client()) for server in servers * 8]
        for client in clients:
            client.headers["Authorization"] = f"Bearer {made['secret']}"
            assert post_events(client, ["before"]).status_code == 200
        with servers[-1].client() as admin:
            assert admin.delete(f"/v1/keys/{made['id']}").status_code == 204
        for client in clients:
            assert problem(post_events(client, ["after"])) == "unauthenticated"
        return len(clients)


def test_processes_on_one_database_count_an_event_once_and_heed_a_revocation_at_once(
    servers: list[Server], database_url: str
) -> None:
    """Both in one test, because starting the processes takes longer than all the rest."""
    with servers[0].client() as client:
        create_sketch(client, k=1024)
    counted = _send_everything(servers)
    database = Database(database_url)
    assert books.counters(database) == counted
    counted["before"] = _send_before_and_after_a_revocation(servers)
    assert books.counters(database) == counted
    database.close()
