"""Nothing that depends on the events leaves the service except through the ledger.

Two ways to see it: every field of every response has a reason here why it cannot tell, and a service with an empty
sketch answers a long conversation in the same bytes as one with a full sketch.
"""

import json
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient

from app.core.noise.samplers import SYSTEM_NOISE
from app.main import build_context, create_app
from app.settings import Settings
from app.usecases.context import Context
from tests.api.calls import create_sketch, post_events, release, release_together
from tests.conftest import ADMIN_KEY, NewDatabase

_CHOSEN = "chosen by whoever created it"
_MADE = "made from random bits, a counter of requests or the clock, whatever the events"
_BUDGET = "computed from budgets and costs"
_PUBLIC = "computed from public parameters: k, ε, δ, β and a number of events that the request says"
_REQUEST = "a function of the caller's own request"
_FIXED = "a fixed text"
_RELEASED = "went through the ledger"

REASONS = {
    # problems
    "type": _FIXED, "title": _FIXED, "status": _FIXED, "detail": _REQUEST, "errors": _REQUEST,
    "errors.position": _REQUEST, "errors.where": _REQUEST, "errors.detail": _REQUEST,
    "requested": _REQUEST, "requested.epsilon": _REQUEST, "requested.delta": _REQUEST,
    "requested.rho": _REQUEST, "largest_epsilon": _BUDGET, "largest_rho": _BUDGET, "blocking": _BUDGET,
    "rho": _BUDGET, "charged.rho": _BUDGET, "ledger.rho": _BUDGET,
    # lists
    "items": _FIXED, "cursor": _MADE,
    # ledgers and entries
    "name": _CHOSEN, "accountant": _CHOSEN, "created_at": _MADE, "releases_like_the_last": _BUDGET,
    **{f"{field}{part}": _BUDGET for field in ("total", "spent", "remaining") for part in ("", ".epsilon", ".delta")},
    "remaining.ledger": _CHOSEN,
    "number": _MADE, "kind": _FIXED, "reason": _CHOSEN, "hash": _BUDGET, "snapshot": _MADE, "mechanism_version": _FIXED,
    # reports
    "releases": _BUDGET, "guarantee": _BUDGET, "guarantee.epsilon": _BUDGET, "guarantee.delta": _BUDGET,
    "statement": _BUDGET, "numerical": _BUDGET, "numerical.epsilon": _BUDGET, "numerical.delta": _BUDGET,
    "numerical.note": _FIXED, "spent.rho": _BUDGET,
    **{
        f"budget_changes{part}": _BUDGET
        for part in ("", ".number", ".epsilon", ".delta", ".adds", ".adds.epsilon", ".adds.delta")
    },
    **{
        f"{ledger}contributions{part}": _CHOSEN
        for ledger in ("", "ledger.") for part in ("", ".unit", ".max")
    },
    # sketches
    "enforcement": _CHOSEN, "not_covered": _FIXED, "closed_at": _MADE,
    "k": _CHOSEN, "unit": _CHOSEN, "max_contributions": _CHOSEN, "description": _CHOSEN,
    "family": _CHOSEN, "universe_size": _CHOSEN, "ledgers": _CHOSEN, "ledger_count": _CHOSEN, "field": _CHOSEN,
    "ledger": _CHOSEN, "ledger.name": _CHOSEN, "ledger.accountant": _CHOSEN, "ledger.created_at": _MADE,
    "ledger.releases_like_the_last": _BUDGET,
    **{
        f"ledger.{field}{part}": _BUDGET
        for field in ("total", "spent", "remaining") for part in ("", ".epsilon", ".delta")
    },
    # receipts
    "accepted": _REQUEST,
    # plans
    **{
        f"comparison{part}": _PUBLIC
        for part in ("", ".event_threshold", ".user_threshold", ".turns_at", ".words")
    },
    "recommended": _PUBLIC, "mechanisms": _PUBLIC, "in_rho": _PUBLIC, "releases_remaining": _BUDGET,
    "smallest_likely_count": _PUBLIC, "charge": _REQUEST, "charge.epsilon": _REQUEST, "charge.delta": _REQUEST,
    "mechanism": _PUBLIC, "theorem": _PUBLIC,
    "parameters": _PUBLIC, "parameters.noise": _PUBLIC, "parameters.scale": _PUBLIC,
    "parameters.threshold": _PUBLIC, "parameters.k": _CHOSEN, "parameters.sigma": _PUBLIC,
    "parameters.lattice": _PUBLIC, "parameters.max_contributions": _CHOSEN, "parameters.universe_size": _CHOSEN,
    "parameters.shared_sigma": _PUBLIC, "parameters.own_sigma": _PUBLIC, "parameters.sources": _CHOSEN,
    "parameters.total_noise": _PUBLIC, "parameters.total_scale": _PUBLIC, "total_within": _PUBLIC,
    "charge.rho": _REQUEST,
    "error_bound": _PUBLIC, "error_bound.below": _PUBLIC, "error_bound.above": _PUBLIC, "error_bound.reason": _FIXED,
    "error_bound.sketch": f"in a plan {_PUBLIC}; in a snapshot it {_RELEASED}",
    "error_bound.unlisted": f"from that, and where truncated also from noisy counts, which {_RELEASED}",
    "larger_k": _PUBLIC,
    # advice: computed from the request and from limits of the server, whatever sketches there are
    "release": _PUBLIC, "most_events": _PUBLIC, "meets_smallest_count": _PUBLIC, "words": _PUBLIC,
    "accountants": _PUBLIC, "steps": _PUBLIC, "requests": _PUBLIC,
    **{
        f"recommended.{field}": _PUBLIC
        for field in (
            "k", "unit", "max_contributions", "accountant", "budget", "budget.epsilon", "budget.delta", "per_release",
            "per_release.epsilon", "per_release.rho", "per_release.delta", "releases", "releases_that_fit", "mechanism",
        )
    },
    **{
        f"accountants.{field}": _PUBLIC
        for field in (
            "accountant", "smallest_likely_count", "per_release", "per_release.epsilon", "per_release.rho",
            "per_release.delta",
        )
    },
    **{
        f"steps.{field}": _PUBLIC
        for field in ("change", "to", "accountant", "threshold", "smallest_likely_count", "interval_width")
    },
    "requests.create_sketch": _PUBLIC, "requests.create_snapshot": _PUBLIC,
    # snapshots
    "id": _MADE, "sketch": _CHOSEN, "epsilon": _REQUEST, "delta": _REQUEST, "beta": _REQUEST,
    "charged": _REQUEST, "charged.ledger": _CHOSEN, "charged.epsilon": _REQUEST, "charged.delta": _REQUEST,
    "histogram": _RELEASED, "histogram.key": _RELEASED, "histogram.count": _RELEASED, "histogram.low": _RELEASED,
    "histogram.high": _RELEASED, "truncated": f"computed from keys and noisy counts, which {_RELEASED}",
    "unlisted": _REQUEST, "unlisted.key": _REQUEST, "unlisted.at_most": _RELEASED,
    "total.unit": _CHOSEN, "histogram.share": _RELEASED, "other": _RELEASED,
    **{f"other.{part}": _RELEASED for part in ("count", "low", "high", "share")},
    "total.count": _RELEASED, "total.low": _RELEASED, "total.high": _RELEASED,
    "mode": f"chosen by the request, or {_PUBLIC}", "snapshots": _REQUEST,
    # keys
    "scopes": _CHOSEN, "sketches": _CHOSEN, "revoked_at": _MADE, "secret": _MADE,
}  # fmt: skip

