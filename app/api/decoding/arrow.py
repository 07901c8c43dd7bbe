"""Arrow streams: what they declare is checked before pyarrow reads them.

pyarrow believes what a message declares: it allocates the decompressed size that a buffer names and copies shared
metadata as often as it is referred to. So all messages are walked first, in Python, and their rows and sizes added up;
pyarrow sees only what keeps to the limits. What it makes of them: arrays.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from app.api.decoding import arrays
from app.api.decoding.columns import ROW_BYTES
from app.api.decoding.compression import too_large
from app.api.decoding.flatbuffers import Table, unpacked
from app.api.decoding.items import BatchLimits, require_few, require_few_keys
from app.api.decoding.shapes import Shape
from app.core.errors import BadBatch

_MAX_METADATA_BYTES = 64 * 1024  # of a message without its body; usually a few hundred
_MAX_MESSAGES = 10_000
_MAX_SHARED = 16  # fields, and pairs of metadata of each: a flatbuffer may refer to one large text again and again
_CONTINUATION = 0xFFFFFFFF
_NODE_BYTES = _BUFFER_BYTES = 16  # two numbers of 8 bytes: a column's length and nulls; a buffer's position and size

# The numbers of Message.fbs and Schema.fbs, with their names

_SCHEMA, _DICTIONARY, _RECORDS = 1, 2, 3  # MessageHeader
_V5 = 4  # MetadataVersion, since Arrow 1.0
_LISTS = (12, 21)  # List and LargeList of Type


class _MessageSlot(IntEnum):
    """Fields of Message."""

    VERSION, HEADER_TYPE, HEADER, BODY_LENGTH, CUSTOM_METADATA = range(5)


class _SchemaSlot(IntEnum):
    """Fields of Schema."""

    ENDIANNESS, FIELDS, CUSTOM_METADATA = range(3)


class _FieldSlot(IntEnum):
    """Fields of Field."""

    NAME, NULLABLE, TYPE_TYPE, TYPE, DICTIONARY, CHILDREN, CUSTOM_METADATA = range(7)


class _RecordsSlot(IntEnum):
    """Fields of RecordBatch."""

    LENGTH, NODES, BUFFERS, COMPRESSION = range(4)


class _DictionarySlot(IntEnum):
    """Fields of DictionaryBatch."""

    ID, DATA, IS_DELTA = range(3)


def read_stream(body: bytes, limits: BatchLimits, shape: Shape) -> list[Any]:
    """The rows of an Arrow stream as items, or a refusal."""
    arrow = arrays.imported_pyarrow()
    return arrays.read_or_refuse("The body is not a valid Arrow stream.", lambda: _items(arrow, body, limits, shape))


def _items(arrow: Any, body: bytes, limits: BatchLimits, shape: Shape) -> list[Any]:
    _require_bounded(body, limits, shape)
    options = arrow.ipc.IpcReadOptions(use_threads=False)
    with arrow.ipc.open_stream(arrow.BufferReader(body), options=options) as stream:
        arrays.require_types(arrow, stream.schema, shape)
        return arrays.batch_items(arrow, stream, limits)


@dataclass(frozen=True, slots=True)
class _Message:
    """A schema, a dictionary, or some rows: its header says of what sizes, and its body has the buffers."""

    kind: int
    header: Table
    body: memoryview


def _require_bounded(body: bytes, limits: BatchLimits, shape: Shape) -> None:
    """Refuse a stream whose messages declare more than the limits, and ask for room for what it becomes."""
    rows = size = 0
    for message in _messages(body):
        if message.kind == _SCHEMA:
            _require_small_schema(message.header, shape)
            continue
        records = _records(message)
        length = records.number(_RecordsSlot.LENGTH, "q")
        if length < 0:
            raise ValueError("fewer than no rows")
        require_few(length, limits)
        rows += length if message.kind == _RECORDS else 0
        require_few(rows, limits)
        _require_short_columns(records, limits)
        size += sum(_buffer_sizes(records, message.body))
        if size > limits.bytes:
            raise too_large(limits.bytes)
    limits.admit(8 * size + ROW_BYTES * rows)  # as pyarrow has it, and as texts


def _messages(body: bytes) -> Iterator[_Message]:
    """The messages of a stream, which fill the body. Each is a mark, the size of its metadata, these, and a body."""
    at = 0
    for _ in range(_MAX_MESSAGES):
        if at == len(body):  # a stream may end without saying so
            return
        if unpacked("I", body, at) != _CONTINUATION:
            raise ValueError("no message begins here")
        size = unpacked("I", body, at + 4)
        at += 8
        if size == 0 and at == len(body):
            return
        message = _metadata(body[at : at + size], size)
        header, length = message.table(_MessageSlot.HEADER), message.number(_MessageSlot.BODY_LENGTH, "q")
        at += size
        if header is None or not 0 <= length <= len(body) - at:
            raise ValueError("a message without a header, or longer than the stream")
        kind = message.number(_MessageSlot.HEADER_TYPE, "B")
        yield _Message(kind, header, memoryview(body)[at : at + length])
        at += length
    raise BadBatch(f"An Arrow stream may have at most {_MAX_MESSAGES} messages; make the record batches larger.")


def _metadata(data: bytes, size: int) -> Table:
    """The table in a message's metadata (Message in Message.fbs), of the size that was declared."""
    if size > _MAX_METADATA_BYTES:
        raise BadBatch(f"The schema of an Arrow stream may have at most {_MAX_METADATA_BYTES} bytes.")
    if len(data) < size:
        raise ValueError("the metadata ends too early")
    message = Table.root(data)
    custom = message.tables(_MessageSlot.CUSTOM_METADATA, at_most=_MAX_SHARED)
    if custom and message.number(_MessageSlot.VERSION, "h") < _V5:  # there it may say that buffers are compressed
        raise ValueError("metadata of an old version that are read in another way")
    return message


