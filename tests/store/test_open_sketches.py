"""Open sketches: only what the database has, each for one at a time, and never many."""

import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest
from sqlalchemy import Connection, event

from app.core.kernel import Fold, batch_of
from app.core.ledger.budget import Budget
from app.core.sketches import state
from app.core.sketches.order import SECRET_BYTES, Order
from app.core.sketches.parameters import SketchParameters
from app.core.sketches.stream import StreamSketch
from app.main import build_context
from app.settings import Settings
from app.store.open_sketches import OpenSketches
from app.usecases.context import Context
from app.usecases.ingest.submission import Submission
from app.usecases.manage_sketches import OwnBudget, SketchSpec, create_sketch
from tests import books
from tests.counting import count_one


def _fold(k: int = 8) -> Fold:
    return Fold(state.encode(StreamSketch.empty(k, Order(bytes(range(SECRET_BYTES))))))


_SIZE = _fold().nbytes


def _kept(open_sketches: OpenSketches, numbers: range) -> list[int]:
    return [number for number in numbers if open_sketches.take(number) is not None]


def test_a_sketch_is_given_out_once_as_it_was_put() -> None:
    open_sketches, fold = OpenSketches(10 * _SIZE), _fold()
    open_sketches.put(1, fold)
    assert open_sketches.take(2) is None
    assert open_sketches.take(1) is fold
    assert open_sketches.take(1) is None  # it is somebody's


def test_a_newer_one_replaces_an_older_one() -> None:
    open_sketches, newer = OpenSketches(10 * _SIZE), _fold()
    open_sketches.put(1, _fold())
    open_sketches.put(1, newer)
    assert open_sketches.take(1) is newer
    assert open_sketches.take(1) is None


def test_who_takes_a_sketch_has_it_alone() -> None:
    open_sketches = OpenSketches(1000 * _SIZE)
    for number in range(300):
        open_sketches.put(number, _fold())
    with ThreadPoolExecutor(8) as threads:
        taken = [fold for fold in threads.map(lambda at: open_sketches.take(at % 300), range(2400)) if fold]
    assert len(taken) == len({id(fold) for fold in taken}) == 300


def test_the_least_recently_used_go_when_the_bytes_are_used_up() -> None:
    open_sketches = OpenSketches(10 * _SIZE)
    for number in range(10):
        open_sketches.put(number, _fold())
    used = open_sketches.take(0)
    assert used is not None
    open_sketches.put(0, used)
    for number in range(10, 15):
        open_sketches.put(number, _fold())
    assert _kept(open_sketches, range(15)) == [0, *range(6, 15)]


def test_one_that_is_larger_than_all_the_room_is_kept_alone_and_goes_first() -> None:
    open_sketches, large = OpenSketches(10 * _SIZE), _fold(4096)
    for number in range(5):
        open_sketches.put(number, _fold())
    open_sketches.put(5, large)
    assert _kept(open_sketches, range(5)) == []
    for number in range(6, 16):
        open_sketches.put(number, _fold())
    assert _kept(open_sketches, range(16)) == list(range(6, 16))  # and its bytes are not counted any more


def test_a_sketch_that_grows_counts_with_its_new_size() -> None:
    open_sketches, growing = OpenSketches(10 * _SIZE), _fold()
    for number in range(9):
        open_sketches.put(number, _fold())
    growing.add(batch_of([(f"{number}" * 500, 1) for number in range(8)]))
    assert growing.nbytes > 2 * _SIZE
    open_sketches.put(9, growing)
    assert len(_kept(open_sketches, range(10))) == 1 + (10 * _SIZE - growing.nbytes) // _SIZE


def test_those_that_nobody_wrote_to_for_a_minute_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    open_sketches = OpenSketches(100 * _SIZE)
    for number in range(4):
        open_sketches.put(number, _fold())
        now += 20
    open_sketches.drop_idle()  # their ages are 80, 60, 40 and 20
    assert _kept(open_sketches, range(4)) == [1, 2, 3]


def test_one_that_is_written_to_stays_however_old_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    open_sketches = OpenSketches(100 * _SIZE)
    open_sketches.put(1, _fold())
    open_sketches.put(2, _fold())
    for _ in range(10):
        now += 30
        busy = open_sketches.take(1)
        assert busy is not None
        open_sketches.put(1, busy)
        open_sketches.drop_idle()
    assert _kept(open_sketches, range(1, 3)) == [1]


def test_what_is_dropped_or_replaced_is_freed() -> None:
    open_sketches = OpenSketches(10 * _SIZE)
    seen = []
    for number in range(500):
        fold = _fold()
        seen.append(weakref.ref(fold))
        open_sketches.put(number % 100, fold)
        del fold
    assert sum(one() is not None for one in seen) == 10


def _create(context: Context, name: str) -> None:
    budget = OwnBudget(Budget.granted(epsilon="1", delta="1e-5"), "basic")
    spec = SketchSpec(SketchParameters(k=8, unit="event", max_contributions=1), ledger=budget)
    create_sketch(context, name, spec)


@pytest.mark.parametrize("room", [1, 4 * _SIZE])
def test_batches_to_many_sketches_are_counted_in_little_memory(settings: Settings, room: int) -> None:
    """In turn, so that a sketch is not open any more when its turn comes; and two each time, so that it is once."""
    context = build_context(replace(settings, hot_bytes=room))
    names = [f"s{number}" for number in range(12)]
    reads: list[str] = []

    @event.listens_for(context.database.engine, "before_cursor_execute")
    def note(_connection: Connection, _cursor: object, statement: str, *_rest: object) -> None:
        if statement.startswith("SELECT") and "sketch_states.state" in statement:
            reads.append(statement)

    with closing(context.database):
        for name in names:
            _create(context, name)
        for name in names * 3:
            for _ in range(2):
                count_one(context, name, Submission(batch_of([("a", 1)])))
        assert len(reads) == 3 * len(names)
        assert [books.counters(context.database, name) for name in names] == [{"a": 6}] * len(names)
