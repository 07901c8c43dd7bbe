"""Prometheus counters of requests. They count requests, which may be events, so only an `admin` key reads them.

What they hold goes on to dashboards that more people see than the service trusts. So no series depends on what is in a
sketch: time is measured only for operations that read no private data (`TIMED`), and memory and processor time, which
a standard exporter adds, are left out.
"""

import os
from contextlib import suppress
from glob import glob
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
    multiprocess,
)

disable_created_metrics()  # type: ignore[no-untyped-call]  # several workers have none either
_OURS = CollectorRegistry()

REQUESTS = Counter(
    "discreet_requests", "Answered requests by operation and status.", ["operation", "status"], registry=_OURS
)
REFUSALS = Counter("discreet_refusals", "Refused requests by the slug of the problem.", ["problem"], registry=_OURS)
DURATIONS = Histogram(
    "discreet_request_duration_seconds",
    "Time to answer, of operations that read no private data.",
    ["operation"],
    buckets=(0.01, 0.1, 1, 10),
    registry=_OURS,
)
WORKERS = Gauge(
    "discreet_workers",
    "Workers that run, by version and by whether the kernel is compiled.",
    ["version", "kernel"],
    registry=_OURS,
    multiprocess_mode="livesum",
)

# Not timed: to post events, to release, to merge, to close and to delete. How long they take depends on which keys are
# stored and how many people were counted (docs/threat-model.md, "Time").
TIMED = frozenset(
    {
        "livez", "readyz", "get_metrics",
        "create_ledger", "list_ledgers", "get_ledger", "list_ledger_entries", "set_budget", "get_ledger_report",
        "create_sketch", "list_sketches", "get_sketch",
        "advise", "plan", "plan_snapshot", "sum_snapshots", "list_snapshots", "get_snapshot", "get_histogram",
        "create_key", "list_keys", "revoke_key",
    }
)  # fmt: skip
_CLASSES = ((0.01, "under 10 ms"), (0.1, "under 100 ms"), (1.0, "under 1 s"), (10.0, "under 10 s"))

_counters: dict[tuple[str, int], Counter] = {}  # to find one by its labels again costs more than to count


def count(operation: str, status: int) -> None:
    """Count one answered request."""
    found = _counters.get((operation, status))
    if found is None:
        found = _counters[operation, status] = REQUESTS.labels(operation, str(status) if status else "none")
    found.inc()


def duration_class(seconds: float) -> str:
    """For log lines: coarse, so that it says whether something is wrong and little else."""
    return next((name for limit, name in _CLASSES if seconds < limit), "10 s or more")


def exposition() -> bytes:
    """All workers together, where `discreet serve` started several."""
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if folder is None:
        return generate_latest(_OURS)
    _forget_dead(folder)
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)


def _forget_dead(folder: str) -> None:
    """What a worker counted stays, for it happened; that it runs is no longer true once it has died."""
    for file in glob(f"{folder}/gauge_live*.db"):
        pid = int(Path(file).stem.rpartition("_")[2])
        if not _runs(pid):
            with suppress(FileNotFoundError):  # another request has noticed at the same time
                multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
