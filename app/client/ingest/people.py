"""Rows of (user, key) gathered into people, for sketches of users, whose items are people with their sets of keys.

The service takes a person once, so all that is to count of a person has to be in one item. What is in the item must
follow from that person's rows alone, never from where requests are cut. So the rows must be sorted by user: then a
person is complete where the next one begins, and memory holds one person at a time.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from typing import Literal

from app.client.connection import Api, Problem, at
from app.client.ingest.formats import BadRow, Item, Numbered

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
    """Whether the sketch is one of users, found out by sending it an empty batch of people, which counts nothing.

    A sketch of users accepts such a batch, and a sketch of events refuses it. Reading the sketch's parameters would be
    more direct, but an API key that may only ingest must not read them.
    """
    try:
        api.ask("POST", at("sketches", sketch, "events"), b'{"users": []}', repeatable=True)
    except Problem as problem:
        if problem.slug == "bad-batch":
            return False
        raise
    return True


def gathered(numbered: Iterable[Numbered], order: Order) -> Iterator[Numbered]:
    """Each person with their different keys, the first `MOST_KEYS` of them, and the line where their rows begin.

    Raises `OutOfOrder` at the first row that shows that the rows are not sorted by user. Whether users are sorted as
    text or as numbers is said by the sender, not guessed from the rows: else one user more, who fits only the other
    order, would change how everybody else is read.
    """
    users = _AscendingUsers(order)
    for _, rows in groupby((_row(line, item) for line, item in numbered), key=itemgetter(1)):
        yield _person(rows, users)


def _person(rows: Iterator[_Row], users: "_AscendingUsers") -> Numbered:
    first = next(rows)
    line, user, _ = first
    _require_size("user", user, line)
    users.follow(user, line)
    return line, {"user": user, "keys": _different_keys(chain([first], rows))}


def shortened(numbered: Iterable[Numbered]) -> Iterator[Numbered]:
    """People who came whole, cut to their first `MOST_KEYS` different keys, so that every person fits a request."""
    for line, item in numbered:
        if isinstance(item, dict) and len(item.get("keys", ())) > MOST_KEYS:
            yield line, {**item, "keys": list(dict.fromkeys(item["keys"]))[:MOST_KEYS]}
        else:
            yield line, item


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
    """The keys in order of first occurrence. All rows are read, also those after the last key that is taken."""
    keys: dict[str, None] = {}
    for line, _, key in rows:
        if key not in keys and len(keys) < MOST_KEYS:
            _require_size("key", key, line)
            keys[key] = None
    return list(keys)


def _require_size(what: str, text: str, line: int) -> None:
    """Refuse what the service would refuse: it could name only the person, and here the row is known."""
    certainly_short = 0 < len(text) <= MOST_BYTES // _LETTER_BYTES
    if not certainly_short and not 1 <= len(text.encode()) <= MOST_BYTES:
        raise BadRow(line, f"a {what} has 1 to {MOST_BYTES} bytes of UTF-8.")


class _AscendingUsers:
    """Makes sure that each user comes after the one before, so that nobody comes twice; only the last is remembered."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._last: str | float = "" if order == "text" else float("-inf")  # before every user: none is empty

    def follow(self, user: str, line: int) -> None:
        if self._order == "text":
            value: str | int = user
        elif _WHOLE_NUMBER.fullmatch(user):
            value = int(user)
        else:
            raise OutOfOrder(line, self._order)
        if not value > self._last:  # type: ignore[operator]  # both are text, or both numbers, as the order says
            raise OutOfOrder(line, self._order)
        self._last = value
