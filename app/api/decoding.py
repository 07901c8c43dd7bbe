"""Event batches: bytes in, one checked batch in arrival order out. A batch with a bad item is refused whole."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from app.core.errors import MAX_REPORTED, BadBatch, UnsupportedMediaType

MAX_KEY_BYTES = 512
MAX_COUNT = 2**31 - 1

Batch = list[tuple[str, int]]


def decode_events(content_type: str, encoding: str, body: bytes, max_items: int) -> Batch:
    if encoding not in ("", "identity"):
        raise UnsupportedMediaType("Send the body without Content-Encoding.")
    media_type = content_type.partition(";")[0].strip().lower()
    read = _READERS.get(media_type)
    if read is None:
        raise UnsupportedMediaType(f"Send Content-Type {' or '.join(_READERS)}, in UTF-8.")
    try:
        items = read(body)
    except (
        ValueError,
        RecursionError,
    ) as error:  # ValueError: not UTF-8, not JSON, or a number of absurd length
        raise BadBatch(f"The body is not valid UTF-8 {media_type}.") from error
    if len(items) > max_items:
        raise BadBatch(f"A batch may have at most {max_items} items; send several.")
    return _checked(items)


def _json_items(body: bytes) -> list[Any]:
    document = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    if not isinstance(document, dict) or set(document) != {"events"} or not isinstance(document["events"], list):
        raise BadBatch('The body must be {"events": [ … ]} and nothing else.')
    return document["events"]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _text_items(body: bytes) -> list[Any]:
    """One key per line; the last line may end with a line feed, and lines may end with CR LF."""
    lines = body.decode("utf-8").split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


_READERS: dict[str, Callable[[bytes], list[Any]]] = {
    "application/json": _json_items,
    "text/plain": _text_items,
}


def _checked(items: Iterable[Any]) -> Batch:
    batch: Batch = []
    bad: list[tuple[int, str]] = []
    for position, item in enumerate(items):
        key, count = (item, 1) if isinstance(item, str) else _parts(item)
        fault = key_fault(key) or _count_fault(count)
        if fault:
            bad.append((position, fault))
            if len(bad) == MAX_REPORTED:
                break
        else:
            batch.append((key, count))
    if bad:
        raise BadBatch(f"Item {bad[0][0]}: {bad[0][1]}", bad)
    return batch


def _parts(item: Any) -> tuple[Any, Any]:
    if not isinstance(item, dict) or not {"key"} <= set(item) <= {"key", "count"}:
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
