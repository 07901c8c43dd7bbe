"""Merged sketches answer to every ledger whose data they hold, and no event is counted twice."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from app.core.guarantee import NOT_COVERED
from app.store.tables import SketchRow
from app.usecases.audit_ledger import verify_ledgers
from app.usecases.context import Context
from tests import books
from tests.api.calls import create_sketch, merge, post_events, problem, release


def spent(client: TestClient, ledger: str) -> str:
    epsilon: str = client.get(f"/v1/ledgers/{ledger}").json()["spent"]["epsilon"]
    return epsilon


@pytest.fixture(autouse=True)
def _sketches(client: TestClient) -> None:
    for name in ("a", "b", "c"):
        create_sketch(client, name, epsilon="1", delta="1e-3", k=8)
        post_events(client, [{"key": name, "count": 1000}, {"key": "shared", "count": 500}], name)


@pytest.mark.parametrize(("mode", "mechanism"), [("compact", "gshm"), ("summed", "reduced-approx")])
def test_a_merge_makes_its_target_and_leaves_the_sources(
    client: TestClient, context: Context, mode: str, mechanism: str
) -> None:
    made = merge(client, "all", "a", "b", mode=mode)
    assert made.status_code == 201
    assert made.json()["family"] == mode
    assert made.json()["ledgers"] == ["a", "b"]
    assert books.counters(context.database, "a") == {"a": 1000, "shared": 500}
    assert release(client, "all", epsilon="1").json()["mechanism"] == mechanism


def test_counts_add_up(client: TestClient, context: Context) -> None:
    merge(client, "all", "a", "b")
    merge(client, "all", "c")
    assert books.counters(context.database, "all") == {"a": 1000, "b": 1000, "c": 1000, "shared": 1500}


def test_a_release_of_a_merged_sketch_is_paid_by_every_ledger(client: TestClient) -> None:
    merge(client, "ab", "a", "b")
    merge(client, "abc", "ab", "c")
    snapshot = release(client, "abc", epsilon="0.4").json()
    assert [paid["ledger"] for paid in snapshot["charged"]] == ["a", "b", "c"]
    assert [spent(client, name) for name in "abc"] == ["0.4"] * 3
    assert release(client, "ab", epsilon="0.5").status_code == 201
    refused = release(client, "abc", epsilon="0.2")
    assert refused.json()["blocking"] == ["a", "b"]
    assert refused.json()["largest_epsilon"] == "0.1"
    assert [spent(client, name) for name in "abc"] == ["0.9", "0.9", "0.4"]  # all or none


def test_merging_into_a_fresh_sketch_mints_no_budget(client: TestClient) -> None:
    create_sketch(client, "fresh", epsilon="100", k=8)
    assert merge(client, "fresh", "a").status_code == 201
    assert release(client, "fresh", epsilon="0.9").status_code == 201
    assert (spent(client, "a"), spent(client, "fresh")) == ("0.9", "0.9")
    assert problem(release(client, "a", epsilon="0.2")) == "budget-exhausted"
    assert problem(release(client, "fresh", epsilon="0.2")) == "budget-exhausted"


def test_deleting_a_source_does_not_free_the_merged_data(client: TestClient) -> None:
    merge(client, "copy", "a")
    client.delete("/v1/sketches/a")
    assert release(client, "copy", epsilon="0.9").status_code == 201
    assert spent(client, "a") == "0.9"
    assert problem(release(client, "copy", epsilon="0.2")) == "budget-exhausted"


def test_a_deleted_target_stays_deleted(client: TestClient) -> None:
    merge(client, "copy", "a")
    client.delete("/v1/sketches/copy")
    assert problem(merge(client, "copy", "a")) == "conflict"


@pytest.mark.parametrize("mode", ["compact", "summed"])
def test_no_event_comes_in_by_two_ways(client: TestClient, context: Context, mode: str) -> None:
    """One event counted twice would move two counters' worth, and the noise would be too small for it."""
    merge(client, "ab", "a", "b", mode=mode)
    merge(client, "ac", "a", "c", mode=mode)
    before = books.counters(context.database, "ab")
    for target, source in (("ab", "a"), ("ab", "ab"), ("ab", "ac"), ("a", "ab"), ("new", "ab")):
        answer = merge(client, target, source, *(["ac"] if target == "new" else []), mode=mode)
        assert answer.status_code == 409, (target, source)
        assert problem(answer) == "incompatible-sketches"
        assert answer.json()["field"] == "sources"
    assert books.counters(context.database, "ab") == before
    assert problem(client.get("/v1/sketches/new")) == "unknown-sketch"  # refused whole


def test_the_same_source_twice_in_one_request_is_refused(client: TestClient) -> None:
    assert problem(merge(client, "all", "a", "a")) == "invalid-request"


