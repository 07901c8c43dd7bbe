"""A progress bar on standard error, where somebody watches: events (or people), rate, share."""

import time
from types import TracebackType
from typing import Self

from app.client.bars import ink
from app.client.terminal import clean, fitted, rewrite, watched, width

_EVERY_SECONDS = 0.1
_BAR = 24


class Progress:
    def __init__(self, title: str) -> None:
        self.title = title
        self.counted = "events"  # what is counted
        self._events = 0
        self._start = time.monotonic()
        self._drawn = 0.0
        self._shown = watched()

    def begin(self, title: str) -> None:
        """The rate counts from here."""
        self.title = title
        self._start = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        self.clear()

    def clear(self) -> None:
        """So that other lines can be written."""
        if self._shown and self._drawn:
            rewrite("")

    def advance(self, events: int, share: float | None) -> None:
        """`share` of the whole that is done, where it is known."""
        self._events += events
        now = time.monotonic()
        if self._shown and now - self._drawn >= _EVERY_SECONDS:
            self._drawn = now
            rewrite(fitted(self._line(share), width() - 1).rstrip())

    def say(self, words: str) -> None:
        if self._shown:
            self._drawn = time.monotonic()
            rewrite(fitted(clean(f"{self.title}  {words}"), width() - 1).rstrip())

    def _line(self, share: float | None) -> str:
        rate = self._events / max(1e-3, time.monotonic() - self._start)
        figures = f"{self._events:,} {self.counted}, {rate:,.0f}/s"
        if share is None:
            return f"{self.title}  {figures}"
        pen = ink()
        filled = round(min(1.0, share) * _BAR)
        return f"{self.title}  {pen.full * filled}{pen.line * (_BAR - filled)} {share:4.0%}  {figures}"
