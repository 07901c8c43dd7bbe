"""What this process writes to, kept open in memory, so that a batch need not read it back: sketches, and registers.

What is open is valid only if its version equals that of the database, read under the row's lock. `take` removes it:
it then has one owner. `put` gives it back after a commit, with the version that the commit wrote. After a failed commit
it is not put back, and what was left halfway is never seen again: versions are random, and none is made twice.
"""

import time
from collections import OrderedDict
from threading import Lock
from typing import Any, NamedTuple, Protocol

_IDLE_SECONDS = 60.0


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


class _Kept(NamedTuple):
    value: Any
    size: int
    put_at: float


class OpenSketches:
    """Open sketches and registers, bounded in bytes but for the last one. Those that nobody wrote to for a minute are
    dropped, and with them what was deleted. For several threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._open: OrderedDict[object, _Kept] = OrderedDict()  # least recently used first
        self._lock = Lock()

    def take(self, name: object) -> Any | None:
        """Remove the open value of this name and give it to the caller, whatever the database has."""
        with self._lock:
            found = self._open.pop(name, None)
            if found is None:
                return None
            self._bytes -= found.size
            return found.value

    def put(self, name: object, value: _Sized) -> None:
        """Keep the value open under this name, in place of an older one."""
        with self._lock:
            self._drop(name)
            self._open[name] = _Kept(value, value.nbytes, time.monotonic())
            self._bytes += value.nbytes
            while self._bytes > self._max_bytes and len(self._open) > 1:
                self._drop(next(iter(self._open)))

    def drop_idle(self) -> None:
        """Drop what nobody wrote to for a minute."""
        with self._lock:
            while self._open and next(iter(self._open.values())).put_at < time.monotonic() - _IDLE_SECONDS:
                self._drop(next(iter(self._open)))

    def _drop(self, name: object) -> None:
        found = self._open.pop(name, None)
        if found is not None:
            self._bytes -= found.size
