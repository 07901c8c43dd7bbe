"""Who may do what."""

import threading
from collections.abc import Callable, Collection
from dataclasses import replace

import httpx2
import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from app.refusals import Unauthenticated
from app.server import callers
from app.store import api_keys
from app.store.tables import Table
from app.usecases.access import Principal
from app.usecases.context import Context
from app.usecases.manage_api_keys import authenticate, create_first_key, revoke_key
from tests import books
from tests.api.calls import create_sketch, problem, release

_SKETCH = {"k": 8, "budget": {"epsilon": "1", "delta": "1e-5"}}
_COST = {"epsilon": "0.1", "delta": "1e-6"}
_SNAPSHOT = "0" * 32

OPERATIONS: dict[str, tuple[str, Callable[[httpx2.Client], httpx2.Response]]] = {
    "create_ledger": ("admin", lambda c: c.put("/v1/ledgers/team", json={"epsilon": "1", "delta": "0"})),
    "set_budget": (
        "admin",
        lambda c: c.post("/v1/ledgers/views/budget", json={"epsilon": "2", "delta": "1e-3", "reason": "r"}),
    ),
    "list_ledgers": ("read", lambda c: c.get("/v1/ledgers")),
    "get_ledger": ("read", lambda c: c.get("/v1/ledgers/views")),
    "list_ledger_entries": ("read", lambda c: c.get("/v1/ledgers/views/entries")),
    "get_ledger_report": ("read", lambda c: c.get("/v1/ledgers/views/report")),
    "create_sketch": ("admin", lambda c: c.put("/v1/sketches/other", json=_SKETCH)),
    "list_sketches": ("read", lambda c: c.get("/v1/sketches")),
    "get_sketch": ("read", lambda c: c.get("/v1/sketches/views")),
    "merge_sketches": (
        "admin",
        lambda c: c.post("/v1/sketches/new/merges", json={"sources": ["views"], "mode": "compact"}),
    ),
    "post_events": ("ingest", lambda c: c.post("/v1/sketches/views/events", json={"events": ["a"]})),
    "plan": ("read", lambda c: c.post("/v1/plan", json={"k": 8, **_COST})),
    "plan_snapshot": ("read", lambda c: c.post("/v1/sketches/views/plan", json=_COST)),
    "create_snapshot": ("release", lambda c: c.post("/v1/sketches/views/snapshots", json=_COST)),
    "create_joint_snapshot": (
        "release",
        lambda c: c.post("/v1/snapshots", json={"sketches": ["views", "second"], **_COST}),
    ),
    "sum_snapshots": ("read", lambda c: c.post("/v1/snapshots/sum", json={"snapshots": [_SNAPSHOT, "1" * 32]})),
    "advise": ("read", lambda c: c.post("/v1/advice", json={"events_per_day": 1000})),
    "list_snapshots": ("read", lambda c: c.get("/v1/sketches/views/snapshots")),
    "get_snapshot": ("read", lambda c: c.get(f"/v1/snapshots/{_SNAPSHOT}")),
    "get_histogram": ("read", lambda c: c.get("/v1/sketches/views/histogram")),
    "close_sketch": ("admin", lambda c: c.post("/v1/sketches/views/close")),
    "delete_sketch": ("admin", lambda c: c.delete("/v1/sketches/views")),
    "create_key": ("admin", lambda c: c.post("/v1/keys", json={"name": "n", "scopes": ["read"]})),
    "list_keys": ("admin", lambda c: c.get("/v1/keys")),
    "revoke_key": ("admin", lambda c: c.delete(f"/v1/keys/{16 * '0'}")),
    "get_metrics": ("admin", lambda c: c.get("/metrics")),
}
OPEN = {"livez", "readyz"}


def _as(client: TestClient, scope: str, sketches: str = "*") -> str:
    body = {"name": scope, "scopes": [scope], "sketches": sketches}
    secret: str = client.post("/v1/keys", json=body).json()["secret"]
    return secret


