"""Metrics count requests over the life of the service, in all workers, and tell nothing about events."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from fastapi.testclient import TestClient

from app.main import build_context, create_app
from app.server import metrics
from app.settings import Settings
from tests.api.calls import create_sketch, post_events, release

# Their time depends on which keys are stored, or on how many people were counted.
_NOT_TIMED = {
    *("post_events", "create_snapshot", "create_joint_snapshot"),
    *("merge_sketches", "close_sketch", "delete_sketch"),
}


def test_each_operation_is_timed_or_has_a_reason_not_to_be(tmp_path: Path) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path}/unused.db")
    operations = {
        each["operationId"]
        for path in create_app(settings, build_context(settings)).openapi()["paths"].values()
        for each in path.values()
    }
    assert operations - metrics.TIMED == _NOT_TIMED
    assert metrics.TIMED - operations == set()


def test_every_series_is_one_of_ours_and_none_is_of_time_or_size_of_private_work(client: TestClient) -> None:
    create_sketch(client)
    post_events(client, ["a"])
    release(client, epsilon="0.9")
    release(client, epsilon="0.9")
    told = client.get("/metrics").text
    series = {line.split("{")[0].split(" ")[0] for line in told.splitlines() if not line.startswith("#")}
    assert series <= {
        "discreet_requests_total",
        "discreet_refusals_total",
        "discreet_workers",
        *(f"discreet_request_duration_seconds_{part}" for part in ("bucket", "count", "sum")),
    }
    timed = [line for line in told.splitlines() if "duration" in line and "operation=" in line]
    assert timed
    assert [line for line in timed if any(f'"{name}"' in line for name in _NOT_TIMED)] == []
    assert 'discreet_refusals_total{problem="budget-exhausted"}' in told  # decided by the ledger alone


_NO_PROCESS = 2**22  # process numbers are below
_SCRAPES = 4

_WORKER = """
import sys
from app.server import metrics
metrics.WORKERS.labels("1", "compiled").set(1)
metrics.count("post_events", 200)
metrics.DURATIONS.labels("livez").observe(0.5)
print(metrics.exposition().decode() if sys.argv[1:] else "", flush=True)
"""


def _worker(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", _WORKER, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_what_a_dead_worker_counted_stays_and_is_counted_once_but_it_no_longer_runs(tmp_path: Path) -> None:
    _worker(tmp_path)
    _worker(tmp_path)
    told = _worker(tmp_path, "tell").splitlines()
    assert 'discreet_requests_total{operation="post_events",status="200"} 3.0' in told
    assert 'discreet_request_duration_seconds_count{operation="livez"} 3.0' in told
    assert 'discreet_workers{kernel="compiled",version="1"} 1.0' in told


def test_requests_that_notice_a_death_at_the_same_time_are_all_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    together = Barrier(_SCRAPES)

    def scrape() -> bytes:
        together.wait(30)
        return metrics.exposition()

    with ThreadPoolExecutor(_SCRAPES) as threads:
        for number in range(400):  # so often that some meet
            (tmp_path / f"gauge_livesum_{_NO_PROCESS + number}.db").write_bytes(bytes(4096))
            for answer in [threads.submit(scrape) for _ in range(_SCRAPES)]:
                assert b"discreet_workers" not in answer.result()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("seconds", "name"), [(0.0, "under 10 ms"), (0.5, "under 1 s"), (9.9, "under 10 s"), (99.0, "10 s or more")]
)
def test_log_lines_give_time_in_coarse_classes(seconds: float, name: str) -> None:
    assert metrics.duration_class(seconds) == name
