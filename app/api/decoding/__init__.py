"""The body of a request -> a batch: checked events, or people with their sets of keys, in arrival order.

Strangers send these bytes: whatever they are, the answer is a batch or a `Refusal`, and one bad item refuses all of it.

A body is read in up to three steps:

1. `compression` undoes the Content-Encoding.
2. A scanner of `app/core/kernel` reads JSON, NDJSON or lines in a plain body, without an object for each item. It
   gives up at anything else, and never reads a body otherwise than step 3 would.
3. A careful decoder turns any body into items, and `items` checks each of them or says which are bad and why. The
   decoders are `texts` (JSON, NDJSON, lines), `columns` (CSV), `parquet` (with `footer` and `thrift`) and `arrow` (with
   `flatbuffers`); the last two let pyarrow make arrays, which `arrays` turns into items.

Whether a body holds events or people is up to the sketch: `shapes` has what differs.
"""

from collections.abc import Callable
from typing import Any

from app.api.decoding import arrow, columns, parquet, texts
from app.api.decoding.compression import decompressed
from app.api.decoding.items import Admit, BatchLimits, UserSet, admit_all, checked, checked_sets, require_few
from app.api.decoding.shapes import EVENTS, USERS, WHOLE_PEOPLE, Shape
from app.core import kernel
from app.core.errors import BadBatch
from app.refusals import UnsupportedMediaType

_LINES, _CSV = "text/plain", "text/csv"
_SCANNERS: dict[str, Callable[[bytes, int], kernel.Events | None]] = {
    "application/json": kernel.scan_json,
    "application/x-ndjson": kernel.scan_ndjson,
    _LINES: kernel.scan_lines,
}
_SET_SCANNERS: dict[str, Callable[[bytes, int, int], kernel.Sets | None]] = {
    "application/json": kernel.scan_json_sets,
    "application/x-ndjson": kernel.scan_ndjson_sets,
}
_Decoder = Callable[[bytes, BatchLimits, Shape], list[Any]]
_DECODERS: dict[str, _Decoder] = {
    "application/json": texts.read_json,
    "application/x-ndjson": texts.read_ndjson,
    _LINES: texts.read_lines,
    _CSV: columns.read_csv,
    "application/vnd.apache.parquet": parquet.read_parquet,
    "application/vnd.apache.arrow.stream": arrow.read_stream,
}


def scan_events(content_type: str, encoding: str, body: bytes, *, max_items: int) -> kernel.Events | None:
    """The batch of events in a plain body, in about a nanosecond or two for each byte.

    None where the scanner gives up, or there is none for this type or encoding: then `decode_events` reads the body.
    """
    scan = _SCANNERS.get(_media_type(content_type))
    return scan(body, max_items) if scan and not encoding else None


def decode_events(
    content_type: str,
    encoding: str,
    body: bytes,
    *,
    max_items: int,
    max_bytes: int,
    admit: Admit = admit_all,
    scanner_gave_up: bool = False,
) -> kernel.Events:
    """The batch of events in any body.

    `max_bytes` holds for the decompressed body, and for what Parquet and Arrow compress inside it. Whoever has tried
    `scan_events` in vain says so by `scanner_gave_up`, and the same bytes are not scanned again.
    """
    media_type, limits = _media_type(content_type), BatchLimits(items=max_items, bytes=max_bytes, admit=admit)
    body = decompressed(encoding, body, limits)
    scan = _SCANNERS.get(media_type)
    was_scanned = scanner_gave_up and not encoding  # `scan_events` has not seen what an encoding hid
    scanned = scan(body, limits.items) if scan and not was_scanned else None
    if scanned is not None:
        return scanned
    events = checked(_items(media_type, body, limits, EVENTS))
    return kernel.batch_of(events.pairs, events.users)


def decode_users(
    content_type: str,
    encoding: str,
    body: bytes,
    *,
    max_items: int,
    max_bytes: int,
    most_keys: int,
    admit: Admit = admit_all,
) -> kernel.Sets:
    """The batch of people and their sets of keys in any body, for sketches whose unit is the user.

    `max_items` bounds the people, and the keys of all of them together; `max_bytes` as for `decode_events`. Of each
    person the first `most_keys` different keys will count.
    """
    media_type, limits = _media_type(content_type), BatchLimits(items=max_items, bytes=max_bytes, admit=admit)
    body = decompressed(encoding, body, limits)
    scan = _SET_SCANNERS.get(media_type)
    scanned = scan(body, limits.items, most_keys) if scan else None
    if scanned is not None:
        return scanned
    return kernel.sets_of(read_sets_carefully(media_type, body, limits), most_keys)


def read_sets_carefully(media_type: str, body: bytes, limits: BatchLimits) -> list[UserSet]:
    """What a body of people's sets means, or a refusal that says what is wrong with it and where."""
    if media_type in (_LINES, _CSV):  # which cannot hold a whole person in one row
        raise BadBatch(WHOLE_PEOPLE)
    return checked_sets(_items(media_type, body, limits, USERS), limits)


def _items(media_type: str, body: bytes, limits: BatchLimits, shape: Shape) -> list[Any]:
    try:
        items = _DECODERS[media_type](body, limits, shape)
    except (ValueError, RecursionError):  # ValueError: not UTF-8, not JSON, or a number of absurd length
        raise BadBatch(f"The body is not valid UTF-8 {media_type}.") from None  # the cause may quote events
    require_few(len(items), limits)
    return items


def _media_type(content_type: str) -> str:
    """What is read, without its parameters; refused if it is not read here, or not in UTF-8."""
    name, *parameters = content_type.split(";")
    media_type = name.strip().lower()
    is_read = media_type in _DECODERS
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() != "utf-8":
            is_read = False
    if not is_read:
        raise UnsupportedMediaType(f"Send Content-Type {' or '.join(_DECODERS)}, in UTF-8.")
    return media_type
