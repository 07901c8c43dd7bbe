"""Batches that come while a commit runs join the next one: one transaction for all that wait for the same sketch.

A batch is answered after the commit that holds it. One commit at a time for each sketch in a process; other sketches,
and other processes, go on meanwhile. What waits is bounded by `Intake`, which admits bodies.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from app.usecases.context import Context
from app.usecases.ingest_events import Outcome, Submission, ingest_together

_MOST_TOGETHER = 1000  # keeps statements, and the time until the first is answered, bounded
_THREADS = 8

_Waiting = tuple[Submission, "asyncio.Future[None]"]


class GroupCommit:
    """For the event loop's thread alone."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._waiting: dict[str, list[_Waiting]] = {}  # by sketch; an entry, perhaps empty, while a commit runs
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="commit")

    async def ingest(self, name: str, submission: Submission) -> None:
        """Count the batch; back after the commit, or with what it was refused for."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        busy = name in self._waiting
        self._waiting.setdefault(name, []).append((submission, answer))
        if not busy:
            self._start(name)
        await answer

    def _start(self, name: str) -> None:
        waiting = self._waiting[name]
        group, self._waiting[name] = waiting[:_MOST_TOGETHER], waiting[_MOST_TOGETHER:]
        submissions = [submission for submission, _ in group]
        loop = asyncio.get_running_loop()
        try:
            commit = loop.run_in_executor(self._threads, ingest_together, self._context, name, submissions)
        except RuntimeError as fault:  # no thread can be started: nobody may wait for one
            for _, answer in (*group, *self._waiting.pop(name)):
                answer.set_exception(fault)
        else:
            commit.add_done_callback(partial(self._finish, name, group))

    def _finish(self, name: str, group: Sequence[_Waiting], commit: "asyncio.Future[list[Outcome]]") -> None:
        fault = commit.exception()
        outcomes = [fault] * len(group) if fault else commit.result()
        for (_, answer), outcome in zip(group, outcomes, strict=True):
            if not answer.done():  # the client may be gone
                answer.set_exception(outcome) if outcome else answer.set_result(None)
        if self._waiting[name]:
            self._start(name)
        else:
            del self._waiting[name]

    def close(self) -> None:
        """After the last request was answered."""
        self._threads.shutdown()
