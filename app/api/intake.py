"""Admission of bodies: their size is limited one by one, and what is in the process at once is limited in all."""

from types import TracebackType
from typing import Self

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from app.core.errors import BodyTooLarge, Overloaded


class Intake:
    """For the event loop's thread alone."""

    def __init__(self, *, max_body_bytes: int, max_waiting_bytes: int) -> None:
        self.max_body_bytes = max_body_bytes
        self._free = max_waiting_bytes

    def admit(self) -> "Admission":
        return Admission(self)

    def take(self, size: int) -> None:
        if size > self._free:
            raise Overloaded(
                "Too many batches are on their way. Nothing of this one was counted; try again in a moment."
            )
        self._free -= size

    def give_back(self, size: int) -> None:
        self._free += size


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

    async def body(self, receive: Receive, declared: int | None) -> bytes:
        """The whole body, refused as soon as it is known to be too large, by its declared or by its real length."""
        limit = self._intake.max_body_bytes
        if declared is not None and declared > limit:
            raise _too_large(limit)
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
