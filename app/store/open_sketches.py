"""What is being written to, kept open in the process, so that a batch need not read it back: sketches, and allowances.

It counts only together with the token that the database has, read under the lock; whoever takes it owns it until it is
put back, with the token that its own commit writes. So what was left halfway by a failure is never seen again: a token
whose commit failed is in no database, and none is made twice. Bounded in bytes, but for the last one; what nobody wrote
to for a minute is dropped, and what was deleted with it.
"""

import time
from collections import OrderedDict
from threading import Lock
from typing import Any, NamedTuple, Protocol

_IDLE_SECONDS = 60.0


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


class _Open(NamedTuple):
    token: int
    value: Any
    size: int
    put_at: float


class OpenSketches:
    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._open: OrderedDict[object, _Open] = OrderedDict()  # least recently used first
        self._lock = Lock()

    def take(self, key: object) -> tuple[int, Any] | None:
        """What is open, with its token, whatever the database has; it is the caller's alone then."""
        with self._lock:
            found = self._open.pop(key, None)
            if found is None:
                return None
            self._bytes -= found.size
            return found.token, found.value

    def put(self, key: object, token: int, value: _Sized) -> None:
        with self._lock:
            self._drop(key)
            self._open[key] = _Open(token, value, value.nbytes, time.monotonic())
            self._bytes += value.nbytes
            while self._bytes > self._max_bytes and len(self._open) > 1:
                self._drop(next(iter(self._open)))

    def drop_idle(self) -> None:
        with self._lock:
            while self._open and next(iter(self._open.values())).put_at < time.monotonic() - _IDLE_SECONDS:
                self._drop(next(iter(self._open)))

    def _drop(self, key: object) -> None:
        found = self._open.pop(key, None)
        if found is not None:
            self._bytes -= found.size
