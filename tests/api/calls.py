"""Short words for calls that many tests make."""

from collections.abc import Iterable
from typing import Any

import httpx2


def create_sketch(
    client: httpx2.Client, name: str = "views", *, epsilon: str = "1", delta: str = "1e-3", k: int = 64
) -> None:
    body = {"k": k, "budget": {"epsilon": epsilon, "delta": delta}}
    assert client.put(f"/v1/sketches/{name}", json=body).status_code in (200, 201)


def post_events(
    client: httpx2.Client, events: Iterable[Any], name: str = "views", *, key: str | None = None
) -> httpx2.Response:
    headers = {"Idempotency-Key": key} if key else {}
    return client.post(f"/v1/sketches/{name}/events", json={"events": list(events)}, headers=headers)


def release(
    client: httpx2.Client,
    name: str = "views",
    *,
    epsilon: str = "0.1",
    delta: str = "1e-6",
    key: str | None = None,
    **more: Any,
) -> httpx2.Response:
    headers = {"Idempotency-Key": key} if key else {}
    body = {"epsilon": epsilon, "delta": delta, **more}
    return client.post(f"/v1/sketches/{name}/snapshots", json=body, headers=headers)


def release_together(
    client: httpx2.Client,
    *names: str,
    epsilon: str = "0.1",
    delta: str = "1e-6",
    key: str | None = None,
    **more: Any,
) -> httpx2.Response:
    headers = {"Idempotency-Key": key} if key else {}
    body = {"sketches": list(names), "epsilon": epsilon, "delta": delta, **more}
    return client.post("/v1/snapshots", json=body, headers=headers)


def merge(client: httpx2.Client, target: str, *sources: str, mode: str = "compact") -> httpx2.Response:
    return client.post(f"/v1/sketches/{target}/merges", json={"sources": list(sources), "mode": mode})


def problem(response: httpx2.Response) -> str:
    """The slug of a refusal, after checking that it has the form of one."""
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == response.status_code
    assert body["title"]
    assert body["detail"]
    slug: str = body["type"].rpartition(":")[2]
    return slug
