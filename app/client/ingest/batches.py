"""Items cut into requests: as many in each as the command says, and never more than a server takes by default."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from app.client.ingest.formats import Item, Numbered

MOST_ITEMS = 100_000  # a server's default limit for the events of a batch, and for the keys of all its people together
_MOST_BYTES = 8 * 1024 * 1024  # half of a server's default limit
_ITEM_BYTES = 32  # what JSON puts around the texts of an event


@dataclass(slots=True)
class Batch:
    """The items of one request, with the line where each begins."""

    items: list[Item] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    keys: int = 0  # of all items together
    size: int = 0  # in bytes, about

    @property
    def member(self) -> Literal["users", "events"]:
        """The name under which the service takes such items, judged by the first of them. It refuses a mixture."""
        first = self.items[0]
        return "events" if isinstance(first, str) or "keys" not in first else "users"

    def body(self) -> bytes:
        """The body of the request, in JSON: servers read it faster than the other formats."""
        return json.dumps({self.member: self.items}, ensure_ascii=False).encode()


def batches(numbered: Iterable[Numbered], most: int) -> Iterator[Batch]:
    """The items in batches of up to `most`. An item is never split: one that no longer fits begins the next batch."""
    batch = Batch()
    for line, item in numbered:
        keys, size = _weight(item)
        if batch.items and (batch.keys + keys > MOST_ITEMS or batch.size + size > _MOST_BYTES):
            yield batch
            batch = Batch()
        batch.items.append(item)
        batch.lines.append(line)
        batch.keys += keys
        batch.size += size
        if len(batch.items) >= most:
            yield batch  # at once: the next item may be long in coming
            batch = Batch()
    if batch.items:
        yield batch


def _weight(item: Item) -> tuple[int, int]:
    """How many keys and about how many bytes an item has.

    People are measured exactly: they may be long, and an escaped character takes up to six bytes in JSON.
    """
    if isinstance(item, str):
        return 1, _ITEM_BYTES + len(item)
    if "keys" in item:
        return len(item["keys"]), len(json.dumps(item, ensure_ascii=False).encode())
    return 1, _ITEM_BYTES + sum(len(value) if isinstance(value, str) else 16 for value in item.values())
