"""What a body means, by the shortest code that says so: the scanners are compared with it."""

import json
from collections.abc import Callable
from typing import Any

Events = list[tuple[str, int]]
Named = list[tuple[str, int, str | None]]  # with who sent each, if that is said
People = list[tuple[str | None, list[str]]]  # who, if that is said, and the keys as they are listed


def events_in(kind: str, body: bytes, max_items: int) -> Events | None:
    """The events, or None of a body that must be refused."""
    named = named_in(kind, body, max_items)
    return None if named is None else [(key, count) for key, count, _ in named]


def named_in(kind: str, body: bytes, max_items: int) -> Named | None:
    """The events and who sent them."""
    try:
        items = _ITEMS[kind](body.decode("utf-8"))
        return [_event(item) for item in items] if len(items) <= max_items else None
    except _WRONG:
        return None


def people_in(kind: str, body: bytes, max_items: int) -> People | None:
    """The people, or None of a body that must be refused."""
    try:
        text = body.decode("utf-8")
        items = _json(text, "users") if kind == "json" else _ndjson(text)
        people = [_person(item) for item in items]
    except _WRONG:
        return None
    return people if max(len(people), sum(len(keys) for _, keys in people)) <= max_items else None


_WRONG = (ValueError, KeyError, TypeError, AttributeError, RecursionError)  # UnicodeError, JSONDecodeError: ValueErrors


def _json(text: str, member: str = "events") -> list[Any]:
    document = json.loads(text)
    (items,) = document.values()
    if [*document] != [member] or type(items) is not list:
        raise ValueError
    return items


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
    _check_texts([key, user])
    return key, count, user if type(item) is dict and "user" in item else None


def _person(item: Any) -> tuple[str | None, list[str]]:
    members: dict[str, Any] = {"keys": item} if type(item) is list else dict(item.items())
    keys, user = members.pop("keys"), members.pop("user", "nobody")
    if members or type(keys) is not list or not keys:
        raise ValueError
    _check_texts([*keys, user])
    return user if type(item) is dict and "user" in item else None, keys


def _check_texts(texts: list[Any]) -> None:
    for text in texts:
        if type(text) is not str or not 1 <= len(text.encode()) <= 512:
            raise ValueError


_ITEMS: dict[str, Callable[[str], list[Any]]] = {"json": _json, "ndjson": _ndjson, "lines": _lines}
