"""Bad parameters get a problem that says what to change; good ones come back as they were charged."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.api.calls import create_sketch, post_events, problem, release


@pytest.mark.parametrize(
    "change",
    [
        {"k": 0},
        {"k": 65_537},
        {"k": "many"},
        {"k": None},
        {"unit": "person"},
        {"enforcement": "hoped for"},
        {"on_excess": "drop"},
        {"max_contributions": 0},
        {"max_contributions": 1001},
        {"universe": {}},
        {"universe": {"values": []}},
        {"universe": {"values": ["a", ""]}},
        {"universe": {"range": [5, 4]}},
        {"universe": {"range": [0, 2**63]}},
        {"universe": {"values": ["a"], "range": [0, 1]}},
        {"budget": None},
        {"ledger": "team"},
        {"budget": {"epsilon": "0", "delta": "0"}},
        {"budget": {"epsilon": "-1", "delta": "0"}},
        {"budget": {"epsilon": "1001", "delta": "0"}},
        {"budget": {"epsilon": "NaN", "delta": "0"}},
        {"budget": {"epsilon": "Infinity", "delta": "0"}},
        {"budget": {"epsilon": True, "delta": "0"}},
        {"budget": {"epsilon": "1" * 70, "delta": "0"}},
        {"budget": {"epsilon": "1", "delta": "1"}},
        {"budget": {"epsilon": "1", "delta": "-1e-9"}},
        {"budget": {"epsilon": "1", "delta": "0", "accountant": "magic"}},
        {"surprise": 1},
        {"description": "x" * 1001},
        {"description": "a\0b"},
        {"ledger": "a\0b", "budget": None},
    ],
)
def test_a_sketch_with_bad_parameters_is_refused(client: TestClient, change: dict[str, Any]) -> None:
    body = {"k": 8, "budget": {"epsilon": "1", "delta": "1e-5"}, **change}
    answer = client.put("/v1/sketches/views", json=body)
    assert answer.status_code == 422
    assert problem(answer) == "invalid-request"
    assert answer.json()["detail"]
    assert problem(client.get("/v1/sketches/views")) == "unknown-sketch"


@pytest.mark.parametrize("name", ["UPPER", "sp ace", "-start", "x" * 101, "a/b", "%00", "é"])
def test_a_bad_name_is_refused(client: TestClient, name: str) -> None:
    answer = client.put(f"/v1/sketches/{name}", json={"k": 8, "budget": {"epsilon": "1", "delta": "1e-5"}})
    assert answer.status_code in (404, 422)
    assert problem(answer) in ("invalid-request", "not-found")


@pytest.mark.parametrize(
    "body", [b'{"k": 8, "description": "\\ud800", "ledger": "x"}', b"{", b"", b'{"k": 1' + b"0" * 5000]
)
def test_a_body_that_is_not_json_or_not_unicode_is_refused(client: TestClient, body: bytes) -> None:
    answer = client.put("/v1/sketches/views", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert problem(answer) in ("bad-request", "invalid-request")


def test_a_sketch_or_ledger_with_other_parameters_is_a_conflict(client: TestClient) -> None:
    create_sketch(client, k=8)
    for other in (
        {"k": 9, "budget": {"epsilon": "1", "delta": "1e-3"}},
        {"k": 8, "budget": {"epsilon": "2", "delta": "1e-3"}},
        {"k": 8, "budget": {"epsilon": "1", "delta": "1e-3"}, "description": "new"},
    ):
        assert problem(client.put("/v1/sketches/views", json=other)) == "conflict"
    assert client.put("/v1/sketches/views", json={"k": 8, "ledger": "views"}).status_code == 200  # the same ledger
    assert problem(client.put("/v1/ledgers/views", json={"epsilon": "9", "delta": "0"})) == "conflict"
    assert client.put("/v1/ledgers/views", json={"epsilon": 1, "delta": 0.001}).status_code == 200


def test_a_sketch_does_not_take_a_foreign_ledger_as_its_own(client: TestClient) -> None:
    client.put("/v1/ledgers/views", json={"epsilon": "1", "delta": "1e-3"})
    answer = client.put("/v1/sketches/views", json={"k": 8, "budget": {"epsilon": "1", "delta": "1e-3"}})
    assert problem(answer) == "conflict"
    assert "ledger" in answer.json()["detail"]
    assert problem(client.put("/v1/sketches/views", json={"k": 8, "ledger": "missing"})) == "unknown-ledger"


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0},
        {"delta": 1},
        {"beta": 0},
        {"beta": "0.6"},
        {"mechanism": "magic"},
        {"expected_events": -1},
        {"x": 1},
    ],
)
def test_a_release_with_bad_parameters_is_refused_and_free(client: TestClient, change: dict[str, Any]) -> None:
    create_sketch(client)
    body = {"epsilon": "0.1", "delta": "1e-6", **change}
    assert problem(client.post("/v1/sketches/views/snapshots", json=body)) == "invalid-request"
    assert client.get("/v1/ledgers/views").json()["spent"] == {"epsilon": "0", "delta": "0"}


def test_a_release_without_delta_says_that_it_needs_one(client: TestClient) -> None:
    create_sketch(client)
    answer = release(client, delta="0")
    assert problem(answer) == "no-mechanism"
    assert "1e-6" in answer.json()["detail"]
    assert client.get("/v1/ledgers/views").json()["spent"] == {"epsilon": "0", "delta": "0"}


def test_amounts_may_be_numbers_and_come_back_as_charged(client: TestClient) -> None:
    create_sketch(client)
    snapshot = release(client, epsilon=0.1, delta=1e-6, beta=0.1).json()  # type: ignore[arg-type]
    assert (snapshot["epsilon"], snapshot["delta"], snapshot["beta"]) == ("0.1", "1e-6", "0.1")


def test_the_plan_of_a_sketch_is_the_same_empty_and_full_and_before_it_exists(client: TestClient) -> None:
    question = {"epsilon": "1", "delta": "1e-6", "expected_events": 6500}
    before = client.post("/v1/plan", json={"k": 64, **question}).json()
    create_sketch(client, k=64)
    empty = client.post("/v1/sketches/views/plan", json=question)
    post_events(client, [{"key": f"{number}", "count": 1000} for number in range(100)])
    assert client.post("/v1/sketches/views/plan", json=question).content == empty.content
    offers = empty.json()["mechanisms"]
    assert [offer["mechanism"] for offer in offers] == ["pmg", "reduced-approx"]
    offer = offers[0]
    assert offer["parameters"] == {
        "noise": "discrete-laplace",
        "scale": "1",
        "threshold": 17,
        "k": 64,
        "max_contributions": 1,
    }
    assert offer["error_bound"]["sketch"] == 100
    assert offer["releases_remaining"] == 1
    assert before["mechanisms"] == [offer | {"releases_remaining": None} for offer in offers]


def test_a_snapshot_gives_what_its_plan_said(client: TestClient) -> None:
    create_sketch(client)
    question = {"epsilon": "0.5", "delta": "1e-6", "beta": "0.01"}
    asked = question | {"expected_events": 6500}
    offer = client.post("/v1/sketches/views/plan", json=asked).json()["mechanisms"][0]
    snapshot = release(client, **question).json()
    names = ("mechanism", "theorem", "parameters")
    assert {name: snapshot[name] for name in names} == {name: offer[name] for name in names}
    planned, bound = offer["error_bound"], snapshot["error_bound"]
    assert (bound["below"], bound["above"]) == (planned["below"], planned["above"])
    assert (planned["sketch"], planned["unlisted"] - planned["sketch"]) == (100, bound["unlisted"] - bound["sketch"])


def test_a_release_takes_no_promise_about_the_number_of_events(client: TestClient) -> None:
    create_sketch(client)
    assert problem(release(client, expected_events=6500)) == "invalid-request"


def test_what_is_not_there_is_a_problem(client: TestClient) -> None:
    assert problem(client.get("/nowhere")) == "not-found"
    assert problem(client.post("/v1/sketches")) == "method-not-allowed"
    assert problem(client.get("/v1/snapshots/" + "0" * 32)) == "unknown-snapshot"
    assert problem(client.get("/v1/ledgers/none")) == "unknown-ledger"
