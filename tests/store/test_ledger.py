"""The database itself refuses what the code must never do."""

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import delete, text, update
from sqlalchemy.exc import IntegrityError

from app.store.tables import LedgerRow, SnapshotRow
from app.usecases.context import Context
from tests.api.calls import create_sketch, release


@pytest.fixture(autouse=True)
def _released(client: TestClient) -> None:
    create_sketch(client)
    release(client)


@pytest.mark.parametrize(
    "values",
    [
        {"spent": 10**9 + 1},
        {"delta_spent": 10**15 + 1},
        {"spent": -1},
        {"delta_spent": -1},
        {"epsilon_total": 0},
        {"spendable": 2 * 10**9},
        {"delta_spendable": 2 * 10**15},
        {"accountant": "trust"},
    ],
)
def test_a_ledger_cannot_hold_an_overspent_or_negative_amount(context: Context, values: dict[str, object]) -> None:
    with pytest.raises(IntegrityError), context.database.writing() as session:
        session.connection().execute(update(LedgerRow).values(values))


def test_a_charge_without_its_snapshot_cannot_be_committed(context: Context) -> None:
    orphan = text(
        "INSERT INTO ledger_entries (ledger_id, snapshot_id, created_at, mechanism, mechanism_version, parameters,"
        " epsilon, delta, price, sequence, kind, reason, hash) SELECT ledger_id, 'none', created_at, mechanism, 1,"
        " parameters, 1, 1, 1, sequence + 100, kind, reason, hash FROM ledger_entries WHERE kind = 'release'"
    )
    with pytest.raises(IntegrityError), context.database.writing() as session:
        session.execute(orphan)


def test_a_paid_snapshot_cannot_be_deleted(context: Context) -> None:
    with pytest.raises(IntegrityError), context.database.writing() as session:
        session.connection().execute(delete(SnapshotRow))


def test_a_snapshot_is_paid_once_per_ledger(context: Context) -> None:
    again = text(
        "INSERT INTO ledger_entries (ledger_id, snapshot_id, created_at, mechanism, mechanism_version, parameters,"
        " epsilon, delta, price, sequence, kind, reason, hash) SELECT ledger_id, snapshot_id, created_at, mechanism, 1,"
        " parameters, 1, 1, 1, sequence + 100, kind, reason, hash FROM ledger_entries WHERE kind = 'release'"
    )
    with pytest.raises(IntegrityError), context.database.writing() as session:
        session.execute(again)
