"""Prometheus counters. They count requests, which may be events, so only an `admin` key reads them."""

import os

from prometheus_client import REGISTRY, CollectorRegistry, Counter, generate_latest, multiprocess

REQUESTS = Counter("discreet_requests", "Answered requests by operation and status.", ["operation", "status"])


def exposition() -> bytes:
    """All workers together, where `discreet serve` started several."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)
