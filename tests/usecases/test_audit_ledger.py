"""The entries cannot be changed unseen: the database refuses it, and what slips past it is found."""

import json

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app.store import ledger
from app.store.records import LedgerRecord
from app.usecases.audit_ledger import export_ledgers, verify_ledgers
from app.usecases.context import Context
from tests.api.calls import create_sketch, problem, release
from tests.tampering import tamper

_TABLES = ("ledger_entries", "snapshots")


@pytest.fixture(autouse=True)
def _history(client: TestClient) -> None:
    create_sketch(client, "a", epsilon="1")
    create_sketch(client, "b", epsilon="1")
    client.post("/v1/sketches/ab/merges", json={"sources": ["a", "b"], "mode": "compact"})
    for name in ("a", "ab", "b", "ab"):
        assert release(client, name).status_code == 201
    raised = client.post("/v1/ledgers/a/budget", json={"epsilon": "2", "delta": "1e-3", "reason": "more"})
    assert raised.status_code == 201


def test_an_honest_history_verifies(context: Context) -> None:
    assert verify_ledgers(context, export_ledgers(context)) == []


def test_a_release_while_the_ledgers_are_read_is_no_fault(
    client: TestClient, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, released = ledger.read_all, []

    def interrupted(session: Session) -> list[LedgerRecord]:
        records = read(session)
        released.append(release(client, "ab").status_code)
        return records

    monkeypatch.setattr(ledger, "read_all", interrupted)
    assert verify_ledgers(context) == []
    assert released
    assert set(released) == {201}


@pytest.mark.parametrize("table", _TABLES)
@pytest.mark.parametrize("statement", ["UPDATE {} SET created_at = created_at", "DELETE FROM {}"])
def test_the_database_refuses_to_change_history(context: Context, table: str, statement: str) -> None:
    with pytest.raises(DBAPIError, match="append-only"), context.database.writing() as session:
        session.execute(text(statement.format(table)))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_entries SET epsilon = 1 WHERE kind = 'release'",
        "UPDATE ledger_entries SET reason = 'less' WHERE kind = 'budget'",
        "UPDATE ledger_entries SET epsilon = epsilon + 1 WHERE kind = 'open'",
        "UPDATE ledgers SET spent = spent - 1",
        "UPDATE ledgers SET epsilon_total = epsilon_total + 1, spendable = spendable + 1",
        "UPDATE ledgers SET head = (SELECT hash FROM ledger_entries WHERE sequence = 1 LIMIT 1)",
        "DELETE FROM ledger_entries WHERE sequence = 2",
        "DELETE FROM ledger_entries WHERE sequence = 4",
        "DELETE FROM ledger_entries WHERE snapshot_id IN (SELECT MIN(id) FROM snapshots)",
    ],
)
def test_a_tampered_row_is_found(context: Context, statement: str) -> None:
    tamper(context.database, statement)
    assert verify_ledgers(context) != []


def test_a_snapshot_that_says_it_paid_less_is_found(context: Context) -> None:
    with context.database.reading() as session:
        document = session.execute(text("SELECT document FROM snapshots ORDER BY number LIMIT 1")).scalar_one()
    parsed = json.loads(document) if isinstance(document, str) else document
    parsed["charged"][0]["epsilon"] = "0.01"
    changed = json.dumps(parsed).replace("'", "''")
    tamper(context.database, f"UPDATE snapshots SET document = '{changed}' WHERE number = 1")
    assert any("snapshot" in fault for fault in verify_ledgers(context))


def test_a_database_put_back_is_found_by_an_export_kept_elsewhere(client: TestClient, context: Context) -> None:
    before = list(export_ledgers(context))
    release(client, "a")
    after = list(export_ledgers(context))
    assert verify_ledgers(context, before) == []
    last = "SELECT MAX(sequence) FROM ledger_entries e WHERE e.ledger_id = ledger_entries.ledger_id"
    lost = json.loads(next(line for line in after if line not in before))
    tamper(
        context.database,
        f"DELETE FROM ledger_entries WHERE sequence = ({last})"
        " AND ledger_id = (SELECT id FROM ledgers WHERE name = 'a')",
        f"DELETE FROM snapshots WHERE id = '{lost['snapshot']}'",
        "UPDATE ledgers SET entries = entries - 1, spent = spent - 100000000,"
        " delta_spent = delta_spent - 1000000000000, head = (SELECT hash FROM ledger_entries e"
        " WHERE e.ledger_id = ledgers.id ORDER BY sequence DESC LIMIT 1) WHERE name = 'a'",
    )
    assert verify_ledgers(context) == []  # in itself it is consistent
    (fault,) = verify_ledgers(context, after)
    assert "ledger a: entry 8" in fault


def test_a_budget_is_raised_and_lowered_but_never_below_what_is_spent(client: TestClient) -> None:
    change = {"epsilon": "0.3", "delta": "1e-3", "reason": "tighter"}
    assert client.post("/v1/ledgers/a/budget", json=change).json()["remaining"]["epsilon"] == "0"
    assert problem(release(client, "a")) == "budget-exhausted"
    lower = client.post("/v1/ledgers/a/budget", json=change | {"epsilon": "0.29"})
    assert lower.status_code == 409
    assert problem(lower) == "conflict"
    kinds = [(entry["kind"], entry["reason"]) for entry in client.get("/v1/ledgers/a/entries").json()["items"]]
    made = [("open", ""), ("sketch", ""), ("merge", "")]
    assert kinds == [*made, *[("release", "")] * 3, ("budget", "more"), ("budget", "tighter")]
    assert problem(client.post("/v1/ledgers/a/budget", json=change | {"reason": ""})) == "invalid-request"
