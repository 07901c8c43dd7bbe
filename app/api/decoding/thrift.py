"""Just enough of Thrift's compact protocol to read and write the metadata of a Parquet file.

A struct is {field number: (type, value)}, a list (type of its elements, values); maps do not occur. `number`, `struct`
and `structs` insist on the type: a decoder that was generated from parquet.thrift skips a field of another type, and
this one must see what that one sees. What does not fit raises ValueError.
"""

from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, _SET, _MAP, STRUCT = range(1, 13)  # types, as they are written
_MAX_DEPTH = 8
_SIZES = {TRUE: 0, FALSE: 0, BYTE: 1, DOUBLE: 8}  # in bytes, of values that are not looked into

Fields = dict[int, tuple[int, Any]]


# Fields


def number(fields: Fields, field: int, kind: int = I32) -> int:
    """The number in a field; it must be there and not be negative, which no number is that is looked at here."""
    found, value = fields.get(field, (0, 0))
    if found != kind or not 0 <= value < 2 ** (31 if kind == I32 else 63):
        raise ValueError("no such number")
    return int(value)


def struct(fields: Fields, field: int) -> Fields:
    """The struct in a field, which must be there."""
    return dict(_of_kind(fields, field, STRUCT))


def structs(fields: Fields, field: int) -> list[Fields]:
    """The structs of a list in a field, which must be there."""
    kind, values = _of_kind(fields, field, LIST)
    if kind != STRUCT and values:
        raise ValueError("a list of something else")
    return list(values)


def _of_kind(fields: Fields, field: int, kind: int) -> Any:
    found, value = fields.get(field, (0, None))
    if found != kind:
        raise ValueError("no such field")
    return value


# Reading


class Decoder:
    """Makes structs of `data`, from position `at` on, which moves on behind what was read."""

    def __init__(self, data: memoryview, at: int = 0) -> None:
        self.data = data
        self.at = at

    def read_struct(self, depth: int = 0) -> Fields:
        """The struct that begins here."""
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        fields: Fields = {}
        field = 0
        while head := self._byte():  # four bits for how far this field is from the one before, four for its type
            field = field + (head >> 4) if head >> 4 else self._signed()
            if field in fields or not 0 <= field < 2**15:
                raise ValueError("a field twice, or of an impossible number")
            fields[field] = head & 15, self._value(head & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (I16, I32, I64):
            return self._signed()
        if kind == STRUCT:
            return self.read_struct(depth + 1)
        if kind in (LIST, _SET):
            return self._list(depth + 1)
        if kind == BINARY:
            return self._bytes(self._varint())
        if kind not in _SIZES:
            raise ValueError("a value of a type that does not occur")
        return self._bytes(_SIZES[kind])

    def _list(self, depth: int) -> tuple[int, list[Any]]:
        head = self._byte()
        kind = head & 15
        size = head >> 4 if head >> 4 < 15 else self._varint()
        if depth > _MAX_DEPTH or size > len(self.data) - self.at:  # an element has at least one byte
            raise ValueError("nested too deeply, or longer than its bytes")
        return kind, [self._byte() if kind in (TRUE, FALSE) else self._value(kind, depth) for _ in range(size)]

    def _signed(self) -> int:
        """A whole number in zigzag: 0, -1, 1, -2, … are written as 0, 1, 2, 3, …"""
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _varint(self) -> int:
        """Seven bits in each byte, the lowest first; the eighth says that another byte follows."""
        value = 0
        for shift in range(0, 64, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("a number of more than 64 bits")

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _bytes(self, size: int) -> memoryview:
        start, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise ValueError("the data ends too early")
        return self.data[start : self.at]


# Writing


def written(fields: Fields) -> bytes:
    """The bytes of a struct. Its fields come in ascending order, and each is named in full."""
    parts = [bytes((kind,)) + _signed(field) + _written_value(kind, value) for field, (kind, value) in fields.items()]
    return b"".join(parts) + b"\0"


def _written_value(kind: int, value: Any) -> bytes:
    if kind == STRUCT:
        return written(value)
    if kind == BINARY:
        return _varint(len(value)) + bytes(value)
    if kind == LIST:
        of, values = value
        elements = b"".join(_written_value(of, each) for each in values)
        return bytes((0xF0 | of,)) + _varint(len(values)) + elements
    return _signed(value)


def _signed(value: int) -> bytes:
    return _varint(2 * value if value >= 0 else -2 * value - 1)


def _varint(value: int) -> bytes:
    low, rest = value & 127, value >> 7
    return bytes((low | 128,)) + _varint(rest) if rest else bytes((low,))
