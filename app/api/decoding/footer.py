"""The footer of a Parquet file: read in Python, and written anew with the few fields that are needed.

pyarrow never sees the sender's footer. That one can be large in memory, carries a second schema of Arrow's own, and an
odd one can end the process: some of pyarrow's accessors throw through C++ that expects no exception. What does not fit
raises ValueError, or is refused where the sender can do something about it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain, islice

from app.api.decoding import thrift
from app.api.decoding.columns import require_columns
from app.api.decoding.flatbuffers import unpacked
from app.api.decoding.shapes import Shape
from app.api.decoding.thrift import BINARY, I32, I64, LIST, STRUCT, Fields
from app.core.errors import BadBatch

_MAGIC = b"PAR1"
_MAX_BYTES = 256 * 1024


# The numbers of parquet.thrift, with its names


class _FileField(IntEnum):
    """Fields of FileMetaData."""

    VERSION, SCHEMA, NUM_ROWS, ROW_GROUPS = 1, 2, 3, 4


class _ElementField(IntEnum):
    """Fields of SchemaElement."""

    TYPE, REPETITION, NAME, NUM_CHILDREN, CONVERTED_TYPE, LOGICAL_TYPE = 1, 3, 4, 5, 6, 10


class _GroupField(IntEnum):
    """Fields of RowGroup."""

    COLUMNS, TOTAL_BYTE_SIZE, NUM_ROWS = 1, 2, 3


class _ChunkField(IntEnum):
    """Fields of ColumnChunk."""

    FILE_PATH, FILE_OFFSET, META_DATA, CRYPTO_METADATA, ENCRYPTED_METADATA = 1, 2, 3, 8, 9


class _MetaField(IntEnum):
    """Fields of ColumnMetaData."""

    TYPE, ENCODINGS, PATH, CODEC, NUM_VALUES, UNCOMPRESSED_SIZE, COMPRESSED_SIZE = 1, 2, 3, 4, 5, 6, 7
    DATA_PAGE_OFFSET, DICTIONARY_PAGE_OFFSET = 9, 11


_INT32, _INT64, _BYTE_ARRAY = 1, 2, 6  # Type
_UTF8, _LIST_OF, _UINT_8, _INT_64 = 0, 3, 11, 18  # ConvertedType; the other integers lie at the end, by sign, then size
_LOGICAL_STRING, _LOGICAL_LIST, _LOGICAL_INTEGER = 1, 3, 10  # LogicalType
_REPEATED = 2  # FieldRepetitionType
_WIDTHS = (8, 16, 32, 64)
_ONE_CHILD = (I32, 1)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the schema: flat, or a list of texts.

    A list is three elements of the schema, one in the other: a group, a repeated group, and the texts.
    """

    name: str
    type: int  # of the values, as are the next two
    converted_type: int | None
    repetition: int
    list_repetition: int | None  # of the outer group; none if the column is flat

    @property
    def is_list(self) -> bool:
        """Whether its values are lists of texts."""
        return self.list_repetition is not None

    @property
    def path(self) -> Sequence[str]:
        """The names from the column down to its values, as `joined` writes them."""
        return (self.name, "list", "element") if self.is_list else (self.name,)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One column of one row group."""

    codec: int
    values: int  # in a list column one for each key, null or not, and for each row without any
    size: int  # compressed
    data_at: int
    dictionary_at: int | None

    @property
    def start(self) -> int:
        """Where pyarrow begins to read."""
        return min(self.data_at, self.dictionary_at or self.data_at)


@dataclass(frozen=True, slots=True)
class Group:
    """Some rows after each other: for each column of the file a chunk."""

    rows: int
    chunks: Sequence[Chunk]


@dataclass(frozen=True, slots=True)
class Footer:
    """The few things that are read from a sender's footer. `parquet` holds them against the pages."""

    columns: Sequence[Column]
    groups: Sequence[Group]


# Reading


def split(body: bytes, shape: Shape) -> tuple[memoryview, Footer]:
    """A file's pages, and what its footer says of them: columns that the shape has, and nothing else."""
    if len(body) < 12 or not body.startswith(_MAGIC) or not body.endswith(_MAGIC):
        raise ValueError("no Parquet file")
    size = unpacked("I", body, len(body) - 8)
    if size > _MAX_BYTES:
        raise BadBatch(f"The footer of a Parquet file may have at most {_MAX_BYTES} bytes; write larger row groups.")
    start = len(body) - 8 - size
    if start < len(_MAGIC):
        raise ValueError("the footer is longer than the file")
    fields = thrift.Decoder(memoryview(body)[start:-8]).read_struct()
    columns = _columns(thrift.structs(fields, _FileField.SCHEMA), shape)
    groups = [_group(group, columns) for group in thrift.structs(fields, _FileField.ROW_GROUPS)]
    return memoryview(body)[:start], Footer(columns, groups)


