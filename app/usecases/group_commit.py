"""Batches that come while a commit runs join the next one: one transaction for all that wait for the same sketch.

A batch is answered after the commit that holds it. For each sketch in a process at most one commit is under way; other
sketches, and other processes, go on meanwhile. What waits is bounded by `Intake`, which admits bodies.

Batches of a sketch are counted in the order in which their bodies were complete. A place in the line is taken then,
before the body is decoded: a large body is decoded elsewhere and takes longer, and one person more, who makes a body
just large enough for that, must not move it behind those of others.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from types import TracebackType
from typing import Self

from app.usecases.context import Context
from app.usecases.ingest_events import Submission, ingest_together

_MOST_TOGETHER = 1000  # keeps statements, and the time until the first is answered, bounded
_THREADS = 8


class Place:
    """A request's place in the line of a sketch. To be left, counted or not, before anybody behind it is counted."""

    def __init__(self, commits: "GroupCommit", line: "_Line") -> None:
        self._commits, self._line = commits, line
        self.submission: Submission | None = None  # until the body is decoded
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        if self.submission is None:
            self._commits.leave(self._line, self)

    async def count(self, submission: Submission) -> None:
        """Count the batch; back after the commit, or with what it was refused for."""
        self._commits.fill(self._line, self, submission)
        await self.answer


class _Line:
    """Who waits for one sketch, in order. Where a thread was called, it sees to all who are ready before it ends."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.unanswered = 0  # for the event loop's thread alone
        self._places: deque[Place] = deque()
        self._called = False
        self._lock = Lock()

    def enter(self, place: Place) -> None:
        with self._lock:
            self._places.append(place)

    def fill(self, place: Place, submission: Submission) -> bool:
        """Whether the caller must call a thread."""
        with self._lock:
            place.submission = submission
            return self._must_call()

    def leave(self, place: Place) -> bool:
        """Whether the caller must call a thread, for those behind."""
        with self._lock:
            self._places.remove(place)
            return self._must_call()

    def take(self, most: int) -> list[tuple[Submission, Place]]:
        """The first who are ready; nobody behind one who is not."""
        taken: list[tuple[Submission, Place]] = []
        with self._lock:
            while len(taken) < most and self._places and (submission := self._places[0].submission) is not None:
                taken.append((submission, self._places.popleft()))
        return taken

    def ends(self) -> bool:
        """Whether nobody is ready, so that the thread may go."""
        with self._lock:
            self._called = self._is_ready()
            return not self._called

    def _must_call(self) -> bool:
        must = not self._called and self._is_ready()
        self._called = self._called or must
        return must

    def _is_ready(self) -> bool:
        return bool(self._places) and self._places[0].submission is not None


class GroupCommit:
    """For the event loop's thread alone. Commits follow each other without it: it may be busy receiving."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lines: dict[str, _Line] = {}  # of sketches that are being written to
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="commit")
        self._uncommenced: set[_Line] = set()  # those that wait for a thread

    async def ingest(self, name: str, submission: Submission) -> None:
        """Count a batch that is decoded already."""
        with self.enter(name) as place:
            await place.count(submission)

    def enter(self, name: str) -> Place:
        """The last place in the line of a sketch."""
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = _Line(name)
        place = Place(self, line)
        line.unanswered += 1
        line.enter(place)
        return place

    def fill(self, line: _Line, place: Place, submission: Submission) -> None:
        if line.fill(place, submission):
            self._call_for(line)

    def leave(self, line: _Line, place: Place) -> None:
        must_call = line.leave(place)
        self._answered(line, 1)
        if must_call:
            self._call_for(line)

    def _call_for(self, line: _Line) -> None:
        if not self._call(asyncio.get_running_loop(), line):
            while not line.ends():  # nobody may wait for a thread that does not come
                waiting = line.take(_MOST_TOGETHER)
                self._answer(line, waiting, [RuntimeError("no thread can be started")] * len(waiting))

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

    def _answer(
        self, line: _Line, group: Sequence[tuple[Submission, Place]], outcomes: Sequence[BaseException | None]
    ) -> None:
        for (_, place), outcome in zip(group, outcomes, strict=True):
            if not place.answer.done():  # the client may be gone
                place.answer.set_exception(outcome) if outcome else place.answer.set_result(None)
        self._answered(line, len(group))

    def _answered(self, line: _Line, number: int) -> None:
        line.unanswered -= number
        if not line.unanswered and self._lines.get(line.name) is line:
            del self._lines[line.name]

    def close(self) -> None:
        """After the last request was answered."""
        self._threads.shutdown()
