"""A budget is spent exactly, refused exactly, and remembered."""

from fastapi.testclient import TestClient

from app.store.database import Database
from app.usecases.context import Context
from tests import books
from tests.api.calls import create_sketch, problem, release
from tests.server import running


def test_ten_releases_of_a_tenth_fit_and_the_eleventh_is_refused_also_after_a_restart(database_url: str) -> None:
    with running(database_url) as server, server.client() as client:
        create_sketch(client, epsilon="1", delta="1e-5")
        assert [release(client).status_code for _ in range(10)] == [201] * 10
        refused = release(client)
        assert refused.status_code == 409
        assert problem(refused) == "budget-exhausted"
        assert refused.json()["remaining"] == [{"ledger": "views", "epsilon": "0", "delta": "0"}]
    with running(database_url) as server, server.client() as client:
        assert problem(release(client, epsilon="1e-9", delta="1e-18")) == "budget-exhausted"
        assert client.get("/v1/ledgers/views").json()["spent"] == {"epsilon": "1", "delta": "1e-5"}
    database = Database(database_url)
    books.read(database).balance()
    assert books.read(database).payments == 10
    database.close()


def test_a_refusal_says_what_would_fit_and_charges_nothing(client: TestClient) -> None:
    create_sketch(client, epsilon="1", delta="1e-5")
    assert release(client, epsilon="0.75").status_code == 201
    body = release(client, epsilon="0.5").json()
    assert body["requested"] == {"epsilon": "0.5", "delta": "1e-6"}
    assert body["remaining"] == [{"ledger": "views", "epsilon": "0.25", "delta": "9e-6"}]
    assert body["largest_epsilon"] == "0.25"
    assert body["blocking"] == ["views"]
    assert release(client, epsilon=body["largest_epsilon"]).status_code == 201


def test_delta_runs_out_like_epsilon(client: TestClient) -> None:
    create_sketch(client, epsilon="1", delta="3e-6")
    assert [release(client, delta="1e-6").status_code for _ in range(4)] == [201, 201, 201, 409]
    assert release(client, delta="1e-6").json()["largest_epsilon"] == "0"


def test_a_cost_is_rounded_up_and_a_budget_down(client: TestClient) -> None:
    create_sketch(client, epsilon="0.3000000009", delta="1e-5")
    assert client.get("/v1/ledgers/views").json()["total"]["epsilon"] == "0.3"
    snapshot = release(client, epsilon="0.10000000001").json()
    assert snapshot["epsilon"] == snapshot["charged"][0]["epsilon"] == "0.100000001"


def test_sketches_on_one_ledger_share_its_budget(client: TestClient) -> None:
    client.put("/v1/ledgers/team", json={"epsilon": "0.3", "delta": "1e-3"})
    for name in ("a", "b"):
        assert client.put(f"/v1/sketches/{name}", json={"k": 8, "ledger": "team"}).status_code == 201
    statuses = [release(client, name).status_code for name in ("a", "b", "a", "b")]
    assert statuses == [201, 201, 201, 409]
    entries = client.get("/v1/ledgers/team/entries").json()["items"]
    assert [(entry["kind"], entry["epsilon"]) for entry in entries] == [
        ("open", "0.3"),
        *[("sketch", "0")] * 2,
        *[("release", "0.1")] * 3,
    ]


def test_deleting_a_sketch_keeps_its_history_and_its_name(client: TestClient, context: Context) -> None:
    create_sketch(client)
    snapshot = release(client).json()
    assert client.delete("/v1/sketches/views").status_code == 204
    assert (
        problem(client.put("/v1/sketches/views", json={"k": 64, "budget": {"epsilon": "1", "delta": "1e-3"}}))
        == "conflict"
    )
    assert problem(release(client)) == "unknown-sketch"
    assert client.get(f"/v1/snapshots/{snapshot['id']}").json() == snapshot
    assert client.get("/v1/sketches/views/histogram").json() == snapshot
    books.read(context.database).balance()


def test_an_empty_sketch_releases_like_any_other(client: TestClient) -> None:
    create_sketch(client)
    released = release(client)
    assert released.status_code == 201
    assert released.json()["histogram"] == []


def test_a_ledger_tells_how_many_more_releases_like_the_last_fit(client: TestClient) -> None:
    create_sketch(client, epsilon="1")
    assert client.get("/v1/ledgers/views").json()["releases_like_the_last"] is None
    release(client, epsilon="0.3")
    assert client.get("/v1/ledgers/views").json()["releases_like_the_last"] == 2
