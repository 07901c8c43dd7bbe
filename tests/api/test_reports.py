"""The report of a ledger: what is proven, what is spent, and what holds after the total was changed."""

from decimal import Decimal
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.core.ledger.composition import Release, epsilon_of
from tests.api.calls import merge, post_events, problem, release


def create(client: TestClient, accountant: str, epsilon: str = "6", delta: str = "1e-5") -> None:
    body = {"k": 8, "budget": {"epsilon": epsilon, "delta": delta, "accountant": accountant}}
    assert client.put("/v1/sketches/views", json=body).status_code == 201


def pay(client: TestClient, times: int = 1) -> None:
    for _ in range(times):
        assert release(client, delta="1e-9").status_code == 201


def set_budget(client: TestClient, epsilon: str, delta: str = "1e-5") -> None:
    body = {"epsilon": epsilon, "delta": delta, "reason": "a test"}
    assert client.post("/v1/ledgers/views/budget", json=body).status_code == 201


def report(client: TestClient) -> dict[str, Any]:
    answer: dict[str, Any] = client.get("/v1/ledgers/views/report").json()
    assert answer["guarantee"]["epsilon"] in answer["statement"]
    assert answer["guarantee"]["delta"] in answer["statement"]
    return answer


def amount(epsilon: str, delta: str = "1e-5") -> dict[str, str]:
    return {"epsilon": epsilon, "delta": delta}


def test_at_a_basic_ledger_what_is_spent_is_proven(client: TestClient) -> None:
    create(client, "basic", "1")
    assert report(client)["guarantee"] == amount("0", "0")
    pay(client, 3)
    found = report(client)
    assert found["guarantee"] == found["spent"] == amount("0.3", "3e-9")
    assert (found["accountant"], found["total"], found["releases"]) == ("basic", amount("1"), 3)
    assert found["budget_changes"] == []
    assert "what is spent" in found["statement"]
    assert "bookkeeping" not in found["statement"]


def test_at_a_basic_ledger_a_changed_total_changes_nothing_about_it(client: TestClient) -> None:
    create(client, "basic", "1")
    pay(client)
    set_budget(client, "5")
    pay(client)
    set_budget(client, "0.5")
    pay(client)
    found = report(client)
    assert found["guarantee"] == found["spent"] == amount("0.3", "3e-9")
    assert found["budget_changes"] == [
        {"number": 4, "adds": None, **amount("5")},
        {"number": 6, "adds": None, **amount("0.5")},
    ]
    assert "however the total was changed" in found["statement"]


def test_at_a_zcdp_ledger_the_total_is_proven_and_what_is_spent_is_bookkeeping(client: TestClient) -> None:
    create(client, "zcdp")
    empty = report(client)
    assert (empty["releases"], empty["numerical"], empty["guarantee"]) == (0, None, amount("6"))
    assert empty["spent"] == {**amount("0", "0"), "rho": "0"}
    pay(client, 20)
    found = report(client)
    ledger = client.get("/v1/ledgers/views").json()
    assert found["guarantee"] == found["total"] == amount("6")
    assert found["spent"] == {**ledger["spent"], "rho": ledger["rho"]}
    assert float(found["spent"]["epsilon"]) < 3
    assert "This is the total" in found["statement"]
    assert "bookkeeping and no guarantee" in found["statement"]
    assert found["budget_changes"] == []


def test_a_zcdp_total_raised_after_a_release_adds_what_it_allows(client: TestClient) -> None:
    create(client, "zcdp")
    pay(client, 5)
    set_budget(client, "9")
    pay(client, 5)
    found = report(client)
    (change,) = found["budget_changes"]
    assert (change["number"], change["epsilon"], change["delta"]) == (8, "9", "1e-5")
    assert 8.5 < float(change["adds"]["epsilon"]) < 9
    assert Decimal(change["adds"]["delta"]) == Decimal("1e-5") - 5 * Decimal("1e-9")
    for part in ("epsilon", "delta"):
        assert Decimal(found["guarantee"][part]) == Decimal(amount("6")[part]) + Decimal(change["adds"][part])
    assert "raised after answers had been given" in found["statement"]
    assert found["total"] == amount("9")


def test_a_zcdp_total_lowered_after_a_release_leaves_what_was_granted(client: TestClient) -> None:
    create(client, "zcdp")
    pay(client, 5)
    set_budget(client, "3")
    pay(client, 2)
    found = report(client)
    assert (found["guarantee"], found["total"]) == (amount("6"), amount("3"))
    assert found["budget_changes"] == [{"number": 8, "adds": None, **amount("3")}]
    assert "a lower total is not proven" in found["statement"]


def test_a_zcdp_total_changed_before_any_release_is_the_total(client: TestClient) -> None:
    create(client, "zcdp")
    set_budget(client, "9")
    set_budget(client, "2", "2e-5")
    pay(client)
    found = report(client)
    assert (found["guarantee"], found["budget_changes"]) == (amount("2", "2e-5"), [])
    assert "This is the total" in found["statement"]


def test_a_tighter_figure_stands_beside_it_and_is_rounded_up(client: TestClient) -> None:
    create(client, "zcdp")
    pay(client, 20)
    found = report(client)
    numerical = Decimal(found["numerical"]["epsilon"])
    exact = Decimal(epsilon_of([Release(0.1, 1e-9)] * 20, 1e-5))
    assert exact <= numerical < exact + Decimal("0.0001")
    assert numerical < Decimal(found["spent"]["epsilon"])
    assert "report" in found["numerical"]["note"]
    assert found["numerical"]["delta"] == "1e-5"


@pytest.mark.parametrize("epsilon", ["0.12341", "0.12349", "0.1234"])
def test_the_tighter_figure_is_at_most_the_sum_and_never_rounded_down(client: TestClient, epsilon: str) -> None:
    """One release: the figure is its own ε, to four digits."""
    create(client, "basic", "1")
    assert release(client, epsilon=epsilon, delta="1e-5").status_code == 201
    expected = "0.1234" if epsilon == "0.1234" else "0.1235"
    assert report(client)["numerical"]["epsilon"] == expected


def test_a_ledger_without_delta_has_a_figure_too(client: TestClient) -> None:
    body = {"k": 8, "budget": {"epsilon": "1", "delta": "0"}, "universe": {"range": [0, 9]}}
    assert client.put("/v1/sketches/views", json=body).status_code == 201
    assert [release(client, delta="0").status_code for _ in range(3)] == [201] * 3
    assert report(client)["numerical"]["epsilon"] == "0.3000"


def test_gaussian_noise_is_composed_as_what_it_is(client: TestClient) -> None:
    create(client, "zcdp", delta="1e-3")
    post_events(client, [{"key": "a", "count": 10_000}])
    merge(client, "all", "views")
    assert [release(client, "all", epsilon="1").status_code for _ in range(2)] == [201] * 2
    assert 0 < float(report(client)["numerical"]["epsilon"]) < 1.5  # by its ε it would be nearly 2


def test_an_unknown_ledger_has_no_report(client: TestClient) -> None:
    assert problem(client.get("/v1/ledgers/other/report")) == "unknown-ledger"
