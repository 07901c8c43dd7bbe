"""Answers that may be long: produced in pieces, by few threads, for so many readers at once.

For a reader two or three pieces of a few hundred kilobytes are held, and no connection to the database while the reader
is slow. When a reader goes, so does what was produced for it.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping
from contextlib import aclosing, asynccontextmanager, closing
from typing import Annotated

import anyio
import anyio.to_thread
from fastapi import Depends, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from app.refusals import Overloaded

_THREADS = 2  # that produce pieces: more are not faster, and take connections and the processor from the others

Pieces = Generator[bytes, None, None]


class Readers:
    """One for the app. For the event loop's thread alone."""

    def __init__(self, most: int) -> None:
        self._places = asyncio.BoundedSemaphore(most)
        self._threads = anyio.CapacityLimiter(_THREADS)

    def are_too_many(self) -> bool:
        """Whether one more would have to wait for its place."""
        return self._places.locked()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """One of the long answers that may be on their way at once."""
        async with self._places:
            yield

    async def next_of(self, pieces: Pieces) -> bytes | None:
        """The next piece, made in a thread; None after the last. A caller that is cancelled waits for the thread."""
        return await anyio.to_thread.run_sync(next, pieces, None, limiter=self._threads)


def _readers(request: Request) -> Readers:
    found: Readers = request.app.readers
    return found


AppReaders = Annotated[Readers, Depends(_readers)]


class Answer(Response):
    """A single piece is sent whole, with its length. More of them are a long answer, which needs a place among the
    readers. Where none is free it is refused; or, if it is `paid` for, it waits for one."""

    def __init__(
        self,
        produce: Callable[[], Pieces],
        readers: Readers,
        *,
        media_type: str,
        headers: Mapping[str, str],
        status: int = 200,
        paid: bool = False,
    ) -> None:
        super().__init__(status_code=status, headers=headers, media_type=media_type)
        self._produce = produce
        self._readers = readers
        self._given = headers
        self._paid = paid

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with closing(self._produce()) as pieces:
            begun = [await self._readers.next_of(pieces) or b""]
            second = await self._readers.next_of(pieces)
            if second is None:
                whole = Response(begun[0], self.status_code, self._given, self.media_type)
                await whole(scope, receive, send)
                return
            begun.append(second)
            del second
            if not self._readers.are_too_many():
                await self._send_long(begun, pieces, scope, receive, send)
                return
        if not self._paid:
            raise Overloaded("Many long histograms are being read. Try again in a moment, or ask for less with `top`.")
        with closing(self._produce()) as pieces:  # once more, later: who waits holds nothing
            await self._send_long([], pieces, scope, receive, send)

    async def _send_long(self, begun: list[bytes], pieces: Pieces, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._readers.place(), aclosing(self._all(begun, pieces)) as body:
            long = StreamingResponse(body, self.status_code, self._given, self.media_type)
            await long(scope, receive, send)

    async def _all(self, begun: list[bytes], pieces: Pieces) -> AsyncGenerator[bytes, None]:
        while begun:
            yield begun.pop(0)
        while (piece := await self._readers.next_of(pieces)) is not None:
            yield piece
