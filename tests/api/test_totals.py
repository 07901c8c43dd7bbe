"""`total: true`: how many events, or people, there are, for a share of the price."""

from fractions import Fraction

import pytest
from fastapi.testclient import TestClient

from app.core.ledger.budget import Cost
from app.core.totals import calibrate, shares
from app.usecases.audit_ledger import verify_ledgers
from app.usecases.context import Context
from tests import books
from tests.api.calls import create_sketch, merge, post_events, problem, release


def test_the_number_of_events_comes_with_its_interval_and_is_part_of_the_price(
    client: TestClient, context: Context
) -> None:
    create_sketch(client, k=4)
    post_events(client, [{"key": f"/{number}", "count": 1000} for number in range(10)])
    snapshot = release(client, epsilon="1", total=True, total_share="0.5", beta="1e-9").json()
    total = snapshot["total"]
    assert total["low"] <= 10_000 <= total["high"]
    assert total["high"] - total["low"] < 200
    assert snapshot["epsilon"] == "1"
    assert snapshot["charged"][0]["epsilon"] == "1"
    assert problem(release(client, epsilon="0.000000001", delta="0.0000001")) == "budget-exhausted"
    books.read(context.database).balance()
    assert verify_ledgers(context) == []


def test_shares_and_the_rest_go_with_it(client: TestClient) -> None:
    create_sketch(client, k=8)
    post_events(client, [{"key": "/a", "count": 6000}, {"key": "/b", "count": 3000}, {"key": "/c", "count": 1000}])
    snapshot = release(client, epsilon="1", total=True).json()
    assert [round(bar["share"] / 10) for bar in snapshot["histogram"]] == [6, 3, 1]
    assert snapshot["other"]["low"] == 0 <= snapshot["other"]["count"] <= snapshot["other"]["high"]
    path = f"/v1/snapshots/{snapshot['id']}"
    two = client.get(f"{path}?top=2").json()
    assert two["other"]["low"] <= 1000 <= two["other"]["high"]
    assert abs(two["other"]["share"] - 10) < 5
    lines = client.get(f"{path}?top=1", headers={"Accept": "text/csv"}).text.splitlines()
    assert lines[0] == "key,count,low,high,share"
    assert lines[1].startswith("/a,")
    key, count, low, high, share = lines[2].split(",")
    assert key == ""
    assert int(low) <= 4000 <= int(high)
    assert abs(float(share) - 40) < 5
    assert abs(int(count) - 4000) < 500


def test_of_people_with_several_keys_nothing_is_said_about_the_others(client: TestClient) -> None:
    body = {"k": 8, "unit": "user", "max_contributions": 3, "budget": {"epsilon": "10", "delta": "1e-3"}}
    client.put("/v1/sketches/people", json=body)
    people = [{"user": f"u{number}", "keys": ["/a", "/b"]} for number in range(2000)]
    client.post("/v1/sketches/people/events", json={"users": people})
    snapshot = release(client, "people", epsilon="10", total=True).json()
    assert [round(bar["share"] / 10) for bar in snapshot["histogram"]] == [10, 10]
    assert "other" not in snapshot


def test_without_asking_there_is_none(client: TestClient) -> None:
    create_sketch(client)
    assert "total" not in release(client).json()


@pytest.mark.parametrize("mode", ["compact", "summed"])
def test_merged_sketches_know_their_number_too(client: TestClient, mode: str) -> None:
    for name in ("a", "b"):
        create_sketch(client, name, k=4)
        post_events(client, [{"key": f"/{number}", "count": 500} for number in range(10)], name)
    merge(client, "all", "a", "b", mode=mode)
    total = release(client, "all", epsilon="1", total=True, total_share="0.5", beta="1e-9").json()["total"]
    assert total["low"] <= 10_000 <= total["high"] < 10_200


def test_of_people_it_is_the_number_of_people(client: TestClient) -> None:
    body = {"k": 8, "unit": "user", "max_contributions": 3, "budget": {"epsilon": "10", "delta": "1e-3"}}
    assert client.put("/v1/sketches/people", json=body).status_code == 201
    people = [{"user": f"u{number}", "keys": ["/a", "/b", "/c"]} for number in range(2000)]
    assert client.post("/v1/sketches/people/events", json={"users": people}).status_code == 200
    total = release(client, "people", epsilon="10", total=True, total_share="0.5", beta="1e-9").json()["total"]
    assert total["low"] <= 2000 <= total["high"] < 2020


def test_a_plan_says_how_far_off_it_may_be(client: TestClient) -> None:
    create_sketch(client)
    with_total, without = (
        client.post("/v1/sketches/views/plan", json={"epsilon": "1", "delta": "1e-6", "total": total}).json()
        for total in (True, False)
    )
    assert 100 < with_total["mechanisms"][0]["total_within"] < 400
    assert without["mechanisms"][0]["total_within"] is None
    assert with_total["mechanisms"][0]["charge"] == without["mechanisms"][0]["charge"]
    cuts = [plan["mechanisms"][0]["parameters"]["threshold"] for plan in (with_total, without)]
    assert cuts[1] <= cuts[0] <= cuts[1] + 2


@pytest.mark.parametrize("cost", [Cost.charged(epsilon="1", delta="1e-6"), Cost.charged_in_rho(rho="0.005", delta="0")])
@pytest.mark.parametrize("share", ["0.001", "0.02", "0.5"])
@pytest.mark.parametrize("m", [1, 7])
def test_both_parts_together_cost_no_more_than_was_asked(cost: Cost, share: str, m: int) -> None:
    for_total, rest = shares(cost, Fraction(share))
    assert for_total.epsilon_units + rest.epsilon_units == cost.epsilon_units
    assert for_total.rho_units + rest.rho_units == cost.rho_units
    assert (for_total.delta_units, rest.delta_units) == (0, cost.delta_units)
    total = calibrate(for_total, m)
    if cost.rho_units:
        assert for_total.rho * Fraction(999_999, 1_000_000) < total.rho() <= for_total.rho
    else:
        assert Fraction(m) / Fraction(total.scale) <= for_total.epsilon
