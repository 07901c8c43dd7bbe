"""Long histograms: the same bytes as if they were written at once, and little of them in the server at any moment."""

import asyncio
import csv
import io
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, cast

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import event
from sqlalchemy.pool import QueuePool

from app.api.release_outputs import BarOut, SnapshotOut, SnapshotSummaryOut
from app.core.histogram import Bar, Snapshot
from app.core.selection import Selection, Sorting
from app.main import create_app
from app.settings import Settings
from app.usecases import read_bars as reading
from app.usecases.context import Context
from app.usecases.read_bars import read_bars
from tests import books
from tests.api.calls import create_sketch, post_events
from tests.api.large import BARS, OLD, SNAPSHOT, store, store_by_key
from tests.conftest import ADMIN_KEY

BY_COUNT = sorted(BARS, key=lambda bar: (-bar.count, bar.key))
_PATH = "/v1/sketches/views/histogram"
_PIECES = 6  # of about 64 KB, in which the bars are stored


@pytest.fixture
def app(settings: Settings, context: Context) -> FastAPI:
    return create_app(settings, context)


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, headers={"Authorization": f"Bearer {ADMIN_KEY}"}) as client:
        yield client


@pytest.fixture(autouse=True)
def _stored(client: TestClient, context: Context) -> None:
    create_sketch(client)
    create_sketch(client, "old")
    store(context)
    store_by_key(context, OLD)


def _at_once(bars: list[Bar], snapshot: Snapshot = SNAPSHOT) -> str:
    """The whole answer, written by the model that documents it."""
    summary = SnapshotSummaryOut.of(snapshot).model_dump()
    histogram = [BarOut.model_validate(bar, from_attributes=True) for bar in bars]
    return SnapshotOut(**summary, histogram=histogram).model_dump_json()


def _wanted(order: str = "count", top: int | None = None, min_count: int = 0) -> list[Bar]:
    """Of all bars, in the plain way."""
    kept = [bar for bar in BY_COUNT if bar.count >= min_count][:top]
    return kept if order == "count" else sorted(kept, key=lambda bar: bar.key)


