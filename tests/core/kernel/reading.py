"""What a body means, by the shortest code that says so: the scanners are compared with it."""

import json
from collections.abc import Callable
from typing import Any

Events = list[tuple[str, int]]


def events_in(kind: str, body: bytes, max_items: int) -> Events | None:
    """The events, or None of a body that must be refused."""
    try:
        items = _ITEMS[kind](body.decode("utf-8"))
        return [_event(item) for item in items] if len(items) <= max_items else None
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ):  # UnicodeError and JSONDecodeError are ValueErrors
        return None


def _json(text: str) -> list[Any]:
    document = json.loads(text)
    (events,) = document.values()
    if [*document] != ["events"] or type(events) is not list:
        raise ValueError
    return events


def _ndjson(text: str) -> list[Any]:
    return [json.loads(line) for line in _split(text)]


def _lines(text: str) -> list[Any]:
    return [line[:-1] if line.endswith("\r") else line for line in _split(text)]


def _split(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _event(item: Any) -> tuple[str, int]:
    key, count = (item, 1) if type(item) is str else (item.pop("key"), item.pop("count", 1))
    if type(item) is dict and item:
        raise ValueError
    if type(key) is not str or type(count) is not int:
        raise TypeError
    if not 1 <= len(key.encode()) <= 512 or not 1 <= count <= 2**31 - 1:
        raise ValueError
    return key, count


_ITEMS: dict[str, Callable[[str], list[Any]]] = {"json": _json, "ndjson": _ndjson, "lines": _lines}