def test_every_operation_is_in_the_matrix(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    found = {operation["operationId"] for path in document["paths"].values() for operation in path.values()}
    assert found == OPERATIONS.keys() | OPEN


@pytest.mark.parametrize("scope", ["ingest", "read", "release", "admin"])
def test_a_scope_allows_its_operations_and_no_other(client: TestClient, scope: str) -> None:
    create_sketch(client)
    client.headers["Authorization"] = f"Bearer {_as(client, scope)}"
    for name, (needed, call) in OPERATIONS.items():
        answer = call(client)
        if scope in (needed, "admin"):
            assert answer.status_code not in (401, 403), name
        else:
            assert answer.status_code == 403, name
            assert problem(answer) == "forbidden"


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer dsk_0000_x", "Basic eDp5", "Bearer "])
def test_without_a_valid_key_every_operation_answers_401(client: TestClient, header: str | None) -> None:
    del client.headers["Authorization"]
    if header is not None:
        client.headers["Authorization"] = header
    for name, (_scope, call) in OPERATIONS.items():
        answer = call(client)
        assert answer.status_code == 401, name
        assert problem(answer) == "unauthenticated"
        assert answer.headers["www-authenticate"] == "Bearer"


def test_a_limited_key_touches_only_its_names(client: TestClient) -> None:
    create_sketch(client, "shop-views")
    create_sketch(client, "bank-views")
    foreign = release(client, "bank-views").json()["id"]
    client.put("/v1/ledgers/bank", json={"epsilon": "1", "delta": "0"})
    client.headers["Authorization"] = f"Bearer {_as(client, 'admin', 'shop-*')}"
    assert [item["name"] for item in client.get("/v1/sketches").json()["items"]] == ["shop-views"]
    assert [item["name"] for item in client.get("/v1/ledgers").json()["items"]] == ["shop-views"]
    assert release(client, "shop-views").status_code == 201
    assert problem(release(client, "bank-views")) == "forbidden"
    assert problem(release(client, "missing")) == "forbidden"  # the same, whether it exists or not
    assert problem(client.get(f"/v1/snapshots/{foreign}")) == "unknown-snapshot"
    assert problem(client.put("/v1/sketches/shop-new", json={"k": 8, "ledger": "bank"})) == "forbidden"
    assert problem(client.get("/v1/keys")) == "forbidden"
    assert problem(client.get("/metrics")) == "forbidden"


def test_a_revoked_key_is_refused_at_once(client: TestClient) -> None:
    made = client.post("/v1/keys", json={"name": "n", "scopes": ["read"]}).json()
    headers = {"Authorization": f"Bearer {made['secret']}"}
    assert client.get("/v1/sketches", headers=headers).status_code == 200
    assert client.delete(f"/v1/keys/{made['id']}").status_code == 204
    assert client.get("/v1/sketches", headers=headers).status_code == 401
    assert problem(client.delete(f"/v1/keys/{made['id']}")) == "unknown-key"
    listed = client.get("/v1/keys").json()["items"]
    assert [(item["id"], item["revoked_at"] is not None) for item in listed] == [(made["id"], True)]


def test_a_secret_is_shown_once_and_stored_nowhere(client: TestClient, context: Context) -> None:
    secret = _as(client, "read")
    assert secret not in client.get("/v1/keys").text
    with context.database.reading() as session:
        rows = session.connection().exec_driver_sql("SELECT * FROM api_keys").all()
    assert secret.rpartition("_")[2] not in str(rows)


def test_the_first_start_makes_one_admin_key(context: Context) -> None:
    starting = replace(context, admin_key=None)
    first = create_first_key(starting)
    assert first is not None
    assert first.secret not in repr(first)
    assert create_first_key(starting) is None


def test_a_key_given_by_the_environment_is_not_stored(context: Context) -> None:
    assert create_first_key(context) is None


WRITING = [
    "create_ledger",
    "set_budget",
    "create_sketch",
    "merge_sketches",
    "create_snapshot",
    "create_joint_snapshot",
    "close_sketch",
    "delete_sketch",
    "create_key",
    "revoke_key",
]


def test_every_operation_that_writes_is_named(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"].values()
    found = {path[verb]["operationId"] for path in paths for verb in path.keys() - {"get"}}
    computing = {"plan", "plan_snapshot", "advise", "sum_snapshots"}
    assert found == {*WRITING, *computing, "post_events"}  # events have a way, and tests, of their own


@pytest.mark.parametrize("name", WRITING)
def test_a_key_that_is_revoked_while_its_request_waits_changes_nothing(
    client: TestClient, context: Context, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Recognised, and then revoked before the transaction comes to its turn."""
    create_sketch(client)
    create_sketch(client, "second")
    made = client.post("/v1/keys", json={"name": "n", "scopes": ["admin"]}).json()

    def recognise_and_revoke(app: Context, secret: str) -> Principal:
        caller = authenticate(app, secret)
        revoke_key(app, made["id"])
        return caller

    before = _everything(context)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(callers, "authenticate", recognise_and_revoke)
        client.headers["Authorization"] = f"Bearer {made['secret']}"
        answer = OPERATIONS[name][1](client)
    assert (answer.status_code, problem(answer)) == (401, "unauthenticated")
    after = _everything(context)
    assert after.pop("api_keys") != before.pop("api_keys")  # by the revocation
    assert after == before


def _everything(context: Context) -> dict[str, list[str]]:
    """All rows of all tables."""
    with context.database.reading() as session:
        return {
            table.name: sorted(map(str, session.connection().execute(table.select())))
            for table in Table.metadata.sorted_tables
        }


def test_a_key_may_revoke_itself_but_not_another_afterwards(client: TestClient, context: Context) -> None:
    one, other = (client.post("/v1/keys", json={"name": "n", "scopes": ["admin"]}).json()["id"] for _ in range(2))
    revoke_key(context, one, by=one)
    with pytest.raises(Unauthenticated):
        revoke_key(context, other, by=one)
    revoke_key(context, other, by=other)


def test_a_revocation_waits_for_a_release_that_has_asked_for_its_key(
    client: TestClient, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key is asked for last, and held until the commit: nothing is committed after a revocation was answered."""
    create_sketch(client)
    made = client.post("/v1/keys", json={"name": "n", "scopes": ["release"]}).json()
    revoking = threading.Thread(target=revoke_key, args=(context, made["id"]))
    hold_valid, still_waiting = api_keys.hold_valid, []

    def hold_while_revoked(session: Session, key_ids: Collection[str]) -> bool:
        valid = hold_valid(session, key_ids)
        revoking.start()
        revoking.join(timeout=0.5)
        still_waiting.append(revoking.is_alive())
        return valid

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(api_keys, "hold_valid", hold_while_revoked)
        client.headers["Authorization"] = f"Bearer {made['secret']}"
        assert release(client).status_code == 201
    revoking.join()
    assert still_waiting == [True]
    assert release(client).status_code == 401
    assert books.read(context.database).payments == 1
