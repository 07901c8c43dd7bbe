"""Arrow streams, and what Parquet files share with them.

pyarrow believes what a message declares: it allocates the decompressed size that a buffer names and copies shared
metadata as often as it is referred to. So all messages are walked first, in Python, and their rows and sizes added up;
pyarrow sees only what keeps to the limits. Its arrays are validated in full before a value is read, since it does not
do so itself and invalid offsets read foreign memory (arrow.apache.org/docs/dev/format/Security.html).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.api.decoding.columns import WRONG_TYPES, require_columns, row_items
from app.api.decoding.compression import too_large
from app.api.decoding.flatbuffers import Table, unpacked
from app.api.decoding.forms import Form
from app.api.decoding.items import Limits, require_few
from app.core.errors import BadBatch, Refusal, UnsupportedMediaType

_MAX_METADATA_BYTES = 64 * 1024  # of a message without its body; usually a few hundred
_MAX_MESSAGES = 10_000
_MAX_SHARED = 16  # fields, and metadata entries of each: a flatbuffer may refer to one large text again and again
_CONTINUATION = 0xFFFFFFFF
_SCHEMA, _DICTIONARY, _RECORDS = 1, 2, 3  # MessageHeader in Message.fbs
_V5 = 4  # MetadataVersion in Schema.fbs, since Arrow 1.0


def read_stream(body: bytes, limits: Limits, form: Form) -> list[Any]:
    arrow = imported()
    return guarded("The body is not a valid Arrow stream.", lambda: _stream_items(arrow, body, limits, form))


def imported() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise UnsupportedMediaType(
            "This server reads Parquet and Arrow only with pyarrow; install it there: pip install 'discreet[arrow]'"
        ) from None
    return pyarrow


def guarded(sentence: str, read: Callable[[], list[Any]]) -> list[Any]:
    """pyarrow raises exceptions of many kinds, and their texts may quote events."""
    try:
        return read()
    except Refusal:
        raise
    except Exception:
        raise BadBatch(sentence) from None


def _stream_items(arrow: Any, body: bytes, limits: Limits, form: Form) -> list[Any]:
    _require_bounded(body, limits)
    options = arrow.ipc.IpcReadOptions(use_threads=False)
    with arrow.ipc.open_stream(arrow.BufferReader(body), options=options) as stream:
        require_types(arrow, stream.schema, form)
        return batch_items(arrow, stream, limits)


# What a stream declares


@dataclass(frozen=True, slots=True)
class _Message:
    kind: int
    header: Table
    body: memoryview


def _require_bounded(body: bytes, limits: Limits) -> None:
    rows = size = 0
    for message in _messages(body):
        if message.kind == _SCHEMA:
            _require_small_schema(message.header)
            continue
        records = _records(message)
        length = records.number(0, "q")
        if length < 0:
            raise ValueError
        require_few(length, limits)
        rows += length if message.kind == _RECORDS else 0
        require_few(rows, limits)
        size += sum(_buffer_sizes(records, message.body))
        if size > limits.bytes:
            raise too_large(limits.bytes)


def _messages(body: bytes) -> Iterator[_Message]:
    at = 0
    for _ in range(_MAX_MESSAGES):
        if at == len(body):  # a stream may end without saying so
            return
        if unpacked("I", body, at) != _CONTINUATION:
            raise ValueError
        size = unpacked("I", body, at + 4)
        at += 8
        if size == 0 and at == len(body):
            return
        message = _metadata(body[at : at + size], size)
        header, length = message.table(2), message.number(3, "q")
        at += size
        if header is None or not 0 <= length <= len(body) - at:
            raise ValueError
        yield _Message(message.number(1, "B"), header, memoryview(body)[at : at + length])
        at += length
    raise BadBatch(f"An Arrow stream may have at most {_MAX_MESSAGES} messages; make the record batches larger.")


def _metadata(data: bytes, size: int) -> Table:
    if size > _MAX_METADATA_BYTES:
        raise BadBatch(f"The schema of an Arrow stream may have at most {_MAX_METADATA_BYTES} bytes.")
    if len(data) < size:
        raise ValueError
    message = Table.root(data)
    custom = message.tables(4, at_most=_MAX_SHARED)
    if custom and message.number(0, "h") < _V5:  # there it may say that buffers are compressed
        raise ValueError
    return message


def _require_small_schema(schema: Table) -> None:
    """Few fields, without children: what is said of them is copied for each."""
    if schema.number(0, "h"):  # big-endian
        raise ValueError
    schema.tables(2, at_most=_MAX_SHARED)
    for field in schema.tables(1, at_most=_MAX_SHARED):
        field.tables(5, at_most=0)
        field.tables(6, at_most=_MAX_SHARED)


def _records(message: _Message) -> Table:
    if message.kind == _RECORDS:
        return message.header
    records = message.header.table(1) if message.kind == _DICTIONARY else None
    if records is None:
        raise ValueError
    if message.header.number(2, "B"):  # isDelta: pyarrow copies the whole dictionary for each
        raise BadBatch("An Arrow stream may replace a dictionary, not extend it; send it without dictionary deltas.")
    return records


def _buffer_sizes(records: Table, body: memoryview) -> Iterator[int]:
    """Decompressed. Buffers may overlap, so they are counted one by one."""
    start, length = records.vector(2)
    compressed = records.table(3) is not None
    for index in range(length):
        at = unpacked("q", records.data, start + 16 * index)
        size = unpacked("q", records.data, start + 16 * index + 8)
        if not 0 <= at <= at + size <= len(body):
            raise ValueError
        yield _declared(body[at : at + size]) if compressed and size else size


def _declared(buffer: memoryview) -> int:
    declared = unpacked("q", buffer, 0)
    if declared < -1:
        raise ValueError
    return len(buffer) - 8 if declared == -1 else declared


# What pyarrow made of it


def require_types(arrow: Any, schema: Any, form: Form) -> None:
    require_columns(schema.names, form)
    types = arrow.types
    for field in schema:
        wanted = types.is_integer(field.type) if field.name == "count" else _is_text(types, field.type)
        if not wanted:
            raise BadBatch(WRONG_TYPES)


def _is_text(types: Any, kind: Any) -> bool:
    plain = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(plain) or types.is_large_string(plain) or types.is_string_view(plain))


def batch_items(arrow: Any, batches: Any, limits: Limits) -> list[Any]:
    texts = _Texts(arrow, limits)
    items: list[Any] = []
    for batch in batches:
        require_few(len(items) + batch.num_rows, limits)
        batch.validate()
        names = batch.schema.names
        columns = [
            _integers(column) if name == "count" else texts.read(name, column)
            for name, column in zip(names, batch.columns, strict=True)
        ]
        items += row_items(names, zip(*columns, strict=True))
    return items


def _integers(column: Any) -> list[int | None]:
    column.validate(full=True)
    values: list[int | None] = column.to_pylist()
    return values


class _Texts:
    """Reads texts; a dictionary only once, though many batches refer to it, and its values stay shared."""

    def __init__(self, arrow: Any, limits: Limits) -> None:
        self.types = arrow.types
        self.limits = limits
        self.viewed = 0
        self.dictionaries: dict[str, tuple[Any, list[str | None]]] = {}  # the newest of each column, and its values

    def read(self, name: str, column: Any) -> list[str | None]:
        if not self.types.is_dictionary(column.type):
            return self._plain(column)
        values = self._values(name, column.dictionary)
        indices = _integers(column.indices)
        if any(index is not None and not 0 <= index < len(values) for index in indices):
            raise ValueError
        return [None if index is None else values[index] for index in indices]

    def _values(self, name: str, dictionary: Any) -> list[str | None]:
        """The dictionary is kept beside them, so that its buffers keep their addresses."""
        known, values = self.dictionaries.get(name, (None, []))
        if known is None or _identity(known) != _identity(dictionary):
            require_few(len(dictionary), self.limits)
            values = self._plain(dictionary)
            self.dictionaries[name] = dictionary, values
        return values

    def _plain(self, column: Any) -> list[str | None]:
        column.validate(full=True)
        if self.types.is_string_view(column.type):
            self._require_few_bytes(column)
        values: list[str | None] = column.to_pylist()
        return values

    def _require_few_bytes(self, column: Any) -> None:
        """Many views may show the same long text, in many batches. A view has 16 bytes and begins with its length."""
        views = column.buffers()[1]
        lengths = np.frombuffer(views, "<i4")[::4][column.offset : column.offset + len(column)] if views else ()
        self.viewed += int(np.sum(lengths, dtype=np.int64))
        if self.viewed > self.limits.bytes:
            raise too_large(self.limits.bytes)


def _identity(array: Any) -> Sequence[Any]:
    places = [buffer and (buffer.address, buffer.size) for buffer in array.buffers()]
    return [array.offset, len(array), *places]
