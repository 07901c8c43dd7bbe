"""Clients that offer HTTP/2 on a plain connection are counted exactly, with what their users have installed."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.store.database import Database
from tests import books
from tests.api.calls import create_sketch
from tests.conftest import ADMIN_KEY
from tests.server import Server, running

_SECONDS = 120


@pytest.fixture
def server(database_url: str) -> Iterator[Server]:
    with running(database_url) as server:
        with server.client() as client:
            create_sketch(client)
        yield server


def _run(*command: str) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _counted(database_url: str) -> dict[str, int]:
    database = Database(database_url)
    counters = books.counters(database)
    database.close()
    return counters


@pytest.mark.skipif(shutil.which("java") is None, reason="there is no java")
def test_a_java_client_with_its_defaults_is_counted_exactly(server: Server, database_url: str) -> None:
    source = str(Path(__file__).with_name("Send.java"))
    answers = _run("java", source, f"{server.url}/v1/sketches/views/events", ADMIN_KEY)
    assert answers == [f'200 {{"accepted":{100 * (number + 1)}}}' for number in range(4)] * 2
    # Each batch was sent twice; the last two under a key, so that they count once.
    assert _counted(database_url) == {"java 0": 200, "java 1": 400, "java 2": 300, "java 3": 400}


def _curl_lacks_http2() -> bool:
    if shutil.which("curl") is None:
        return True
    version = subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True).stdout
    return "HTTP2" not in version.partition("Features:")[2].split()


@pytest.mark.skipif(_curl_lacks_http2(), reason="there is no curl with HTTP/2")
@pytest.mark.parametrize(("key", "sent"), [("k", 3), ("k" * 150, 9_000)])  # before a long body curl asks first
def test_curl_with_http2_is_counted_exactly(
    server: Server, database_url: str, tmp_path: Path, key: str, sent: int
) -> None:
    batch = tmp_path / "batch"
    batch.write_text(f"{key}\n" * sent)
    url = f"{server.url}/v1/sketches/views/events"
    headers = ["-H", f"Authorization: Bearer {ADMIN_KEY}", "-H", "Content-Type: text/plain"]
    curl = ["curl", "--silent", "--show-error", "--http2", "--data-binary", f"@{batch}", *headers]
    for more in ([], [], ["-H", "Idempotency-Key: one"], ["-H", "Idempotency-Key: one"]):
        assert _run(*curl, *more, url) == [f'{{"accepted":{sent}}}']
    chunks = ["-H", "Transfer-Encoding: chunked"]
    assert _run(*curl, *chunks, url) == [f'{{"accepted":{sent}}}']
    assert _counted(database_url) == {key: 4 * sent}
