"""Tables: which columns they must have, what a row is, and CSV (RFC 4180).

Other columns are refused rather than ignored: who sends one expects that it counts.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from app.api.decoding.items import MAX_COUNT, BatchLimits, Fault, require_few
from app.api.decoding.shapes import Shape
from app.core.errors import BadBatch

_BOM = "\ufeff"
ROW_BYTES = 500  # about what a row takes in memory: a dictionary, its cells, and what several lists need for it
KEY_BYTES = 100  # about what a key in a list takes
_MAX_LINE = 4096  # a key and a user of quotes alone, each doubled, and a count have half of it


def read_csv(body: bytes, limits: BatchLimits, shape: Shape) -> list[Any]:
    """The rows of a CSV file as items, or a refusal.

    Rows end with CR LF or LF. One that cannot be read is the last: nobody knows where the next would begin.
    """
    limits.admit(8 * len(body) + ROW_BYTES * body.count(b"\n"))
    lines = io.StringIO(body.decode("utf-8").removeprefix(_BOM), newline="\n")
    records = csv.reader(_short(lines), strict=True)
    names = _header(records, shape)
    items: list[Any] = []
    try:
        for record in records:
            require_few(len(items) + 1, limits)
            items.append(_csv_item(names, record))
    except csv.Error:
        items.append(Fault("the row is not valid CSV (RFC 4180), or a cell is far too long."))
    return items


def require_columns(names: Sequence[str], shape: Shape) -> None:
    """Refuse a table that lacks a column of the shape or has others.

    The refusal does not quote the names: in a file without a header row they are events.
    """
    if len(set(names)) < len(names) or not shape.required <= set(names) <= shape.columns:
        raise BadBatch(shape.table)


def row_items(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[Any]:
    """For each row a mapping with the columns for members, or what is wrong with it where a key is null."""
    items: list[Any] = []
    for row in rows:
        item = dict(zip(names, row, strict=True))
        keys = item["keys"] if "keys" in item else (item["key"],)
        items.append(Fault("a key must not be null.") if None in keys else item)
    return items


def _short(lines: Iterable[str]) -> Iterator[str]:
    """The lines, and csv.Error at a very long one. A line is at most one row, so that is a bad row anyway: no list is
    made of its million commas."""
    for line in lines:
        if len(line) > _MAX_LINE:
            raise csv.Error
        yield line


def _header(records: Iterable[list[str]], shape: Shape) -> list[str]:
    """The names in the first row, which must be the columns of the shape."""
    try:
        names = next(iter(records), [])
    except csv.Error:
        names = []
    require_columns(names, shape)
    return names


def _csv_item(names: Sequence[str], record: list[str]) -> Any:
    if len(record) != len(names):
        return Fault("a row must have a cell for each column of the header row.")
    item: dict[str, Any] = dict(zip(names, record, strict=True))
    if "count" in item:
        cell = item["count"]  # decimal digits alone: `int` would take signs, spaces, underscores and every script's
        is_number = cell.isascii() and cell.isdigit() and len(cell) <= len(str(MAX_COUNT))
        item["count"] = int(cell) if is_number else None
    return item
