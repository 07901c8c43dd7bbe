"""Just enough of FlatBuffers to read the sizes that an Arrow message declares, before they are believed.

Every position is checked. What does not fit raises ValueError.
"""

import struct
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Table:
    """A table at a place in `data`. Its fields are found by slot: their number in the schema (.fbs), from 0."""

    data: bytes
    at: int

    @classmethod
    def root(cls, data: bytes) -> Self:
        """The table that the data begin with."""
        return cls(data, unpacked("I", data, 0))

    def number(self, slot: int, kind: str, default: int = 0) -> int:
        """The number in a field, of a `struct` kind; the default where it was left out."""
        at = self._field(slot)
        return default if at is None else unpacked(kind, self.data, at)

    def table(self, slot: int) -> "Table | None":
        """The table that a field refers to; None where it was left out."""
        at = self._field(slot)
        return None if at is None else self._followed(at)

    def vector(self, slot: int) -> tuple[int, int]:
        """Where the elements of a vector begin, and how many there are: none where it was left out."""
        at = self._field(slot)
        if at is None:
            return 0, 0
        start = at + unpacked("I", self.data, at)
        return start + 4, unpacked("I", self.data, start)

    def tables(self, slot: int, *, at_most: int) -> "list[Table]":
        """The tables of a vector; ValueError if there are more."""
        start, length = self.vector(slot)
        if length > at_most:
            raise ValueError("too many tables")
        return [self._followed(start + 4 * index) for index in range(length)]

    def _followed(self, at: int) -> "Table":
        return Table(self.data, at + unpacked("I", self.data, at))

    def _field(self, slot: int) -> int | None:
        """Where a field is, by the offsets that the table shares with others of its kind; None if it was left out."""
        offsets = self.at - unpacked("i", self.data, self.at)
        within = 4 + 2 * slot
        if within + 2 > unpacked("H", self.data, offsets):
            return None
        offset = unpacked("H", self.data, offsets + within)
        return self.at + offset if offset else None


def unpacked(kind: str, data: bytes | memoryview, at: int) -> int:
    """One little-endian number of a `struct` kind. (`struct` would count a negative position from the end.)"""
    if at < 0 or at + struct.calcsize(kind) > len(data):
        raise ValueError("the data ends too early")
    (value,) = struct.unpack_from("<" + kind, data, at)
    return int(value)
