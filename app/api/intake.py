"""Admission of bodies: size and time are limited one by one, and what is in the process at once is limited in all."""

import asyncio
from threading import Lock
from types import TracebackType
from typing import Any, Self

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from app.core.errors import BadBatch
from app.refusals import BodyTimeout, BodyTooLarge, Overloaded

_BODY_SECONDS = 30.0


class Intake:
    """How much of all batches together is in the process. Those who decode ask from other threads."""

    def __init__(self, *, max_body_bytes: int, max_waiting_bytes: int, body_seconds: float = _BODY_SECONDS) -> None:
        self.max_body_bytes = max_body_bytes
        self.patience = Patience(body_seconds)
        self._room = max_waiting_bytes
        self._taken = 0
        self._lock = Lock()

    def admit(self) -> "Admission":
        return Admission(self)

    def take(self, size: int, *, besides: int | None = None) -> None:
        """So much more. A request says by `besides` how much it has: alone in the process it may pass the limit."""
        with self._lock:
            alone = self._taken == besides
            if self._taken + size > self._room and not alone:
                raise Overloaded(
                    "Too many batches are on their way. Nothing of this one was counted; try again in a moment."
                )
            self._taken += size

    def give_back(self, size: int) -> None:
        with self._lock:
            self._taken -= size


class Patience:
    """Cancels a task that has waited for its body too long; as `asyncio.timeout`, but with one timer for all of them,
    which costs a request a tenth of what its own would. For the event loop's thread alone."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until: dict[asyncio.Task[Any], float] = {}  # in the order of time, since all are given the same
        self._ended: set[asyncio.Task[Any]] = set()
        self._armed: asyncio.AbstractEventLoop | None = None  # the loop that will look at the first of them

    def begin(self) -> "asyncio.Task[Any] | None":
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        if task is not None:
            self._until[task] = loop.time() + self.seconds
            if self._armed is not loop:
                self._arm(loop)
        return task

    def end(self, task: "asyncio.Task[Any] | None") -> None:
        self._until.pop(task, None)  # type: ignore[arg-type]  # what is not there is not popped

    def ended(self, task: "asyncio.Task[Any] | None") -> bool:
        """Was it this that cancelled the task, and nobody else?"""
        if task is None or task not in self._ended:
            return False
        self._ended.remove(task)
        return task.uncancel() == 0

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._armed = loop
        loop.call_at(next(iter(self._until.values())), self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._armed = None
        for task, until in list(self._until.items()):
            if until > loop.time():
                self._arm(loop)
                return
            del self._until[task]
            self._ended.add(task)
            task.cancel()


class Admission:
    """The room that one request takes up, until it is answered."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._taken = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        self._intake.give_back(self._taken)

    def take(self, size: int) -> None:
        self._intake.take(size)
        self._taken += size

    def grow(self, size: int) -> None:
        """Before so much is made of the body. Its own limits bound that too, so one body alone is always decoded."""
        self._intake.take(size, besides=self._taken)
        self._taken += size

    def keep(self, size: int) -> None:
        """So much in all, which is what is left after decoding."""
        if size > self._taken:
            self.take(size - self._taken)
        else:
            self._intake.give_back(self._taken - size)
            self._taken = size

    async def body(self, receive: Receive, declared: int | None) -> bytes:
        """The whole body, refused as soon as it is known to be too large, by its declared or by its real length, or
        when its time is over: what half a batch holds, others could use. Refused too where the two lengths differ:
        whatever server stands in front, a batch that lost its end on the way is not counted."""
        limit, patience = self._intake.max_body_bytes, self._intake.patience
        if declared is not None and declared > limit:
            raise _too_large(limit)
        task = patience.begin()
        try:
            body = await self._received(receive, limit)
        except asyncio.CancelledError:
            if not patience.ended(task):
                raise
            raise BodyTimeout(
                f"A request body must arrive within {patience.seconds:g} s. Nothing of the batch was counted."
            ) from None
        finally:
            patience.end(task)
        if declared is not None and declared != len(body):
            raise BadBatch("The body has another length than Content-Length declares.")
        return body

    async def _received(self, receive: Receive, limit: int) -> bytes:
        chunks: list[bytes] = []
        received = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise ClientDisconnect
            chunk = message.get("body", b"")
            received += len(chunk)
            if received > limit:
                raise _too_large(limit)
            self.take(len(chunk))
            if not message.get("more_body", False):
                return b"".join((*chunks, chunk)) if chunks else chunk
            chunks.append(chunk)


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"A request body may have at most {limit} bytes; send several requests.")
