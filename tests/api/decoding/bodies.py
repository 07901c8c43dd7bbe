"""The same events as every content type and encoding."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from app.api.decoding import decode_events

Events = Sequence[tuple[str, int]]

JSON, NDJSON, LINES, CSV = "application/json", "application/x-ndjson", "text/plain", "text/csv"
PARQUET, ARROW = "application/vnd.apache.parquet", "application/vnd.apache.arrow.stream"
MAX_ITEMS, MAX_BYTES = 1000, 1_000_000


def decoded(
    content_type: str, body: bytes, encoding: str = "", *, max_items: int = MAX_ITEMS, max_bytes: int = MAX_BYTES
) -> list[tuple[str, int]]:
    return decode_events(content_type, encoding, body, max_items=max_items, max_bytes=max_bytes).pairs()


def objects(events: Events) -> list[dict[str, Any]]:
    return [{"key": key, "count": count} for key, count in events]


def as_json(events: Events) -> bytes:
    return json.dumps({"events": objects(events)}).encode()


def as_ndjson(events: Events) -> bytes:
    return b"".join(json.dumps(item, ensure_ascii=False).encode() + b"\n" for item in objects(events))


def as_lines(events: Events) -> bytes:
    """Of events with counts of 1 and keys without line feeds."""
    return "".join(f"{key}\n" for key, _ in events).encode()


def as_csv(events: Events) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerows([("count", "key"), *((count, key) for key, count in events)])
    return out.getvalue().encode()


def table(events: Events, kind: Any = None) -> Any:
    keys = pa.array([key for key, _ in events], kind or pa.string())
    return pa.table({"key": keys, "count": pa.array([count for _, count in events], pa.int32())})


def parquet(of: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(of, out, **options)
    return out.getvalue()


def arrow(of: Any, *, rows_each: int | None = None, **options: Any) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, of.schema, options=pa.ipc.IpcWriteOptions(**options)) as stream:
        stream.write_table(of, max_chunksize=rows_each)
    return out.getvalue()


WRITERS: dict[str, Callable[[Events], bytes]] = {
    JSON: as_json,
    NDJSON: as_ndjson,
    LINES: as_lines,
    CSV: as_csv,
    PARQUET: lambda events: parquet(table(events)),
    ARROW: lambda events: arrow(table(events)),
}
ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "identity": bytes,
    "gzip": lambda body: gzip.compress(body, 1),
    "zstd": zstandard.compress,
}