def _columns(elements: Sequence[Fields], shape: Shape) -> list[Column]:
    """The columns that a schema has: a list of elements, in which a group is followed by what is in it."""
    root, *below = elements
    rest = iter(below)
    columns = [(element, _element_of_list(element, rest, shape)) for element in rest]
    names = [bytes(element.get(_ElementField.NAME, (0, b""))[1]).decode() for element, _ in columns]
    if thrift.number(root, _ElementField.NUM_CHILDREN) != len(columns):
        raise ValueError("more or fewer columns than the schema declares")
    require_columns(names, shape)
    return [_column(name, top, inner, shape) for name, (top, inner) in zip(names, columns, strict=True)]


def _element_of_list(top: Fields, rest: Iterator[Fields], shape: Shape) -> Fields | None:
    """The texts of a list column, taken from `rest`; None if the column is flat. Any other nesting is refused.

    The names of the two inner elements differ from writer to writer, and are not looked at.
    """
    if _ElementField.NUM_CHILDREN not in top:
        return None
    inner = list(islice(rest, 2))
    children = [element.get(_ElementField.NUM_CHILDREN) for element in (top, *inner)]
    if children != [_ONE_CHILD, _ONE_CHILD, None]:
        raise BadBatch(shape.types)
    group, texts = inner
    is_list = _converted(top, shape) == _LIST_OF and thrift.number(top, _ElementField.REPETITION) < _REPEATED
    meanings = (_ElementField.TYPE, _ElementField.CONVERTED_TYPE, _ElementField.LOGICAL_TYPE)
    is_bare = group.get(_ElementField.REPETITION) == (I32, _REPEATED) and group.keys().isdisjoint(meanings)
    if not is_list or not is_bare:
        raise BadBatch(shape.types)
    return texts


def _column(name: str, top: Fields, inner: Fields | None, shape: Shape) -> Column:
    leaf = top if inner is None else inner
    kind, repetition = thrift.number(leaf, _ElementField.TYPE), thrift.number(leaf, _ElementField.REPETITION)
    converted = _converted(leaf, shape)
    text = kind == _BYTE_ARRAY and converted == _UTF8
    whole = kind in (_INT32, _INT64) and (converted is None or _UINT_8 <= converted <= _INT_64)
    fits = (whole if name == "count" else text) and (inner is not None) == (name == "keys")
    if not fits or repetition >= _REPEATED:
        raise BadBatch(shape.types)
    list_repetition = None if inner is None else thrift.number(top, _ElementField.REPETITION)
    return Column(name, kind, converted, repetition, list_repetition)


def _converted(element: Fields, shape: Shape) -> int | None:
    """What an element's values mean (ConvertedType); None if it does not say.

    The older annotation says all that is needed; where a writer left it out, it follows from the newer one.
    """
    if _ElementField.CONVERTED_TYPE in element:
        return thrift.number(element, _ElementField.CONVERTED_TYPE)
    if _ElementField.LOGICAL_TYPE not in element:
        return None
    ((logical, (_, parameters)),) = thrift.struct(element, _ElementField.LOGICAL_TYPE).items()
    if logical in (_LOGICAL_STRING, _LOGICAL_LIST):
        return _UTF8 if logical == _LOGICAL_STRING else _LIST_OF
    if logical != _LOGICAL_INTEGER:
        raise BadBatch(shape.types)
    width, signed = int(parameters[1][1][0]), parameters[2][0] == thrift.TRUE  # fields 1 and 2 of IntType
    return _UINT_8 + _WIDTHS.index(width) + len(_WIDTHS) * int(signed)


def _group(group: Fields, columns: Sequence[Column]) -> Group:
    rows = thrift.number(group, _GroupField.NUM_ROWS, I64)
    chunks = [_chunk(chunk) for chunk in thrift.structs(group, _GroupField.COLUMNS)]
    for chunk, column in zip(chunks, columns, strict=True):
        if chunk.values < rows or (chunk.values > rows and not column.is_list):
            raise ValueError("a column has fewer or more values than rows")
    return Group(rows, chunks)


