"""Just enough of Thrift's compact protocol for the metadata of a Parquet file.

A struct is {field: (kind, value)}, a list (kind of its elements, values); maps do not occur. The getters insist on the
kind: a reader generated from parquet.thrift skips a field of another kind, and ours must see what that one sees. What
does not fit raises ValueError.
"""

from collections.abc import Iterable
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, _SET, _MAP, STRUCT = range(1, 13)
_MAX_DEPTH = 8

Fields = dict[int, tuple[int, Any]]


def number(fields: Fields, field: int, kind: int = I32) -> int:
    """A number from 0; all that are looked at here are."""
    found, value = fields.get(field, (0, 0))
    if found != kind or not 0 <= value < 2 ** (31 if kind == I32 else 63):
        raise ValueError
    return int(value)


def struct(fields: Fields, field: int) -> Fields:
    return dict(_of_kind(fields, field, STRUCT))


def structs(fields: Fields, field: int) -> list[Fields]:
    kind, values = _of_kind(fields, field, LIST)
    if kind != STRUCT and values:
        raise ValueError
    return list(values)


def _of_kind(fields: Fields, field: int, kind: int) -> Any:
    found, value = fields.get(field, (0, None))
    if found != kind:
        raise ValueError
    return value


class Reader:
    def __init__(self, data: memoryview, at: int = 0) -> None:
        self.data = data
        self.at = at

    def read_struct(self, depth: int = 0) -> Fields:
        if depth > _MAX_DEPTH:
            raise ValueError
        fields: Fields = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._signed()
            if field in fields or not 0 <= field < 2**15:
                raise ValueError
            fields[field] = head & 15, self._value(head & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (I16, I32, I64):
            return self._signed()
        if kind == STRUCT:
            return self.read_struct(depth + 1)
        if kind in (LIST, _SET):
            return self._list(depth + 1)
        sizes = {TRUE: 0, FALSE: 0, BYTE: 1, DOUBLE: 8}
        return self._bytes(self._varint() if kind == BINARY else sizes.get(kind, len(self.data)))

    def _list(self, depth: int) -> tuple[int, list[Any]]:
        head = self._byte()
        kind = head & 15
        size = head >> 4 if head >> 4 < 15 else self._varint()
        if depth > _MAX_DEPTH or size > len(self.data) - self.at:  # an element has at least one byte
            raise ValueError
        return kind, [self._byte() if kind in (TRUE, FALSE) else self._value(kind, depth) for _ in range(size)]

    def _signed(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 64, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _bytes(self, size: int) -> memoryview:
        start, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise ValueError
        return self.data[start : self.at]


def written(fields: Fields) -> bytes:
    """A struct, its fields in ascending order and each named in full."""
    parts = [bytes((kind,)) + _signed(field) + _written_value(kind, value) for field, (kind, value) in fields.items()]
    return b"".join(parts) + b"\0"


def _written_value(kind: int, value: Any) -> bytes:
    if kind == STRUCT:
        return written(value)
    if kind == BINARY:
        return _varint(len(value)) + bytes(value)
    if kind == LIST:
        of, values = value
        return bytes((0xF0 | of,)) + _varint(len(values)) + _joined(of, values)
    return _signed(value)


def _joined(kind: int, values: Iterable[Any]) -> bytes:
    return b"".join(_written_value(kind, value) for value in values)


def _signed(value: int) -> bytes:
    return _varint(2 * value if value >= 0 else -2 * value - 1)


def _varint(value: int) -> bytes:
    low, rest = value & 127, value >> 7
    return bytes((low | 128,)) + _varint(rest) if rest else bytes((low,))
