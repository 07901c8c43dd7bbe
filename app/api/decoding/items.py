"""What an item may be, whatever it came in.

An event is a key, or a mapping with the members `key` and, optionally, `count` and `user`. For a sketch of users an
item is one person's set of keys: a list of keys, or a mapping with the members `keys` and, optionally, `user`. A
table's row is the same mapping with its columns for members.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from app.api.decoding.shapes import EVENTS, USERS
from app.core.errors import MAX_REPORTED, BadBatch

MAX_KEY_BYTES = 512  # and of a user
MAX_COUNT = 2**31 - 1

UserSet = tuple[str | None, list[str]]  # who, if named, and the keys as they were sent: one may occur twice

_NO_EVENT = 'an event is a string or {"key": string, "count": whole number, "user": string}.'
_NO_SET = 'an item is the keys of one person: [string, …] or {"user": string, "keys": [string, …]}.'

_Event = tuple[tuple[str, int], str | None]
_Checked = TypeVar("_Checked")


class Events(NamedTuple):
    """Checked events in arrival order."""

    pairs: list[tuple[str, int]]  # keys and counts
    users: list[str | None] | None  # whose each is; None if nobody is named


Admit = Callable[[int], None]  # asked for so many bytes more; raises where too much is in the process already


def admit_all(_size: int) -> None:
    """Let everything in: for callers that do not limit what is in the process at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """The limits of one batch. A decoder asks `admit` before it makes something large of a body."""

    items: int
    bytes: int
    admit: Admit = admit_all


@dataclass(frozen=True, slots=True)
class Fault:
    """An item that its decoder could not read, or what is wrong with it."""

    detail: str


def require_few(items: int, limits: BatchLimits) -> None:
    """Refuse a batch of more items than a batch may have."""
    if items > limits.items:
        raise BadBatch(f"A batch may have at most {limits.items} items; send several.")


def require_few_keys(keys: int, limits: BatchLimits) -> None:
    """Refuse a batch whose sets together have more keys than a batch may have items."""
    if keys > limits.items:
        raise BadBatch(
            f"A batch may have at most {limits.items} keys in all its sets together; send several, and of each person "
            "no more than the first different keys that the sketch counts."
        )


def checked(items: Iterable[Any]) -> Events:
    """The events that the items mean, or a refusal that names the first bad ones."""
    events = _all_of(_event, items)
    users = [user for _, user in events]
    return Events([pair for pair, _ in events], users if any(users) else None)


def checked_sets(items: Sequence[Any], limits: BatchLimits) -> list[UserSet]:
    """The people and sets of keys that the items mean, or a refusal that names the first bad ones."""
    require_few_keys(sum(len(whole["keys"]) for whole in map(_set_object, items) if whole), limits)
    return _all_of(_user_set, items)


def _all_of(check: Callable[[Any], _Checked | Fault], items: Iterable[Any]) -> list[_Checked]:
    """Each item as `check` gives it. One fault refuses them all, and the refusal names the first `MAX_REPORTED`."""
    good: list[_Checked] = []
    bad: list[tuple[int, str]] = []
    for position, item in enumerate(items):
        found = item if isinstance(item, Fault) else check(item)
        if not isinstance(found, Fault):
            good.append(found)
            continue
        bad.append((position, found.detail))
        if len(bad) == MAX_REPORTED:
            break
    if bad:
        raise BadBatch(f"Item {bad[0][0]}: {bad[0][1]}", bad)
    return good


# Events


def _event(item: Any) -> _Event | Fault:
    if isinstance(item, str):
        fault = key_fault(item)
        return Fault(fault) if fault else ((item, 1), None)
    if not isinstance(item, dict) or "key" not in item or not item.keys() <= EVENTS.columns:
        return Fault(_NO_EVENT)
    key, count = item["key"], item.get("count", 1)
    is_count = isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= MAX_COUNT
    count_fault = None if is_count else f"count must be a whole number from 1 to {MAX_COUNT}."
    fault = key_fault(key) or count_fault or _user_fault(item)
    return Fault(fault) if fault else ((key, count), item.get("user"))


def key_fault(key: Any) -> str | None:
    """What is wrong with an event key, or None."""
    return _text_fault("key", key) if isinstance(key, str) else _NO_EVENT


def _user_fault(item: dict[str, Any]) -> str | None:
    """What is wrong with an item's user, or None. A user may be left out, and not be null."""
    return _text_fault("user", item["user"]) if "user" in item else None


def _text_fault(name: str, text: Any) -> str | None:
    try:
        size = len(text.encode()) if isinstance(text, str) else 0
    except UnicodeEncodeError:
        return f"a {name} must be valid Unicode, without lone surrogates."
    return None if 1 <= size <= MAX_KEY_BYTES else f"a {name} has 1 to {MAX_KEY_BYTES} bytes of UTF-8."


# Sets of users


def _user_set(item: Any) -> UserSet | Fault:
    whole = _set_object(item)
    if whole is None:
        return Fault(_NO_SET)
    fault = _keys_fault(whole["keys"]) or _user_fault(whole)
    return Fault(fault) if fault else (whole.get("user"), whole["keys"])


def _set_object(item: Any) -> dict[str, Any] | None:
    """An item that looks like a set, as a mapping, whatever its keys are; else None."""
    whole = {"keys": item} if isinstance(item, list) else item
    is_set = isinstance(whole, dict) and isinstance(whole.get("keys"), list) and whole.keys() <= USERS.columns
    return whole if is_set else None


def _keys_fault(keys: list[Any]) -> str | None:
    if not keys:
        return "a set has at least one key."
    if not all(isinstance(key, str) for key in keys):
        return _NO_SET
    return next(filter(None, map(key_fault, keys)), None)
