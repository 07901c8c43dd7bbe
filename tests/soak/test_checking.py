"""The check of a soak can fail: whatever is not as it was acknowledged is reported."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from app.store.tables import EntryRow, LedgerRow
from app.usecases.context import Context
from tests.api.calls import create_sketch, merge, post_events, release
from tests.soak import checking, sending
from tests.soak.calls import Tally
from tests.soak.merging import reduced
from tests.soak.soak import Outcome, of_clients
from tests.soak.truth import Refused, Truth

_COUNTS = Counter({"a": 100, "b": 3})
_EVENTS = [{"key": key, "count": count} for key, count in _COUNTS.items()]


@pytest.fixture
def truth(client: TestClient) -> Truth:
    """Of what was done: two sketches with events, their sum, and a release of it that both ledgers paid."""
    truth = Truth()
    for name in ("views", "clicks"):
        create_sketch(client, name)
        post_events(client, _EVENTS, name)
        truth.count(name, _COUNTS)
        truth.count("both", reduced(_COUNTS, 64))
    merge(client, "both", "views", "clicks", mode="summed")
    assert truth.release("monday", release(client, "both", epsilon="0.6", key="monday").json()) is None
    assert release(client, "views", epsilon="0.6").status_code == 409
    truth.refuse(Refused(frozenset({"views"}), "0.6", "1e-6"))
    return truth


def test_what_is_as_acknowledged_passes(context: Context, truth: Truth) -> None:
    assert checking.faults(context.database, truth) == []


@pytest.mark.parametrize(("lie", "shown"), [(+5, "a 100 instead of 105"), (-5, "a 100 instead of 95")])
def test_a_batch_that_was_lost_or_counted_twice_is_reported(
    context: Context, truth: Truth, lie: int, shown: str
) -> None:
    truth.count("views", {"a": lie})
    assert checking.faults(context.database, truth) == [f"sketch views: 1 keys are not as acknowledged: {shown}"]


def test_an_event_beyond_the_allowance_and_a_set_counted_twice_are_reported(
    client: TestClient, context: Context
) -> None:
    """By sketches that trust their senders, and so count whatever comes."""
    truth, user = Truth(), "user-7"
    body: dict[str, Any] = {"k": 64, "budget": {"epsilon": "1", "delta": "1e-5"}, "enforcement": "declared"}
    client.put(f"/v1/sketches/{sending.BOUNDED}", json=body)
    client.put(f"/v1/sketches/{sending.SETS}", json={**body, "unit": "user", "max_contributions": 2})
    post_events(client, [sending.key_of(user)] * 4, sending.BOUNDED)
    sets = {"users": [{"user": user, "keys": sending.set_of(user)}]}
    for _ in range(2):
        client.post(f"/v1/sketches/{sending.SETS}/events", json=sets)
    truth.meet(sending.BOUNDED, [user] * 4)
    truth.meet(sending.SETS, [user] * 2)
    assert checking.faults(context.database, truth) == [
        "sketch bounded: 1 keys are not as acknowledged: /page/7 4 instead of 3",
        "sketch sets: 2 keys are not as acknowledged: /page/107 2 instead of 1, /page/7 2 instead of 1",
    ]


def test_a_release_that_nobody_was_told_of_is_reported(client: TestClient, context: Context, truth: Truth) -> None:
    assert release(client, "views", epsilon="0.1").status_code == 201
    assert checking.faults(context.database, truth) == [
        "ledger views: 2 payments for 1 acknowledged releases",
        "1 snapshots nobody was given, 0 given and missing",
    ]


def test_a_payment_too_many_is_reported(client: TestClient, context: Context, truth: Truth) -> None:
    create_sketch(client, "other")
    with context.database.writing() as session:
        paid = session.scalars(select(EntryRow).where(EntryRow.kind == "release")).first()
        assert paid is not None
        ledger_id = session.scalars(select(LedgerRow.id).where(LedgerRow.name == "other")).one()
        columns = {column.key: getattr(paid, column.key) for column in EntryRow.__table__.columns}
        session.add(EntryRow(**columns | {"number": None, "ledger_id": ledger_id, "epsilon": 10**9 + 1}))
    assert checking.faults(context.database, truth) == [
        "ledger other: 1 payments for 0 acknowledged releases",
        "ledger other: more is spent than there was",
    ]


def test_a_release_that_was_lost_or_refused_wrongly_is_reported(context: Context, truth: Truth) -> None:
    truth.releases["tuesday"] = replace(truth.releases["monday"], id="0" * 32, charged=frozenset())
    truth.refuse(Refused(frozenset({"views", "clicks"}), "0.4", "1e-6"))
    assert checking.faults(context.database, truth) == [
        "ledgers clicks, views: ε = 0.4 was refused and would fit",
        "0 snapshots nobody was given, 1 given and missing",
    ]


def test_one_request_with_two_snapshots_is_reported(client: TestClient, truth: Truth) -> None:
    another = release(client, "views", epsilon="0.1").json()
    assert truth.release("monday", another) == "release monday was answered with two different snapshots"


def _of_clients(*, breaks: list[float], kills: list[float], faults: tuple[str, ...] = ()) -> list[str]:
    tallies = [Tally(breaks=breaks, faults=list(faults)), Tally()]
    return list(of_clients(Outcome(60, Truth(), tallies, kills)))


def test_requests_may_break_with_a_kill_and_at_no_other_time() -> None:
    assert _of_clients(breaks=[10.1, 10.2], kills=[10]) == []
    assert _of_clients(breaks=[], kills=[10]) == ["no connection broke in 1 kills, which therefore proved nothing"]
    assert _of_clients(breaks=[10.1] * 3, kills=[10]) == ["3 connections broke, more than 2 clients have in 1 kills"]
    assert _of_clients(breaks=[9.9, 10.1], kills=[10]) == ["1 connections broke while no worker was killed"]
    assert _of_clients(breaks=[10.1], kills=[10], faults=("ingest: 500",)) == ["ingest: 500"]
