"""Lists in parts. A list is read one item further than asked, to know whether there is more."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list, and where the next part starts."""

    items: list[T]
    next: str | None


def paged(items: list[T], limit: int, cursor: Callable[[T], str]) -> Page[T]:
    """The first `limit` of the items, and the cursor of the last of them if there are more."""
    shown = items[:limit]
    return Page(shown, cursor(shown[-1]) if len(items) > limit else None)
