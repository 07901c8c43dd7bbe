"""How many bytes of batches may be in the process at once: as they were sent, and as they are decoded."""

from threading import Lock
from types import TracebackType
from typing import Self

from app.refusals import Overloaded


class Admission:
    """The room for all batches together, from their first byte until they are answered. For several threads: those who
    decode ask from theirs."""

    def __init__(self, max_waiting_bytes: int) -> None:
        self._room = max_waiting_bytes
        self._taken = 0
        self._lock = Lock()

    def enter(self) -> "Admitted":
        """One request more, which takes no room yet."""
        return Admitted(self)

    def take(self, size: int, *, besides: int | None = None) -> None:
        """Take so much more. `besides` is what the request has already: alone in the process it may pass the limit."""
        with self._lock:
            alone = self._taken == besides
            if self._taken + size > self._room and not alone:
                raise Overloaded(
                    "Too many batches are on their way. Nothing of this one was counted; try again in a moment."
                )
            self._taken += size

    def give_back(self, size: int) -> None:
        """So much is free again."""
        with self._lock:
            self._taken -= size


class Admitted:
    """The room that one request takes, which it gives back at the end of a `with`."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._taken = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        self._admission.give_back(self._taken)

    def take(self, size: int) -> None:
        """Take room for bytes as they are received."""
        self._admission.take(size)
        self._taken += size

    def grow(self, size: int) -> None:
        """Take room before so much is made of the body. Its own limits bound that too, so a body that is alone in the
        process is always decoded."""
        self._admission.take(size, besides=self._taken)
        self._taken += size

    def keep(self, size: int) -> None:
        """Take so much in all, which is what is left after decoding."""
        if size > self._taken:
            self.take(size - self._taken)
        else:
            self._admission.give_back(self._taken - size)
            self._taken = size
