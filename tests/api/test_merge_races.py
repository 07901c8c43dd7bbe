"""Merges and releases that race: whatever a released histogram shows, its ledgers were charged."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from app.main import build_context, create_app
from app.settings import Settings
from app.store import ledger, sketches
from app.store.database import Database
from app.store.records import LedgerRecord, SketchRecord
from app.usecases.audit_ledger import verify_ledgers
from app.usecases.context import Context
from tests import books
from tests.api.calls import create_sketch, merge, post_events, release
from tests.conftest import ADMIN_KEY
from tests.server import running

_SOURCES = [f"source-{number}" for number in range(6)]
_WITNESS = 10**9  # a count that no noise hides: a histogram that holds a source's data shows its witness


def _prepare(client: httpx2.Client) -> None:
    for name in _SOURCES:
        create_sketch(client, name, epsilon="2", delta="1e-3", k=16)
        post_events(client, [{"key": f"of {name}", "count": _WITNESS}], name)


def _act(client: httpx2.Client, number: int) -> list[dict[str, Any]]:
    """A few merges and releases, chosen at random; the snapshots that came of it."""
    choice = random.Random(number)
    snapshots = []
    for _ in range(12):
        target = f"target-{choice.randrange(4)}"
        if choice.random() < 0.35:
            source = choice.choice([*_SOURCES, f"target-{choice.randrange(4)}"])
            answer = merge(client, target, source)
            assert answer.status_code in (201, 404, 409), answer.text
        else:
            answer = release(client, choice.choice([target, choice.choice(_SOURCES)]), epsilon="0.1")
            assert answer.status_code in (201, 404, 409), answer.text
            snapshots += [answer.json()] if answer.status_code == 201 else []
    return snapshots


def test_a_histogram_that_shows_a_source_was_paid_by_its_ledger(database_url: str) -> None:
    with running(database_url, workers=2) as server, server.client() as client, ThreadPoolExecutor(8) as threads:
        _prepare(client)
        snapshots = [snapshot for some in threads.map(lambda n: _act(client, n), range(16)) for snapshot in some]
    shown = [({bar["key"][3:] for bar in s["histogram"]}, {paid["ledger"] for paid in s["charged"]}) for s in snapshots]
    assert any(len(sources) > 1 for sources, _ledgers in shown)  # merged data was released
    for sources, ledgers in shown:
        assert sources <= ledgers
    database = Database(database_url)
    for name in _SOURCES:
        found = books.read(database, name)
        assert found.spent == found.entries
        assert found.spent[0] <= 2 * 10**9
    database.close()


def test_a_merge_waits_for_a_release_that_knows_its_payers_and_has_not_yet_read(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the release could read data whose ledger it has not charged."""
    held, go_on, lock_payers = threading.Event(), threading.Event(), ledger.lock_payers

    def lock_and_wait(*given: Any) -> list[LedgerRecord]:
        payers = lock_payers(*given)
        held.set()
        assert go_on.wait(30)
        return payers

    monkeypatch.setattr(ledger, "lock_payers", lock_and_wait)
    context = build_context(settings)
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    with TestClient(create_app(settings, context), headers=headers) as client, ThreadPoolExecutor(2) as threads:
        _prepare(client)
        merge(client, "target", _SOURCES[0])
        releasing = threads.submit(lambda: release(client, "target", epsilon="1"))
        assert held.wait(30)
        merging = threads.submit(lambda: merge(client, "target", _SOURCES[1]))
        assert not _finishes(merging.done, seconds=0.5)
        go_on.set()
        snapshot = releasing.result(30).json()
        assert [paid["ledger"] for paid in snapshot["charged"]] == [_SOURCES[0]]
        assert [bar["key"] for bar in snapshot["histogram"]] == [f"of {_SOURCES[0]}"]
        assert merging.result(30).status_code == 201
        assert client.get("/v1/sketches/target").json()["ledgers"] == _SOURCES[:2]
        assert verify_ledgers(context) == []


def _finishes(done: Callable[[], bool], *, seconds: float) -> bool:
    threading.Event().wait(seconds)
    return done()


def test_a_target_that_another_request_has_just_made_is_added_to(client: TestClient, context: Context) -> None:
    """The merge looks for the target before the other's commit, and wants to make it after."""
    for name in ("left", "right"):
        create_sketch(client, name)
        post_events(client, [name], name)
    with ThreadPoolExecutor(1) as threads:
        with context.database.writing() as session:
            _make_like(session, "both", sketches.get(session, "left"))
            merging = threads.submit(lambda: merge(client, "both", "left", "right"))
            assert not _finishes(merging.done, seconds=0.5)
        assert merging.result(30).status_code == 201
    assert books.counters(context.database, "both") == {"left": 1, "right": 1}


def _make_like(session: Session, name: str, like: SketchRecord) -> None:
    made = sketches.create(
        session,
        name=name,
        ledger_id=like.ledger_id,
        parameters=like.parameters,
        register_id=like.register_id,
        description="",
        now=like.created_at,
    )
    assert made
