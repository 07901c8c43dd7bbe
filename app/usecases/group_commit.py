"""Batches that come while a commit runs join the next one: one transaction for all that wait for the same sketch.

A batch is answered after the commit that holds it. For each sketch in a process one commit is on its way to the disk
and one is being folded; other sketches, and other processes, go on meanwhile. What waits is bounded by `Intake`, which
admits bodies.
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


class _Group:
    """Those of one commit."""

    def __init__(self, line: "_Line") -> None:
        self._line = line
        self.members = line.take(_MOST_TOGETHER)

    def submissions(self) -> list[Submission]:
        return [submission for submission, _ in self.members]

    def late(self) -> list[Submission]:
        late = self._line.take(_MOST_TOGETHER - len(self.members))
        self.members += late
        return [submission for submission, _ in late]


class _Line:
    """Who waits for one sketch. Whoever adds to it, or ends folding, calls a thread where none was called yet."""

    def __init__(self) -> None:
        self.waiting: deque[_Waiting] = deque()
        self.unanswered = 0  # for the event loop's thread alone
        self._called = False  # a thread was sent and has not begun
        self._folding: _Group | None = None  # whose commit has the sketch open
        self._lock = Lock()

    def take(self, most: int) -> list[_Waiting]:
        taken: list[_Waiting] = []
        with suppress(IndexError):
            while len(taken) < most:
                taken.append(self.waiting.popleft())
        return taken

    def call(self) -> bool:
        """Whether the caller must send a thread, which then begins."""
        with self._lock:
            must = self._folding is None and not self._called and bool(self.waiting)
            self._called = self._called or must
            return must

    def uncall(self) -> None:
        with self._lock:
            self._called = False

    def begin(self) -> _Group | None:
        with self._lock:
            self._called = False
            if self._folding is not None or not self.waiting:
                return None
            self._folding = _Group(self)
            return self._folding

    def end(self, group: _Group) -> None:
        with self._lock:
            if self._folding is group:
                self._folding = None


class GroupCommit:
    """`ingest` is for the event loop's thread alone. Commits follow each other without it: it may be busy receiving."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lines: dict[str, _Line] = {}  # of sketches that are being written to
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="commit")

    async def ingest(self, name: str, submission: Submission) -> None:
        """Count the batch; back after the commit, or with what it was refused for."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[None] = loop.create_future()
        line = self._lines.setdefault(name, _Line())
        line.waiting.append((submission, answer))
        line.unanswered += 1
        if not self._send(loop, name, line):  # nobody may wait for a thread that does not come
            waiting = line.take(len(line.waiting))
            self._answer(name, line, waiting, [RuntimeError("no thread can be started")] * len(waiting))
        await answer

    def _send(self, loop: asyncio.AbstractEventLoop, name: str, line: _Line) -> bool:
        """Send a thread where one must go; False where there is none."""
        if line.call():
            try:
                self._threads.submit(self._commit, loop, name, line)
            except RuntimeError:
                line.uncall()
                return False
        return True

    def _commit(self, loop: asyncio.AbstractEventLoop, name: str, line: _Line) -> None:
        """One commit, then it is the turn of other sketches."""
        while (group := line.begin()) is not None:
            outcomes = self._ingest(loop, name, line, group)
            line.end(group)
            loop.call_soon_threadsafe(self._answer, name, line, group.members, outcomes)
            if self._send(loop, name, line):
                return

    def _ingest(
        self, loop: asyncio.AbstractEventLoop, name: str, line: _Line, group: _Group
    ) -> Sequence[BaseException | None]:
        def folded() -> None:
            line.end(group)
            self._send(loop, name, line)  # if there is none, this one goes on after the commit

        try:
            return ingest_together(self._context, name, group.submissions(), late=group.late, folded=folded)
        except BaseException as fault:
            return [fault] * len(group.members)

    def _answer(
        self, name: str, line: _Line, members: Sequence[_Waiting], outcomes: Sequence[BaseException | None]
    ) -> None:
        for (_, answer), outcome in zip(members, outcomes, strict=True):
            if not answer.done():  # the client may be gone
                answer.set_exception(outcome) if outcome else answer.set_result(None)
        line.unanswered -= len(members)
        if not line.unanswered and self._lines.get(name) is line:
            del self._lines[name]

    def close(self) -> None:
        """After the last request was answered."""
        self._threads.shutdown()
