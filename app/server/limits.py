"""How often and how much at once: requests of a key, wrong keys of an address, and releases. In this process alone.

Nothing here looks at events, so a refusal tells nothing about them. Counts are in memory and bounded: with several
workers each has its own, and a restart forgets them.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from ipaddress import IPv6Address
from math import ceil
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from app.refusals import Overloaded, TooManyRequests
from app.usecases.recent import Recent

_MOST_KNOWN = 10_000
_MINUTE = 60.0
_MOST_WAITING = 100
_TURN_SECONDS = 20.0


class Buckets:
    """For each of many, so many a minute; who was quiet may take a minute's worth at once.

    A token bucket for each, kept as the moment at which it will be full again.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = _MINUTE / per_minute
        self._clock = clock
        self._full_at: Recent[bytes | str, float] = Recent(_MOST_KNOWN)

    def wait(self, who: bytes | str) -> float:
        """Seconds until there is one to take; 0 if there is."""
        now = self._clock()
        return max(0.0, (self._full_at.find(who) or now) - now + self._interval - _MINUTE)

    def take(self, who: bytes | str) -> None:
        """Take one, whether there is one or not."""
        now = self._clock()
        self._full_at.put(who, max(self._full_at.find(who) or now, now) + self._interval)

    def forget(self, who: bytes | str) -> None:
        """Keep nothing of this one, whose bucket is full then."""
        self._full_at.forget(who)


class Limits:
    """One for the app. For the event loop's thread alone."""

    def __init__(
        self,
        *,
        requests_per_minute: int,
        failures_per_minute: int,
        max_releases: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._requests = Buckets(requests_per_minute, clock) if requests_per_minute else None
        self._failures = Buckets(failures_per_minute, clock) if failures_per_minute else None
        self._recognised: Recent[bytes, bool] = Recent(_MOST_KNOWN)  # hashes of API keys that are valid
        self._releases = asyncio.BoundedSemaphore(max_releases)
        self._waiting = 0  # for their turn to release

    def admit(self, authorization: bytes, client: tuple[str, int] | None) -> bytes:
        """Before anything is done for a request. Gives back who presents a key, as a hash; nothing where none is.

        An address that has sent many wrong keys is not asked again for a while, except for keys that were right
        before: it may be a proxy's, and stand for many.
        """
        secret = authorization.partition(b" ")[2].strip()
        if not secret:
            return b""
        presented = sha256(secret).digest()  # the same for all ways to write the same key in a header
        if self._failures is not None and presented not in self._recognised:
            _refuse_while(self._failures.wait(_address(client)), "Many wrong keys came from this address.")
        if self._requests is not None:
            _refuse_while(self._requests.wait(presented), "This key has sent too many requests.")
            self._requests.take(presented)
        return presented

    def wrong(self, presented: bytes, client: tuple[str, int] | None) -> None:
        """The API key that was presented is not valid."""
        self._recognised.forget(presented)
        if self._requests is not None:
            self._requests.forget(presented)  # else whoever makes up keys would fill the memory
        if self._failures is not None:
            self._failures.take(_address(client))

    def right(self, presented: bytes) -> None:
        """The API key that was presented is valid."""
        if presented not in self._recognised:
            self._recognised.put(presented, True)

    @asynccontextmanager
    async def release(self) -> AsyncIterator[None]:
        """One of the releases that may run at once: each has a thread and a processor for a while. Some wait for their
        turn, without a thread, and not for long; the others are refused."""
        if self._waiting >= _MOST_WAITING:
            raise _busy()
        self._waiting += 1
        try:
            async with asyncio.timeout(_TURN_SECONDS):
                await self._releases.acquire()
        except TimeoutError:
            raise _busy() from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._releases.release()


def _busy() -> Overloaded:
    return Overloaded("Other releases are running. Nothing was drawn or charged; try again in a moment.")


async def _turn(request: Request) -> AsyncIterator[None]:
    limits: Limits = request.app.limits
    async with limits.release():
        yield


ReleaseTurn = Annotated[None, Depends(_turn, scope="function")]  # over when the route's function is


def _address(client: tuple[str, int] | None) -> str:
    """Of IPv6 the network: everybody has many addresses in one."""
    host = client[0] if client else ""
    if ":" not in host:
        return host
    try:
        return str(int(IPv6Address(host)) >> 64)
    except ValueError:
        return host


def _refuse_while(seconds: float, why: str) -> None:
    if seconds > 0:
        wait = ceil(seconds)
        raise TooManyRequests(f"{why} Nothing was done; try again in {wait} s.", wait)
