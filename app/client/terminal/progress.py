"""A progress bar on standard error, where somebody watches: events (or people), rate, share."""

import time
from types import TracebackType
from typing import Self

from app.client.terminal.bars import ink
from app.client.terminal.output import clean, fitted, is_watched, rewrite, width

_EVERY_SECONDS = 0.1
_BAR = 24


class Progress:
    """One line that is drawn over and over while something is sent; nothing where nobody watches."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.counted = "events"  # the word for what is counted; "people" for a sketch of users
        self._events = 0
        self._start = time.monotonic()
        self._drawn = 0.0
        self._shown = is_watched()

    def begin(self, title: str) -> None:
        """Count the rate from now on, under this title."""
        self.title = title
        self._start = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove the line, so that other lines can be written in its place."""
        if self._shown and self._drawn:
            rewrite("")

    def advance(self, events: int, share: float | None) -> None:
        """Count so many more. `share` says how much of the whole is done, None if that is unknown."""
        self._events += events
        now = time.monotonic()
        if self._shown and now - self._drawn >= _EVERY_SECONDS:
            self._drawn = now
            rewrite(fitted(self._line(share), width() - 1).rstrip())

    def say(self, words: str) -> None:
        """Show words instead of figures, for example why nothing moves."""
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
