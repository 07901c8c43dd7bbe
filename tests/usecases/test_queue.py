"""What comes while a commit waits for its turn joins it; what comes later joins the next. All are answered after it."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast

import pytest
from sqlalchemy import Connection, event

from app.core.errors import BadBatch
from app.core.kernel import Batch, batch_of
from app.core.ledger.budget import Budget
from app.core.sketches.parameters import SketchParameters
from app.core.sketches.stream import StreamSketch
from app.core.sketches.universe import Universe, of_values
from app.refusals import Conflict, IdempotencyKeyReused, Unauthenticated, Unavailable, UnknownSketch
from app.settings import Settings
from app.store import sketches, states
from app.store.claims import Claim
from app.store.database import Database
from app.usecases.context import Context
from app.usecases.ingest import queue
from app.usecases.ingest.count import count_submissions
from app.usecases.ingest.queue import Queues
from app.usecases.ingest.submission import Submission
from app.usecases.manage_api_keys import create_key, revoke_key
from app.usecases.manage_sketches import OwnBudget, SketchSpec, create_sketch, delete_sketch
from app.usecases.merge_sketches import merge_sketches
from tests import books

_LONG = 60  # seconds: a test that hangs fails


def _create(context: Context, name: str = "views", *, k: int = 64, universe: Universe | None = None) -> None:
    budget = OwnBudget(Budget.granted(epsilon="1", delta="1e-5"), "basic")
    spec = SketchSpec(SketchParameters(k=k, unit="event", max_contributions=1, universe=universe), ledger=budget)
    create_sketch(context, name, spec)


def _claim(key: str, content: str = "") -> Claim:
    return Claim.of(secret="s", operation="events", target="views", key=key, content=content.encode())


def _one(key: str, claim: Claim | None = None, key_id: str | None = None) -> Submission:
    return Submission(batch_of([(key, 1)]), claim, key_id)


class _Broken:
    """A batch that no fold can take."""

    def __len__(self) -> int:
        return 1


def _broken() -> Submission:
    return Submission(cast(Batch, _Broken()))


class _Held:
    """A sketch that somebody else has locked. On SQLite that is the whole database."""

    def __init__(self, url: str, name: str) -> None:
        self._database = Database(url)
        self._name = name
        self._release = threading.Event()
        self._locked = threading.Event()
        self._thread = threading.Thread(target=self._hold)
        self._thread.start()
        assert self._locked.wait(_LONG)

    def _hold(self) -> None:
        with self._database.writing() as session:
            states.lock(session, self._name)
            self._locked.set()
            self._release.wait(_LONG)

    def let_go(self) -> None:
        self._release.set()
        self._thread.join()
        self._database.close()


@contextmanager
def _commits(database: Database) -> Iterator[list[str]]:
    seen: list[str] = []

    def count(_connection: Connection) -> None:
        seen.append("commit")

    event.listen(database.engine, "commit", count)
    yield seen
    event.remove(database.engine, "commit", count)


def _run(context: Context, scene: Callable[[Queues], Awaitable[None]]) -> None:
    async def play() -> None:
        queues = Queues(context)
        try:
            await asyncio.wait_for(scene(queues), _LONG)
        finally:
            queues.close()

    asyncio.run(play())


async def _count(queues: Queues, name: str, submission: Submission) -> None:
    """Count a batch that is decoded already."""
    with queues.enter(name) as place:
        await place.count(submission)


async def _sent(queues: Queues, submissions: list[Submission], name: str = "views") -> list[asyncio.Task[None]]:
    """On their way, in this order; none can have been answered yet."""
    tasks = [asyncio.create_task(_count(queues, name, submission)) for submission in submissions]
    await asyncio.sleep(0)
    return tasks


def _together(
    context: Context, settings: Settings, submissions: list[Submission]
) -> tuple[list[BaseException | None], int]:
    """What became of batches that came while a commit of "first" waited, and how many transactions it took."""
    outcomes: list[BaseException | None] = []

    async def scene(queues: Queues) -> None:
        held = _Held(settings.database_url, "views")
        (first,) = await _sent(queues, [_one("first")])
        tasks = await _sent(queues, submissions)
        held.let_go()
        await first
        outcomes.extend(await asyncio.gather(*tasks, return_exceptions=True))

    with _commits(context.database) as commits:
        _run(context, scene)
    return outcomes, len(commits)


def _counters(context: Context) -> dict[str, int]:
    """Without the batch that came first, which must be there once."""
    counted = books.counters(context.database)
    assert counted.pop("first") == 1
    return counted


def test_what_comes_while_a_commit_waits_for_its_turn_joins_it(context: Context, settings: Settings) -> None:
    _create(context)
    outcomes, transactions = _together(context, settings, [_one(f"k{number % 5}") for number in range(50)])
    assert outcomes == [None] * 50
    assert transactions == 1
    assert _counters(context) == {f"k{number}": 10 for number in range(5)}


def test_a_batch_is_acknowledged_only_when_it_is_in_the_database(context: Context, settings: Settings) -> None:
    _create(context)
    elsewhere = Database(settings.database_url)

    async def scene(queues: Queues) -> None:
        async def check(key: str) -> None:
            await _count(queues, "views", _one(key))
            assert key in books.counters(elsewhere)

        await asyncio.gather(*(check(f"k{number}") for number in range(40)))

    _run(context, scene)
    elsewhere.close()


def test_nothing_is_acknowledged_while_its_commit_waits(context: Context, settings: Settings) -> None:
    _create(context)

    async def scene(queues: Queues) -> None:
        held = _Held(settings.database_url, "views")
        tasks = [*await _sent(queues, [_one("a")]), *await _sent(queues, [_one("b")])]
        done, _ = await asyncio.wait(tasks, timeout=0.3)
        assert not done
        assert books.counters(context.database) == {}
        held.let_go()
        await asyncio.gather(*tasks)

    _run(context, scene)
    assert books.counters(context.database) == {"a": 1, "b": 1}


def test_batches_of_a_sketch_are_folded_in_the_order_in_which_they_came(context: Context, settings: Settings) -> None:
    _create(context, k=3)
    with context.database.reading() as session:
        empty = states.load(session, sketches.get(session, "views"), for_update=False)
    assert isinstance(empty, StreamSketch)
    events = [("first", 1), *((f"k{number * number % 11}", 1 + number % 3) for number in range(200))]
    _together(context, settings, [Submission(batch_of([item])) for item in events[1:]])
    assert books.counters(context.database) == empty.extended(events).counters
    assert empty.extended(events).counters != empty.extended([events[0], *events[:0:-1]]).counters  # order matters here


def test_sketches_do_not_wait_for_each_other(context: Context, settings: Settings) -> None:
    if settings.database_url.startswith("sqlite"):
        pytest.skip("SQLite has one writer")
    names = [f"free-{number}" for number in range(10)]
    for name in ("views", *names):
        _create(context, name)

    async def scene(queues: Queues) -> None:
        held = _Held(settings.database_url, "views")
        waiting = [*await _sent(queues, [_one("a")]), *await _sent(queues, [_one("b")])]
        for name in names:
            await _count(queues, name, _one("a"))
        assert not any(task.done() for task in waiting)
        held.let_go()
        await asyncio.gather(*waiting)

    _run(context, scene)
    assert [books.counters(context.database, name) for name in names] == [{"a": 1}] * len(names)
    assert books.counters(context.database) == {"a": 1, "b": 1}


def test_more_than_a_thousand_are_split(context: Context, settings: Settings) -> None:
    _create(context)
    submissions = [_one("a", _claim(str(number))) for number in range(2500)]
    outcomes, transactions = _together(context, settings, submissions)
    assert outcomes == [None] * 2500
    assert transactions == 3
    assert _counters(context) == {"a": 2500}


def test_a_waiter_that_goes_away_does_not_disturb_the_others(context: Context, settings: Settings) -> None:
    """Neither one whose commit runs, nor one that waits for the next."""
    _create(context)

    async def scene(queues: Queues) -> None:
        held = _Held(settings.database_url, "views")
        (running,) = await _sent(queues, [_one("gone")])
        tasks = await _sent(queues, [_one("a"), _one("gone"), _one("b"), _one("a")])
        running.cancel()
        tasks[1].cancel()
        await asyncio.sleep(0)
        held.let_go()
        outcomes = await asyncio.gather(running, *tasks, return_exceptions=True)
        assert [isinstance(one, asyncio.CancelledError) for one in outcomes] == [True, False, True, False, False]
        assert [outcomes[at] for at in (1, 3, 4)] == [None] * 3
        await _count(queues, "views", _one("later"))

    _run(context, scene)
    counted = books.counters(context.database)
    assert counted.pop("gone", 0) <= 2
    assert counted == {"a": 2, "b": 1, "later": 1}


def test_a_faulty_batch_fails_alone(context: Context, settings: Settings) -> None:
    _create(context)
    outcomes, _ = _together(context, settings, [_one("a"), _one("b"), _broken(), _one("a"), _one("c")])
    assert [outcome is None for outcome in outcomes] == [True, True, False, True, True]
    assert _counters(context) == {"a": 2, "b": 1, "c": 1}


def test_a_refused_batch_is_refused_alone(context: Context, settings: Settings) -> None:
    _create(context, universe=of_values(["a", "b", "first"]))
    revoked = create_key(context, "n", ["ingest"], "*").key.id
    revoke_key(context, revoked)
    submissions = [
        _one("a", _claim("1")),
        _one("foreign"),
        _one("a", None, revoked),
        _one("b", _claim("1", "other")),
        _one("a", _claim("1")),
        _one("b"),
    ]
    outcomes, transactions = _together(context, settings, submissions)
    found = [None if outcome is None else type(outcome) for outcome in outcomes]
    assert found == [None, BadBatch, Unauthenticated, IdempotencyKeyReused, None, None]
    assert transactions == 1
    assert _counters(context) == {"a": 1, "b": 1}


def test_a_key_revoked_while_its_batches_wait_is_refused(context: Context, settings: Settings) -> None:
    if settings.database_url.startswith("sqlite"):
        pytest.skip("SQLite has one writer, who cannot be revoking meanwhile")
    _create(context)
    key_id = create_key(context, "n", ["ingest"], "*").key.id

    async def scene(queues: Queues) -> None:
        await _count(queues, "views", _one("a", None, key_id))
        held = _Held(settings.database_url, "views")
        tasks = [*await _sent(queues, [_one("b", None, key_id)]), *await _sent(queues, [_one("c", None, key_id)])]
        revoke_key(context, key_id)
        held.let_go()
        for task in tasks:
            with pytest.raises(Unauthenticated):
                await task

    _run(context, scene)
    assert books.counters(context.database) == {"a": 1}


def test_retries_in_the_same_and_in_later_groups_count_once(context: Context, settings: Settings) -> None:
    _create(context)
    submissions = [_one("a", _claim("1")), _one("b", _claim("2")), _one("a", _claim("1")), _one("b", _claim("2"))]
    outcomes, _ = _together(context, settings, submissions)
    assert outcomes == [None] * 4

    async def again(queues: Queues) -> None:
        for submission in submissions:
            await _count(queues, "views", submission)
        await asyncio.gather(*(_count(queues, "views", submission) for submission in submissions))

    _run(context, again)
    assert _counters(context) == {"a": 1, "b": 1}


def test_a_sketch_deleted_while_batches_wait_acknowledges_retries_alone(context: Context) -> None:
    _create(context)

    async def scene(queues: Queues) -> None:
        await _count(queues, "views", _one("a", _claim("1")))
        await asyncio.to_thread(delete_sketch, context, "views")
        retry, new = await _sent(queues, [_one("a", _claim("1")), _one("b", _claim("2"))])
        await retry
        with pytest.raises(UnknownSketch):
            await new

    _run(context, scene)


def test_a_sketch_that_became_a_sum_takes_no_more_batches(context: Context) -> None:
    _create(context)
    _create(context, "more")

    async def scene(queues: Queues) -> None:
        await _count(queues, "views", _one("a"))
        await asyncio.to_thread(merge_sketches, context, "views", ["more"], "summed")
        for task in await _sent(queues, [_one("b"), _one("c")]):
            with pytest.raises(Conflict):
                await task
        await _count(queues, "more", _one("a"))  # a source goes on

    _run(context, scene)
    assert books.counters(context.database, "more") == {"a": 1}


def test_a_connection_that_breaks_fails_all_of_its_group_and_not_the_next(context: Context, settings: Settings) -> None:
    """The claims of a failed group are free: each is counted once when it is sent again."""
    _create(context)
    batches = [_one(f"k{number}", _claim(str(number))) for number in range(10)]
    writes: list[str] = []

    @event.listens_for(context.database.engine, "before_cursor_execute")
    def break_the_first(connection: Connection, _cursor: object, statement: str, *_rest: object) -> None:
        if statement.startswith("UPDATE sketch_states"):
            writes.append(statement)
            driver = connection.connection.driver_connection
            if len(writes) == 1 and driver is not None:
                driver.close()

    async def scene(queues: Queues) -> None:
        held = _Held(settings.database_url, "views")
        tasks = [task for batch in batches for task in await _sent(queues, [batch])]
        held.let_go()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [Unavailable] * 10
        assert books.counters(context.database) == {}
        await asyncio.gather(*(_count(queues, "views", batch) for batch in batches))

    _run(context, scene)
    assert books.counters(context.database) == {f"k{number}": 1 for number in range(10)}


def test_sketches_take_turns_and_no_thread_is_called_twice(
    context: Context, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread for all: after each commit it is the turn of whoever waited longest."""
    monkeypatch.setattr(queue, "_THREADS", 1)
    _create(context)
    _create(context, "other")
    written: list[str] = []
    calls: list[object] = []
    together, submit = count_submissions, ThreadPoolExecutor.submit

    def note(context: Context, name: str, *arguments: Any, **more: Any) -> Any:
        written.append(name)
        return together(context, name, *arguments, **more)

    def counted(pool: ThreadPoolExecutor, *arguments: Any) -> Any:
        calls.append(arguments)
        return submit(pool, *arguments)

    async def scene(queues: Queues) -> None:
        held = _Held(settings.database_url, "views")
        tasks = await _sent(queues, [_one("first")])
        while not written:
            await asyncio.sleep(0.001)
        tasks += await _sent(queues, [_one("a")], "other")
        tasks += [task for _ in range(1500) for task in await _sent(queues, [_one("a")])]
        held.let_go()
        await asyncio.gather(*tasks)

    monkeypatch.setattr(queue, "count_submissions", note)
    monkeypatch.setattr(ThreadPoolExecutor, "submit", counted)
    _run(context, scene)
    assert written == ["views", "other", "views"]
    assert len(calls) == 3
    assert _counters(context) == {"a": 1500}


