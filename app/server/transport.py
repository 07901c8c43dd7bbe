"""A transport that no client can hold for ever by not reading, and that can be left without losing the last answer."""

import asyncio
from collections.abc import Callable
from typing import Any

_WRITE_SECONDS = 30.0
_LEAST_READ = 64 * 1024  # bytes in that time, of an answer that is longer


class PatientTransport:
    """uvicorn's view of a connection's transport, which is asyncio's but for the two promises.

    `close` asks the connection, which may have to read on before it closes; `hang_up` closes at once. Either way the
    connection is aborted once the client has read too little of what was written for it within `_WRITE_SECONDS`.
    """

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, close: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._unread = 0  # bytes that the client had not read when the timer was set
        self._timer: asyncio.TimerHandle | None = None
        self.leaving = False
        self.close = close
        self.write: Callable[[bytes], None] = transport.write  # one call less for each answer
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self.abort = transport.abort

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As asyncio's transport."""
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Whether no other answer can be sent."""
        return self.leaving or self._transport.is_closing()

    def end_writing(self) -> None:
        """Tell the client that no other answer will come, and go on reading."""
        self.leaving = True
        if self._transport.can_write_eof() and not self._transport.is_closing():
            self._transport.write_eof()
            self.watch_client()

    def hang_up(self) -> None:
        """Close. What was written is still sent, as long as the client reads it."""
        self._transport.close()
        self.watch_client()

    def watch_client(self) -> None:
        """Abort the connection unless the client reads what was written."""
        unread = self._transport.get_write_buffer_size()
        if self._timer is None and unread:
            self._unread = unread
            self._timer = self._loop.call_later(_WRITE_SECONDS, self._look)

    def stop_watching(self) -> None:
        """The client has read most of it. Of a connection that is to be closed it must read all."""
        if self._timer is not None and not self.is_closing():
            self._timer.cancel()
            self._timer = None

    def forget(self) -> None:
        """The connection is closed. Without its timer and its way back, nothing keeps it in memory."""
        if self._timer is not None:
            self._timer.cancel()
        self.close = lambda: None  # since there is nothing left to close

    def _look(self) -> None:
        self._timer = None
        if self._transport.get_write_buffer_size() > max(0, self._unread - _LEAST_READ):
            self._transport.abort()
        else:
            self.watch_client()
