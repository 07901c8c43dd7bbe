"""Files as items, one after the other: CSV, NDJSON, plain lines, Parquet.

An item is what the service takes: a key, or an object with `key` and perhaps `count` and `user`, or a person's `keys`
with perhaps their `user`. Each comes with the line, or row, where it begins. What the service checks itself, such as
the length of a key, is left to it.
"""

import csv
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from app.client.failures import Failure
from app.client.sources import Source

Item = str | dict[str, Any]
Placed = tuple[int, Item]

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
_MOST_DIGITS = 10  # of a count; the service takes up to 2^31 − 1


class BadRow(Failure):
    """Names the place; the rows before it are fine."""

    def __init__(self, line: int, reason: str) -> None:
        self.line, self.reason = line, reason
        super().__init__(f"line {line:,}: {reason}")


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column, or member, is what. Without a choice: `key`, and `count` and `user` where they are."""

    key: str | None = None
    count: str | None = None
    user: str | None = None

    @property
    def names(self) -> tuple[str, str | None, str | None]:
        return (self.key or "key", self.count, self.user) if self._chosen else ("key", "count", "user")

    def required(self) -> list[str]:
        return [name for name in self.names if name] if self._chosen else ["key"]

    @property
    def _chosen(self) -> bool:
        return any((self.key, self.count, self.user))


def items(source: Source, form: str, columns: Columns) -> Iterator[Placed]:
    """Raises `BadRow` where a row cannot be read."""
    try:
        chosen = _guessed(source, columns) if form == "auto" else form
        yield from _READERS[chosen](source, columns)
    except (EOFError, OSError, zlib.error) as error:
        raise Failure(f"{source.name} ends early or is damaged: {error}.") from None
    except UnicodeDecodeError:
        raise Failure(f"{source.name} is not text in UTF-8.") from None


def _guessed(source: Source, columns: Columns) -> str:
    """By the name; else by how it begins."""
    known = _SUFFIXES.get(source.suffix)
    if known:
        return known
    start = source.bytes.peek(4096)[:4096]
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.lstrip()[:1] in (b"{", b'"'):
        return "ndjson"
    first = start.partition(b"\n")[0].decode("utf-8", "replace").removeprefix(_BOM).strip()
    return "csv" if set(columns.required()) <= set(next(csv.reader([first]), [])) else "lines"


def _lines(source: Source) -> Iterator[str]:
    """Without their ends; a line that never ends does not fill the memory."""
    for number in _forever():
        line = source.bytes.readline(_LONGEST_LINE)
        if not line:
            return
        if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            raise BadRow(number, f"the line has more than {_LONGEST_LINE:,} bytes.")
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            raise BadRow(number, "the line is not UTF-8.") from None
        yield text.removeprefix(_BOM) if number == 1 else text


def _forever() -> Iterator[int]:
    number = 0
    while True:
        number += 1
        yield number


def _plain(source: Source, _columns: Columns) -> Iterator[Placed]:
    for number, line in enumerate(_lines(source), start=1):
        yield number, line.removesuffix("\n").removesuffix("\r")


# Tables


def _csv(source: Source, columns: Columns) -> Iterator[Placed]:
    rows = csv.reader(_lines(source), strict=True)
    try:
        heading = next(rows, [])
        places = _places(heading, columns, source.name)
        begin = rows.line_num + 1
        for row in rows:
            if row:  # a blank line is no row
                if len(row) != len(heading):
                    raise BadRow(begin, f"the row has {len(row)} cells, the header has {len(heading)}.")
                yield begin, _item([None if place is None else row[place] for place in places], begin)
            begin = rows.line_num + 1
    except csv.Error as error:
        raise BadRow(rows.line_num, f"this is not CSV: {error}.") from None


def _places(heading: list[str], columns: Columns, where: str) -> list[int | None]:
    missing = [name for name in columns.required() if name not in heading]
    if missing:
        raise Failure(f"{where} has no column {missing[0]!r}; it has {', '.join(map(repr, heading)) or 'no header'}.")
    return [heading.index(name) if name in heading else None for name in columns.names]


def _parquet(source: Source, columns: Columns) -> Iterator[Placed]:
    if source.packed or source.size is None:
        raise Failure(f"{source.name} cannot be read as Parquet: that needs a file, not a pipe, and not packed again.")
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise Failure("Parquet needs pyarrow: pip install 'discreet[arrow]'.") from None
    try:
        file = parquet.ParquetFile(source.bytes)
        heading: list[str] = file.schema_arrow.names
        places = _places(heading, columns, source.name)
        wanted = [heading[place] for place in places if place is not None]
        row = 0
        for batch in file.iter_batches(columns=wanted):
            cells = [[None] * len(batch) if i is None else batch[heading[i]].to_pylist() for i in places]
            for values in zip(*cells, strict=True):
                row += 1
                yield row, _item(list(values), row)
    except pa.ArrowException as error:
        raise Failure(f"{source.name} is not Parquet that can be read: {str(error).splitlines()[0]}") from None


# NDJSON


def _ndjson(source: Source, columns: Columns) -> Iterator[Placed]:
    for number, line in enumerate(_lines(source), start=1):
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
    key, count, user = cells
    item: dict[str, Any] = {}
    if isinstance(key, list):
        item["keys"] = [_text(each, "key", line) for each in key]
    else:
        item["key"] = _text(key, "key", line)
    if count is not None:
        item["count"] = _number(count, line)
    if user is not None:
        item["user"] = _text(user, "user", line)
    return item["key"] if item.keys() == {"key"} else item


def _text(value: Any, what: str, line: int) -> str:
    """Whole numbers are taken as their digits: an id is often one."""
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


_Reader = Callable[[Source, Columns], Iterable[Placed]]
_READERS = cast(dict[str, _Reader], {"csv": _csv, "ndjson": _ndjson, "lines": _plain, "parquet": _parquet})
