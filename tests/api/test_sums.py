"""Released histograms added up: counts and the ends of their intervals, free of charge."""

import csv
import io
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.core.histogram import Bar, ErrorBound, TotalCount
from app.store import snapshots
from app.usecases import sum_snapshots
from app.usecases.context import Context
from tests import books
from tests.api.calls import create_sketch, merge, post_events, problem, release, release_together
from tests.api.large import SNAPSHOT, bases_of

_PARTS = {
    "a": (ErrorBound(2, 3, 1, 10), [Bar("x", 20, 18, 24), Bar("y", 15, 13, 19)], TotalCount(40, 38, 42, "event")),
    "b": (ErrorBound(2, 3, 1, 100), [Bar("y", 7, 5, 11), Bar("z", 22, 20, 26)], TotalCount(30, 20, 35, "event")),
}
_ADDED = [
    {"key": "y", "count": 22, "low": 18, "high": 30},
    {"key": "z", "count": 22, "low": 20, "high": 36},
    {"key": "x", "count": 20, "low": 18, "high": 124},
]


def _id(name: str) -> str:
    return name.encode().hex().rjust(32, "0")


def _store(client: TestClient, context: Context, name: str, **changed: Any) -> str:
    """As a release of a sketch of this name, which is made."""
    create_sketch(client, name)
    bound, bars, _ = _PARTS.get(name, _PARTS["a"])
    values = {"id": _id(name), "sketches": [name], "error_bound": bound, "beta": "0.1", **changed}
    with context.database.writing() as session:
        snapshots.add(session, replace(SNAPSHOT, **values), bars, bases_of(session, name))
    return _id(name)


def _sum(client: TestClient, *ids: str, accept: str = "application/json", **query: Any) -> Any:
    return client.post("/v1/snapshots/sum", json={"snapshots": ids}, params=query, headers={"Accept": accept})


def test_counts_and_ends_are_added_up(client: TestClient, context: Context) -> None:
    """A key that a part does not list counts as 0 there, up to what that part says."""
    ids = [_store(client, context, name) for name in "ab"]
    answer = _sum(client, *ids)
    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "snapshots": ids,
        "sketches": ["a", "b"],
        "unit": "event",
        "beta": "0.19",
        "error_bound": {"unlisted": 110},
        "truncated": False,
        "histogram": _ADDED,
    }
    assert _sum(client, *reversed(ids)).json()["histogram"] == _ADDED
    assert _sum(client, ids[0]).json()["histogram"] == client.get(f"/v1/snapshots/{ids[0]}").json()["histogram"]


def test_nothing_is_charged_or_stored(client: TestClient, context: Context) -> None:
    ids = [_store(client, context, name) for name in "ab"]
    before = books.read(context.database, "a")
    assert _sum(client, *ids).status_code == 200
    assert books.read(context.database, "a") == before


def test_totals_are_added_up_where_every_part_has_one(client: TestClient, context: Context) -> None:
    ids = [_store(client, context, name, total=_PARTS[name][2]) for name in "ab"]
    answer = _sum(client, *ids).json()
    assert answer["total"] == {"unit": "event", "count": 70, "low": 58, "high": 77}
    assert answer["other"]["count"] == 70 - 22 - 22 - 20
    assert answer["histogram"][0]["share"] == 31.43
    assert "total" not in _sum(client, *ids, _store(client, context, "without")).json()


def test_one_part_that_does_not_know_its_error_leaves_all_upper_ends_open(client: TestClient, context: Context) -> None:
    known = _store(client, context, "a")
    unknown = _store(client, context, "b", error_bound=ErrorBound(2, 3, None, None, "Of an earlier version."))
    answer = _sum(client, known, unknown).json()
    assert answer["error_bound"] == {"unlisted": None}
    assert [bar["high"] for bar in answer["histogram"]] == [None] * 3
    assert [bar["low"] for bar in answer["histogram"]] == [18, 20, 18]


@pytest.mark.parametrize(
    ("betas", "together"),
    [
        (["0.05"], "0.05"),
        (["0.05", "0.05"], "0.0975"),
        (["0.05"] * 30, "0.785361237"),
        (["0.0017"] * 30, "0.04976257"),
    ],
)
def test_all_parts_hold_together_with_the_product_of_their_probabilities(
    client: TestClient, context: Context, betas: list[str], together: str
) -> None:
    """Their noise is independent. It is rounded against the service."""
    ids = [_store(client, context, f"part-{at}", beta=beta) for at, beta in enumerate(betas)]
    assert _sum(client, *ids).json()["beta"] == together


