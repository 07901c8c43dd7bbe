"""Batches that come while a commit runs join the next one: one transaction for all that wait for the same sketch.

A batch is answered after the commit that holds it. For each sketch in a process at most one commit is under way; other
sketches, and other processes, go on meanwhile. What waits is bounded by `Intake`, which admits bodies.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock

from app.usecases.context import Context
from app.usecases.ingest_events import Submission, ingest_together

_MOST_TOGETHER = 1000  # keeps statements, and the time until the first is answered, bounded
_THREADS = 8

_Waiting = tuple[Submission, "asyncio.Future[None]"]


class _Line:
    """Who waits for one sketch. Where a thread was called, it sees to all who join before it ends."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.unanswered = 0  # for the event loop's thread alone
        self._waiting: deque[_Waiting] = deque()
        self._called = False
        self._lock = Lock()

    def join(self, one: _Waiting) -> bool:
        """Whether the caller must call a thread."""
        with self._lock:
            self._waiting.append(one)
            must, self._called = not self._called, True
            return must

    def take(self, most: int) -> list[_Waiting]:
        taken: list[_Waiting] = []
        with suppress(IndexError):
            while len(taken) < most:
                taken.append(self._waiting.popleft())
        return taken

    def ends(self) -> bool:
        """Whether nobody waits, so that the thread may go."""
        with self._lock:
            self._called = bool(self._waiting)
            return not self._called


class GroupCommit:
    """`ingest` is for the event loop's thread alone. Commits follow each other without it: it may be busy receiving."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lines: dict[str, _Line] = {}  # of sketches that are being written to
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="commit")
        self._uncommenced: set[_Line] = set()  # those that wait for a thread

    async def ingest(self, name: str, submission: Submission) -> None:
        """Count the batch; back after the commit, or with what it was refused for."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[None] = loop.create_future()
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = _Line(name)
        line.unanswered += 1
        if line.join((submission, answer)) and not self._call(loop, line):
            while not line.ends():  # nobody may wait for a thread that does not come
                waiting = line.take(_MOST_TOGETHER)
                self._answer(line, waiting, [RuntimeError("no thread can be started")] * len(waiting))
        await answer

    def _call(self, loop: asyncio.AbstractEventLoop, line: _Line) -> bool:
        """Call a thread; False where there is none."""
        self._uncommenced.add(line)
        try:
            self._threads.submit(self._begin, loop, line)
        except Exception:
            self._uncommenced.discard(line)  # though it may come after all, and find nobody
            return False
        return True

    def _begin(self, loop: asyncio.AbstractEventLoop, line: _Line) -> None:
        self._uncommenced.discard(line)
        while True:
            self._commit(loop, line)
            if line.ends() or (self._uncommenced and self._call(loop, line)):  # then it is the turn of other sketches
                return

    def _commit(self, loop: asyncio.AbstractEventLoop, line: _Line) -> None:
        group = line.take(_MOST_TOGETHER)

        def late() -> Sequence[Submission]:
            joined = line.take(_MOST_TOGETHER - len(group))
            group.extend(joined)
            return [submission for submission, _ in joined]

        outcomes: Sequence[BaseException | None]
        try:
            first = [submission for submission, _ in group]
            outcomes = ingest_together(self._context, line.name, first, late=late)
        except BaseException as fault:
            outcomes = [fault] * len(group)
        loop.call_soon_threadsafe(self._answer, line, group, outcomes)

    def _answer(self, line: _Line, group: Sequence[_Waiting], outcomes: Sequence[BaseException | None]) -> None:
        for (_, answer), outcome in zip(group, outcomes, strict=True):
            if not answer.done():  # the client may be gone
                answer.set_exception(outcome) if outcome else answer.set_result(None)
        line.unanswered -= len(group)
        if not line.unanswered and self._lines.get(line.name) is line:
            del self._lines[line.name]

    def close(self) -> None:
        """After the last request was answered."""
        self._threads.shutdown()