def _require_small_schema(schema: Table, shape: Shape) -> None:
    """Refuse a schema of many fields, since what is said of them is copied for each. A list has one child, and nothing
    else has any."""
    if schema.number(_SchemaSlot.ENDIANNESS, "h"):
        raise ValueError("big-endian")
    schema.tables(_SchemaSlot.CUSTOM_METADATA, at_most=_MAX_SHARED)
    for field in schema.tables(_SchemaSlot.FIELDS, at_most=_MAX_SHARED):
        # With a dictionary the field would have references to lists, not lists themselves.
        is_list = field.number(_FieldSlot.TYPE_TYPE, "B") in _LISTS and field.table(_FieldSlot.DICTIONARY) is None
        for child in _children(field, shape, exactly=int(is_list and "keys" in shape.columns)):
            _children(child, shape, exactly=0)


def _children(field: Table, shape: Shape, *, exactly: int) -> list[Table]:
    """The fields inside a field; refused if there are more or fewer, or too much is said of it."""
    field.tables(_FieldSlot.CUSTOM_METADATA, at_most=_MAX_SHARED)
    _, children = field.vector(_FieldSlot.CHILDREN)
    if children != exactly:
        raise BadBatch(shape.types)
    return field.tables(_FieldSlot.CHILDREN, at_most=exactly)


def _records(message: _Message) -> Table:
    """What a message of rows, or of a dictionary, declares of its columns (RecordBatch in Message.fbs)."""
    if message.kind == _RECORDS:
        return message.header
    records = message.header.table(_DictionarySlot.DATA) if message.kind == _DICTIONARY else None
    if records is None:
        raise ValueError("a message of another kind")
    if message.header.number(_DictionarySlot.IS_DELTA, "B"):  # pyarrow copies the whole dictionary for each
        raise BadBatch("An Arrow stream may replace a dictionary, not extend it; send it without dictionary deltas.")
    return records


def _require_short_columns(records: Table, limits: BatchLimits) -> None:
    """Refuse columns of too many values. The child of a list has a length of its own, which may be any number while the
    batch has few rows."""
    start, length = records.vector(_RecordsSlot.NODES)
    for index in range(length):
        values = unpacked("q", records.data, start + _NODE_BYTES * index)
        if values < 0:
            raise ValueError("fewer than no values")
        require_few_keys(values, limits)


def _buffer_sizes(records: Table, body: memoryview) -> Iterator[int]:
    """The size of each buffer when decompressed. Buffers may overlap, so they are counted one by one."""
    start, length = records.vector(_RecordsSlot.BUFFERS)
    compressed = records.table(_RecordsSlot.COMPRESSION) is not None
    for index in range(length):
        at = unpacked("q", records.data, start + _BUFFER_BYTES * index)
        size = unpacked("q", records.data, start + _BUFFER_BYTES * index + 8)
        if not 0 <= at <= at + size <= len(body):
            raise ValueError("a buffer outside its message")
        yield _declared(body[at : at + size]) if compressed and size else size


def _declared(buffer: memoryview) -> int:
    """The size that a compressed buffer says it has; -1 stands for one that was left as it is."""
    declared = unpacked("q", buffer, 0)
    if declared < -1:
        raise ValueError("a buffer of a negative size")
    return len(buffer) - 8 if declared == -1 else declared
