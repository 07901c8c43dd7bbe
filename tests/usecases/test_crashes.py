"""kill -9 at any moment loses no acknowledged batch, counts none twice, and parts no charge from its snapshot."""

import json
import random
import subprocess
import sys
import threading
import time
from typing import Any

import httpx2
import pytest
from sqlalchemy import text

from app.store.database import Database
from tests import books
from tests.api.calls import create_sketch, post_events, release
from tests.server import Server, running

pytestmark = pytest.mark.long


def _crashes(database_url: str, verb: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.usecases.crashing", database_url, verb]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def sketch(client: httpx2.Client) -> None:
    create_sketch(client, epsilon="100", delta="1e-3", k=1024)


@pytest.mark.usefixtures("sketch")
def test_a_batch_cut_off_at_any_moment_is_counted_once_after_its_retry(database_url: str) -> None:
    reports = _crashes(database_url, "ingest")
    moments = [report["moment"] for report in reports[:-1]]
    assert "before commit" in moments
    assert "after commit" in moments
    assert len(moments) > 8  # claim, sketch, state, update, each before and after
    for number, report in enumerate(reports):
        counted = report["crashed"]["counters"].get("a", 0)
        committed = report["moment"] == "after commit" or report["answered"]
        assert counted == number + committed, report["moment"]
        assert report["retried"]["counters"] == {"a": number + 1}, report["moment"]


@pytest.mark.usefixtures("sketch")
def test_a_release_cut_off_at_any_moment_parts_no_charge_from_its_snapshot(database_url: str) -> None:
    reports = _crashes(database_url, "release")
    moments = [report["moment"] for report in reports[:-1]]
    assert "before commit" in moments
    assert "after commit" in moments
    assert len(moments) > 14
    for number, report in enumerate(reports):
        for state in ("crashed", "retried"):
            books.Books(**_tuples(report[state]["books"])).balance()
        committed = report["moment"] == "after commit" or report["answered"]
        assert report["crashed"]["books"]["payments"] == number + committed, report["moment"]
        assert report["retried"]["books"]["payments"] == number + 1, report["moment"]
    assert all(report[state]["faults"] == [] for report in reports for state in ("crashed", "retried"))


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


class _Sender:
    """Posts batches and releases from one thread until the server dies; remembers what was answered."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sent: list[str] = []
        self.acknowledged: set[str] = set()
        self.snapshots: set[str] = set()

    def run(self, server: Server) -> None:
        with server.client() as client:
            try:
                while True:
                    self._send(client)
            except httpx2.TransportError:
                return

    def _send(self, client: httpx2.Client) -> None:
        key = f"{self.name}-{len(self.sent)}"
        self.sent.append(key)
        if post_events(client, [key], key=key).status_code == 200:
            self.acknowledged.add(key)
        if len(self.sent) % 3 == 0:
            answer = release(client, epsilon="0.01", delta="1e-9")
            if answer.status_code == 201:
                self.snapshots.add(answer.json()["id"])


def _until_killed(server: Server, senders: list[_Sender], pause: float) -> None:
    """Killed in the middle of its work, however slow the machine is: a while after a first snapshot was answered."""
    threads = [threading.Thread(target=sender.run, args=(server,)) for sender in senders]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 60
    while not any(sender.snapshots for sender in senders) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(pause)
    server.kill()
    for thread in threads:
        thread.join()


def _wait_until_alone(database: Database) -> None:
    """PostgreSQL may still be at the last statement of a dead client, and commit it while the books are read."""
    if database.engine.dialect.name == "sqlite":
        return
    others = text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with database.reading() as session:
            if not session.execute(others).scalar():
                return
        time.sleep(0.01)
    raise AssertionError("a dead client's session does not end")


def test_servers_killed_under_load_keep_every_acknowledged_batch_and_balance(database_url: str) -> None:
    moments = random.Random(20_240_607)
    senders: list[_Sender] = []
    with running(database_url) as server, server.client() as client:
        create_sketch(client, epsilon="100", delta="1e-3", k=4096)
    database = Database(database_url)
    for number in range(2):
        new = [_Sender(f"{number}-{letter}") for letter in "abcd"]
        senders += new
        with running(database_url, workers=2) as server:
            _until_killed(server, new, moments.uniform(0, 1))
        _wait_until_alone(database)
        books.read(database).balance()
        counted = books.counters(database)
        assert set(counted.values()) <= {1}
        assert {key for sender in senders for key in sender.acknowledged} <= set(counted)
    _retry_all(database_url, senders)
    assert books.counters(database) == {key: 1 for sender in senders for key in sender.sent}
    assert books.read(database).payments >= sum(len(sender.snapshots) for sender in senders) > 0
    database.close()


def _retry_all(database_url: str, senders: list[_Sender]) -> None:
    with running(database_url) as server, server.client() as client:
        for sender in senders:
            assert {post_events(client, [key], key=key).status_code for key in sender.sent} <= {200}
