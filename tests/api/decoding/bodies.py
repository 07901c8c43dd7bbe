"""The same events, or sets of keys, as every content type and encoding."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from app.api.decoding import decode_events, decode_users
from app.api.decoding.items import UserSet

Events = Sequence[tuple[str, int]]
Users = Sequence[str | None]

JSON, NDJSON, LINES, CSV = "application/json", "application/x-ndjson", "text/plain", "text/csv"
PARQUET, ARROW = "application/vnd.apache.parquet", "application/vnd.apache.arrow.stream"
MAX_ITEMS, MAX_BYTES = 1000, 1_000_000


def decoded(
    content_type: str, body: bytes, encoding: str = "", *, max_items: int = MAX_ITEMS, max_bytes: int = MAX_BYTES
) -> list[tuple[str, int]]:
    return decode_events(content_type, encoding, body, max_items=max_items, max_bytes=max_bytes).pairs()


def decoded_users(content_type: str, body: bytes, encoding: str = "") -> list[str | None]:
    """Who is named in each event."""
    return decode_events(content_type, encoding, body, max_items=MAX_ITEMS, max_bytes=MAX_BYTES).users()


def decoded_sets(
    content_type: str, body: bytes, encoding: str = "", *, max_items: int = MAX_ITEMS, max_bytes: int = MAX_BYTES
) -> list[UserSet]:
    read = decode_users(content_type, encoding, body, max_items=max_items, max_bytes=max_bytes, most_keys=MAX_ITEMS)
    return list(zip(read.users(), read.keys(), strict=True))


# Events


def objects(events: Events, users: Users = ()) -> list[dict[str, Any]]:
    named = [{} if user is None else {"user": user} for user in users] or [{}] * len(events)
    return [{"key": key, "count": count, **name} for (key, count), name in zip(events, named, strict=True)]


def as_json(events: Events, users: Users = ()) -> bytes:
    return json.dumps({"events": objects(events, users)}).encode()


def as_ndjson(events: Events, users: Users = ()) -> bytes:
    return _lines(objects(events, users))


def _lines(items: Sequence[Any]) -> bytes:
    return b"".join(json.dumps(item, ensure_ascii=False).encode() + b"\n" for item in items)


def as_lines(events: Events, users: Users = ()) -> bytes:
    """Of events with counts of 1 and keys without line feeds, and of nobody."""
    return "".join(f"{key}\n" for key, _ in events).encode()


def as_csv(events: Events, users: Users = ()) -> bytes:
    """A table names a user in every row or in none."""
    if not users:
        return _csv(("count", "key"), [(count, key) for key, count in events])
    rows = [(count, user, key) for (key, count), user in zip(events, users, strict=True)]
    return _csv(("count", "user", "key"), rows)


def _csv(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows([names, *rows])
    return out.getvalue().encode()


def table(events: Events, kind: Any = None, users: Users = ()) -> Any:
    columns = {
        "key": pa.array([key for key, _ in events], kind or pa.string()),
        "count": pa.array([count for _, count in events], pa.int32()),
    }
    return pa.table(columns | ({"user": pa.array(users, kind or pa.string())} if users else {}))


def parquet(of: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(of, out, **options)
    return out.getvalue()


def arrow(of: Any, *, rows_each: int | None = None, **options: Any) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, of.schema, options=pa.ipc.IpcWriteOptions(**options)) as stream:
        stream.write_table(of, max_chunksize=rows_each)
    return out.getvalue()


class Writer(Protocol):
    def __call__(self, events: Events, users: Users = ()) -> bytes: ...


WRITERS: dict[str, Writer] = {
    JSON: as_json,
    NDJSON: as_ndjson,
    LINES: as_lines,
    CSV: as_csv,
    PARQUET: lambda events, users=(): parquet(table(events, users=users)),
    ARROW: lambda events, users=(): arrow(table(events, users=users)),
}


# Sets of keys


def set_items(sets: Sequence[UserSet]) -> list[Any]:
    return [keys if user is None else {"user": user, "keys": keys} for user, keys in sets]


def set_table(sets: Sequence[UserSet], kind: Any = None, lists: Any = pa.list_) -> Any:
    """One row is one person. As in JSON, where nobody at all is named there is no column for it."""
    keys = {"keys": pa.array([keys for _, keys in sets], lists(kind or pa.string()))}
    users = [user for user, _ in sets]
    return pa.table(keys | ({"user": pa.array(users, kind or pa.string())} if any(users) else {}))


SET_WRITERS: dict[str, Callable[[Sequence[UserSet]], bytes]] = {
    JSON: lambda sets: json.dumps({"users": set_items(sets)}).encode(),
    NDJSON: lambda sets: _lines(set_items(sets)),
    PARQUET: lambda sets: parquet(set_table(sets)),
    ARROW: lambda sets: arrow(set_table(sets)),
}

ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "identity": bytes,
    "gzip": lambda body: gzip.compress(body, 1),
    "zstd": zstandard.compress,
}
