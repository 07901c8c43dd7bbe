"""Every mechanism behind the same calls, and none where its proof does not reach."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from app.core.sketches.compact import CompactSketch
from app.core.sketches.state import Sketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch
from app.store import sketches, states
from app.store.tables import SketchRow
from app.usecases.context import Context
from tests.api.calls import post_events, problem, release


def _create(client: TestClient, **more: Any) -> None:
    body = {"k": 64, "budget": {"epsilon": "100", "delta": "1e-3"}, **more}
    assert client.put("/v1/sketches/views", json=body).status_code == 201


def _plan(client: TestClient, **question: Any) -> dict[str, Any]:
    answer = client.post("/v1/plan", json={"epsilon": "1", "delta": "1e-6", **question})
    assert answer.status_code == 200
    body: dict[str, Any] = answer.json()
    return body


def _replace_state(context: Context, sketch: Sketch, family: str) -> None:
    """What a merge leaves behind."""
    with context.database.writing() as session:
        session.execute(update(SketchRow).where(SketchRow.name == "views").values(family=family))
        states.save(session, sketches.get(session, "views"), sketch)


def test_a_sketch_with_a_universe_is_released_without_delta(client: TestClient) -> None:
    _create(client, universe={"range": [0, 2**62]})
    post_events(client, [{"key": "7", "count": 5000}, {"key": "4611686018427387904", "count": 4000}])
    snapshot = release(client, epsilon="10", delta="0").json()
    assert snapshot["mechanism"] == "reduced-pure"
    assert snapshot["parameters"]["universe_size"] == 2**62 + 1
    assert [bar["key"] for bar in snapshot["histogram"]] == ["7", "4611686018427387904"]
    assert snapshot["charged"] == [{"ledger": "views", "epsilon": "10", "delta": "0"}]


def test_a_pure_release_is_charged_no_delta_even_where_one_was_offered(client: TestClient) -> None:
    _create(client, universe={"values": ["a", "b", "c"]})
    snapshot = release(client, delta="1e-6", mechanism="reduced-pure").json()
    assert (snapshot["epsilon"], snapshot["delta"]) == ("0.1", "0")
    assert client.get("/v1/ledgers/views").json()["spent"] == {"epsilon": "0.1", "delta": "0"}


def test_events_outside_the_universe_are_refused_whole(client: TestClient) -> None:
    _create(client, universe={"range": [-5, 5]})
    answer = post_events(client, ["0", "6", "-5", "05", "x", "+1", "٣"])
    assert problem(answer) == "bad-batch"
    assert [fault["position"] for fault in answer.json()["errors"]] == [1, 3, 4, 5, 6]
    assert post_events(client, ["-5", "0", "5"]).status_code == 200


def test_a_universe_is_part_of_what_a_sketch_is(client: TestClient) -> None:
    _create(client, universe={"values": ["b", "a"]})
    body = {"k": 64, "budget": {"epsilon": "100", "delta": "1e-3"}}
    assert client.put("/v1/sketches/views", json=body | {"universe": {"values": ["a", "b"]}}).status_code == 200
    assert problem(client.put("/v1/sketches/views", json=body)) == "conflict"
    assert client.get("/v1/sketches/views").json()["universe_size"] == 2


def test_more_contributions_cost_noise_and_threshold(client: TestClient) -> None:
    _create(client, max_contributions=5)
    snapshot = release(client, epsilon="1").json()
    assert snapshot["mechanism"] == "pmg"
    assert 5 <= float(snapshot["parameters"]["scale"]) < 5 + 1e-9
    assert snapshot["parameters"]["max_contributions"] == 5
    assert 17 * 5 < snapshot["parameters"]["threshold"] <= 95


def test_a_named_mechanism_is_used(client: TestClient) -> None:
    _create(client)
    post_events(client, [{"key": "a", "count": 10_000}])
    snapshot = release(client, epsilon="1", mechanism="reduced-approx").json()
    assert snapshot["mechanism"] == "reduced-approx"
    (bar,) = snapshot["histogram"]
    assert bar["low"] <= 10_000 <= bar["high"]


@pytest.mark.parametrize("mechanism", ["gshm", "laplace-compact"])
def test_a_stream_sketch_is_not_released_with_a_mechanism_for_others(client: TestClient, mechanism: str) -> None:
    _create(client)
    answer = release(client, mechanism=mechanism)
    assert problem(answer) == "no-mechanism"
    assert "stream" in answer.json()["detail"]
    assert client.get("/v1/ledgers/views").json()["spent"] == {"epsilon": "0", "delta": "0"}


def test_a_merged_sketch_cannot_be_released_with_pmg(client: TestClient, context: Context) -> None:
    _create(client)
    _replace_state(context, CompactSketch.of_stream(StreamSketch(64, {"a": 5000})), "compact")
    answer = release(client, mechanism="pmg")
    assert answer.status_code == 422
    assert problem(answer) == "no-mechanism"
    assert "compact sketch cannot be released with pmg" in answer.json()["detail"]
    assert "gshm" in answer.json()["detail"]
    assert client.get("/v1/ledgers/views").json()["spent"] == {"epsilon": "0", "delta": "0"}


def test_a_merged_sketch_is_released_with_what_fits_it(client: TestClient, context: Context) -> None:
    _create(client)
    stream = StreamSketch(64, {"a": 50_000})
    _replace_state(context, CompactSketch.of_stream(stream), "compact")
    assert release(client, epsilon="1", mechanism="laplace-compact").json()["histogram"][0]["key"] == "a"
    best = release(client, epsilon="1").json()
    assert best["mechanism"] == "gshm"
    assert best["parameters"]["noise"] == "discrete-gaussian"
    assert best["histogram"][0]["key"] == "a"
    _replace_state(context, SummedSketch.of_stream(stream), "summed")
    assert release(client, epsilon="1").json()["mechanism"] == "reduced-approx"


def test_a_state_of_another_family_than_declared_is_not_released(client: TestClient, context: Context) -> None:
    """The last line of defence: the pairing is checked again on what was really read, and the charge rolls back."""
    _create(client)
    _replace_state(context, CompactSketch.of_stream(StreamSketch(64, {"a": 5000})), "stream")
    assert problem(release(client)) == "no-mechanism"
    assert client.get("/v1/ledgers/views").json()["spent"] == {"epsilon": "0", "delta": "0"}


def test_a_plan_answers_before_a_sketch_exists(client: TestClient) -> None:
    question = {"k": 1024, "max_contributions": 5}
    events, users = _plan(client, **question), _plan(client, **question, unit="user")
    assert events["recommended"] == "pmg"
    assert users["recommended"] == "gshm"
    assert events["mechanisms"][0]["parameters"]["threshold"] <= 95
    assert users["mechanisms"][0]["parameters"]["threshold"] < 850
    pure = _plan(client, k=1024, delta="0", universe_size=10**6)
    assert [offer["mechanism"] for offer in pure["mechanisms"]] == ["reduced-pure"]


def test_a_plan_without_delta_or_universe_says_what_is_missing(client: TestClient) -> None:
    answer = client.post("/v1/plan", json={"k": 1024, "epsilon": "1", "delta": "0"})
    assert problem(answer) == "no-mechanism"
    assert "delta" in answer.json()["detail"]
    assert "universe" in answer.json()["detail"]
