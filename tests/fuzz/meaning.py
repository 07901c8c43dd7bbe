"""What a request that was taken means, by other code than the service's."""

import csv
import gzip
import io
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from tests.api.decoding.bodies import ARROW, CSV, JSON, LINES, NDJSON, PARQUET
from tests.core.kernel.reading import events_in
from tests.fuzz.batches import MAX_ITEMS, Request

Counts = Counter[str]

_KINDS = {JSON: "json", NDJSON: "ndjson", LINES: "lines"}


def meant(request: Request) -> Counts | None:
    """How many events of each key, or None where we cannot tell; raises whatever it likes of a request that should not
    have been taken."""
    content_type = request.content_type.partition(";")[0].strip().lower()
    plain = _unpacked(request.encoding, request.body)
    if content_type in _KINDS:
        events = events_in(_KINDS[content_type], plain, MAX_ITEMS)
        if events is None:
            raise ValueError("the body is not a batch of events")
        return _summed(events)
    try:
        return _summed(_TABLES[content_type](plain))
    except (OSError, pa.ArrowException):
        if content_type != PARQUET:
            raise
        return None  # damaged where pyarrow looks and the service does not: it writes the footer anew


def must_be_refused(request: Request) -> bool:
    """Of texts that are not packed we know both what must be taken and what must not."""
    kind = _KINDS.get(request.content_type)
    return kind is not None and not request.encoding and events_in(kind, request.body, MAX_ITEMS) is None


def must_be_taken(request: Request) -> bool:
    kind = _KINDS.get(request.content_type)
    known = kind is not None and not request.encoding and events_in(kind, request.body, MAX_ITEMS) is not None
    return request.is_valid or known


def _summed(events: Iterable[tuple[str, int]]) -> Counts:
    counts: Counts = Counter()
    for key, count in events:
        counts[key] += count
    return counts


def _unpacked(encoding: str, body: bytes) -> bytes:
    name = encoding.strip().lower()
    if name in ("gzip", "x-gzip"):
        return gzip.decompress(body)
    if name == "zstd":
        with zstandard.ZstdDecompressor().stream_reader(body, read_across_frames=True) as stream:
            return bytes(stream.read())
    return body


def _of_csv(plain: bytes) -> list[tuple[str, int]]:
    rows = csv.DictReader(io.StringIO(plain.decode("utf-8-sig"), newline=""), strict=True)
    return [(row["key"], int(row.get("count", 1))) for row in rows]


def _of_table(table: Any) -> list[tuple[str, int]]:
    return [(_text(row["key"]), row.get("count", 1)) for row in table.to_pylist()]


def _text(key: str | bytes) -> str:
    """A Parquet column says in two places that it is text. The service believes either; pyarrow wants both."""
    return key.decode() if isinstance(key, bytes) else key


def _of_parquet(plain: bytes) -> list[tuple[str, int]]:
    """Without the second schema that pyarrow leaves in a file, and would refuse if it alone is damaged."""
    return _of_table(pq.read_table(io.BytesIO(plain.replace(b"ARROW:schema", b"-----:schema")), use_threads=False))


_TABLES: dict[str, Callable[[bytes], list[tuple[str, int]]]] = {
    CSV: _of_csv,
    PARQUET: _of_parquet,
    ARROW: lambda plain: _of_table(pa.ipc.open_stream(plain).read_all()),
}
