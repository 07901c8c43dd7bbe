"""A closed sketch takes no more events, keeps what was counted, and has forgotten who sent it."""

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from app.settings import Settings
from app.store.database import Database
from app.store.tables import AllowanceRow
from app.usecases.context import Context
from tests import books
from tests.api.calls import create_sketch, merge, post_events, problem, release
from tests.conftest import ADMIN_KEY
from tests.server import running


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    """With a key of the test's own."""
    return Settings(database_url=database_url, admin_key=ADMIN_KEY, user_key_file=str(tmp_path / "user.key"))


def create(client: httpx2.Client, name: str = "views", **more: Any) -> httpx2.Response:
    payer = {} if "ledger" in more else {"budget": {"epsilon": "10", "delta": "1e-3"}}
    return client.put(f"/v1/sketches/{name}", json={"k": 64, "max_contributions": 5, **payer, **more})


def close(client: httpx2.Client, name: str = "views") -> httpx2.Response:
    return client.post(f"/v1/sketches/{name}/close")


def bounded_ledger(client: httpx2.Client) -> None:
    body = {"epsilon": "10", "delta": "1e-3", "contributions": {"max": 5}}
    assert client.put("/v1/ledgers/shared", json=body).status_code == 201


def fingerprints(database: Database) -> int:
    with database.reading() as session:
        return session.scalar(select(func.count()).select_from(AllowanceRow)) or 0


_ONE = [{"user": "u", "key": "a"}]


def test_no_event_is_taken_after_the_close(client: TestClient, context: Context) -> None:
    create(client)
    post_events(client, _ONE)
    assert close(client).status_code == 200
    for _ in range(2):
        refused = post_events(client, [{"user": "v", "key": "b"}])
        assert (refused.status_code, problem(refused)) == (409, "closed")
    assert books.counters(context.database) == {"a": 1}


def test_a_closed_sketch_of_any_kind_takes_no_event(client: TestClient, context: Context) -> None:
    create_sketch(client, "declared")
    post_events(client, ["a"], "declared")
    create(client, "sets", unit="user")
    merge(client, "sum", "declared", mode="summed")
    for name in ("declared", "sets", "sum"):
        assert close(client, name).json()["closed_at"]
    assert problem(post_events(client, ["a"], "declared")) == "closed"
    assert problem(post_events(client, [], "declared")) == "closed"
    sets = client.post("/v1/sketches/sets/events", json={"users": [{"user": "u", "keys": ["a"]}]})
    assert problem(sets) == "closed"
    assert problem(post_events(client, ["a"], "sum")) == "closed"
    assert books.counters(context.database, "declared") == {"a": 1}


def test_a_retry_of_what_was_counted_before_is_still_acknowledged(client: TestClient, context: Context) -> None:
    create(client)
    first = post_events(client, _ONE, key="1")
    close(client)
    assert post_events(client, _ONE, key="1").content == first.content
    assert problem(post_events(client, _ONE, key="2")) == "closed"
    assert books.counters(context.database) == {"a": 1}


def test_closing_forgets_the_people_and_releases_go_on(client: TestClient, context: Context) -> None:
    create(client)
    create(client, "other")
    for name in ("views", "other"):
        post_events(client, [{"user": f"u{number}", "key": "a"} for number in range(500)], name)
    assert fingerprints(context.database) == 2
    before = release(client, epsilon="1").json()
    close(client)
    assert fingerprints(context.database) == 1  # of the other sketch
    after = release(client, epsilon="1").json()
    assert [bar["key"] for bar in after["histogram"]] == ["a"]
    assert after["guarantee"] == before["guarantee"]
    close(client, "other")
    assert fingerprints(context.database) == 0


def test_closing_again_changes_nothing(client: TestClient) -> None:
    create(client)
    assert client.get("/v1/sketches/views").json()["closed_at"] is None
    first = close(client)
    assert first.json()["closed_at"]
    assert close(client).json() == first.json() == client.get("/v1/sketches/views").json()
    assert create(client).status_code == 200  # the same sketch exists, closed
    assert create(client).json() == first.json()


def test_deleting_forgets_the_people_too(client: TestClient, context: Context) -> None:
    for closed in (False, True):
        name = f"views-{closed}".lower()
        create(client, name)
        post_events(client, _ONE, name)
        if closed:
            close(client, name)
        assert client.delete(f"/v1/sketches/{name}").status_code == 204
        assert fingerprints(context.database) == 0
        assert problem(close(client, name)) == "unknown-sketch"
        assert problem(create(client, name)) == "conflict"


def test_only_an_administrator_closes_and_only_what_there_is(client: TestClient) -> None:
    create(client)
    assert problem(close(client, "missing")) == "unknown-sketch"
    made = client.post("/v1/keys", json={"name": "n", "scopes": ["ingest", "read", "release"]}).json()
    client.headers["Authorization"] = f"Bearer {made['secret']}"
    assert problem(close(client)) == "forbidden"


def test_the_people_of_a_ledger_are_forgotten_with_its_last_sketch(client: TestClient, context: Context) -> None:
    bounded_ledger(client)
    for name in ("one", "two", "three"):
        create(client, name, ledger="shared")
    post_events(client, [{"user": "u", "key": "a", "count": 3}], "one")
    close(client, "one")
    client.delete("/v1/sketches/three")
    assert fingerprints(context.database) == 1
    post_events(client, [{"user": "u", "key": "b", "count": 9}], "two")
    assert books.counters(context.database, "two") == {"b": 2}
    close(client, "two")
    assert fingerprints(context.database) == 0
    refused = create(client, "four", ledger="shared")
    assert (refused.status_code, problem(refused)) == (409, "conflict")
    assert "forgotten" in refused.json()["detail"]
    assert release(client, "two").status_code == release(client, "one").status_code == 201
    assert create(client, "two", ledger="shared").status_code == 200


