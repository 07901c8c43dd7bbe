"""Post bodies of every content type and encoding to the service, most of them wrong, and see what it counts.

`make fuzz`, or `python -m tests.fuzz.service --bodies 100000`. Each body is made from one number: `--case 123` posts
that one alone. A body that shows a fault is saved under build/fuzz, with its number; the exit status is then 1.
"""

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from app.main import build_context, create_app
from app.settings import Settings
from app.store.database import Database
from app.store.migrate import migrate
from tests.conftest import ADMIN_KEY
from tests.fuzz.batches import MAX_BYTES, MAX_ITEMS, Request, request_of
from tests.fuzz.counting import Checked
from tests.fuzz.memory import forget_peak, peak_bytes, resident_bytes

SAVED = Path(__file__).resolve().parents[2] / "build" / "fuzz"
MEBIBYTE = 2**20
LANES = 6  # bodies on their way at once, each lane's into a sketch of its own
MOST_GROWTH = 64 * MEBIBYTE  # of the resident set after the first tenth: caches fill, nothing else may
MOST_ABOVE = 256 * MEBIBYTE  # that the peak may lie above the start: some bodies of 1 MiB, unpacked and read


@dataclass
class Figures:
    taken: Counter[str] = field(default_factory=Counter)  # by content type
    refused: Counter[str] = field(default_factory=Counter)
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)  # how made, what became of it
    start: int = 0
    warm: int = 0
    end: int = 0
    peak: int = 0

    def note(self, request: Request, outcome: str) -> None:
        counter = self.taken if outcome == "taken" else self.refused
        counter[request.content_type[:60]] += 1
        self.kinds[request.kind, outcome] += 1

    @property
    def is_bounded(self) -> bool:
        return self.end - self.warm <= MOST_GROWTH and self.peak - self.start <= MOST_ABOVE


class Failed(Exception):
    """A body that shows a fault."""

    def __init__(self, number: int, request: Request) -> None:
        super().__init__(f"body {number}: {request.kind}, {request.content_type!r}, {request.encoding!r}")
        self.number = number
        self.request = request


@contextmanager
def checked(folder: Path) -> Iterator[list[Checked]]:
    """The app in this process, with a database of its own and limits that bodies of this size reach."""
    url = f"sqlite:///{folder}/fuzz.db"
    migrated = Database(url)
    migrate(migrated)
    migrated.close()
    settings = Settings(database_url=url, admin_key=ADMIN_KEY, max_body_bytes=MAX_BYTES, max_batch_items=MAX_ITEMS)
    context = build_context(settings)
    app = create_app(settings, context)
    yield [Checked(app, context, f"lane-{lane}") for lane in range(LANES)]
    context.database.close()


async def post(lanes: list[Checked], first: int, number: int) -> Figures:
    """So many bodies, in each lane one after the other. The app starts, lets go of idle sketches and stops as it does
    when it is served."""
    forget_peak()
    figures = Figures(start=resident_bytes())
    numbers = iter(range(first, first + number))

    async def run(lane: Checked) -> None:
        for at in numbers:
            if at == first + number // 10:
                figures.warm = resident_bytes()
            request = request_of(at)
            try:
                answer = await lane.check(at, request)
            except Exception as fault:
                raise Failed(at, request) from fault
            figures.note(request, "taken" if answer.status == 200 else answer.slug)

    app = lanes[0].app
    try:
        async with app.router.lifespan_context(app), asyncio.TaskGroup() as group:
            for lane in lanes:
                group.create_task(run(lane))
    except ExceptionGroup as failures:
        raise failures.exceptions[0]  # noqa: B904  # it has its own cause
    figures.end, figures.peak = resident_bytes(), peak_bytes()
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.service")
    parser.add_argument("--bodies", type=int, default=100_000)
    parser.add_argument("--first", type=int, help="the number of the first body; otherwise from the clock")
    parser.add_argument("--case", type=int, help="post this body alone")
    wanted = parser.parse_args()
    first = int(time.time()) * 1_000_000 if wanted.first is None else wanted.first
    if wanted.case is not None:
        first, wanted.bodies = wanted.case, 1
    logging.getLogger("discreet").setLevel(logging.ERROR)  # a line for each refusal would be most of what is printed
    say(f"{wanted.bodies} bodies from number {first}")
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, checked(Path(folder)) as lanes:
        try:
            figures = asyncio.run(post(lanes, first, wanted.bodies))
        except Failed as failure:
            return tell(failure)
    report(figures, time.monotonic() - started, sum(lane.sketches for lane in lanes))
    if not figures.is_bounded:
        say("FAILED: the process grew too much")
    return 0 if figures.is_bounded else 1


def tell(failure: Failed) -> int:
    SAVED.mkdir(parents=True, exist_ok=True)
    path = SAVED / f"failure-{failure.number}.body"
    path.write_bytes(failure.request.body)
    say(f"FAILED: {failure}: {failure.__cause__!r}")
    say(f"saved in {path}; again: python -m tests.fuzz.service --case {failure.number}")
    return 1


def report(figures: Figures, seconds: float, sketches: int) -> None:
    total = figures.taken.total() + figures.refused.total()
    say(f"{total} bodies in {seconds:.0f} s, {total / seconds:.0f} a second, into {sketches} sketches, nothing wrong")
    for content_type in sorted(figures.taken | figures.refused):
        say(f"  {figures.taken[content_type]:>7} taken {figures.refused[content_type]:>7} refused  {content_type!r}")
    for (kind, outcome), times in sorted(figures.kinds.items()):
        say(f"  {times:>7} {kind}: {outcome}")
    sizes = {"start": figures.start, "after a tenth": figures.warm, "end": figures.end, "peak": figures.peak}
    say("  resident: " + ", ".join(f"{name} {size / MEBIBYTE:.0f} MiB" for name, size in sizes.items()))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
