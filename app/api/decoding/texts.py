"""JSON, NDJSON and lines: the careful decoders, which say what a body means.

`json_items` and `line_items` read a body of any length; `read_json`, `read_ndjson` and `read_lines` first refuse one
that certainly has too many items, and ask for room for what it becomes. All raise ValueError or RecursionError where
the body as a whole cannot be read.
"""

import json
from typing import Any

import numpy as np

from app.api.decoding.items import BatchLimits, Fault, require_few
from app.api.decoding.shapes import Shape
from app.core.errors import BadBatch

_MARKS = b",[{"  # of JSON: there are at least as many as items
_MARK, _QUOTE = 1, 2
_CODES = bytes(_MARK if byte in _MARKS else _QUOTE if byte == ord('"') else 0 for byte in range(256))
_CHUNK = 2**16  # bytes that are looked through at once
_PART_BYTES = 100  # about what a mark becomes in memory: a text or an element of a list half of it, an object twice
_MARKS_PER_ITEM = 8  # {"key": …, "count": …, "user": …} and its comma are four; a member may be repeated


def read_json(body: bytes, limits: BatchLimits, shape: Shape) -> list[Any]:
    """The items of a JSON document, within the limits."""
    _require_few_marks(body, limits)
    _admit(body, _marks(body), limits)
    return json_items(body, shape)


def read_ndjson(body: bytes, limits: BatchLimits, _shape: Shape) -> list[Any]:
    """The items of an NDJSON body, within the limits."""
    _require_few_lines(body, limits)
    _require_few_marks(body, limits)
    _admit(body, _marks(body) + body.count(b"\n"), limits)
    return [_line_item(line) for line in line_items(body)]


def read_lines(body: bytes, limits: BatchLimits, _shape: Shape) -> list[Any]:
    """The keys of a body of lines, within the limits."""
    _require_few_lines(body, limits)
    _admit(body, body.count(b"\n"), limits)
    return line_items(body)


def json_items(body: bytes, shape: Shape) -> list[Any]:
    """The list in a document whose only member is the shape's; any other document is refused."""
    document = _parsed(body.decode("utf-8"))
    items = document.get(shape.member) if isinstance(document, dict) and len(document) == 1 else None
    if not isinstance(items, list):
        raise BadBatch(shape.document)
    return items


def line_items(body: bytes) -> list[Any]:
    """One key per line; the last line may end with a line feed, and lines may end with CR LF."""
    lines = body.decode("utf-8").split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _line_item(line: str) -> Any:
    """The item that a line of NDJSON is, or what is wrong with the line."""
    if not line.strip():
        return Fault("the line is blank; write one item per line.")
    try:
        return _parsed(line)
    except (ValueError, RecursionError):
        return Fault("the line is not valid JSON.")


def _parsed(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _require_few_lines(body: bytes, limits: BatchLimits) -> None:
    require_few(body.count(b"\n") + (body[-1:] not in (b"", b"\n")), limits)


def _require_few_marks(body: bytes, limits: BatchLimits) -> None:
    """Refuse JSON that has too many items by its commas, brackets and braces. Parsed, it takes up to thirty times its
    bytes: `{},{},{}` by the million is refused before that."""
    most = _MARKS_PER_ITEM * (limits.items + 1)
    if _marks(body) > most and _marks_outside_strings(body) > most:
        require_few(limits.items + 1, limits)


def _marks(body: bytes) -> int:
    return sum(map(body.count, _MARKS))


def _admit(body: bytes, parts: int, limits: BatchLimits) -> None:
    """Ask for room for what a body becomes: its text, with up to four bytes a character, twice, and an object for each
    part of it."""
    limits.admit(8 * len(body) + _PART_BYTES * parts)


def _marks_outside_strings(body: bytes) -> int:
    """Marks that are not part of a key: an even number of quotes lies before each, of those that are not escaped."""
    codes = body.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_CODES)
    marks = inside = 0
    for start in range(0, len(codes), _CHUNK):
        chunk = np.frombuffer(codes[start : start + _CHUNK], np.uint8)
        quoted = np.bitwise_xor.accumulate(chunk & _QUOTE) ^ np.uint8(inside)
        marks += int(np.count_nonzero((chunk == _MARK) & (quoted == 0)))
        inside = int(quoted[-1])
    return marks
