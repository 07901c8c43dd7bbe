"""What an event may be, whatever it came in: a key, or a mapping with the members `key` and, optionally, `count`.

A table's row is the same mapping with its columns for members. A further member is added here and to `_event`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from app.core.errors import MAX_REPORTED, BadBatch

MAX_KEY_BYTES = 512
MAX_COUNT = 2**31 - 1
MEMBERS = ("key", "count")

Events = list[tuple[str, int]]  # keys and counts, in arrival order


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    items: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Fault:
    """An item that its reader could not read."""

    detail: str


def require_few(items: int, limits: Limits) -> None:
    if items > limits.items:
        raise BadBatch(f"A batch may have at most {limits.items} items; send several.")


def checked(items: Iterable[Any]) -> Events:
    batch: Events = []
    bad: list[tuple[int, str]] = []
    for position, item in enumerate(items):
        event = _event(item)
        if isinstance(event, Fault):
            bad.append((position, event.detail))
            if len(bad) == MAX_REPORTED:
                break
        else:
            batch.append(event)
    if bad:
        raise BadBatch(f"Item {bad[0][0]}: {bad[0][1]}", bad)
    return batch


def _event(item: Any) -> tuple[str, int] | Fault:
    if isinstance(item, Fault):
        return item
    key, count = (item, 1) if isinstance(item, str) else _parts(item)
    fault = key_fault(key) or _count_fault(count)
    return Fault(fault) if fault else (key, count)


def _parts(item: Any) -> tuple[Any, Any]:
    if not isinstance(item, dict) or "key" not in item or not item.keys() <= set(MEMBERS):
        return None, 1
    return item["key"], item.get("count", 1)


def key_fault(key: Any) -> str | None:
    if not isinstance(key, str):
        return 'an event is a string or {"key": string, "count": whole number}.'
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        return "a key must be valid Unicode, without lone surrogates."
    return None if 1 <= size <= MAX_KEY_BYTES else f"a key has 1 to {MAX_KEY_BYTES} bytes of UTF-8."


def _count_fault(count: Any) -> str | None:
    whole = isinstance(count, int) and not isinstance(count, bool)
    return None if whole and 1 <= count <= MAX_COUNT else f"count must be a whole number from 1 to {MAX_COUNT}."
