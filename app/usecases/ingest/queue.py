"""Submissions wait for their sketch, and those that wait together share a commit.

For each sketch in a process at most one commit is under way; what comes meanwhile joins the next one. Other sketches,
and other processes, go on. A submission is answered after the commit that holds it. How much may wait is bounded by
`Admission`, which admits bodies.

Submissions of a sketch are counted in the order in which their bodies were complete. A place in the queue is taken
then, before the body is decoded: a large body is decoded in another thread and takes longer. If that cost it its place,
one event more, which makes a body just large enough, would change the order of everybody's events.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from types import TracebackType
from typing import Self

from app.usecases.context import Context
from app.usecases.ingest.count import count_submissions
from app.usecases.ingest.submission import Submission

_MOST_TOGETHER = 1000  # keeps statements, and the time until the first is answered, bounded
_THREADS = 8


class Place:
    """A request's place in the queue of a sketch. Nobody behind it is counted before it is filled or left."""

    def __init__(self, queues: "Queues", line: "_Line") -> None:
        self._queues, self._line = queues, line
        self.submission: Submission | None = None  # until the body is decoded
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        if self.submission is None:
            self._queues.leave(self._line, self)

    async def count(self, submission: Submission) -> None:
        """Have the submission counted: returns after the commit, or raises what it was refused for."""
        self._queues.fill(self._line, self, submission)
        await self.answer


class _Line:
    """Who waits for one sketch, in order. Once a thread was called, it counts all who are ready before it ends."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.unanswered = 0  # for the event loop's thread alone
        self._places: deque[Place] = deque()
        self._has_thread = False
        self._lock = Lock()

    def enter(self, place: Place) -> None:
        with self._lock:
            self._places.append(place)

    def fill(self, place: Place, submission: Submission) -> bool:
        """Put the submission in its place; whether the caller must call a thread."""
        with self._lock:
            place.submission = submission
            return self._must_call()

    def leave(self, place: Place) -> bool:
        """Give the place up; whether the caller must call a thread, for those behind it."""
        with self._lock:
            self._places.remove(place)
            return self._must_call()

    def take(self, most: int) -> list[tuple[Place, Submission]]:
        """Remove the first who are ready, and nobody behind one who is not."""
        taken: list[tuple[Place, Submission]] = []
        with self._lock:
            while len(taken) < most and self._places and (submission := self._places[0].submission) is not None:
                taken.append((self._places.popleft(), submission))
        return taken

    def dismiss(self) -> bool:
        """Release the thread if nobody is ready; whether it was released."""
        with self._lock:
            self._has_thread = self._is_ready()
            return not self._has_thread

    def _must_call(self) -> bool:
        must = not self._has_thread and self._is_ready()
        self._has_thread = self._has_thread or must
        return must

    def _is_ready(self) -> bool:
        return bool(self._places) and self._places[0].submission is not None


class _Taken:
    """Those of a line that one commit counts: the first who were ready, and whoever `count` lets join."""

    def __init__(self, line: _Line) -> None:
        self._line = line
        self.places: list[Place] = []

    def take(self) -> list[Submission]:
        joined = self._line.take(_MOST_TOGETHER - len(self.places))
        self.places += [place for place, _ in joined]
        return [submission for _, submission in joined]


class Queues:
    """The queues of all sketches that this process is sent submissions for.

    For the event loop's thread alone. Commits follow each other in other threads: the loop may be busy receiving.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lines: dict[str, _Line] = {}  # of sketches that are being written to
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="commit")
        self._without_thread: set[_Line] = set()  # those that wait for one

    def enter(self, name: str) -> Place:
        """Take the last place in the queue of a sketch."""
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = _Line(name)
        place = Place(self, line)
        line.unanswered += 1
        line.enter(place)
        return place

    def fill(self, line: _Line, place: Place, submission: Submission) -> None:
        """Put a submission in its place."""
        if line.fill(place, submission):
            self._call_thread(line)

    def leave(self, line: _Line, place: Place) -> None:
        """Give up a place without a submission."""
        must_call = line.leave(place)
        self._forget_answered(line, 1)
        if must_call:
            self._call_thread(line)

    def _call_thread(self, line: _Line) -> None:
        if not self._submit(asyncio.get_running_loop(), line):
            while not line.dismiss():  # nobody may wait for a thread that does not come
                places = [place for place, _ in line.take(_MOST_TOGETHER)]
                self._answer(line, places, [RuntimeError("no thread can be started")] * len(places))

    def _submit(self, loop: asyncio.AbstractEventLoop, line: _Line) -> bool:
        """Call a thread for the line; False where there is none."""
        self._without_thread.add(line)
        try:
            self._threads.submit(self._run, loop, line)
        except Exception:
            self._without_thread.discard(line)  # the pool may have queued it before it raised; it finds nobody then
            return False
        return True

    def _run(self, loop: asyncio.AbstractEventLoop, line: _Line) -> None:
        """In a thread: count who is ready, until nobody is, or until another sketch waits for a thread."""
        self._without_thread.discard(line)
        while True:
            self._count(loop, line)
            if line.dismiss() or (self._without_thread and self._submit(loop, line)):
                return

    def _count(self, loop: asyncio.AbstractEventLoop, line: _Line) -> None:
        taken = _Taken(line)
        outcomes: Sequence[BaseException | None]
        try:
            outcomes = count_submissions(self._context, line.name, taken.take(), taken)
        except BaseException as fault:
            outcomes = [fault] * len(taken.places)
        loop.call_soon_threadsafe(self._answer, line, taken.places, outcomes)

    def _answer(self, line: _Line, places: Sequence[Place], outcomes: Sequence[BaseException | None]) -> None:
        for place, outcome in zip(places, outcomes, strict=True):
            if not place.answer.done():  # the client may be gone
                place.answer.set_exception(outcome) if outcome else place.answer.set_result(None)
        self._forget_answered(line, len(places))

    def _forget_answered(self, line: _Line, number: int) -> None:
        line.unanswered -= number
        if not line.unanswered and self._lines.get(line.name) is line:
            del self._lines[line.name]

    def close(self) -> None:
        """Stop the threads, after the last request was answered."""
        self._threads.shutdown()
