"""POST /v1/advice: the example works as it stands, and what it recommends can be made and released."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.api.calls import post_events, problem
from tests.documents import document

_WRITTEN = Path(__file__).parents[2] / "openapi" / "openapi.json"
_DAILY = {"events_per_day": 20_000, "releases": {"number": 1, "every": "month"}, "days": 90}


def _advice(client: TestClient, **members: Any) -> dict[str, Any]:
    answer = client.post("/v1/advice", json=members)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_the_examples_of_the_documentation_are_what_advice_says(client: TestClient) -> None:
    paths = json.loads(_WRITTEN.read_text())["paths"]

    def example(path: str, method: str = "post") -> dict[str, Any]:
        found: dict[str, Any] = paths[path][method]["requestBody"]["content"]["application/json"]["example"]
        return found

    requests = _advice(client, **example("/v1/advice"))["requests"]
    made = example("/v1/sketches/{name}", "put")
    assert made["k"] == requests["create_sketch"]["k"]
    assert made["budget"].items() <= requests["create_sketch"]["budget"].items()
    released = example("/v1/sketches/{name}/snapshots")
    assert {name: released[name] for name in ("epsilon", "delta")} == {
        name: requests["create_snapshot"][name] for name in ("epsilon", "delta")
    }
    tour = document("README.md").text
    assert f'"k": {made["k"]}, "budget": {{"epsilon": "1", "delta": "1e-6"}}' in tour
    assert f'"epsilon": "{released["epsilon"]}", "delta": "{released["delta"]}"' in tour


def test_the_example_of_the_documentation_is_answered(client: TestClient) -> None:
    operation = json.loads(_WRITTEN.read_text())["paths"]["/v1/advice"]["post"]
    found = _advice(client, **operation["requestBody"]["content"]["application/json"]["example"])
    assert found["meets_smallest_count"] is True
    assert found["recommended"]["releases"] == found["recommended"]["releases_that_fit"] == 2
    assert found["most_events"] == 100_000
    assert {step["change"] for step in found["steps"]} == {"k", "releases", "epsilon", "max_contributions", "covers"}


@pytest.mark.parametrize("total", [False, True])
@pytest.mark.parametrize("unit", ["event", "user"])
def test_its_requests_can_be_sent_as_they_are_and_the_budget_lasts_as_long_as_it_says(
    client: TestClient, unit: str, *, total: bool
) -> None:
    found = _advice(client, **_DAILY, unit=unit, total=total)
    made = client.put("/v1/sketches/views", json=found["requests"]["create_sketch"])
    assert made.status_code == 201
    if unit == "event":
        assert post_events(client, [{"key": "a", "count": 100_000}]).status_code == 200
    released = [
        client.post("/v1/sketches/views/snapshots", json=found["requests"]["create_snapshot"])
        for _ in range(found["recommended"]["releases_that_fit"] + 1)
    ]
    assert [answer.status_code for answer in released] == [201] * (len(released) - 1) + [409]
    assert len(released) > found["recommended"]["releases"] == 3
    snapshot = released[0].json()
    assert snapshot["mechanism"] == found["recommended"]["mechanism"]
    assert snapshot["parameters"] == found["release"]["parameters"]
    assert [bar["key"] for bar in snapshot["histogram"]] == (["a"] if unit == "event" else [])
    assert ("total" in snapshot) == total == (found["release"]["total_within"] is not None)


def test_its_figures_are_those_of_a_plan(client: TestClient) -> None:
    found = _advice(client, **_DAILY)
    assert client.put("/v1/sketches/views", json=found["requests"]["create_sketch"]).status_code == 201
    asked = {**found["requests"]["create_snapshot"], "expected_events": found["most_events"]}
    plan = client.post("/v1/sketches/views/plan", json=asked).json()
    assert plan["mechanisms"][0] == found["release"]


def test_it_is_the_same_whatever_sketches_hold(client: TestClient) -> None:
    before = client.post("/v1/advice", json=_DAILY)
    client.put("/v1/sketches/views", json={"k": 64, "budget": {"epsilon": "1", "delta": "1e-6"}})
    post_events(client, ["a"] * 100)
    assert client.post("/v1/advice", json=_DAILY).content == before.content


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"events_per_day": 0}, "body/events_per_day"),
        ({"events_per_day": 10**13}, "body/events_per_day"),
        ({"events_per_day": "many"}, "body/events_per_day"),
        ({"smallest_count": 0}, "body/smallest_count"),
        ({"days": 10_000}, "body/days"),
        ({"releases": {"number": 0}}, "body/releases/number"),
        ({"releases": {"every": "fortnight"}}, "body/releases/every"),
        ({"covers": "some"}, "body/covers"),
        ({"budget": {"epsilon": "1"}}, "body/budget/delta"),
        ({"budget": {"epsilon": "1", "delta": "1e-6", "accountant": "zcdp"}}, "body/budget/accountant"),
        ({"beta": 0.9}, "body/beta"),
        ({"fresh": True}, "body/fresh"),
    ],
)
def test_a_wrong_member_is_named(client: TestClient, wrong: dict[str, Any], where: str) -> None:
    answer = client.post("/v1/advice", json={"events_per_day": 1000, **wrong})
    assert (answer.status_code, problem(answer)) == (422, "invalid-request")
    assert where in [error["where"] for error in answer.json()["errors"]]


@pytest.mark.parametrize(
    ("impossible", "words"),
    [
        ({"releases": {"number": 1000, "every": "hour"}}, "Release less often"),
        ({"budget": {"epsilon": "1", "delta": "0"}}, "Give a delta above 0"),
        ({"budget": {"epsilon": "1e-8", "delta": "1e-6"}}, "cannot be divided into 365 releases"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_change(
    client: TestClient, impossible: dict[str, Any], words: str
) -> None:
    answer = client.post("/v1/advice", json={"events_per_day": 1000, **impossible})
    assert (answer.status_code, problem(answer)) == (422, "invalid-number")
    assert words in answer.json()["detail"]


def test_it_needs_the_scope_read_and_no_more(client: TestClient) -> None:
    for scope, status in (("read", 200), ("ingest", 403)):
        secret = client.post("/v1/keys", json={"name": scope, "scopes": [scope]}).json()["secret"]
        answer = client.post("/v1/advice", json=_DAILY, headers={"Authorization": f"Bearer {secret}"})
        assert answer.status_code == status


def test_a_plan_says_when_more_counters_are_free(client: TestClient) -> None:
    terms = {"k": 1024, "epsilon": "1", "delta": "1e-6"}
    assert client.post("/v1/plan", json=terms).json()["larger_k"].startswith("k = 2,048 would be free")
    assert "larger_k" not in client.post("/v1/plan", json={**terms, "unit": "user"}).json()
    assert "larger_k" not in client.post("/v1/plan", json={**terms, "k": 65_536}).json()
