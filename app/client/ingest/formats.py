"""What files hold, item by item: CSV, NDJSON, lines, Parquet.

An item is what the service takes: a key; an object with `key` and perhaps `count` and `user`; or a person, as an object
with `keys` and perhaps `user`. Each is numbered: it comes with the number of the line, or row, where it begins. What
the service checks itself, such as the length of a key, is not checked here.
"""

import csv
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, cast

from app.client.failures import Failure
from app.client.ingest.input_files import InputFile

Item = str | dict[str, Any]
Numbered = tuple[int, Item]  # the line where the item begins, from 1

FORMATS = ("auto", "csv", "ndjson", "lines", "parquet")
_SUFFIXES = {
    ".csv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".txt": "lines",
    ".log": "lines",
    ".parquet": "parquet",
}
_BOM = "\ufeff"
_LONGEST_LINE = 1 << 24
_MOST_DIGITS = 10  # of a count: the largest that the service takes, 2^31 − 1, has ten


class BadRow(Failure):
    """A row that cannot be read, by its line; the rows before it could be."""

    def __init__(self, line: int, reason: str) -> None:
        self.line, self.reason = line, reason
        super().__init__(f"line {line:,}: {reason}")


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column of a table, or member of an object, holds what.

    If none is chosen: `key`, and `count` and `user` where a file has them.
    """

    key: str | None = None
    count: str | None = None
    user: str | None = None

    @property
    def names(self) -> tuple[str, str | None, str | None]:
        """The columns for key, count and user; None for one that is not to be read."""
        return (self.key or "key", self.count, self.user) if self._chosen else ("key", "count", "user")

    def required(self) -> list[str]:
        """The columns that a file must have."""
        return [name for name in self.names if name] if self._chosen else ["key"]

    @property
    def _chosen(self) -> bool:
        return any((self.key, self.count, self.user))


def items(file: InputFile, file_format: str, columns: Columns) -> Iterator[Numbered]:
    """The items of a file; a `BadRow` is raised at the first row that cannot be read."""
    try:
        chosen = _guessed_format(file, columns) if file_format == "auto" else file_format
        yield from _DECODERS[chosen](file, columns)
    except (EOFError, OSError, zlib.error) as error:
        raise Failure(f"{file.name} ends early or is damaged: {error}.") from None
    except UnicodeDecodeError:
        raise Failure(f"{file.name} is not text in UTF-8.") from None


def _guessed_format(file: InputFile, columns: Columns) -> str:
    """By how the name ends, else by how the content begins."""
    known = _SUFFIXES.get(file.suffix)
    if known:
        return known
    start = file.bytes.peek(4096)[:4096]
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.lstrip()[:1] in (b"{", b'"'):
        return "ndjson"
    first = start.partition(b"\n")[0].decode("utf-8", "replace").removeprefix(_BOM).strip()
    return "csv" if set(columns.required()) <= set(next(csv.reader([first]), [])) else "lines"


def _lines(file: InputFile) -> Iterator[str]:
    """The lines with their ends. One that is too long is refused before it fills the memory."""
    for number in count(1):
        line = file.bytes.readline(_LONGEST_LINE)
        if not line:
            return
        if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            raise BadRow(number, f"the line has more than {_LONGEST_LINE:,} bytes.")
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            raise BadRow(number, "the line is not UTF-8.") from None
        yield text.removeprefix(_BOM) if number == 1 else text


def _line_keys(file: InputFile, _columns: Columns) -> Iterator[Numbered]:
    for number, line in enumerate(_lines(file), start=1):
        yield number, line.removesuffix("\n").removesuffix("\r")


# Tables


def _csv(file: InputFile, columns: Columns) -> Iterator[Numbered]:
    rows = csv.reader(_lines(file), strict=True)
    try:
        heading = next(rows, [])
        indexes = _indexes(heading, columns, file.name)
        begin = rows.line_num + 1
        for row in rows:
            if row:  # a blank line is no row
                if len(row) != len(heading):
                    raise BadRow(begin, f"the row has {len(row)} cells, the header has {len(heading)}.")
                yield begin, _item([None if i is None else row[i] for i in indexes], begin)
            begin = rows.line_num + 1
    except csv.Error as error:
        raise BadRow(rows.line_num, f"this is not CSV: {error}.") from None


def _indexes(heading: list[str], columns: Columns, where: str) -> list[int | None]:
    missing = [name for name in columns.required() if name not in heading]
    if missing:
        raise Failure(f"{where} has no column {missing[0]!r}; it has {', '.join(map(repr, heading)) or 'no header'}.")
    return [heading.index(name) if name in heading else None for name in columns.names]


def _parquet(file: InputFile, columns: Columns) -> Iterator[Numbered]:
    if file.is_compressed or file.size is None:
        raise Failure(f"{file.name} cannot be read as Parquet: that needs a file, not a pipe, and not packed again.")
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise Failure("Parquet needs pyarrow: pip install 'discreet[arrow]'.") from None
    try:
        table = parquet.ParquetFile(file.bytes)
        heading: list[str] = table.schema_arrow.names
        indexes = _indexes(heading, columns, file.name)
        wanted = [heading[i] for i in indexes if i is not None]
        row = 0
        for batch in table.iter_batches(columns=wanted):
            cells = [[None] * len(batch) if i is None else batch[heading[i]].to_pylist() for i in indexes]
            for values in zip(*cells, strict=True):
                row += 1
                yield row, _item(list(values), row)
    except pa.ArrowException as error:
        raise Failure(f"{file.name} is not Parquet that can be read: {str(error).splitlines()[0]}") from None


# NDJSON


def _ndjson(file: InputFile, columns: Columns) -> Iterator[Numbered]:
    for number, line in enumerate(_lines(file), start=1):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise BadRow(number, "the line is not JSON.") from None
        if "\\ud" in line.lower() and not _is_unicode(value):
            raise BadRow(number, "text must be valid Unicode, without lone surrogates.")
        yield number, value if isinstance(value, str) else _item(_members(value, columns, number), number)


def _is_unicode(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _members(value: Any, columns: Columns, line: int) -> list[Any]:
    if not isinstance(value, dict):
        raise BadRow(line, "an event is a string or an object.")
    key, *others = columns.names
    if columns == Columns() and "keys" in value:
        key = "keys"
    absent = [name for name in (key, *columns.required()[1:]) if name not in value]
    if absent:
        raise BadRow(line, f"the object has no member {absent[0]!r}; --column names the one that holds the key.")
    return [value[key], *(None if name is None else value.get(name) for name in others)]


# Items


def _item(cells: list[Any], line: int) -> Item:
    key, times, user = cells
    item: dict[str, Any] = {}
    if isinstance(key, list):
        item["keys"] = [_text(each, "key", line) for each in key]
    else:
        item["key"] = _text(key, "key", line)
    if times is not None:
        item["count"] = _number(times, line)
    if user is not None:
        item["user"] = _text(user, "user", line)
    return item["key"] if item.keys() == {"key"} else item


def _text(value: Any, what: str, line: int) -> str:
    """Whole numbers become their digits, because ids are often numbers."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise BadRow(line, f"a {what} must be text or a whole number.")


def _number(value: Any, line: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= _MOST_DIGITS:
        return int(value)
    raise BadRow(line, "a count must be a whole number.")


_Decoder = Callable[[InputFile, Columns], Iterable[Numbered]]
_DECODERS = cast(dict[str, _Decoder], {"csv": _csv, "ndjson": _ndjson, "lines": _line_keys, "parquet": _parquet})
