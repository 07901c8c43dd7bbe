"""Several sketches released together as one: all their ledgers pay or none, and nothing else changes."""

from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.core.planner import Offer, Output, run
from app.core.sketches.state import Sketch
from app.core.sketches.summed import SummedSketch, sensitivity
from app.usecases import plan_release, release_snapshot
from app.usecases.audit_ledger import verify_ledgers
from app.usecases.context import Context
from tests import books
from tests.api.calls import create_sketch, merge, post_events, problem, release, release_together
from tests.tampering import tamper
from tests.worlds import are_neighbours, pair_of_events

_PAIRS = 30


def _fill(client: TestClient, *names: str, **more: Any) -> None:
    for name in names:
        create_sketch(client, name, **more)
        assert post_events(
            client, [{"key": f"of {name}", "count": 3000}, {"key": "all", "count": 9000}], name
        ).is_success


def _spent(client: TestClient, *ledgers: str) -> list[str]:
    return [client.get(f"/v1/ledgers/{name}").json()["spent"]["epsilon"] for name in ledgers]


def _bars(snapshot: dict[str, Any]) -> dict[str, int]:
    return {bar["key"]: bar["count"] for bar in snapshot["histogram"]}


@pytest.mark.parametrize("mode", ["summed", "compact"])
def test_sketches_are_released_as_one_and_stay_as_they_are(client: TestClient, context: Context, mode: str) -> None:
    _fill(client, "a", "b", "c")
    before = [books.stored(context.database, name) for name in "abc"]
    answer = release_together(client, "c", "a", "b", epsilon="0.5", mode=mode, total=True)
    assert answer.status_code == 201, answer.text
    snapshot = answer.json()
    assert (snapshot["sketches"], snapshot["mode"], "sketch" in snapshot) == (["a", "b", "c"], mode, False)
    counts = _bars(snapshot)
    assert counts.keys() == {"of a", "of b", "of c", "all"}
    assert abs(counts["all"] - 27_000) < 4000
    assert abs(snapshot["total"]["count"] - 36_000) < 3000
    assert [paid["ledger"] for paid in snapshot["charged"]] == ["a", "b", "c"]
    assert _spent(client, "a", "b", "c") == ["0.5", "0.5", "0.5"]
    assert [books.stored(context.database, name) for name in "abc"] == before
    assert client.get(answer.headers["location"]).json()["id"] == snapshot["id"]
    assert verify_ledgers(context) == []


def test_it_can_be_done_again_with_what_came_meanwhile(client: TestClient) -> None:
    _fill(client, "a", "b", epsilon="2")
    assert release_together(client, "a", "b", epsilon="1").status_code == 201
    post_events(client, [{"key": "later", "count": 5000}], "b")
    assert "later" in _bars(release_together(client, "a", "b", epsilon="1").json())
    assert problem(release_together(client, "a", "b", epsilon="1")) == "budget-exhausted"


def test_a_ledger_that_cannot_pay_keeps_all_others_from_paying(client: TestClient, context: Context) -> None:
    _fill(client, "a", "c")
    _fill(client, "b", epsilon="0.05")
    refused = release_together(client, "a", "b", "c", epsilon="0.1")
    assert (refused.status_code, problem(refused)) == (409, "budget-exhausted")
    assert refused.json()["blocking"] == ["b"]
    assert _spent(client, "a", "b", "c") == ["0", "0", "0"]
    assert books.read(context.database, "a").snapshots == 0
    assert release_together(client, "a", "b", "c", epsilon=refused.json()["largest_epsilon"]).status_code == 201


def test_a_shared_ledger_pays_once(client: TestClient, context: Context) -> None:
    """Also where a merged sketch brings in the ledger of another."""
    assert client.put("/v1/ledgers/shared", json={"epsilon": "1", "delta": "1e-3"}).status_code == 201
    for name in ("a", "b"):
        assert client.put(f"/v1/sketches/{name}", json={"k": 8, "ledger": "shared"}).status_code == 201
    create_sketch(client, "c", k=8)
    create_sketch(client, "d", k=8)
    assert merge(client, "cd", "c", "d").status_code == 201
    snapshot = release_together(client, "a", "b", "cd").json()
    assert [paid["ledger"] for paid in snapshot["charged"]] == ["c", "d", "shared"]
    assert _spent(client, "c", "d", "shared") == ["0.1", "0.1", "0.1"]
    assert verify_ledgers(context) == []