@pytest.mark.parametrize("portion", [2 << 20, 100_000])
@pytest.mark.parametrize("snapshot", [SNAPSHOT, OLD])
@pytest.mark.parametrize("order", ["count", "key"])
def test_a_long_answer_has_the_bytes_of_one_that_is_written_at_once(
    client: TestClient, snapshot: Snapshot, order: str, portion: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_PORTION_BYTES", portion)
    in_order = {} if order == "count" else {"order": order}
    for path in (f"/v1/sketches/{snapshot.sketches[0]}/histogram", f"/v1/snapshots/{snapshot.id}"):
        answer = client.get(path, params=in_order)
        assert answer.headers["content-type"] == "application/json"
        assert answer.text == _at_once(_wanted(order), snapshot)
    for number in (1, 3, 50, 699, 700, 701):
        found = client.get(path, params={"top": number, "order": order})
        assert found.text == _at_once(_wanted(order, top=number), snapshot)
    for least in (0, 41, 100, 139):
        found = client.get(path, params={"min_count": least, "order": order})
        assert found.text == _at_once(_wanted(order, min_count=least), snapshot)
    both = client.get(path, params={"min_count": 100, "top": 100, "order": order})
    assert both.text == _at_once(_wanted(order, top=100, min_count=100), snapshot)
    assert client.get(path, params={"min_count": 140, "order": order}).text == _at_once([], snapshot)


@pytest.mark.parametrize("probes", [16, 0])  # all rows are read; each key is looked for
@pytest.mark.parametrize("snapshot", [SNAPSHOT, OLD])
@pytest.mark.parametrize("order", ["count", "key"])
def test_named_keys_are_answered_for_alone(
    client: TestClient, snapshot: Snapshot, order: str, probes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_PROBES", probes)
    named = [*BARS[::180], BARS[-1]]
    absent = [" ", *(bar.key[:-1] for bar in named), "zzz", "\U0010ffff"]
    keys = [bar.key for bar in named] + absent
    asked = {"key": [*keys[::-1], keys[0]], "order": order}
    document = client.get(f"/v1/snapshots/{snapshot.id}", params=asked).json()
    expected = sorted(named, key=lambda bar: (-bar.count, bar.key) if order == "count" else (0, bar.key))
    assert document["histogram"] == [asdict(bar) for bar in expected]
    assert document["unlisted"] == [{"key": key, "at_most": 55} for key in sorted(absent)]
    assert "unlisted" not in client.get(f"/v1/snapshots/{snapshot.id}", params={"top": 1}).json()


@pytest.mark.parametrize("snapshot", [SNAPSHOT, OLD])
def test_a_named_key_is_found_among_many_rows_without_reading_them(
    client: TestClient, context: Context, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_PROBES", 0)
    with _statements(context) as statements:
        found = client.get(f"/v1/snapshots/{snapshot.id}", params={"key": BARS[500].key}).json()
    assert [bar["key"] for bar in found["histogram"]] == [BARS[500].key]
    assert sum("snapshot_bars.highs" in statement for statement in statements) == 1  # the row that has it
    halves = [statement for statement in statements if "substr" in statement]
    assert len(halves) <= len(BARS).bit_length() + 1


def test_a_long_answer_comes_as_csv(client: TestClient) -> None:
    out = io.StringIO(newline="")
    rows = [[bar.key, bar.count, bar.low, "" if bar.high is None else bar.high] for bar in BY_COUNT]
    csv.writer(out).writerows([["key", "count", "low", "high"], *rows])
    for path in (_PATH, "/v1/sketches/old/histogram"):
        assert client.get(path, headers={"Accept": "text/csv"}).text == out.getvalue()


def test_a_short_answer_says_its_length_and_a_long_one_comes_in_chunks(client: TestClient) -> None:
    assert "content-length" in client.get(f"{_PATH}?top=3").headers
    assert "content-length" in client.get(_PATH, headers={"Accept": "image/svg+xml"}).headers
    assert "content-length" not in client.get(_PATH).headers


@contextmanager
def _statements(context: Context) -> Iterator[list[str]]:
    """Those that read bars."""
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if "snapshot_bars" in statement:
            seen.append(statement)

    event.listen(context.database.engine, "before_cursor_execute", note)
    yield seen
    event.remove(context.database.engine, "before_cursor_execute", note)


def test_what_the_client_has_is_told_without_reading_a_bar(client: TestClient, context: Context) -> None:
    etag = client.get(f"{_PATH}?top=1").headers["etag"]
    with _statements(context) as statements:
        assert client.get(f"{_PATH}?top=1", headers={"If-None-Match": etag}).status_code == 304
        assert client.get("/v1/sketches/views/snapshots").status_code == 200
    assert statements == []


def test_the_largest_bar_is_found_by_counts_alone_and_its_piece(client: TestClient, context: Context) -> None:
    for path, expected in ((_PATH, [False, True]), ("/v1/sketches/old/histogram", [False, False, True])):
        with _statements(context) as statements:
            client.get(f"{path}?top=1")
        assert [".keys" in statement for statement in statements] == expected
    with _statements(context) as statements:
        client.get(_PATH)
    assert len(statements) == 1 + _PIECES


def test_between_two_pieces_nothing_of_the_database_is_held(context: Context) -> None:
    pool = cast(QueuePool, context.database.engine.pool)
    named = Selection(keys=frozenset(bar.key for bar in BARS[:50]))
    for wanted in (Selection(), Selection(top=600), Selection(order="key"), Selection(order="key", top=600), named):
        for snapshot in (SNAPSHOT, OLD):
            for _piece in read_bars(context, snapshot.id, wanted):
                assert pool.checkedout() == 0


def _most_memory(context: Context, snapshot: Snapshot, order: Sorting) -> int:
    list(read_bars(context, snapshot.id, Selection(order=order)))  # so that what is kept for good is there
    tracemalloc.start()
    for _piece in read_bars(context, snapshot.id, Selection(order=order)):
        pass
    _now, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


@pytest.mark.parametrize("order", ["count", "key"])
@pytest.mark.parametrize("snapshot", [SNAPSHOT, OLD])
def test_little_of_a_large_histogram_is_in_memory_whatever_its_order(
    context: Context, snapshot: Snapshot, order: Sorting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of it, and what is gathered in another order than it is stored in."""
    everything = sum(len(bar.key.encode()) for bar in BARS)
    is_gathered = (snapshot is SNAPSHOT) == (order == "key")
    assert (_most_memory(context, snapshot, order) > everything) == is_gathered  # the portion is larger than all of it
    monkeypatch.setattr(reading, "_PORTION_BYTES", 50_000)
    assert _most_memory(context, snapshot, order) < everything


class _Client:
    """One that is asked for its answer and takes as much of it as it wants."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self.started = asyncio.Event()
        self.reads = asyncio.Event()
        self._gone = asyncio.Event()
        self._asked = False
        self.status = 0
        self.body = b""

    async def get(self, path: str = _PATH, *, method: str = "GET", body: bytes = b"") -> None:
        self._body = body
        headers = [(b"authorization", f"Bearer {ADMIN_KEY}".encode()), (b"content-type", b"application/json")]
        headers += [(b"idempotency-key", b"1")] if method == "POST" else []
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        await self._app(scope, self._receive, self._send)

    def go(self) -> None:
        self._gone.set()

    async def _receive(self) -> dict[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        self.body += message.get("body", b"")
        self.started.set()
        await self.reads.wait()


@pytest.fixture
def one_reader(settings: Settings, context: Context) -> FastAPI:
    return create_app(Settings(database_url=settings.database_url, admin_key=ADMIN_KEY, max_readers=1), context)


def test_a_reader_more_than_may_be_is_refused_and_a_short_answer_is_not(one_reader: FastAPI) -> None:
    async def run() -> None:
        slow, more, short, later = (_Client(one_reader) for _ in range(4))
        for client in (more, short, later):
            client.reads.set()
        reading = asyncio.create_task(slow.get())
        await slow.started.wait()
        await more.get()
        assert more.status == 503
        assert json.loads(more.body)["type"] == "urn:discreet:problem:overloaded"
        await short.get("/v1/sketches/views/snapshots")
        assert short.status == 200
        slow.reads.set()
        await reading
        assert slow.body.decode() == _at_once(BY_COUNT)
        await later.get()
        assert later.status == 200

    asyncio.run(run())


def test_a_client_that_goes_leaves_nothing_behind(one_reader: FastAPI, context: Context) -> None:
    async def run() -> None:
        slow, next_one = _Client(one_reader), _Client(one_reader)
        next_one.reads.set()
        reading = asyncio.create_task(slow.get())
        await slow.started.wait()
        assert cast(QueuePool, context.database.engine.pool).checkedout() == 0
        slow.go()
        await reading
        await next_one.get()
        assert next_one.body.decode() == _at_once(BY_COUNT)
        assert len(slow.body) < len(next_one.body) / 2

    asyncio.run(run())


def test_who_has_paid_waits_for_a_place_and_is_not_refused(
    one_reader: FastAPI, client: TestClient, context: Context
) -> None:
    create_sketch(client, "paying", epsilon="50", k=1024)
    post_events(client, [{"key": bar.key, "count": 1000} for bar in BARS], "paying")

    async def run() -> None:
        slow, paying, again = (_Client(one_reader) for _ in range(3))
        for each in (paying, again):
            each.reads.set()
        reading = asyncio.create_task(slow.get())
        await slow.started.wait()
        asked: dict[str, Any] = {"method": "POST", "body": b'{"epsilon": "10", "delta": "1e-6"}'}
        releasing = asyncio.create_task(paying.get("/v1/sketches/paying/snapshots", **asked))
        while not books.read(context.database, "paying").payments:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # so that it would have been refused
        assert paying.status == 0
        slow.go()
        await asyncio.gather(reading, releasing)
        assert paying.status == 201
        assert len(json.loads(paying.body)["histogram"]) == len(BARS)
        await again.get("/v1/sketches/paying/snapshots", **asked)
        assert again.body == paying.body

    asyncio.run(run())
