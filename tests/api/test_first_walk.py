"""The life of one sketch over HTTP."""

from fastapi.testclient import TestClient


def test_created_fed_released_and_read(client: TestClient) -> None:
    sketch = {"k": 64, "budget": {"epsilon": "1", "delta": "1e-5"}, "description": "shop"}
    assert client.put("/v1/sketches/views", json=sketch).status_code == 201
    assert client.put("/v1/sketches/views", json=sketch).status_code == 200
    assert client.get("/v1/sketches/views/histogram").json()["type"].endswith("no-snapshot")

    batch = {"events": ["/home", {"key": "/home", "count": 999}, "/rare"]}
    assert client.post("/v1/sketches/views/events", json=batch).json() == {"accepted": 1001}

    released = client.post("/v1/sketches/views/snapshots", json={"epsilon": "0.5", "delta": "1e-6"})
    assert released.status_code == 201
    snapshot = released.json()
    assert [bar["key"] for bar in snapshot["histogram"]] == ["/home"]
    assert abs(snapshot["histogram"][0]["count"] - 1000) < 100  # 50 scales of the noise
    assert snapshot["charged"] == [{"ledger": "views", "epsilon": "0.5", "delta": "1e-6"}]
    assert client.get(released.headers["location"]).json() == snapshot
    assert client.get("/v1/sketches/views/histogram").json() == snapshot