def test_a_retry_gets_the_stored_snapshot_without_another_charge(client: TestClient) -> None:
    _fill(client, "a", "b")
    first = release_together(client, "a", "b", key="1").json()
    assert release_together(client, "a", "b", key="1").json() == first
    assert problem(release_together(client, "b", "a", key="1")) == "key-reused"
    assert client.delete("/v1/sketches/b").status_code == 204
    assert release_together(client, "a", "b", key="1").json() == first
    assert _spent(client, "a", "b") == ["0.1", "0.1"]
    assert client.get(f"/v1/snapshots/{first['id']}").json() == first


@pytest.mark.parametrize(
    ("other", "field"),
    [
        ({"k": 9}, "k"),
        ({"k": 8, "unit": "user", "enforcement": "declared"}, "unit"),
        ({"k": 8, "max_contributions": 2, "enforcement": "declared"}, "max_contributions"),
        ({"k": 8, "universe": {"values": ["x"]}}, "universe"),
    ],
)
def test_sketches_that_differ_are_refused_as_for_a_merge(client: TestClient, other: dict[str, Any], field: str) -> None:
    create_sketch(client, "a", k=8)
    made = client.put("/v1/sketches/b", json={"budget": {"epsilon": "1", "delta": "1e-3"}, **other})
    assert made.status_code == 201, made.text
    for answer in (release_together(client, "a", "b"), _plan(client, "a", "b"), merge(client, "c", "a", "b")):
        assert (problem(answer), answer.json()["field"]) == ("incompatible-sketches", field)
    assert _spent(client, "a", "b") == ["0", "0"]


def test_no_event_comes_in_by_two_ways(client: TestClient) -> None:
    for name in ("a", "b"):
        create_sketch(client, name)
    assert merge(client, "ab", "a", "b").status_code == 201
    answer = release_together(client, "b", "ab")
    assert (problem(answer), answer.json()["field"]) == ("incompatible-sketches", "sources")
    assert answer.json()["detail"] == "'b' and 'ab' both hold the events of 'b', which would count twice."


def test_people_must_be_counted_in_one_register(client: TestClient) -> None:
    person = {"k": 8, "unit": "user", "max_contributions": 2}
    own = {"budget": {"epsilon": "1", "delta": "1e-3"}}
    bounded = {"epsilon": "1", "delta": "1e-3", "contributions": {"unit": "user", "max": 2}}
    assert client.put("/v1/ledgers/bounded", json=bounded).status_code == 201
    for name, payer in (("a", own), ("b", own), ("c", {"ledger": "bounded"}), ("d", {"ledger": "bounded"})):
        assert client.put(f"/v1/sketches/{name}", json=person | payer).status_code == 201
    assert release_together(client, "a", "b").json()["field"] == "enforcement"
    assert release_together(client, "c", "d").json()["mode"] == "compact"


def test_modes_take_the_families_that_merges_take(client: TestClient) -> None:
    for name in "abcdef":
        create_sketch(client, name)
    assert merge(client, "summed", "a", "b", mode="summed").status_code == 201
    assert merge(client, "compact", "c", "d", mode="compact").status_code == 201
    for names, mode, taken in (
        (("e", "summed"), None, "summed"),
        (("e", "compact"), None, "compact"),
        (("summed", "e", "f"), "summed", "summed"),
        (("summed", "e"), "compact", None),
        (("compact", "e"), "summed", None),
        (("compact", "summed"), None, None),
    ):
        answer = release_together(client, *names, **({"mode": mode} if mode else {}))
        assert answer.json().get("mode") == taken, answer.text
        assert taken or answer.json()["field"] == "family"


def test_wrong_requests_are_refused(client: TestClient) -> None:
    _fill(client, "a", "b")
    assert problem(release_together(client, "a", "nowhere")) == "unknown-sketch"
    for names in (("a",), (), ("a", "a"), ("a", "B")):
        assert problem(release_together(client, *names)) == "invalid-request"
    assert problem(release_together(client, "a", "b", mode="both")) == "invalid-request"
    assert problem(release_together(client, "a", "b", mode="summed", mechanism="gshm")) == "no-mechanism"
    for wrong in (
        {"sketches": ["a", "b"], "k": 8},
        {"k": 8, "mode": "summed"},
        {"sketches": ["a", "b"], "unit": "user"},
    ):
        answer = client.post("/v1/plan", json={"epsilon": "1", "delta": "1e-6", **wrong})
        assert problem(answer) == "invalid-request"
    assert client.delete("/v1/sketches/b").status_code == 204
    assert problem(release_together(client, "a", "b")) == "unknown-sketch"


