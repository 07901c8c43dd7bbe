"""A ledger may bound what one person contributes to all its sketches together, which then may be merged."""

from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient

from app.settings import Settings
from app.usecases.context import Context
from tests import books
from tests.api.calls import merge, post_events, problem, release
from tests.conftest import ADMIN_KEY

_TOTAL = {"epsilon": "10", "delta": "1e-3"}


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    """With a key of the test's own."""
    return Settings(database_url=database_url, admin_key=ADMIN_KEY, user_key_file=str(tmp_path / "user.key"))


def ledger(client: httpx2.Client, name: str = "shared", **contributions: Any) -> httpx2.Response:
    bound = {"contributions": contributions} if contributions else {}
    return client.put(f"/v1/ledgers/{name}", json={**_TOTAL, **bound})


def sketch(client: httpx2.Client, name: str, **more: Any) -> httpx2.Response:
    payer = {"budget": _TOTAL} if more.pop("own", False) else {"ledger": "shared"}
    return client.put(f"/v1/sketches/{name}", json={"k": 64, "max_contributions": 5, **payer, **more})


def send(client: httpx2.Client, name: str, *items: tuple[str, str, int]) -> None:
    events = [{"user": user, "key": key, "count": count} for user, key, count in items]
    assert post_events(client, events, name).status_code == 200


def send_sets(client: httpx2.Client, name: str, *sets: tuple[str, str]) -> None:
    users = [{"user": user, "keys": list(keys)} for user, keys in sets]
    assert client.post(f"/v1/sketches/{name}/events", json={"users": users}).status_code == 200


def test_a_ledger_shows_the_bound_and_keeps_it(client: TestClient) -> None:
    made = ledger(client, max=5)
    assert made.status_code == 201
    assert made.json()["contributions"] == {"unit": "event", "max": 5}
    assert ledger(client, max=5).status_code == ledger(client, max=5, unit="event").status_code == 200
    assert client.get("/v1/ledgers/shared").json()["contributions"] == {"unit": "event", "max": 5}
    for other in ({"max": 6}, {"max": 5, "unit": "user"}, {}):
        assert problem(ledger(client, **other)) == "conflict"
    assert ledger(client, "free").json().get("contributions") is None
    assert problem(ledger(client, "free", max=5)) == "conflict"


@pytest.mark.parametrize("contributions", [{"max": 0}, {"max": 1001}, {}, {"max": 5, "unit": "key"}, {"max": None}])
def test_a_bound_that_is_none_is_refused(client: TestClient, contributions: dict[str, Any]) -> None:
    answer = client.put("/v1/ledgers/shared", json={**_TOTAL, "contributions": contributions})
    assert (answer.status_code, problem(answer)) == (422, "invalid-request")


def test_a_persons_events_in_all_sketches_of_the_ledger_are_at_most_m(client: TestClient, context: Context) -> None:
    ledger(client, max=5)
    for name in ("one", "two"):
        assert sketch(client, name).status_code == 201
    send(client, "one", ("u", "a", 3), ("v", "a", 1))
    send(client, "two", ("u", "b", 9), ("w", "b", 5))
    send(client, "one", ("u", "c", 1), ("v", "c", 9), ("w", "c", 1))
    assert books.counters(context.database, "one") == {"a": 4, "c": 4}
    assert books.counters(context.database, "two") == {"b": 2 + 5}


def test_a_person_is_in_one_set_of_all_sketches_of_the_ledger(client: TestClient, context: Context) -> None:
    ledger(client, max=2, unit="user")
    for name in ("one", "two"):
        assert sketch(client, name, unit="user", max_contributions=2).status_code == 201
    send_sets(client, "one", ("u", "abc"), ("v", "a"))
    send_sets(client, "two", ("u", "d"), ("w", "cab"), ("v", "d"))
    send_sets(client, "one", ("w", "d"), ("x", "d"))
    assert books.counters(context.database, "one") == {"a": 2, "b": 1, "d": 1}
    assert books.counters(context.database, "two") == {"c": 1, "a": 1}


def test_other_ledgers_and_sketches_count_a_person_for_themselves(client: TestClient, context: Context) -> None:
    ledger(client, max=5)
    ledger(client, "other", max=5)
    sketch(client, "one")
    sketch(client, "two", ledger="other")
    sketch(client, "three", own=True)
    for name in ("one", "two", "three"):
        send(client, name, ("u", "a", 9))
        assert books.counters(context.database, name) == {"a": 5}


@pytest.mark.parametrize(
    "different",
    [
        {"max_contributions": 4},
        {"max_contributions": 6},
        {"max_contributions": 1},
        {"unit": "user"},
        {"enforcement": "declared"},
    ],
)
def test_a_sketch_that_does_not_fit_the_bound_is_refused(client: TestClient, different: dict[str, Any]) -> None:
    ledger(client, max=5)
    refused = sketch(client, "one", **different)
    assert (refused.status_code, problem(refused)) == (409, "conflict")
    assert "bounds" in refused.json()["detail"]
    assert problem(client.get("/v1/sketches/one")) == "unknown-sketch"
    assert sketch(client, "one").status_code == 201


