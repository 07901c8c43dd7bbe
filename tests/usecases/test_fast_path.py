"""Batches into an open sketch take one statement, which stores nothing unless all that it relies on still holds."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, Update, event, text

from app.core.errors import BadBatch, Refusal
from app.core.kernel import batch_of
from app.core.ledger.budget import Budget
from app.core.sketches.parameters import SketchParameters
from app.core.sketches.stream import StreamSketch
from app.core.sketches.universe import Universe, of_values
from app.main import build_context
from app.refusals import Closed, Conflict, Unauthenticated, Unavailable, UnknownSketch
from app.settings import Settings
from app.store import sketches, states
from app.store.claims import Claim
from app.store.database import Database
from app.usecases.context import Context
from app.usecases.ingest.count import count_submissions
from app.usecases.ingest.submission import Submission
from app.usecases.manage_api_keys import create_key, revoke_key
from app.usecases.manage_sketches import OwnBudget, SketchSpec, close_sketch, create_sketch, delete_sketch
from app.usecases.merge_sketches import merge_sketches
from tests import books
from tests.counting import count_one

SWAP = ["one statement"]


def _create(context: Context, name: str = "views", *, k: int = 1024, universe: Universe | None = None) -> None:
    budget = OwnBudget(Budget.granted(epsilon="1", delta="1e-5"), "basic")
    spec = SketchSpec(SketchParameters(k=k, unit="event", max_contributions=1, universe=universe), ledger=budget)
    create_sketch(context, name, spec)


def _opened(context: Context) -> None:
    """A sketch that the process has just written to, of several parts on PostgreSQL."""
    _create(context)
    count_one(context, "views", _one("first"))


def _one(key: str, key_id: str | None = None) -> Submission:
    return Submission(batch_of([(key, 1)]), api_key_id=key_id)


def _claim(key: str) -> Claim:
    return Claim.of(secret="s", operation="events", target="views", key=key, content=b"")


@contextmanager
def _statements(database: Database) -> Iterator[list[str]]:
    """The first words of each: those of transactions, and those that are one."""
    seen: list[str] = []
    carry_out = database.carry_out

    def note(_connection: Connection, _cursor: object, statement: str, *_rest: object) -> None:
        seen.append(" ".join(statement.split()[:2]))

    def swap(statement: Update, values: Mapping[str, object]) -> int:
        seen.append(SWAP[0])
        return carry_out(statement, values)

    event.listen(database.engine, "before_cursor_execute", note)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(database, "carry_out", swap)
        yield seen
    event.remove(database.engine, "before_cursor_execute", note)


@contextmanager
def _first_swap(database: Database, before: Callable[[Database], None], after: Callable[[], None]) -> Iterator[None]:
    """Do this before and after the first one."""
    carry_out, left = database.carry_out, [1]

    def once(statement: Update, values: Mapping[str, object]) -> int:
        if not left:
            return carry_out(statement, values)
        left.pop()
        before(database)
        rows = carry_out(statement, values)
        after()
        return rows

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(database, "carry_out", once)
        yield
    assert not left


def test_batches_into_an_open_sketch_take_one_statement(context: Context) -> None:
    _create(context)
    key_id = create_key(context, "n", ["ingest"], "*").key.id
    with _statements(context.database) as cold:
        count_one(context, "views", _one("a"))
    with _statements(context.database) as hot:
        count_one(context, "views", _one("a"))
    with _statements(context.database) as together:
        assert count_submissions(context, "views", [_one("b"), _one("a", key_id), _one("c")]) == [None] * 3
    assert len(cold) > 1
    assert hot == together == SWAP
    assert books.counters(context.database) == {"a": 3, "b": 1, "c": 1}


def test_where_there_is_more_to_look_up_nothing_is_swapped(context: Context) -> None:
    _opened(context)
    for submission in (Submission(batch_of([("a", 1)]), _claim("1")), Submission(batch_of([]))):
        with _statements(context.database) as seen:
            count_one(context, "views", submission)
        assert SWAP[0] not in seen
    _create(context, "closed set", universe=of_values(["a", "b"]))
    count_one(context, "closed set", _one("a"))
    with _statements(context.database) as seen:
        count_one(context, "closed set", _one("a"))
    assert SWAP[0] not in seen
    with pytest.raises(BadBatch):
        count_one(context, "closed set", _one("c"))
    assert books.counters(context.database) == {"first": 1, "a": 1}
    assert books.counters(context.database, "closed set") == {"a": 2}


def test_what_another_process_wrote_stays(context: Context, settings: Settings) -> None:
    """On a sketch so small that every event out of place shows, the two in no regular order."""
    _create(context, k=3)
    with context.database.reading() as session:
        expected = states.load(session, sketches.get(session, "views"), for_update=False)
    assert isinstance(expected, StreamSketch)
    other = build_context(settings)
    keys = [f"k{number * number % 7}" for number in range(60)]
    with _statements(context.database) as seen:
        for number, key in enumerate(keys):
            count_one(other if number % 11 in (2, 3, 7) else context, "views", _one(key))
    other.database.close()
    assert 15 < seen.count(SWAP[0]) < 44  # of 44 by this process; the others met what the other one wrote
    assert books.counters(context.database) == expected.extended((key, 1) for key in keys).counters


def _close(context: Context, _key_id: str) -> None:
    close_sketch(context, "views")


def _delete(context: Context, _key_id: str) -> None:
    delete_sketch(context, "views")


def _make_a_sum(context: Context, _key_id: str) -> None:
    _create(context, "more")
    merge_sketches(context, "views", ["more"], "summed")


def _revoke(context: Context, key_id: str) -> None:
    revoke_key(context, key_id)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [(_close, Closed), (_delete, UnknownSketch), (_make_a_sum, Conflict), (_revoke, Unauthenticated)],
)
def test_what_changed_since_the_last_batch_is_heeded(
    context: Context, change: Callable[[Context, str], None], refusal: type[Refusal]
) -> None:
    _opened(context)
    key_id = create_key(context, "n", ["ingest"], "*").key.id
    count_one(context, "views", _one("a", key_id))
    change(context, key_id)
    for _ in range(2):
        with pytest.raises(refusal):
            count_one(context, "views", _one("a", key_id))


def test_a_revoked_key_among_others_is_refused_alone(context: Context) -> None:
    _opened(context)
    good, bad = (create_key(context, name, ["ingest"], "*").key.id for name in "gb")
    count_submissions(context, "views", [_one("a", good), _one("a", bad)])
    revoke_key(context, bad)
    outcomes = count_submissions(context, "views", [_one("a", good), _one("b", bad), _one("c")])
    assert [type(outcome) for outcome in outcomes] == [type(None), Unauthenticated, type(None)]
    assert books.counters(context.database) == {"first": 1, "a": 3, "c": 1}


def test_many_keys_in_one_group_are_all_looked_at(context: Context) -> None:
    _opened(context)
    key_ids = [create_key(context, f"n{number}", ["ingest"], "*").key.id for number in range(25)]
    together = [_one("a", key_id) for key_id in key_ids]
    assert count_submissions(context, "views", together) == [None] * 25
    revoke_key(context, key_ids[23])
    outcomes = count_submissions(context, "views", together)
    assert [at for at, outcome in enumerate(outcomes) if outcome is not None] == [23]
    assert books.counters(context.database) == {"first": 1, "a": 49}


def test_a_row_that_somebody_holds_is_waited_for_with_everything_looked_up_after_that(
    context: Context, settings: Settings
) -> None:
    if settings.database_url.startswith("sqlite"):
        pytest.skip("SQLite has one writer, and a statement begins with its turn")
    _opened(context)
    key_id = create_key(context, "n", ["ingest"], "*").key.id
    count_one(context, "views", _one("a", key_id))
    _, stored = books.stored(context.database)
    holder = Database(settings.database_url)
    with holder.writing() as session, _statements(context.database) as seen:
        held = states.lock(session, "views")
        assert held is not None
        version = states.Version(held.token, stored)  # which is right
        swapped = states.compare_and_swap(context.database, held.sketch_id, version, stored, unless_revoked=[key_id])
        assert swapped is None  # at once
    assert seen == SWAP
    holder.close()


def _lose(database: Database) -> None:
    """The database goes away: for real on PostgreSQL, where sessions can be ended."""
    if database.engine.dialect.name == "sqlite":
        raise Unavailable("disk I/O error")
    other = Database(database.engine.url.render_as_string(hide_password=False))
    with other.writing() as session:
        them = "datname = current_database() AND pid <> pg_backend_pid()"
        session.execute(text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {them}"))
    other.close()


def _break(_database: Database) -> None:
    raise ArithmeticError


def _nothing(*_arguments: object) -> None:
    pass


@pytest.mark.parametrize("together", [1, 3])
def test_a_database_that_goes_away_before_it_is_told_counts_nothing(context: Context, together: int) -> None:
    _opened(context)
    batches = [_one(f"k{number}") for number in range(together)]
    with _first_swap(context.database, _lose, _nothing):
        assert [type(one) for one in count_submissions(context, "views", batches)] == [Unavailable] * together
    assert books.counters(context.database) == {"first": 1}
    assert count_submissions(context, "views", batches) == [None] * together
    assert books.counters(context.database) == {"first": 1} | {f"k{number}": 1 for number in range(together)}


def test_an_answer_that_is_lost_is_not_followed_by_another_try(context: Context) -> None:
    """It is counted, the client hears that it may be, and what comes next is counted upon it."""
    _opened(context)

    def lose() -> None:
        raise Unavailable("the answer is lost")

    with _first_swap(context.database, _nothing, lose):
        outcomes = count_submissions(context, "views", [_one("a"), _one("b")])
    assert [type(outcome) for outcome in outcomes] == [Unavailable] * 2
    assert count_submissions(context, "views", [_one("c")]) == [None]
    assert books.counters(context.database) == {"first": 1, "a": 1, "b": 1, "c": 1}


def test_a_fault_before_the_statement_is_made_up_for_one_by_one(context: Context) -> None:
    _opened(context)
    with _first_swap(context.database, _break, _nothing):
        assert count_submissions(context, "views", [_one("a"), _one("b")]) == [None] * 2
    assert books.counters(context.database) == {"first": 1, "a": 1, "b": 1}


def test_a_fault_after_the_statement_leads_to_no_other_try(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    _opened(context)

    def refuse(*_arguments: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(context.open_sketches, "put", refuse)
        assert count_submissions(context, "views", [_one("a"), _one("b")]) == [None] * 2
    assert count_submissions(context, "views", [_one("c")]) == [None]
    assert books.counters(context.database) == {"first": 1, "a": 1, "b": 1, "c": 1}


@pytest.mark.parametrize("failure", [_lose, _break])
def test_after_a_failure_the_counters_are_those_of_the_acknowledged_batches(
    context: Context, failure: Callable[[Database], None]
) -> None:
    _create(context, k=3)
    with context.database.reading() as session:
        expected = states.load(session, sketches.get(session, "views"), for_update=False)
    assert isinstance(expected, StreamSketch)
    counted: list[str] = []
    for number in range(60):
        key = f"k{number * number % 7}"
        if number % 10 == 9:
            with _first_swap(context.database, failure, _nothing):
                (outcome,) = count_submissions(context, "views", [_one(key)])
        else:
            (outcome,) = count_submissions(context, "views", [_one(key)])
        counted += [key] if outcome is None else []
    assert 50 < len(counted) < 60
    assert books.counters(context.database) == expected.extended((key, 1) for key in counted).counters
