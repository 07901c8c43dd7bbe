"""A ledger that counts ρ: more small releases for the same promise, refused as exactly."""

from fastapi.testclient import TestClient

from app.usecases.audit_ledger import verify_ledgers
from app.usecases.context import Context
from tests import books
from tests.api.calls import merge, post_events, problem, release


def _create(client: TestClient, epsilon: str, delta: str) -> None:
    body = {"k": 8, "budget": {"epsilon": epsilon, "delta": delta, "accountant": "zcdp"}}
    assert client.put("/v1/sketches/views", json=body).status_code == 201


def test_143_releases_fit_where_basic_stops_at_sixty(client: TestClient, context: Context) -> None:
    _create(client, "6", "1e-5")
    assert [release(client, delta="1e-9").status_code for _ in range(144)] == [201] * 143 + [409]
    ledger = client.get("/v1/ledgers/views").json()
    assert ledger["rho"] == "0.715"
    assert 5.99 < float(ledger["spent"]["epsilon"]) < 6
    assert ledger["spent"]["delta"] == "5.143e-6"
    books.read(context.database).balance()
    assert verify_ledgers(context) == []


def test_it_stops_before_its_bound(client: TestClient, context: Context) -> None:
    _create(client, "1", "1e-5")
    statuses = [release(client, delta="1e-9").status_code for _ in range(10)]
    fitted = statuses.count(201)
    assert statuses == [201] * fitted + [409] * (10 - fitted)
    assert 0 < fitted < 10
    refused = release(client, delta="1e-9").json()
    largest = refused["largest_epsilon"]
    assert release(client, epsilon=largest, delta="1e-9").status_code == 201
    assert problem(release(client, epsilon=largest, delta="1e-9")) == "budget-exhausted"
    assert float(client.get("/v1/ledgers/views").json()["spent"]["epsilon"]) <= 1
    assert verify_ledgers(context) == []


def test_delta_is_bounded_by_what_was_not_set_aside(client: TestClient) -> None:
    _create(client, "6", "1e-5")
    statuses = [release(client, epsilon="0.001", delta="1e-6").status_code for _ in range(6)]
    assert statuses == [201] * 5 + [409]


def test_a_merged_sketch_is_charged_gaussian_noise_as_rho(client: TestClient) -> None:
    _create(client, "6", "1e-3")
    post_events(client, [{"key": "a", "count": 10_000}])
    merge(client, "all", "views")
    snapshot = release(client, "all", epsilon="1").json()
    assert snapshot["mechanism"] == "gshm"
    (paid,) = snapshot["charged"]
    assert 0 < float(paid["rho"]) < 0.1  # through ε it would be 0.5


def test_a_refusal_of_gaussian_noise_says_which_epsilon_fits(client: TestClient) -> None:
    _create(client, "1", "1e-3")
    merge(client, "all", "views")
    refused = release(client, "all", epsilon="20", mechanism="gshm").json()
    largest = float(refused["largest_epsilon"])
    assert largest > 0.5  # twice what ε²/2 = ρ would allow
    assert problem(release(client, "all", epsilon=f"{largest * 1.01:.9f}", mechanism="gshm")) == "budget-exhausted"
    assert release(client, "all", epsilon=refused["largest_epsilon"], mechanism="gshm").status_code == 201


def test_ledgers_of_both_kinds_pay_for_one_release(client: TestClient) -> None:
    _create(client, "6", "1e-3")
    client.put("/v1/sketches/other", json={"k": 8, "budget": {"epsilon": "1", "delta": "1e-3"}})
    merge(client, "all", "views", "other")
    first, second = release(client, "all", epsilon="1").json()["charged"]
    assert (first["ledger"], "rho" in first) == ("other", False)
    assert (second["ledger"], "rho" in second) == ("views", True)
    assert release(client, "all", epsilon="1").json()["blocking"] == ["other"]


def test_a_zcdp_ledger_needs_a_delta(client: TestClient) -> None:
    answer = client.put("/v1/ledgers/team", json={"epsilon": "1", "delta": "0", "accountant": "zcdp"})
    assert problem(answer) == "invalid-number"
    assert problem(client.get("/v1/ledgers/team")) == "unknown-ledger"