def test_more_counters_than_noise_can_hide_are_refused_with_what_to_change(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        create_sketch(client, name, k=8)
    monkeypatch.setattr(plan_release, "MOST_HIDDEN", 20)
    assert release_together(client, "a", "b").status_code == 201
    answer = release_together(client, "a", "b", "c")
    assert problem(answer) == "invalid-request"
    assert "up to 24 counters together, and at most 20" in answer.json()["detail"]


def test_a_key_must_be_for_all_of_them(client: TestClient) -> None:
    _fill(client, "web-a", "web-b", "app-a")
    both = release_together(client, "web-a", "web-b").json()["id"]
    mixed = release_together(client, "web-a", "app-a").json()["id"]
    made = client.post("/v1/keys", json={"name": "n", "scopes": ["read", "release"], "sketches": "web-*"}).json()
    admin, client.headers["Authorization"] = client.headers["Authorization"], f"Bearer {made['secret']}"
    assert client.get(f"/v1/snapshots/{both}").status_code == 200
    assert problem(client.get(f"/v1/snapshots/{mixed}")) == "unknown-snapshot"
    assert release_together(client, "web-a", "web-b").status_code == 201
    for answer in (release_together(client, "web-a", "app-a"), release_together(client, "web-a", "app-none")):
        assert problem(answer) == "forbidden"
    assert problem(_plan(client, "web-a", "app-a")) == "forbidden"
    client.headers["Authorization"] = admin
    made = client.post("/v1/keys", json={"name": "n", "scopes": ["read"]}).json()
    client.headers["Authorization"] = f"Bearer {made['secret']}"
    assert problem(release_together(client, "web-a", "web-b")) == "forbidden"


def test_a_sketch_shows_only_releases_of_its_own(client: TestClient) -> None:
    _fill(client, "a", "b")
    assert release_together(client, "a", "b").status_code == 201
    assert client.get("/v1/sketches/a/snapshots").json()["items"] == []
    assert problem(client.get("/v1/sketches/a/histogram")) == "no-snapshot"
    own = release(client, "a").json()
    assert release_together(client, "a", "b").status_code == 201
    assert client.get("/v1/sketches/a/histogram").json()["id"] == own["id"]
    assert (own["sketch"], own["sketches"], "mode" in own) == ("a", ["a"], False)


def _plan(client: TestClient, *names: str, **more: Any) -> Any:
    return client.post("/v1/plan", json={"sketches": list(names), "epsilon": "0.1", "delta": "1e-6", **more})


@pytest.mark.parametrize("more", [{}, {"mode": "compact"}, {"mode": "summed"}, {"total": True}])
@pytest.mark.parametrize("k", [2, 512])
def test_a_release_gives_what_was_planned(client: TestClient, k: int, more: dict[str, Any]) -> None:
    for name in "abc":
        create_sketch(client, name, k=k)
    plan = _plan(client, "a", "b", "c", **more).json()
    best = plan["mechanisms"][0]
    snapshot = release_together(client, "b", "c", "a", **more).json()
    assert (snapshot["mechanism"], snapshot["mode"]) == (plan["recommended"], best["mode"])
    assert snapshot["parameters"] == best["parameters"]
    assert [snapshot["error_bound"][end] for end in ("below", "above")] == [
        best["error_bound"][end] for end in ("below", "above")
    ]
    assert best["releases_remaining"] == 10
    modes = {more["mode"]} if "mode" in more else {"summed", "compact"}
    assert {offer["mode"] for offer in plan["mechanisms"]} == modes
    widths = [offer["error_bound"]["below"] + offer["error_bound"]["above"] for offer in plan["mechanisms"]]
    assert widths[0] == min(widths)


def test_a_mark_of_one_sketch_is_said_of_all(client: TestClient, context: Context) -> None:
    _fill(client, "a", "b")
    tamper(context.database, "UPDATE sketches SET counted_by_request = true WHERE name = 'b'")
    assert "Not covered" in release_together(client, "a", "b").json()["guarantee"]
    assert "Not covered" not in release(client, "a").json()["guarantee"]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Sketch]:
    """What was released, before noise."""
    found: list[Sketch] = []

    def note(offer: Offer, sketch: Sketch, *rest: Any) -> Output:
        found.append(sketch)
        return run(offer, sketch, *rest)

    monkeypatch.setattr(release_snapshot, "run", note)
    return found


