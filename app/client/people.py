"""Rows of (user, key) as whole people, for a sketch of users, whose item is one person with their set of keys.

The service takes a person once, so all that counts of a person has to be in one item. What is in it must follow from
that person's rows alone, never from where requests are cut. So the client gathers the rows, which must be sorted by
user: then a person is complete where the next one begins, and memory holds one person at a time.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Literal

from app.client.connection import Api, Problem, at
from app.client.readers import BadRow, Item, Placed

MOST_KEYS = 1_000  # of a person: no sketch counts more (the service's largest `max_contributions`)
MOST_BYTES = 512  # of a key and of a user, as the service has it

_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,511}", re.ASCII)
_LETTER_BYTES = 4  # the most that UTF-8 takes for one

_Row = tuple[int, str, str]  # line, user, key


class OutOfOrder(BadRow):
    """The rows are not sorted by user."""

    def __init__(self, line: int, order: "Order") -> None:
        super().__init__(line, _OUT_OF_ORDER[order])


Order = Literal["text", "number"]

_OUT_OF_ORDER: dict[Order, str] = {
    "text": "the rows are not sorted by user: the user of this row does not come after the one before. Sort them, for "
    "example with LC_ALL=C sort -t, -k1,1 (the header apart) where the user is the first column. Where users are "
    "numbers and the rows are sorted as such, as ORDER BY in SQL does, say --user-order number.",
    "number": "the rows are not sorted by user as a number: the user of this row is no whole number, or does not come "
    "after the one before.",
}


def takes_people(api: Api, sketch: str) -> bool:
    """Whether the unit of the sketch is the user.

    An API key of scope `ingest` may not read the sketch's parameters, but it may send. So we send an empty batch of
    people, which counts nothing: a sketch of users accepts it, a sketch of events refuses it as a bad batch.
    """
    try:
        api.ask("POST", at("sketches", sketch, "events"), b'{"users": []}', repeatable=True)
    except Problem as problem:
        if problem.slug == "bad-batch":
            return False
        raise
    return True


def gathered(placed: Iterable[Placed], order: Order) -> Iterator[Placed]:
    """Each person with their different keys, the first `MOST_KEYS` of them, and the line where their rows begin.

    Raises `OutOfOrder` at the first row that shows that the rows are not sorted by user. The order is the sender's word
    and not found out from the rows: one user more, who fits only the other order, would move everybody.
    """
    sequence = _Sequence(order)
    for _, rows in groupby((_row(line, item) for line, item in placed), key=itemgetter(1)):
        yield _person(rows, sequence)


def shortened(placed: Iterable[Placed]) -> Iterator[Placed]:
    """Whole people as they came, each cut to the first `MOST_KEYS` different keys: nobody makes a request too large."""
    for line, item in placed:
        if isinstance(item, dict) and len(item.get("keys", ())) > MOST_KEYS:
            yield line, {**item, "keys": list(dict.fromkeys(item["keys"]))[:MOST_KEYS]}
        else:
            yield line, item


def _person(rows: Iterator[_Row], order: "_Sequence") -> Placed:
    first = next(rows)
    line, user, _ = first
    _require_size("user", user, line)
    order.follow(user, line)
    return line, {"user": user, "keys": _different_keys(chain([first], rows))}


def _row(line: int, item: Item) -> _Row:
    if isinstance(item, str) or "user" not in item:
        raise BadRow(line, "the row names no user, as each row for a sketch of users must.")
    if "keys" in item:
        raise BadRow(line, "the line is a whole person, those before are single rows; send them as separate files.")
    if "count" in item:
        raise BadRow(
            line,
            "a sketch of users counts each key of a person once, so a column `count` has no meaning. Leave it out, or "
            "name the columns to read with --column and --user-column.",
        )
    return line, item["user"], item["key"]


def _different_keys(rows: Iterable[_Row]) -> list[str]:
    """In order of first occurrence. All rows are read, also those beyond the last key that is taken."""
    keys: dict[str, None] = {}
    for line, _, key in rows:
        if key not in keys and len(keys) < MOST_KEYS:
            _require_size("key", key, line)
            keys[key] = None
    return list(keys)


def _require_size(what: str, text: str, line: int) -> None:
    """The service checks this too, but it would name the person; only here it is known which row it was."""
    certainly_short = 0 < len(text) <= MOST_BYTES // _LETTER_BYTES
    if not certainly_short and not 1 <= len(text.encode()) <= MOST_BYTES:
        raise BadRow(line, f"a {what} has 1 to {MOST_BYTES} bytes of UTF-8.")


class _Sequence:
    """Whether the users so far came in ascending order, so that nobody came twice; no earlier one is remembered."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._last: str | float = "" if order == "text" else float("-inf")  # no user is empty

    def follow(self, user: str, line: int) -> None:
        if self._order == "text":
            follows, value = isinstance(self._last, str) and user > self._last, user
        else:
            follows, value = self._follows_as_number(user)
        if not follows:
            raise OutOfOrder(line, self._order)
        self._last = value

    def _follows_as_number(self, user: str) -> tuple[bool, Any]:
        if not _WHOLE_NUMBER.fullmatch(user):
            return False, user
        return isinstance(self._last, int | float) and int(user) > self._last, int(user)
