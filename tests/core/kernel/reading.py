"""What a body means, by the shortest code that says so: the scanners are compared with it."""

import json
from collections.abc import Callable
from typing import Any

Events = list[tuple[str, int]]
Named = list[tuple[str, int, str | None]]  # with who sent each, if that is said


def events_in(kind: str, body: bytes, max_items: int) -> Events | None:
    """The events, or None of a body that must be refused."""
    named = named_in(kind, body, max_items)
    return None if named is None else [(key, count) for key, count, _ in named]


def named_in(kind: str, body: bytes, max_items: int) -> Named | None:
    """The events and who sent them."""
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


def _event(item: Any) -> tuple[str, int, str | None]:
    members = {"key": item} if type(item) is str else dict(item.items())
    key, count, user = members.pop("key"), members.pop("count", 1), members.pop("user", "nobody")
    if members or type(count) is not int or not 1 <= count <= 2**31 - 1:
        raise ValueError
    for text in (key, user):
        if type(text) is not str or not 1 <= len(text.encode()) <= 512:
            raise ValueError
    return key, count, user if type(item) is dict and "user" in item else None


_ITEMS: dict[str, Callable[[str], list[Any]]] = {"json": _json, "ndjson": _ndjson, "lines": _lines}
