"""Batches that come while a commit runs join the next one: one transaction for all that wait for the same sketch.

A batch is answered after the commit that holds it. For each sketch in a process one commit is on its way to the disk
and one is being folded; other sketches, and other processes, go on meanwhile. What waits is bounded by `Intake`, which
admits bodies.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from app.usecases.context import Context
from app.usecases.ingest_events import Outcome, Submission, ingest_together

_MOST_TOGETHER = 1000  # keeps statements, and the time until the first is answered, bounded
_THREADS = 8

_Waiting = tuple[Submission, "asyncio.Future[None]"]


class _Line:
    """Who waits for one sketch."""

    def __init__(self) -> None:
        self.waiting: deque[_Waiting] = deque()
        self.folding: _Group | None = None  # the commit that has the sketch open; the next one starts after it
        self.running = 0

    def take(self, most: int) -> list[_Waiting]:
        """For any thread: the loop's own only adds."""
        taken: list[_Waiting] = []
        with suppress(IndexError):
            while len(taken) < most:
                taken.append(self.waiting.popleft())
        return taken


class _Group:
    """Those of one commit."""

    def __init__(self, line: _Line) -> None:
        self._line = line
        self.members = line.take(_MOST_TOGETHER)

    def submissions(self) -> list[Submission]:
        return [submission for submission, _ in self.members]

    def late(self) -> list[Submission]:
        """Called by the commit, in its own thread."""
        late = self._line.take(_MOST_TOGETHER - len(self.members))
        self.members += late
        return [submission for submission, _ in late]

    def answer(self, outcomes: Iterable[BaseException | None]) -> None:
        for (_, answer), outcome in zip(self.members, outcomes, strict=True):
            if not answer.done():  # the client may be gone
                answer.set_exception(outcome) if outcome else answer.set_result(None)


class GroupCommit:
    """For the event loop's thread alone."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lines: dict[str, _Line] = {}  # of sketches that are being written to
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="commit")

    async def ingest(self, name: str, submission: Submission) -> None:
        """Count the batch; back after the commit, or with what it was refused for."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line = self._lines.setdefault(name, _Line())
        line.waiting.append((submission, answer))
        self._go_on(name, line)
        await answer

    def _go_on(self, name: str, line: _Line) -> None:
        if line.folding is None and line.waiting:
            self._start(name, line)
        elif not line.running and not line.waiting:
            del self._lines[name]

    def _start(self, name: str, line: _Line) -> None:
        group = line.folding = _Group(line)
        line.running += 1
        loop = asyncio.get_running_loop()

        def folded() -> None:
            loop.call_soon_threadsafe(self._next, name, line, group)

        count = partial(ingest_together, self._context, name, group.submissions(), late=group.late, folded=folded)
        try:
            commit = loop.run_in_executor(self._threads, count)
        except RuntimeError as fault:  # no thread can be started: nobody may wait for one
            group.late()
            group.answer([fault] * len(group.members))
            line.running -= 1
            self._next(name, line, group)
        else:
            commit.add_done_callback(partial(self._finish, name, line, group))

    def _next(self, name: str, line: _Line, group: _Group) -> None:
        if line.folding is group:
            line.folding = None
        self._go_on(name, line)

    def _finish(self, name: str, line: _Line, group: _Group, commit: "asyncio.Future[list[Outcome]]") -> None:
        fault = commit.exception()
        group.answer([fault] * len(group.members) if fault else commit.result())
        line.running -= 1
        self._next(name, line, group)

    def close(self) -> None:
        """After the last request was answered."""
        self._threads.shutdown()
