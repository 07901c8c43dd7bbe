"""What the clients know for certain: what was acknowledged, and what was refused."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Any

_NEWEST = 50


@dataclass(frozen=True)
class Released:
    """A snapshot that was handed out."""

    id: str
    sketch: str
    histogram: list[dict[str, Any]]
    charged: frozenset[tuple[str, str, str]]  # ledger, ε and δ, as the answer says


@dataclass(frozen=True)
class Refused:
    """A release for which there was no budget left."""

    ledgers: frozenset[str]  # of which at least one cannot pay it
    epsilon: str
    delta: str


class Truth:
    """Shared by all clients. Something enters after it was acknowledged, and once, however often it was sent."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)  # by sketch and key
        self.people: dict[str, Counter[str]] = defaultdict(Counter)  # by sketch and user: how often each was sent
        self.releases: dict[str, Released] = {}  # by idempotency key
        self.refusals: set[Refused] = set()

    def count(self, sketch: str, counts: Mapping[str, int]) -> None:
        with self._lock:
            self.counts[sketch].update(counts)

    def meet(self, sketch: str, users: Iterable[str]) -> None:
        with self._lock:
            self.people[sketch].update(users)

    def release(self, key: str, document: Mapping[str, Any]) -> str | None:
        """Note a snapshot; what is wrong, if the same request was given another one before."""
        released = Released(
            id=document["id"],
            sketch=document["sketch"],
            histogram=document["histogram"],
            charged=frozenset((paid["ledger"], paid["epsilon"], paid["delta"]) for paid in document["charged"]),
        )
        with self._lock:
            earlier = self.releases.setdefault(key, released)
        return None if earlier == released else f"release {key} was answered with two different snapshots"

    def newest_releases(self) -> list[Released]:
        with self._lock:
            return list(islice(reversed(self.releases.values()), _NEWEST))

    def refuse(self, refused: Refused) -> None:
        with self._lock:
            self.refusals.add(refused)
