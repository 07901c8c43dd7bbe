"""The arrays that pyarrow made of an Arrow stream or a Parquet file -> items.

The arrays are validated in full before a value is read, since pyarrow does not do so itself and invalid offsets read
foreign memory (arrow.apache.org/docs/dev/format/Security.html). How many texts there are, and how long they are
together, is known and bounded before they become Python's.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from app.api.decoding.columns import require_columns, row_items
from app.api.decoding.compression import too_large
from app.api.decoding.items import BatchLimits, require_few, require_few_keys
from app.api.decoding.shapes import Shape
from app.core.errors import BadBatch, Refusal
from app.refusals import UnsupportedMediaType


def imported_pyarrow() -> Any:
    """The module, imported on first use because that takes long; refused where it is not installed."""
    try:
        import pyarrow
    except ImportError:
        raise UnsupportedMediaType(
            "This server reads Parquet and Arrow only with pyarrow; install it there: pip install 'discreet[arrow]'"
        ) from None
    return pyarrow


def read_or_refuse(sentence: str, read: Callable[[], list[Any]]) -> list[Any]:
    """What `read` returns, or its refusal; any other exception becomes a refusal with this sentence.

    pyarrow raises exceptions of many kinds, and their texts may quote events, so none of them is passed on.
    """
    try:
        return read()
    except Refusal:
        raise
    except Exception:
        raise BadBatch(sentence) from None


def require_types(arrow: Any, schema: Any, shape: Shape) -> None:
    """Refuse a table that lacks a column of the shape, has others, or has them of other types."""
    require_columns(schema.names, shape)
    if not all(_is_wanted(arrow.types, field) for field in schema):
        raise BadBatch(shape.types)


def _is_wanted(types: Any, field: Any) -> bool:
    if field.name == "count":
        return bool(types.is_integer(field.type))
    if field.name == "keys":  # a list view is no list: its lists may all show the same long stretch of values
        is_list = types.is_list(field.type) or types.is_large_list(field.type)
        return bool(is_list) and _is_text(types, field.type.value_type)
    return _is_text(types, field.type)


def _is_text(types: Any, kind: Any) -> bool:
    values = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(values) or types.is_large_string(values) or types.is_string_view(values))


def batch_items(arrow: Any, batches: Iterable[Any], limits: BatchLimits) -> list[Any]:
    """The rows of all record batches as items, one batch after the other."""
    cells = _Cells(arrow, limits)
    items: list[Any] = []
    for batch in batches:
        require_few(len(items) + batch.num_rows, limits)
        batch.validate()
        names = batch.schema.names
        columns = [cells.read(name, column) for name, column in zip(names, batch.columns, strict=True)]
        items += row_items(names, zip(*columns, strict=True))
    return items


class _Cells:
    """Reads the columns of one record batch after the other, as lists of Python objects.

    A dictionary is read only once, though many batches refer to it, and its values stay shared.
    """

    def __init__(self, arrow: Any, limits: BatchLimits) -> None:
        self.arrow = arrow
        self.types = arrow.types
        self.limits = limits
        self.listed = 0  # keys in all lists together
        self.viewed = 0  # bytes that views show
        self.dictionaries: dict[str, tuple[Any, list[str | None]]] = {}  # the newest of each column, and its values

    def read(self, name: str, column: Any) -> list[Any]:
        """A cell for each row: an integer, a list of texts or a text, or None."""
        if name == "count":
            return _integers(column)
        return self._lists(name, column) if name == "keys" else self._texts(name, column)

    def _lists(self, name: str, column: Any) -> list[list[str | None]]:
        """The keys of each row. A null is read as an empty list: neither is a set."""
        if not len(column):  # an empty column may lack its offsets
            return []
        self._require_valid_offsets(column)
        offsets = column.offsets.to_numpy()
        first, last = int(offsets[0]), int(offsets[-1])
        self.listed += last - first
        require_few_keys(self.listed, self.limits)
        keys = self._texts(name, column.values.slice(first, last - first))
        ends: list[int] = (offsets - first).tolist()
        present = column.is_valid().to_pylist()
        return [keys[at:end] if there else [] for (at, end), there in zip(pairwise(ends), present, strict=True)]

    def _require_valid_offsets(self, column: Any) -> None:
        """The offsets are validated apart from the texts, with nulls instead of them: otherwise the dictionary of the
        texts would be validated anew with each of many batches."""
        kind = self.arrow.large_list if self.types.is_large_list(column.type) else self.arrow.list_
        nulls = self.arrow.nulls(len(column.values))
        bare = self.arrow.Array.from_buffers(
            kind(nulls.type), len(column), column.buffers()[:2], column.null_count, column.offset, [nulls]
        )
        bare.validate(full=True)

    def _texts(self, name: str, column: Any) -> list[str | None]:
        if not self.types.is_dictionary(column.type):
            return self._checked_texts(column)
        values = self._values(name, column.dictionary)
        indices = _integers(column.indices)
        if any(index is not None and not 0 <= index < len(values) for index in indices):
            raise ValueError("a text that is not in its dictionary")
        return [None if index is None else values[index] for index in indices]

    def _values(self, name: str, dictionary: Any) -> list[str | None]:
        """The texts of a column's dictionary. It is kept beside them, so that its buffers keep their addresses and no
        other can be taken for it."""
        known, values = self.dictionaries.get(name, (None, []))
        if known is None or _identity(known) != _identity(dictionary):
            require_few(len(dictionary), self.limits)
            values = self._checked_texts(dictionary)
            self.dictionaries[name] = dictionary, values
        return values

    def _checked_texts(self, column: Any) -> list[str | None]:
        if self.types.is_string_view(column.type):
            self._require_few_bytes(column)
        column.validate(full=True)
        values: list[str | None] = column.to_pylist()
        return values

    def _require_few_bytes(self, column: Any) -> None:
        """Refuse views that show too much: many may show the same long text, in many batches, and to validate them
        reads it as often. A view has 16 bytes and begins with its length."""
        views = column.buffers()[1]
        lengths = np.frombuffer(views or b"", "<i4")[::4][column.offset : column.offset + len(column)]
        self.viewed += int(np.sum(np.abs(lengths.astype(np.int64))))  # a negative length is refused later
        if self.viewed > self.limits.bytes:
            raise too_large(self.limits.bytes)


def _integers(column: Any) -> list[int | None]:
    column.validate(full=True)
    values: list[int | None] = column.to_pylist()
    return values


def _identity(array: Any) -> Sequence[Any]:
    """What two arrays have in common that are one and the same part of memory."""
    stretches = [buffer and (buffer.address, buffer.size) for buffer in array.buffers()]
    return [array.offset, len(array), *stretches]
