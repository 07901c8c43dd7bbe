"""Sketches that are being written to, kept open in the process, so that a batch need not read its sketch back.

An open sketch is used only if its token is the one in the database, read under the lock; whoever takes it owns it until
it is put back after the commit. So one that was left halfway by a failure is never seen again. Bounded in bytes; one
that nobody wrote to for a minute is dropped, and a deleted one with it.
"""

import time
from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

from app.core.kernel import Fold

_IDLE_SECONDS = 60.0


class _Open(NamedTuple):
    token: int
    fold: Fold
    size: int
    put_at: float


class HotSketches:
    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._open: OrderedDict[int, _Open] = OrderedDict()  # least recently used first
        self._lock = Lock()

    def take(self, sketch_id: int, token: int) -> Fold | None:
        """The open sketch, if it is as the database has it; it is the caller's alone then."""
        with self._lock:
            found = self._open.pop(sketch_id, None)
            if found is None:
                return None
            self._bytes -= found.size
            return found.fold if found.token == token else None

    def put(self, sketch_id: int, token: int, fold: Fold) -> None:
        with self._lock:
            self._drop(sketch_id)
            self._open[sketch_id] = _Open(token, fold, fold.nbytes, time.monotonic())
            self._bytes += fold.nbytes
            while self._bytes > self._max_bytes:
                self._drop(next(iter(self._open)))

    def drop_idle(self) -> None:
        with self._lock:
            while self._open and next(iter(self._open.values())).put_at < time.monotonic() - _IDLE_SECONDS:
                self._drop(next(iter(self._open)))

    def _drop(self, sketch_id: int) -> None:
        found = self._open.pop(sketch_id, None)
        if found is not None:
            self._bytes -= found.size
