"""How many connections a process can hold: fewer than it may open files, so that a newcomer never finds none left."""

import resource
from collections.abc import Iterable
from contextlib import suppress
from heapq import nsmallest
from typing import Protocol

_MOST_DESCRIPTORS = 65_536
_OTHER_FILES = 128  # databases, logs, metrics
_LONGEST_QUEUE = 2048
_LEAST_ROOM = 16


class Waiting(Protocol):
    """A connection, as far as this module knows one."""

    waiting_since: float | None  # for a request; None while one is worked on

    def make_way(self) -> None:
        """Close, for a newcomer."""
        ...


def raise_limit() -> None:
    """Let this process open as many files as the operator permits; many systems begin with 1,024 of them."""
    soft, hard = _limits()
    if soft < hard:
        with suppress(ValueError, OSError):  # some systems refuse what they themselves report
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def queue_length() -> int:
    """How many connections may wait to be accepted. All of them may be accepted before a single one is looked at, so
    that many descriptors are kept free for them."""
    return _queue_for(_limits()[1])


def most_connections() -> int:
    """As many as fit beside other files and a full queue."""
    descriptors = _limits()[0]
    return max(_LEAST_ROOM, descriptors - _queue_for(descriptors) - _OTHER_FILES)


def make_room(connections: Iterable[Waiting], how_many: int) -> bool:
    """Hang up on those that have waited longest for a request. False where all are at work."""
    waiting = [connection for connection in connections if connection.waiting_since is not None]
    for connection in nsmallest(how_many, waiting, key=lambda connection: connection.waiting_since or 0.0):
        connection.make_way()
    return bool(waiting)


def _queue_for(descriptors: int) -> int:
    return min(_LONGEST_QUEUE, descriptors // 4)


def _limits() -> tuple[int, int]:
    """What is in force and what it may be raised to, both up to a number that is always enough."""
    soft, hard = (
        _MOST_DESCRIPTORS if limit == resource.RLIM_INFINITY else limit
        for limit in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    return min(soft, _MOST_DESCRIPTORS), min(hard, _MOST_DESCRIPTORS)
