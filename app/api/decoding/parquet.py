"""Parquet files: what their pages declare is checked before pyarrow reads them.

A page declares its decompressed size in its own header, and pyarrow allocates that. So the page headers are read first,
in Python, where pyarrow will look for them, and their rows and sizes added up. Encodings that can grow without
compression (DELTA_BYTE_ARRAY repeats prefixes) are refused. The footer is replaced: see footer.py.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from app.api.decoding import arrays, footer, thrift
from app.api.decoding.columns import KEY_BYTES, ROW_BYTES
from app.api.decoding.compression import too_large
from app.api.decoding.footer import Chunk, Footer
from app.api.decoding.items import BatchLimits, require_few, require_few_keys
from app.api.decoding.shapes import Shape
from app.core.errors import BadBatch

_MAX_HEADERS_BYTES = 256 * 1024  # of all pages together; a hundred each, or a few thousand with statistics

# Numbers of parquet.thrift: fields of PageHeader, and of the headers inside it, which differ by the type of the page
_TYPE, _SIZE, _COMPRESSED_SIZE = 1, 2, 3
_NUM_VALUES = 1
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3  # PageType
_HEADER = {_DATA_PAGE: 5, _DICTIONARY_PAGE: 7, _DATA_PAGE_V2: 8}
_ENCODING = {_DATA_PAGE: 2, _DICTIONARY_PAGE: 2, _DATA_PAGE_V2: 4}
_ENCODINGS = (0, 2, 8)  # PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY


def read_parquet(body: bytes, limits: BatchLimits, shape: Shape) -> list[Any]:
    """The rows of a Parquet file as items, or a refusal."""
    arrow = arrays.imported_pyarrow()
    return arrays.read_or_refuse("The body is not a valid Parquet file.", lambda: _items(arrow, body, limits, shape))


def _items(arrow: Any, body: bytes, limits: BatchLimits, shape: Shape) -> list[Any]:
    from pyarrow.parquet import ParquetFile

    pages, described = footer.split(body, shape)
    _require_bounded(pages, described, limits)
    texts = [".".join(column.path) for column in described.columns if column.name != "count"]
    with ParquetFile(
        arrow.BufferReader(footer.joined(pages, described)),
        read_dictionary=texts,  # one long value in a hundred thousand rows stays one
        pre_buffer=False,  # which would use threads
    ) as file:
        arrays.require_types(arrow, file.schema_arrow, shape)
        return arrays.batch_items(arrow, _batches(file, described), limits)


def _batches(file: Any, described: Footer) -> Iterator[Any]:
    """One row group after the other: pyarrow cannot join lists of texts from several dictionaries."""
    for index, group in enumerate(described.groups):
        table = file.read_row_group(index, use_threads=False)
        for column, chunk, cells in zip(described.columns, group.chunks, table.columns, strict=True):
            # Only the pages say where a list ends, so they may tell of other lists than were declared.
            if len(cells) != group.rows or (column.is_list and _slots(cells) != chunk.values):
                raise ValueError("a column has fewer or more values than declared")
        yield from table.to_batches()


def _slots(lists: Any) -> int:
    """How many values a chunk has for these lists: one for each key, and one for each list without any."""
    offsets = (part.offsets.to_numpy() for part in lists.chunks if len(part))
    return sum(int(np.maximum(np.diff(each), 1).sum()) for each in offsets)


def _require_bounded(pages: memoryview, described: Footer, limits: BatchLimits) -> None:
    """Refuse a file whose footer or pages declare more than the limits, and ask for room for what it becomes."""
    rows = sum(group.rows for group in described.groups)
    require_few(rows, limits)
    slots = sum(max(chunk.values for chunk in group.chunks) for group in described.groups)
    require_few_keys(slots - rows, limits)  # at most one slot a row has no key, so there are at least so many keys
    size = headers = 0
    for chunk in (chunk for group in described.groups for chunk in group.chunks):
        for header_size, page_size in _page_sizes(chunk, pages, limits):
            headers += header_size
            size += page_size
            if headers > _MAX_HEADERS_BYTES:
                raise BadBatch("The page headers of the Parquet file are too long; write fewer and larger pages.")
            if size > limits.bytes:
                raise too_large(limits.bytes)
    limits.admit(8 * size + ROW_BYTES * rows + KEY_BYTES * slots)  # as pyarrow has it, and as texts


def _page_sizes(chunk: Chunk, pages: memoryview, limits: BatchLimits) -> Iterator[tuple[int, int]]:
    """For each page that pyarrow will read, until all values were seen: the size of its header, and its own when
    decompressed."""
    at, end = chunk.start, chunk.start + chunk.size
    values = 0
    while values < chunk.values:
        decoder = thrift.Decoder(pages[: min(end, at + _MAX_HEADERS_BYTES)], at)
        header = decoder.read_struct()
        is_data, length = _described_page(header)
        values += length if is_data else 0
        if values > chunk.values:
            raise ValueError("the pages have more values than declared")
        require_few(0 if is_data else length, limits)
        yield decoder.at - at, thrift.number(header, _SIZE)
        at = decoder.at + thrift.number(header, _COMPRESSED_SIZE)
        if at > min(end, len(pages)):
            raise ValueError("a page ends behind its column")


def _described_page(header: thrift.Fields) -> tuple[bool, int]:
    """Whether a page holds data (else a dictionary), and how many values."""
    kind = thrift.number(header, _TYPE)
    page = thrift.struct(header, _HEADER.get(kind, -1))
    if thrift.number(page, _ENCODING[kind]) not in _ENCODINGS:
        raise BadBatch("Write the Parquet file with the encodings PLAIN and RLE_DICTIONARY alone.")
    return kind != _DICTIONARY_PAGE, thrift.number(page, _NUM_VALUES)