def test_a_bound_of_one_event_is_enforced_by_name(client: TestClient, context: Context) -> None:
    """Alone, one event of each person is declared unless asked for; a ledger that bounds asks for it."""
    ledger(client, max=1)
    assert problem(sketch(client, "one", max_contributions=1)) == "conflict"
    assert sketch(client, "one", max_contributions=1, enforcement="enforced").status_code == 201
    send(client, "one", ("u", "a", 9), ("v", "a", 1))
    assert books.counters(context.database, "one") == {"a": 2}


@pytest.mark.parametrize(("mode", "mechanism"), [("compact", "gshm"), ("summed", "reduced-approx")])
def test_sketches_of_the_ledger_are_merged_and_the_merge_is_released(
    client: TestClient, context: Context, mode: str, mechanism: str
) -> None:
    ledger(client, max=5)
    for name in ("one", "two"):
        sketch(client, name)
        send(client, name, ("u", name, 3), *[(f"{name}-{number}", "many", 5) for number in range(3000)])
    made = merge(client, "both", "one", "two", mode=mode)
    assert made.status_code == 201, made.text
    assert made.json()["enforcement"] == "enforced"
    assert made.json()["ledgers"] == ["shared"]
    snapshot = release(client, "both", epsilon="1").json()
    assert snapshot["mechanism"] == mechanism
    assert [bar["key"] for bar in snapshot["histogram"]] == ["many"]
    assert [paid["ledger"] for paid in snapshot["charged"]] == ["shared"]
    assert "all events of any one person" in snapshot["guarantee"]
    assert "counted at most 5 events" in snapshot["guarantee"]
    if mode == "compact":
        assert books.counters(context.database, "both") == {"one": 3, "two": 2, "many": 30_000}


def test_sketches_of_users_of_the_ledger_are_merged_and_the_merge_is_released(
    client: TestClient, context: Context
) -> None:
    ledger(client, max=2, unit="user")
    for name in ("one", "two"):
        sketch(client, name, unit="user", max_contributions=2)
        send_sets(client, name, ("u", "ab"), (name, "bc"))
    assert problem(merge(client, "both", "one", "two", mode="summed")) == "incompatible-sketches"
    made = merge(client, "both", "one", "two")
    assert made.status_code == 201, made.text
    assert books.counters(context.database, "both") == {"a": 1, "b": 3, "c": 2}
    snapshot = release(client, "both", epsilon="1").json()
    assert "one set of 2 keys" in snapshot["guarantee"]


def test_a_merged_sketch_goes_on_counting_against_the_same_allowance(client: TestClient, context: Context) -> None:
    ledger(client, max=5)
    for name in ("one", "two"):
        sketch(client, name)
        send(client, name, ("u", name, 2))
    merge(client, "both", "one", "two")
    send(client, "both", ("u", "later", 9), ("v", "later", 2))
    send(client, "one", ("u", "much later", 9), ("v", "much later", 9))
    assert books.counters(context.database, "both") == {"one": 2, "two": 2, "later": 1 + 2}
    assert books.counters(context.database, "one") == {"one": 2, "much later": 3}
    assert problem(post_events(client, ["unnamed"], "both")) == "bad-batch"


def test_a_merged_sketch_of_users_goes_on_counting_each_once(client: TestClient, context: Context) -> None:
    ledger(client, max=2, unit="user")
    for name in ("one", "two"):
        sketch(client, name, unit="user", max_contributions=2)
        send_sets(client, name, (name, "ab"))
    merge(client, "both", "one", "two")
    send_sets(client, "both", ("one", "c"), ("three", "c"))
    send_sets(client, "two", ("three", "d"))
    assert books.counters(context.database, "both") == {"a": 2, "b": 2, "c": 1}
    assert books.counters(context.database, "two") == {"a": 1, "b": 1}


@pytest.mark.parametrize("mode", ["compact", "summed"])
def test_sketches_that_each_count_their_own_people_are_not_merged(client: TestClient, mode: str) -> None:
    """A person may be in both, up to the limit in each, and the noise covers the limit once."""
    ledger(client, max=5)
    ledger(client, "other", max=5)
    ledger(client, "free")
    sketch(client, "bound")
    sketch(client, "elsewhere", ledger="other")
    for name in ("one", "two"):
        sketch(client, name, own=True)
    sketch(client, "three", ledger="free")
    sketch(client, "four", ledger="free")
    sketch(client, "declared", own=True, enforcement="declared")
    for target, source in (
        *(("one", "two"), ("three", "four"), ("one", "bound"), ("bound", "one"), ("bound", "elsewhere")),
        *(("one", "declared"), ("declared", "one"), ("declared", "bound"), ("bound", "declared")),
    ):
        for sources in ([source], [target, source]):
            refused = merge(client, target if len(sources) == 1 else "new", *sources, mode=mode)
            assert (refused.status_code, problem(refused)) == (409, "incompatible-sketches"), (target, source)
            assert refused.json()["field"] == "enforcement"
    assert problem(client.get("/v1/sketches/new")) == "unknown-sketch"


def test_the_budget_of_a_sketch_does_not_become_a_bound(client: TestClient, context: Context) -> None:
    """A second sketch may be paid from it, and counts for itself."""
    sketch(client, "one", own=True)
    assert sketch(client, "two", ledger="one").status_code == 201
    for name in ("one", "two"):
        send(client, name, ("u", "a", 9))
        assert books.counters(context.database, name) == {"a": 5}
    assert problem(merge(client, "both", "one", "two")) == "incompatible-sketches"