def test_nobody_waits_for_a_thread_that_cannot_be_started(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    _create(context)

    def refuse(*_arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    async def scene(queues: Queues) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(ThreadPoolExecutor, "submit", refuse)
            for task in await _sent(queues, [_one("a"), _one("b")]):
                with pytest.raises(RuntimeError):
                    await task
        await _count(queues, "views", _one("c"))

    _run(context, scene)
    assert books.counters(context.database) == {"c": 1}


def test_batches_are_counted_in_the_order_of_their_places_whoever_is_decoded_first(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody overtakes one who is still being decoded; one who leaves holds nobody up."""
    counted: list[str] = []

    def recorded(_context: Context, _name: str, together: Sequence[Submission], _queue: object) -> list[None]:
        counted.extend(key for one in together for (key,) in one.batch.keys())  # noqa: SIM118  # it is no dictionary
        return [None] * len(together)

    monkeypatch.setattr(queue, "count_submissions", recorded)
    queues = Queues(context)

    async def scene() -> None:
        slow, gone, quick = (queues.enter("views") for _ in range(3))
        done = asyncio.create_task(quick.count(_one("quick")))
        with gone:
            pass
        await asyncio.wait({done}, timeout=0.2)
        assert not counted
        with slow:
            await slow.count(_one("slow"))
        await done

    asyncio.run(scene())
    queues.close()
    assert counted == ["slow", "quick"]
