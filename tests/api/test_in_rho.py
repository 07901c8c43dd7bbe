"""Releases that are asked for, priced and stated in ρ, where every ledger that pays counts it."""

import math

import pytest
from fastapi.testclient import TestClient

from app.usecases.audit_ledger import export_ledgers, verify_ledgers
from app.usecases.context import Context
from tests import books
from tests.api.calls import create_sketch, merge, post_events, problem


def _create(client: TestClient, name: str = "views", *, epsilon: str = "6", delta: str = "1e-5", k: int = 1024) -> None:
    body = {"k": k, "budget": {"epsilon": epsilon, "delta": delta, "accountant": "zcdp"}}
    assert client.put(f"/v1/sketches/{name}", json=body).status_code == 201


def _ask(client: TestClient, what: str, name: str = "views", **body: object):  # type: ignore[no-untyped-def]
    return client.post(f"/v1/sketches/{name}/{what}", json={"delta": "1e-9", **body})


def test_gaussian_noise_is_taken_priced_and_stated_in_rho(client: TestClient, context: Context) -> None:
    _create(client)
    post_events(client, [{"key": "/a", "count": 5000}, {"key": "/b", "count": 3}])
    snapshot = _ask(client, "snapshots", rho="0.005").json()
    assert (snapshot["mechanism"], snapshot["rho"], "epsilon" in snapshot) == ("pmg-gaussian", "0.005", False)
    assert snapshot["parameters"]["threshold"] == 87
    assert [bar["key"] for bar in snapshot["histogram"]] == ["/a"]
    (paid,) = snapshot["charged"]
    assert paid == {"ledger": "views", "rho": "0.005", "delta": "1e-9"}
    books.read(context.database).balance()
    assert verify_ledgers(context) == []
    assert any('"mechanism": "pmg-gaussian"' in line for line in export_ledgers(context))


def test_what_a_rho_means_is_said_in_words_with_the_total_of_the_ledger(client: TestClient) -> None:
    _create(client)
    said = _ask(client, "snapshots", rho="0.005").json()["guarantee"]
    times = math.exp(0.005 + 2 * math.sqrt(0.005 * math.log(20)))
    assert f"at most {times:.3g} times as likely" in said
    assert "in 19 of 20 cases" in said
    assert "(6, 1e-5) for ledger views" in said


def test_a_budget_holds_what_its_rho_allows_and_not_one_more(client: TestClient, context: Context) -> None:
    _create(client, k=8)
    statuses = [_ask(client, "snapshots", rho="0.05").status_code for _ in range(16)]
    fitted = statuses.count(201)
    assert fitted == 14  # of 0.005 it holds 143
    assert statuses == [201] * fitted + [409] * (16 - fitted)
    refused = _ask(client, "snapshots", rho="0.05").json()
    assert refused["requested"] == {"rho": "0.05", "delta": "1e-9"}
    assert f"a rho of at most {refused['largest_rho']} fits now" in refused["detail"]
    assert _ask(client, "snapshots", rho=refused["largest_rho"]).status_code == 201
    assert problem(_ask(client, "snapshots", rho="1e-12")) == "budget-exhausted"
    assert verify_ledgers(context) == []


def test_a_ledger_that_counts_epsilon_cannot_be_asked_for_rho(client: TestClient) -> None:
    create_sketch(client)
    _create(client, "other", k=64)
    for what in ("plan", "snapshots"):
        assert problem(_ask(client, what, rho="0.005")) == "invalid-request"
    merge(client, "all", "views", "other")
    assert problem(_ask(client, "snapshots", "all", rho="0.005")) == "invalid-request"
    assert client.get("/v1/ledgers/views").json()["spent"] == {"epsilon": "0", "delta": "0"}


@pytest.mark.parametrize("body", [{}, {"epsilon": "1", "rho": "0.5"}, {"rho": "0"}, {"rho": "1001"}, {"rho": "-1"}])
def test_one_currency_is_given_and_within_its_range(client: TestClient, body: dict[str, str]) -> None:
    _create(client, k=8)
    assert problem(_ask(client, "snapshots", **body)) == "invalid-request"


def test_gaussian_noise_on_a_stream_is_not_offered_for_an_epsilon(client: TestClient) -> None:
    _create(client)
    plan = _ask(client, "plan", epsilon="0.1").json()
    assert "pmg-gaussian" not in [offer["mechanism"] for offer in plan["mechanisms"]]
    assert problem(_ask(client, "snapshots", epsilon="0.1", mechanism="pmg-gaussian")) == "no-mechanism"


def test_a_plan_in_epsilon_says_what_the_same_price_in_rho_would_give(client: TestClient) -> None:
    _create(client)
    plan = _ask(client, "plan", epsilon="0.1", delta="1e-6").json()
    assert plan["recommended"] == "pmg"
    better = plan["in_rho"]
    assert (better["mechanism"], better["charge"]["rho"]) == ("pmg-gaussian", "0.005")
    assert better["parameters"]["threshold"] == 70 < plan["mechanisms"][0]["parameters"]["threshold"] == 161
    assert _ask(client, "plan", rho="0.005", delta="1e-6").json()["recommended"] == "pmg-gaussian"


def test_mechanisms_are_compared_at_equal_price(client: TestClient) -> None:
    """On a ledger that counts ρ, Laplace noise on a merged sketch costs far more than Gaussian noise of the same ε."""
    _create(client, k=1)
    merge(client, "all", "views")
    create_sketch(client, "plain", k=1)
    merge(client, "basic", "plain")
    asked = {"epsilon": "1", "delta": "1e-6"}
    assert _ask(client, "plan", "basic", **asked).json()["recommended"] == "laplace-compact"
    assert _ask(client, "plan", "all", **asked).json()["recommended"] == "gshm"


def test_laplace_noise_asked_for_in_rho_is_stated_in_epsilon(client: TestClient) -> None:
    _create(client)
    snapshot = _ask(client, "snapshots", rho="0.005", mechanism="pmg").json()
    assert (snapshot["epsilon"], "rho" in snapshot) == ("0.1", False)
    assert snapshot["charged"] == [{"ledger": "views", "epsilon": "0.1", "delta": "1e-9", "rho": "0.005"}]


def test_the_report_of_such_releases_is_made(client: TestClient) -> None:
    _create(client, k=8)
    _ask(client, "snapshots", rho="0.05")
    report = client.get("/v1/ledgers/views/report").json()
    assert report["guarantee"] == {"epsilon": "6", "delta": "1e-5"}
    assert report["spent"]["rho"] == "0.05"
    assert 0 < float(report["numerical"]["epsilon"]) < 6
    entry = client.get("/v1/ledgers/views/entries").json()["items"][-1]
    assert (entry["rho"], entry["epsilon"]) == ("0.05", None)