def test_readers_choose_bars_as_of_a_snapshot(client: TestClient, context: Context) -> None:
    ids = [_store(client, context, name) for name in "ab"]

    def keys(**query: Any) -> list[str]:
        return [bar["key"] for bar in _sum(client, *ids, **query).json()["histogram"]]

    assert keys() == ["y", "z", "x"]
    assert keys(order="key") == ["x", "y", "z"]
    assert keys(top=1) == ["y"]
    assert keys(min_count=21, order="key") == ["y", "z"]
    named = _sum(client, *ids, key=["z", "none"]).json()
    assert [bar["key"] for bar in named["histogram"]] == ["z"]
    assert named["unlisted"] == [{"key": "none", "at_most": 110}]
    table = list(csv.reader(io.StringIO(_sum(client, *ids, accept="text/csv").text)))
    assert table == [["key", "count", "low", "high"], *([str(value) for value in bar.values()] for bar in _ADDED)]
    assert problem(_sum(client, *ids, accept="image/svg+xml")) == "not-acceptable"


def test_an_event_is_added_up_once(client: TestClient) -> None:
    for name in "abc":
        create_sketch(client, name)
    assert merge(client, "ab", "a", "b").status_code == 201
    of = {name: release(client, name).json()["id"] for name in ("a", "b", "c", "ab")}
    of["bc"] = release_together(client, "b", "c").json()["id"]
    again = release(client, "a").json()["id"]
    for fine in (("a", "bc"), ("ab", "c"), ("a", "b", "c")):
        assert _sum(client, *(of[name] for name in fine)).status_code == 200
    for ids in ((of["a"], again), (of["a"], of["ab"]), (of["ab"], of["bc"])):
        answer = _sum(client, *ids)
        assert (answer.status_code, problem(answer)) == (409, "incompatible-sketches")
        assert answer.json()["field"] == "sources"
    assert problem(_sum(client, of["a"], of["a"])) == "invalid-request"


def test_events_and_people_are_not_added_up(client: TestClient) -> None:
    create_sketch(client, "a")
    people = {"k": 8, "unit": "user", "budget": {"epsilon": "1", "delta": "1e-3"}}
    assert client.put("/v1/sketches/b", json=people).status_code == 201
    answer = _sum(client, *(release(client, name).json()["id"] for name in "ab"))
    assert (problem(answer), answer.json()["field"]) == ("incompatible-sketches", "unit")


def test_wrong_requests_are_refused(client: TestClient, context: Context) -> None:
    stored = _store(client, context, "web-a"), _store(client, context, "app-a")
    assert problem(_sum(client, stored[0], "0" * 32)) == "unknown-snapshot"
    for ids in ((), ("x",), tuple(f"{number:032x}" for number in range(401))):
        assert problem(_sum(client, *ids)) == "invalid-request"
    limited = client.post("/v1/keys", json={"name": "n", "scopes": ["read"], "sketches": "web-*"}).json()
    client.headers["Authorization"] = f"Bearer {limited['secret']}"
    assert _sum(client, stored[0]).status_code == 200
    assert problem(_sum(client, *stored)) == "unknown-snapshot"


def test_more_keys_than_there_is_room_for_are_refused(
    client: TestClient, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [_store(client, context, name) for name in "ab"]
    monkeypatch.setattr(sum_snapshots, "_MOST_BYTES", 700)
    assert _sum(client, ids[0]).status_code == 200
    answer = _sum(client, *ids)
    assert problem(answer) == "invalid-request"
    assert "Add up fewer" in answer.json()["detail"]


def test_windows_in_time_give_what_their_days_give(client: TestClient) -> None:
    """True counts lie in the joint intervals; ε is large, so that noise is small."""
    days = [f"day-{day}" for day in range(5)]
    for number, day in enumerate(days):
        create_sketch(client, day, epsilon="100", k=16)
        events = [{"key": f"key {key}", "count": 200 + 10 * key * number} for key in range(8)]
        assert post_events(client, events, day).status_code == 200
    ids = [release(client, day, epsilon="20", beta="0.000001").json()["id"] for day in days]
    answer = _sum(client, *ids).json()
    found = {bar["key"]: bar for bar in answer["histogram"]}
    for key in range(8):
        true = sum(200 + 10 * key * number for number in range(len(days)))
        assert found[f"key {key}"]["low"] <= true <= found[f"key {key}"]["high"]
    assert answer["error_bound"]["unlisted"] >= 0
    assert list(chain(found)) == [bar["key"] for bar in answer["histogram"]]
