"""The service itself, but it neither decodes nor counts: what its server, its key check and its intake let through."""

import sys
from typing import Any

from app import cli
from app.api import intake
from app.core.kernel import batch_of
from app.usecases.ingest.queue import Place

_NOTHING = batch_of([])


def _scan_nothing(*_arguments: Any, **_limits: Any) -> Any:
    return _NOTHING


async def _count_nothing(*_arguments: Any) -> None:
    pass


if __name__ == "__main__":
    intake.scan_events = _scan_nothing  # type: ignore[attr-defined]
    Place.count = _count_nothing  # type: ignore[method-assign, assignment]
    cli.main(sys.argv[1:])