def _chunk(chunk: Fields) -> Chunk:
    elsewhere = (_ChunkField.FILE_PATH, _ChunkField.CRYPTO_METADATA, _ChunkField.ENCRYPTED_METADATA)
    if not chunk.keys().isdisjoint(elsewhere):
        raise ValueError("a column is in another file, or encrypted")
    metadata = thrift.struct(chunk, _ChunkField.META_DATA)
    has_dictionary = _MetaField.DICTIONARY_PAGE_OFFSET in metadata
    return Chunk(
        codec=thrift.number(metadata, _MetaField.CODEC),
        values=thrift.number(metadata, _MetaField.NUM_VALUES, I64),
        size=thrift.number(metadata, _MetaField.COMPRESSED_SIZE, I64),
        data_at=thrift.number(metadata, _MetaField.DATA_PAGE_OFFSET, I64),
        dictionary_at=thrift.number(metadata, _MetaField.DICTIONARY_PAGE_OFFSET, I64) if has_dictionary else None,
    )


# Writing


def joined(pages: memoryview, footer: Footer) -> bytes:
    """A file with the pages as they are and a footer of our own."""
    written = thrift.written(_written_file(footer))
    return b"".join((pages, written, len(written).to_bytes(4, "little"), _MAGIC))


def _written_file(footer: Footer) -> Fields:
    root: Fields = {_ElementField.NAME: (BINARY, b"schema"), _ElementField.NUM_CHILDREN: (I32, len(footer.columns))}
    groups = [_written_group(group, footer.columns) for group in footer.groups]
    return {
        _FileField.VERSION: (I32, 2),
        _FileField.SCHEMA: (LIST, (STRUCT, [root, *chain.from_iterable(map(_written_column, footer.columns))])),
        _FileField.NUM_ROWS: (I64, sum(group.rows for group in footer.groups)),
        _FileField.ROW_GROUPS: (LIST, (STRUCT, groups)),
    }


def _written_column(column: Column) -> list[Fields]:
    *groups, leaf = (name.encode() for name in column.path)
    values: Fields = {
        _ElementField.TYPE: (I32, column.type),
        _ElementField.REPETITION: (I32, column.repetition),
        _ElementField.NAME: (BINARY, leaf),
    }
    if column.converted_type is not None:
        values[_ElementField.CONVERTED_TYPE] = I32, column.converted_type
    if column.list_repetition is None:
        return [values]
    outer, inner = groups
    return [
        _written_parent(column.list_repetition, outer) | {_ElementField.CONVERTED_TYPE: (I32, _LIST_OF)},
        _written_parent(_REPEATED, inner),
        values,
    ]


def _written_parent(repetition: int, name: bytes) -> Fields:
    """A group of the schema that has one element inside."""
    return {
        _ElementField.REPETITION: (I32, repetition),
        _ElementField.NAME: (BINARY, name),
        _ElementField.NUM_CHILDREN: _ONE_CHILD,
    }


def _written_group(group: Group, columns: Sequence[Column]) -> Fields:
    chunks = [_written_chunk(chunk, column) for chunk, column in zip(group.chunks, columns, strict=True)]
    size = sum(chunk.size for chunk in group.chunks)
    return {
        _GroupField.COLUMNS: (LIST, (STRUCT, chunks)),
        _GroupField.TOTAL_BYTE_SIZE: (I64, size),
        _GroupField.NUM_ROWS: (I64, group.rows),
    }


def _written_chunk(chunk: Chunk, column: Column) -> Fields:
    metadata: Fields = {
        _MetaField.TYPE: (I32, column.type),
        _MetaField.ENCODINGS: (LIST, (I32, [0, 3, 8])),  # pyarrow does not look at it: each page names its own
        _MetaField.PATH: (LIST, (BINARY, [name.encode() for name in column.path])),
        _MetaField.CODEC: (I32, chunk.codec),
        _MetaField.NUM_VALUES: (I64, chunk.values),
        _MetaField.UNCOMPRESSED_SIZE: (I64, chunk.size),  # each page has its own
        _MetaField.COMPRESSED_SIZE: (I64, chunk.size),
        _MetaField.DATA_PAGE_OFFSET: (I64, chunk.data_at),
    }
    if chunk.dictionary_at is not None:
        metadata[_MetaField.DICTIONARY_PAGE_OFFSET] = I64, chunk.dictionary_at
    return {_ChunkField.FILE_OFFSET: (I64, 0), _ChunkField.META_DATA: (STRUCT, metadata)}