_SKIPPED_LEVELS = (
    "items.",
    "mechanisms.",
    "in_rho.",
    "release.",
)  # a list of things says nothing that the things do not


def _fields(schema: dict[str, Any], schemas: dict[str, Any], path: str = "") -> Iterator[str]:
    """The dotted names of all properties of a JSON schema."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    for part in (*schema.get("anyOf", ()), *schema.get("allOf", ()), *schema.get("oneOf", ())):
        yield from _fields(part, schemas, path)
    if "items" in schema:
        yield from _fields(schema["items"], schemas, path)
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}{name}"
        yield from _fields(inner, schemas, f"{path}{name}.")


def _response_fields(document: dict[str, Any]) -> set[str]:
    found = set()
    for operations in document["paths"].values():
        for operation in operations.values():
            for answer in operation["responses"].values():
                for content in answer.get("content", {}).values():
                    found |= set(_fields(content.get("schema", {}), document["components"]["schemas"]))
    for level in _SKIPPED_LEVELS:
        found = {field.removeprefix(level) for field in found}
    return found


def _document(tmp_path: Path) -> dict[str, Any]:
    settings = Settings(database_url=f"sqlite:///{tmp_path}/unused.db")
    return create_app(settings, build_context(settings)).openapi()


def test_every_field_of_every_response_has_a_reason_why_it_cannot_tell(tmp_path: Path) -> None:
    fields = _response_fields(_document(tmp_path))
    assert {"histogram.count", "ledger.remaining.epsilon", "accepted", "requested"} <= fields  # the walk goes deep
    assert fields - REASONS.keys() == set()


def test_the_walk_finds_a_field_that_was_added(tmp_path: Path) -> None:
    document = _document(tmp_path)
    document["components"]["schemas"]["SketchOut"]["properties"]["events"] = {"type": "integer"}
    assert _response_fields(document) - REASONS.keys() == {"events"}


_VARYING = re.compile(r"[0-9a-f]{32}|dsk_[0-9a-f]{16}_[\w-]+|\d{4}-\d\d-\d\dT[\d:.]+Z")


def _visible(answer: httpx2.Response) -> Any:
    """All that a client sees, less random ids, the time, and what was released."""
    body = answer.text
    if body and answer.headers["content-type"] == "application/json":
        document = json.loads(body)
        for snapshot in [document, *document.get("items", [])]:
            if "histogram" in snapshot or "error_bound" in snapshot:
                snapshot |= {"histogram": None, "error_bound": None}
        body = json.dumps(document)
    headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
    return answer.status_code, _VARYING.sub("…", str(headers)), _VARYING.sub("…", body)


def _conversation(client: TestClient) -> Iterator[httpx2.Response]:
    """Everything that can be asked, good and bad."""
    yield client.get("/v1/sketches")
    yield client.get("/v1/sketches/views")
    yield post_events(client, ["a", "b"], key="x")
    yield post_events(client, ["a", "b"], key="x")
    yield post_events(client, ["c"], key="x")
    yield post_events(client, ["a", ""])
    yield client.post("/v1/sketches/views/plan", json={"epsilon": 1, "delta": "1e-6"})
    yield release(client, epsilon="0.5", key="r")
    yield release(client, epsilon="0.5", key="r")
    yield release(client, epsilon="0.9")
    yield release(client, delta="0")
    for key in ("t", "t", None):
        yield release_together(client, "views", "other", key=key)
    yield release_together(client, "views", "other", epsilon="5")
    yield client.post("/v1/plan", json={"sketches": ["views", "other"], "epsilon": 1, "delta": "1e-6"})
    yield client.get("/v1/sketches/views/snapshots")
    yield client.get("/v1/sketches/views/histogram")
    yield client.get("/v1/ledgers/views")
    yield client.get("/v1/ledgers/views/entries")
    yield client.get("/readyz")
    yield client.delete("/v1/sketches/views")
    yield post_events(client, ["a"])
    yield release(client)


def _heard(url: str, caplog: pytest.LogCaptureFixture, *, full: bool) -> tuple[list[Any], list[str]]:
    settings = Settings(database_url=url, admin_key=ADMIN_KEY)
    context = build_context(settings)
    with TestClient(create_app(settings, context), headers={"Authorization": f"Bearer {ADMIN_KEY}"}) as client:
        create_sketch(client, k=16)
        create_sketch(client, "other", k=16)
        if full:
            post_events(client, [{"key": f"key-{number}", "count": 100 + number} for number in range(40)])
        caplog.clear()
        answers = [_visible(answer) for answer in _conversation(client)]
    return answers, [_VARYING.sub("…", record.getMessage()) for record in caplog.records]


def test_an_empty_and_a_full_sketch_answer_and_log_alike(
    new_database: NewDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    empty_answers, empty_log = _heard(new_database(), caplog, full=False)
    full_answers, full_log = _heard(new_database(), caplog, full=True)
    assert empty_answers == full_answers
    assert empty_log == full_log


def test_a_failure_tells_neither_the_client_nor_the_log_what_the_data_are(
    settings: Settings, context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_scale: float, _size: int) -> list[int]:
        raise KeyError("/secret-page")

    failing = build_context(settings, noise=replace(SYSTEM_NOISE, laplace=broken))
    with TestClient(create_app(settings, failing), headers={"Authorization": f"Bearer {ADMIN_KEY}"}) as client:
        create_sketch(client)
        post_events(client, ["/secret-page"])
        answer = release(client)
        assert client.get("/v1/ledgers/views").json()["spent"] == {"epsilon": "0", "delta": "0"}
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "secret" not in answer.text + caplog.text
    assert "KeyError" in caplog.text


def test_metrics_are_for_the_operator_alone(client: TestClient) -> None:
    """They count requests, and a request may be an event."""
    create_sketch(client)
    post_events(client, ["a"])
    assert 'operation="post_events"' in client.get("/metrics").text
    for scope in ("ingest", "read", "release"):
        secret = client.post("/v1/keys", json={"name": scope, "scopes": [scope]}).json()["secret"]
        assert client.get("/metrics", headers={"Authorization": f"Bearer {secret}"}).status_code == 403