# Merges


def test_nothing_is_merged_into_a_closed_sketch(client: TestClient, context: Context) -> None:
    for name in ("a", "b"):
        create_sketch(client, name)
        post_events(client, [name], name)
    close(client, "a")
    for mode in ("compact", "summed"):
        refused = merge(client, "a", "b", mode=mode)
        assert (refused.status_code, problem(refused)) == (409, "closed")
    assert books.counters(context.database, "a") == {"a": 1}
    assert merge(client, "b", "a").status_code == 201
    assert books.counters(context.database, "b") == {"a": 1, "b": 1}


def test_what_is_merged_from_forgotten_people_is_closed(client: TestClient, context: Context) -> None:
    """Nobody knows any more what they used, so the target could only count them again."""
    create(client)
    post_events(client, [{"user": "u", "key": "a", "count": 5}])
    close(client)
    made = merge(client, "copy", "views")
    assert made.status_code == 201
    assert made.json()["closed_at"]
    assert problem(post_events(client, _ONE, "copy")) == "closed"
    assert books.counters(context.database, "copy") == {"a": 5}
    assert release(client, "copy", epsilon="1").status_code == 201
    assert problem(merge(client, "copy", "views")) in ("closed", "incompatible-sketches")


def test_a_merge_of_all_closed_sketches_of_a_ledger_is_closed_and_released(
    client: TestClient, context: Context
) -> None:
    bounded_ledger(client)
    for name in ("one", "two"):
        create(client, name, ledger="shared")
        post_events(client, [{"user": "u", "key": name, "count": 3}], name)
    for name in ("one", "two"):
        close(client, name)
    made = merge(client, "both", "one", "two")
    assert made.status_code == 201
    assert made.json()["closed_at"]
    assert books.counters(context.database, "both") == {"one": 3, "two": 2}
    assert release(client, "both", epsilon="1").status_code == 201
    assert fingerprints(context.database) == 0


def test_a_merge_with_one_closed_sketch_of_a_ledger_goes_on_while_its_people_are_known(
    client: TestClient, context: Context
) -> None:
    bounded_ledger(client)
    for name in ("one", "two"):
        create(client, name, ledger="shared")
        post_events(client, [{"user": "u", "key": name, "count": 2}], name)
    close(client, "one")
    assert merge(client, "both", "one", "two").json()["closed_at"] is None
    post_events(client, [{"user": "u", "key": "more", "count": 9}], "both")
    assert books.counters(context.database, "both") == {"one": 2, "two": 2, "more": 1}
    close(client, "two")
    assert fingerprints(context.database) > 0
    close(client, "both")
    assert fingerprints(context.database) == 0


# Races


def test_no_batch_is_counted_after_the_answer_to_a_close(database_url: str) -> None:
    """Posts and closes at once at two workers: what is acknowledged is counted, and then nothing moves any more."""
    database = Database(database_url)
    with running(database_url, workers=2) as server, server.client() as client, ThreadPoolExecutor(8) as threads:
        for round_ in range(2):
            name = f"views-{round_}"
            create(client, name)
            sending = [threads.submit(_post_to, client, name, sender) for sender in range(5)]
            pause = random.Random(round_).uniform(0.02, 0.15)
            closing = [threads.submit(_close_after, client, name, pause) for _ in range(2)]
            assert {one.result(60).status_code for one in closing} == {200}
            counted = books.counters(database, name)
            acknowledged: Counter[str] = sum((one.result(60) for one in sending), Counter())
            assert books.counters(database, name) == counted == acknowledged
            assert fingerprints(database) == 0
    database.close()


def _post_to(client: httpx2.Client, name: str, sender: int) -> Counter[str]:
    acknowledged: Counter[str] = Counter()
    for number in range(2000):
        answer = post_events(client, [{"user": f"u{sender}-{number}", "key": f"k{sender}"}], name)
        if answer.status_code != 200:
            assert problem(answer) == "closed"
            return acknowledged
        acknowledged[f"k{sender}"] += 1
    raise AssertionError("never closed")


def _close_after(client: httpx2.Client, name: str, seconds: float) -> httpx2.Response:
    time.sleep(seconds)
    return close(client, name)


def test_sketches_of_a_ledger_closed_merged_made_and_written_to_at_once_end_in_order(
    client: TestClient, context: Context
) -> None:
    """No call fails but with a reason, nobody counts twice, and once all is closed nobody is remembered."""
    bounded_ledger(client)
    names = [f"s{number}" for number in range(4)]
    for name in names[:3]:
        create(client, name, ledger="shared")

    def act(number: int) -> int:
        choice = random.Random(number)
        name = choice.choice(names)
        verb = choice.choice(("post", "post", "post", "post", "close", "merge", "make"))
        if verb == "post":
            answer = post_events(client, [{"user": "u", "key": name}, {"user": f"v{number}", "key": "v"}], name)
        elif verb == "close":
            answer = close(client, name)
        elif verb == "merge":
            answer = merge(client, f"t{number}", *choice.sample(names, 2))
        else:
            answer = create(client, name, ledger="shared")
        return answer.status_code

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(act, range(100))) <= {200, 201, 404, 409}
    listed = [sketch["name"] for sketch in client.get("/v1/sketches", params={"limit": 100}).json()["items"]]
    for name in listed:
        counted = books.counters(context.database, name)
        assert sum(count for key, count in counted.items() if key != "v") <= 5
        assert close(client, name).status_code == 200
    assert fingerprints(context.database) == 0
