"""Results that are worth keeping for the next who asks, as many as a bound allows."""

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """What was put last, by key. The one that was not used for longest is forgotten first. For several threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[K, V] = OrderedDict()
        self._lock = Lock()

    def find(self, key: K) -> V | None:
        """What was put under this key, unless it is forgotten; it counts as used now."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def put(self, key: K, value: V) -> None:
        """Keep the value under this key, and forget the one that was not used for longest if there are too many."""
        with self._lock:
            self._kept[key] = value
            self._kept.move_to_end(key)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def forget(self, key: K) -> None:
        """Keep nothing under this key."""
        with self._lock:
            self._kept.pop(key, None)

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def __len__(self) -> int:
        return len(self._kept)
