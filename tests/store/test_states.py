"""The token tells every process what happened to a state behind its back."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, event, select, text

from app.core.kernel import batch_of
from app.core.ledger.budget import Budget
from app.core.sketches.compact import CompactSketch
from app.core.sketches.parameters import SketchParameters
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch
from app.main import build_context
from app.refusals import Conflict, UnknownSketch
from app.settings import Settings
from app.store import sketches, states
from app.store.database import Database
from app.store.tables import StateRow
from app.usecases.context import Context
from app.usecases.ingest.submission import Submission
from app.usecases.manage_sketches import OwnBudget, SketchSpec, create_sketch, delete_sketch
from app.usecases.merge_sketches import merge_sketches
from tests import books
from tests.core.sketches.earlier_states import STORED
from tests.counting import count_one

_LONG = 60  # seconds


@pytest.fixture
def other(settings: Settings) -> Iterator[Context]:
    """What another process would have."""
    context = build_context(settings)
    yield context
    context.database.close()


def _create(context: Context, name: str = "views", *, k: int = 1024) -> None:
    budget = OwnBudget(Budget.granted(epsilon="1", delta="1e-5"), "basic")
    spec = SketchSpec(SketchParameters(k=k, unit="event", max_contributions=1), ledger=budget)
    create_sketch(context, name, spec)


def _post(context: Context, key: str, count: int = 1, name: str = "views") -> None:
    count_one(context, name, Submission(batch_of([(key, count)])))


@contextmanager
def _reads(context: Context) -> Iterator[list[str]]:
    """How often a state was fetched, because the process had it not, or had an old one."""
    seen: list[str] = []

    def note(_connection: Connection, _cursor: object, statement: str, *_rest: object) -> None:
        if statement.startswith("SELECT") and "sketch_states.state" in statement:
            seen.append(statement)

    event.listen(context.database.engine, "before_cursor_execute", note)
    yield seen
    event.remove(context.database.engine, "before_cursor_execute", note)


def test_every_write_has_a_token_that_was_never_seen(context: Context) -> None:
    _create(context)
    tokens = [books.stored(context.database)[0]]
    for _ in range(50):
        _post(context, "a")
        tokens.append(books.stored(context.database)[0])
    assert len(set(tokens)) == 51
    assert {token.bit_length() for token in tokens} == {63}  # of one size


def test_a_lone_writer_reads_its_sketch_once(context: Context) -> None:
    _create(context)
    with _reads(context) as reads:
        for _ in range(20):
            _post(context, "a")
    assert len(reads) == 1
    assert books.counters(context.database) == {"a": 20}


def test_writers_that_take_turns_notice_each_other(context: Context, other: Context) -> None:
    _create(context, k=3)
    empty = states.decoded(books.stored(context.database)[1])
    assert isinstance(empty, StreamSketch)
    events = [(f"k{number * number % 7}", 1) for number in range(40)]
    with _reads(context) as reads, _reads(other) as others:
        for number, (key, count) in enumerate(events):
            _post(other if number % 2 else context, key, count)
    assert len(reads) == len(others) == 20
    assert books.counters(context.database) == empty.extended(events).counters


def test_writers_at_the_same_time_lose_nothing(context: Context, other: Context) -> None:
    _create(context)

    def write(number: int) -> None:
        _post(other if number % 2 else context, f"k{number % 4}")

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(write, range(120)))
    assert books.counters(context.database) == {f"k{number}": 30 for number in range(4)}


def test_an_earlier_state_that_was_put_back_is_noticed(context: Context, other: Context) -> None:
    _create(context)
    _post(context, "before")
    backup = books.stored(context.database)
    _post(context, "lost")
    books.put_back(other.database, backup)
    _post(context, "after")
    assert books.counters(context.database) == {"before": 1, "after": 1}


def test_after_a_restore_what_another_writes_is_not_taken_for_what_one_remembers(
    context: Context, other: Context
) -> None:
    """With a counter for a token, the second write after the backup would look like the first one."""
    _create(context)
    _post(context, "before")
    backup = books.stored(context.database)
    _post(context, "lost")
    books.put_back(other.database, backup)
    _post(other, "theirs")
    _post(context, "ours")
    assert books.counters(context.database) == {"before": 1, "theirs": 1, "ours": 1}


def test_a_target_that_became_compact_goes_on_as_one(context: Context, other: Context) -> None:
    for name in ("views", "more"):
        _create(context, name)
        _post(context, "a", 2, name)
    merge_sketches(other, "views", ["more"], "compact")
    _post(context, "b")
    _post(context, "a")
    _post(other, "b")
    _post(context, "a", 1, "more")
    assert books.counters(context.database) == {"a": 5, "b": 2}
    assert books.counters(context.database, "more") == {"a": 3}
    with context.database.reading() as session:
        assert isinstance(states.load(session, sketches.get(session, "views"), for_update=False), CompactSketch)


def test_merges_carry_what_their_sources_know(context: Context) -> None:
    streams = {}
    for name in ("views", "more", "sum"):
        _create(context, name, k=2)
        for key, count in (("a", 5), ("b", 2), ("c", 1), ("a", 1), (name, 3)):
            _post(context, key, count, name)
        streams[name] = books.sketch(context.database, name)
        assert isinstance(streams[name], StreamSketch)
    views, more, total = (stream for stream in streams.values() if isinstance(stream, StreamSketch))
    assert [stream.events for stream in (views, more, total)] == [12] * 3
    merge_sketches(context, "sum", ["more"], "summed")
    assert books.sketch(context.database, "sum") == SummedSketch.of_stream(total).plus(SummedSketch.of_stream(more))
    merge_sketches(context, "views", ["more"], "compact")
    merged = CompactSketch.of_stream(views).merged(CompactSketch.of_stream(more))
    assert books.sketch(context.database, "views") == merged
    assert merged.items == 24
    _post(context, "d", 4)
    assert books.sketch(context.database, "views") == merged.extended([("d", 4)])


@pytest.mark.parametrize("name", STORED)
def test_a_state_of_an_earlier_version_is_counted_into_and_stored_in_this_one(
    context: Context, other: Context, name: str
) -> None:
    """What was not stored stays unknown. The second batch finds an open sketch, and another process what was stored."""
    sketch, stored = STORED[name]
    if isinstance(sketch, SummedSketch):
        return
    _create(context, k=sketch.k)
    books.put_back(context.database, (states.new_token(), stored))
    assert books.sketch(context.database) == sketch
    for worker, key in ((context, "x"), (context, "a"), (other, "y"), (context, "b")):
        _post(worker, key, 2)
        sketch = sketch.extended([(key, 2)])
        assert books.sketch(context.database) == sketch
        assert books.stored(context.database)[1][4] == 4


def test_a_target_that_became_a_sum_takes_no_more(context: Context, other: Context) -> None:
    for name in ("views", "more"):
        _create(context, name)
        _post(context, "a", 2, name)
    merge_sketches(other, "views", ["more"], "summed")
    before = books.counters(context.database)
    with pytest.raises(Conflict):
        _post(context, "b")
    assert books.counters(context.database) == before


def test_a_deleted_sketch_takes_no_more_although_it_was_open(context: Context, other: Context) -> None:
    _create(context)
    _post(context, "a")
    delete_sketch(other, "views")
    with pytest.raises(UnknownSketch):
        _post(context, "a")
    with context.database.reading() as session:
        assert session.scalars(select(StateRow.token)).all() == []


def _waits_for_a_lock(database: Database) -> bool:
    """On SQLite it cannot be seen; who has begun waits."""
    if database.engine.dialect.name == "sqlite":
        return True
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    with database.reading() as session:
        return bool(session.execute(waiting).scalar())


def _post_while(context: Context, other: Context, change: Callable[[], object]) -> "Future[None]":
    """Post a batch that has to wait, because the other process is about to commit a change of the sketch."""
    posted: Future[None] = Future()

    def post() -> None:
        try:
            _post(context, "late")
            posted.set_result(None)
        except Exception as error:
            posted.set_exception(error)

    thread = threading.Thread(target=post)

    def start(_connection: Connection) -> None:
        thread.start()
        deadline = time.monotonic() + _LONG
        while not _waits_for_a_lock(context.database) and time.monotonic() < deadline:
            time.sleep(0.01)

    event.listen(other.database.engine, "commit", start, once=True)
    change()
    thread.join(_LONG)
    return posted


def test_a_writer_that_waits_for_a_merge_finds_what_it_made(context: Context, other: Context) -> None:
    for name in ("views", "more"):
        _create(context, name)
        _post(context, "a", 2, name)
    posted = _post_while(context, other, lambda: merge_sketches(other, "views", ["more"], "compact"))
    assert posted.result(_LONG) is None
    assert books.counters(context.database) == {"a": 4, "late": 1}
    with context.database.reading() as session:
        assert isinstance(states.load(session, sketches.get(session, "views"), for_update=False), CompactSketch)


def test_a_writer_that_waits_for_a_sum_is_refused(context: Context, other: Context) -> None:
    for name in ("views", "more"):
        _create(context, name)
        _post(context, "a", 2, name)
    posted = _post_while(context, other, lambda: merge_sketches(other, "views", ["more"], "summed"))
    assert isinstance(posted.exception(_LONG), Conflict)
    assert "late" not in books.counters(context.database)


def test_a_writer_that_waits_for_a_deletion_is_refused(context: Context, other: Context) -> None:
    _create(context)
    _post(context, "a")
    posted = _post_while(context, other, lambda: delete_sketch(other, "views"))
    assert isinstance(posted.exception(_LONG), UnknownSketch)
    with context.database.reading() as session:
        assert session.scalars(select(StateRow.token)).all() == []


def test_a_writer_that_waits_for_another_adds_to_what_it_wrote(context: Context, other: Context) -> None:
    _create(context)
    _post(context, "a")
    posted = _post_while(context, other, lambda: _post(other, "theirs"))
    assert posted.result(_LONG) is None
    assert books.counters(context.database) == {"a": 1, "theirs": 1, "late": 1}