@pytest.mark.parametrize("mode", ["summed", "compact"])
def test_one_event_more_in_one_sketch_moves_what_is_released_as_the_lemmas_say(
    client: TestClient, seen: list[Sketch], mode: str
) -> None:
    """Summed: `lem:pure-dp-postprocessing-sensitivity`, however many sketches. Compact: `corol:merged-sensitivity`."""
    assert client.put("/v1/ledgers/all", json={"epsilon": "100", "delta": "1e-3"}).status_code == 201
    for number in range(_PAIRS):
        pair = pair_of_events(Random(number))
        for world, requests in zip(("longer", "shorter"), pair.requests(), strict=True):
            rng, names = Random(number), [f"{source}-{world}-{number}" for source in "abcd"]
            sent = [[[(rng.choice("abcdefgh"), rng.randint(1, 9)) for _ in range(8)]] for _ in names]
            sent[number % 4] = requests
            for name, batches in zip(names, sent, strict=True):
                assert client.put(f"/v1/sketches/{name}", json={"k": pair.k, "ledger": "all"}).status_code == 201
                for batch in batches:
                    items = [{"key": key, "count": count} for key, count in batch]
                    assert post_events(client, items, name).status_code == 200
            assert release_together(client, *rng.sample(names, 4), mode=mode).status_code == 201
        longer, shorter = seen[-2:]
        if mode == "compact":
            assert are_neighbours(longer.counters, shorter.counters), number
            continue
        assert isinstance(longer, SummedSketch)
        assert isinstance(shorter, SummedSketch)
        keys = longer.counters.keys() | shorter.counters.keys()
        moved = sum(abs(longer.counters.get(key, 0) - shorter.counters.get(key, 0)) for key in keys)
        assert longer.events == (shorter.events or 0) + 1
        assert moved + 1 <= sensitivity(pair.k, 1, sources=4), number


def test_releases_merges_and_events_at_once_leave_the_books_in_order(client: TestClient, context: Context) -> None:
    """In whatever order names are given: locks are taken by id, so nobody waits for ever."""
    _fill(client, "a", "b", "c", epsilon="10")
    orders = [("a", "b", "c"), ("c", "b", "a"), ("b", "c"), ("c", "a")]

    def work(number: int) -> int:
        match number % 4:
            case 0:
                return post_events(client, ["x"], "abc"[number % 3]).status_code
            case 1:
                return merge(client, f"target-{number}", *orders[number % 3]).status_code
            case _:
                return release_together(client, *orders[number % len(orders)], epsilon="0.1").status_code

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(work, range(40))) <= {200, 201}
    assert verify_ledgers(context) == []
    for name in "abc":
        found = books.read(context.database, name)
        assert found.spent == found.entries


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("DELETE FROM snapshot_sketches WHERE sketch_id = 2", "it is not as it was released"),
        ("UPDATE snapshot_sketches SET sketch_id = 3 WHERE sketch_id = 2", "it is not as it was released"),
        ("UPDATE snapshot_sketches SET basis = '{}' WHERE sketch_id = 2", "what its sketches were is not what"),
        ("UPDATE snapshots SET sketch_id = 1", "it is not as it was released"),
        ("UPDATE sketches SET k = 63 WHERE name = 'a'", "sketch a: k is not what ledger a, entry 3, says"),
        ("UPDATE sketches SET ledger_id = 2 WHERE name = 'a'", "sketch a: "),
        ("UPDATE sketch_ledgers SET ledger_id = 3 WHERE sketch_id = 1", "sketch a: "),
        ("DELETE FROM snapshot_bars", "it is not as it was released"),
    ],
)
def test_what_was_changed_of_a_joint_release_is_found(
    client: TestClient, context: Context, statement: str, fault: str
) -> None:
    _fill(client, "a", "b", "c")
    assert release_together(client, "a", "b", epsilon="0.5").status_code == 201
    assert verify_ledgers(context) == []
    tamper(context.database, statement)
    assert [found for found in verify_ledgers(context) if fault in found], verify_ledgers(context)
