"""The body of a request, which is bounded in size and in time, and is whole or refused. One way to read it for every
route: those of FastAPI receive it as ASGI has it, the route of events asks for its bytes.

Whatever server stands in front, a body that lost its end on the way is refused: its length must be the declared one.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from app.core.errors import InvalidRequest, Refusal
from app.refusals import BodyTimeout, BodyTooLarge

SMALL_BODY_BYTES = 256 * 1024  # of every route but that of events: FastAPI parses those bodies on the event loop


class Interrupted(HTTPException):
    """A refusal on its way through FastAPI, which lets no other exception pass while it reads a body."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(400)
        self.refusal = refusal


class CutOff(Exception):
    """A body has another length than its head declares."""


class Deadline:
    """How long a body may take to arrive. Cancels the task that has waited longer.

    As `asyncio.timeout`, but with one timer for all requests, which costs each of them a tenth of what a timer of its
    own would. For the event loop's thread alone.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until: dict[asyncio.Task[Any], float] = {}  # in the order of time, since all are given the same
        self._passed: set[asyncio.Task[Any]] = set()
        self._armed: asyncio.AbstractEventLoop | None = None  # the loop that will look at the first of them

    def begin(self) -> "asyncio.Task[Any] | None":
        """Give the current task so many seconds from now; the task, for `end` and `has_passed`."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        if task is not None:
            self._until[task] = loop.time() + self.seconds
            if self._armed is not loop:
                self._arm(loop)
        return task

    def end(self, task: "asyncio.Task[Any] | None") -> None:
        """The task has its body, or does not want it any more."""
        self._until.pop(task, None)  # type: ignore[arg-type]  # what is not there is not popped

    def has_passed(self, task: "asyncio.Task[Any] | None") -> bool:
        """Whether it was the deadline that cancelled the task, and nobody else; asked once."""
        if task is None or task not in self._passed:
            return False
        self._passed.remove(task)
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
            self._passed.add(task)
            task.cancel()


class Body:
    """One request's body. Called, it is what ASGI names `receive`, with a small limit; or `read` gives its bytes."""

    __slots__ = ("_deadline", "_declared", "_is_read", "_receive")

    def __init__(self, receive: Receive, declared: bytes, deadline: Deadline) -> None:
        """`declared` is what stands in Content-Length; empty where nothing does."""
        self._receive = receive
        self._declared = int(declared[:18]) if declared.isdigit() else None  # cut: 18 digits are too many anyway
        self._deadline = deadline
        self._is_read = False

    async def __call__(self) -> Message:
        """The whole body as one message; after it, whatever the connection tells next, which may be long in coming."""
        if self._is_read:
            return await self._receive()
        try:
            whole = await self.read(SMALL_BODY_BYTES)
        except ClientDisconnect:
            return {"type": "http.disconnect"}
        except CutOff:
            raise Interrupted(InvalidRequest("The body has another length than Content-Length declares.")) from None
        except Refusal as refusal:
            raise Interrupted(refusal) from None
        return {"type": "http.request", "body": whole, "more_body": False}

    async def read(self, most_bytes: int, admit: Callable[[int], None] | None = None) -> bytes:
        """All bytes of the body. Refused as soon as it is known to be too large, by its declared or by its real length,
        or when its time is over; raises CutOff where its length is not the declared one.

        `admit` is asked before each piece is kept: where memory is short, it refuses.
        """
        if self._declared is not None and self._declared > most_bytes:
            raise _too_large(most_bytes)
        self._is_read = True
        task = self._deadline.begin()
        try:
            whole = await self._received(most_bytes, admit)
        except asyncio.CancelledError:
            if not self._deadline.has_passed(task):
                raise
            raise BodyTimeout(
                f"A request body must arrive within {self._deadline.seconds:g} s. Nothing of the request was done."
            ) from None
        finally:
            self._deadline.end(task)
        if self._declared is not None and self._declared != len(whole):
            raise CutOff
        return whole

    async def _received(self, most_bytes: int, admit: Callable[[int], None] | None) -> bytes:
        chunks: list[bytes] = []
        received = 0
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ClientDisconnect
            chunk = message.get("body", b"")
            received += len(chunk)
            if received > most_bytes:
                raise _too_large(most_bytes)
            if admit is not None:
                admit(len(chunk))
            if not message.get("more_body", False):
                return b"".join((*chunks, chunk)) if chunks else chunk
            chunks.append(chunk)


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"A request body may have at most {limit} bytes; send several requests.")