@pytest.mark.parametrize(
    ("field", "change"),
    [("k", {"k": 9}), ("max_contributions", {"max_contributions": 2}), ("universe", {"universe": {"values": ["x"]}})],
)
def test_what_differs_is_named(client: TestClient, field: str, change: dict[str, Any]) -> None:
    body = {"k": 8, "budget": {"epsilon": "1", "delta": "1e-3"}, **change}
    client.put("/v1/sketches/other", json=body)
    answer = merge(client, "a", "other")
    assert problem(answer) == "incompatible-sketches"
    assert answer.json()["field"] == field


def test_families_that_no_lemma_joins_are_refused(client: TestClient) -> None:
    merge(client, "compact", "a")
    merge(client, "summed", "b", mode="summed")
    for target, source, mode in (
        ("compact", "summed", "compact"),
        ("summed", "compact", "summed"),
        ("compact", "c", "summed"),
    ):
        answer = merge(client, target, source, mode=mode)
        assert problem(answer) == "incompatible-sketches", (target, source)
        assert answer.json()["field"] == "family"


def test_the_first_source_that_does_not_fit_is_named_and_nothing_of_the_others_is_merged(
    client: TestClient, context: Context
) -> None:
    """Whatever is wrong with it, and with those after it; and those before it leave no trace."""
    merge(client, "summed", "b", mode="summed")
    create_sketch(client, "larger", epsilon="1", delta="1e-3", k=9)
    before = books.counters(context.database, "c"), client.get("/v1/sketches/c").json()
    answer = merge(client, "c", "a", "summed", "larger")
    assert (problem(answer), answer.json()["field"]) == ("incompatible-sketches", "family")
    assert answer.json()["detail"] == "'summed' is a summed sketch and cannot take part in mode 'compact'."
    answer = merge(client, "c", "a", "larger", "summed")
    assert (problem(answer), answer.json()["field"]) == ("incompatible-sketches", "k")
    assert answer.json()["detail"] == "'larger' has k = 9, unlike 'c'."
    assert (books.counters(context.database, "c"), client.get("/v1/sketches/c").json()) == before
    assert verify_ledgers(context) == []


def test_a_compact_target_takes_more_events_and_a_sum_does_not(client: TestClient, context: Context) -> None:
    merge(client, "all", "a")
    assert post_events(client, [{"key": "new", "count": 7}], "all").status_code == 200
    assert books.counters(context.database, "all") == {"a": 1000, "shared": 500, "new": 7}
    merge(client, "sum", "b", mode="summed")
    assert problem(post_events(client, ["x"], "sum")) == "conflict"


def test_a_missing_source_is_a_problem_and_makes_nothing(client: TestClient) -> None:
    assert problem(merge(client, "all", "a", "missing")) == "unknown-sketch"
    assert problem(client.get("/v1/sketches/all")) == "unknown-sketch"


def test_a_limited_key_merges_only_what_it_may_touch(client: TestClient) -> None:
    body = {"name": "n", "scopes": ["admin"], "sketches": "a*"}
    client.headers["Authorization"] = f"Bearer {client.post('/v1/keys', json=body).json()['secret']}"
    assert problem(merge(client, "all", "b")) == "forbidden"
    assert merge(client, "all", "a").status_code == 201


def _mark(context: Context, name: str) -> None:
    """As a migration marks sketches that an earlier version counted."""
    with context.database.writing() as session:
        session.execute(update(SketchRow).where(SketchRow.name == name).values(counted_by_request=True))


def test_what_an_earlier_version_counted_stays_marked_in_whatever_it_is_merged_into(
    client: TestClient, context: Context
) -> None:
    for name in ("old", "new", "other"):
        create_sketch(client, name)
    _mark(context, "old")
    for target, sources in (("clean", ["new"]), ("mixed", ["other", "old"]), ("later", ["mixed"]), ("summed", ["old"])):
        mode = "summed" if target == "summed" else "compact"
        merged = merge(client, target, *sources, mode=mode).json()
        assert merged["not_covered"] == (None if target == "clean" else NOT_COVERED)
        assert client.get(f"/v1/sketches/{target}").json()["not_covered"] == merged["not_covered"]
        snapshot = release(client, target).json()
        assert (NOT_COVERED in snapshot["guarantee"]) == (target != "clean")
        assert client.get(f"/v1/snapshots/{snapshot['id']}").json()["guarantee"] == snapshot["guarantee"]
    for name, marked in (("old", True), ("other", True), ("new", False)):
        report = client.get(f"/v1/ledgers/{name}/report").json()
        assert (report["not_covered"] is not None) == marked
        assert ("Not covered is" in report["statement"]) == marked


def test_a_snapshot_from_before_a_marked_sketch_was_merged_in_keeps_its_guarantee(
    client: TestClient, context: Context
) -> None:
    for name in ("old", "new"):
        create_sketch(client, name)
    _mark(context, "old")
    before = release(client, "new").json()
    merge(client, "new", "old")
    assert client.get(f"/v1/snapshots/{before['id']}").json()["guarantee"] == before["guarantee"]
    assert NOT_COVERED in release(client, "new").json()["guarantee"]
