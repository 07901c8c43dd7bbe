"""Batches that share a transaction: each counted once or refused, none at the expense of its neighbours."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import pytest
from sqlalchemy import Connection, event, exc, func, select, text

from app.core.errors import BadBatch, Refusal
from app.core.kernel import Batch, batch_of
from app.core.ledger.budget import Budget
from app.core.sketches.parameters import SketchParameters
from app.core.sketches.universe import Universe, of_values
from app.main import build_context
from app.refusals import Conflict, IdempotencyKeyReused, Unauthenticated, Unavailable, UnknownSketch
from app.settings import Settings
from app.store import sketches, states
from app.store.claims import Claim
from app.store.database import Database
from app.store.tables import RequestRow
from app.usecases.context import Context
from app.usecases.ingest.count import count_submissions
from app.usecases.ingest.submission import Outcome, Submission
from app.usecases.manage_api_keys import create_key, revoke_key
from app.usecases.manage_sketches import OwnBudget, SketchSpec, create_sketch, delete_sketch
from app.usecases.merge_sketches import merge_sketches
from tests import books
from tests.counting import count_one


def _create(context: Context, name: str = "views", *, k: int = 64, universe: Universe | None = None) -> None:
    budget = OwnBudget(Budget.granted(epsilon="1", delta="1e-5"), "basic")
    spec = SketchSpec(SketchParameters(k=k, unit="event", max_contributions=1, universe=universe), ledger=budget)
    create_sketch(context, name, spec)


def _claim(key: str, content: str = "") -> Claim:
    return Claim.of(secret="s", operation="events", target="views", key=key, content=content.encode())


def _one(key: str, claim: Claim | None = None, key_id: str | None = None) -> Submission:
    return Submission(batch_of([(key, 1)]), claim, key_id)


def _claims(context: Context) -> int:
    with context.database.reading() as session:
        return session.scalar(select(func.count()).select_from(RequestRow)) or 0


def _kinds(outcomes: Sequence[Outcome]) -> list[type[Exception] | None]:
    return [None if outcome is None else type(outcome) for outcome in outcomes]


class _Broken:
    """A batch that no fold can take."""

    def __len__(self) -> int:
        return 1


def _broken(claim: Claim | None = None) -> Submission:
    return Submission(cast(Batch, _Broken()), claim)


@dataclass
class _Commits:
    number: int = 0


@contextmanager
def _commits(database: Database) -> Iterator[_Commits]:
    """How many transactions were committed meanwhile."""
    seen = _Commits()

    def count(_connection: Connection) -> None:
        seen.number += 1

    event.listen(database.engine, "commit", count)
    yield seen
    event.remove(database.engine, "commit", count)


@contextmanager
def _first_commit(database: Database, what: Any) -> Iterator[None]:
    """Do this in place of the first commit, or before it."""
    left = [what]

    def once(connection: Connection) -> None:
        if left:
            left.pop()(connection)

    event.listen(database.engine, "commit", once)
    yield
    event.remove(database.engine, "commit", once)
    assert not left


def _lose(connection: Connection) -> None:
    """The database goes away just before the commit: for real on PostgreSQL, where a session can be ended."""
    if connection.dialect.name == "sqlite":
        raise exc.OperationalError("COMMIT", None, sqlite3.OperationalError("disk I/O error"))
    process = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar()
    with connection.engine.connect() as other:
        other.execute(text("SELECT pg_terminate_backend(:process)"), {"process": process})


def _commit_and_lose(connection: Connection) -> None:
    """The commit is done, but nobody hears of it."""
    driver = connection.connection.driver_connection
    assert driver is not None
    driver.commit()
    raise exc.OperationalError("COMMIT", None, sqlite3.OperationalError("the answer is lost"))


def _break(_connection: Connection) -> None:
    raise ArithmeticError


def test_batches_that_wait_together_are_one_transaction(context: Context) -> None:
    _create(context)
    with _commits(context.database) as commits:
        assert count_submissions(context, "views", [_one(f"k{number % 3}") for number in range(30)]) == [None] * 30
    assert commits.number == 1
    assert books.counters(context.database) == {"k0": 10, "k1": 10, "k2": 10}


def test_a_thousand_claims_fit_into_one_transaction(context: Context) -> None:
    _create(context)
    together = [_one("a", _claim(str(number))) for number in range(1000)]
    with _commits(context.database) as commits:
        assert count_submissions(context, "views", together) == [None] * 1000
        assert count_submissions(context, "views", together) == [None] * 1000
    assert commits.number == 2
    assert books.counters(context.database) == {"a": 1000}
    assert _claims(context) == 1000


def test_a_faulty_batch_fails_alone(context: Context) -> None:
    _create(context)
    together = [_one("a", _claim("1")), _broken(_claim("2")), _one("b"), _one("a", _claim("3"))]
    outcomes = count_submissions(context, "views", together)
    assert [outcome is None for outcome in outcomes] == [True, False, True, True]
    assert not isinstance(outcomes[1], Refusal)
    assert books.counters(context.database) == {"a": 2, "b": 1}
    assert _claims(context) == 2
    assert count_submissions(context, "views", [_one("c", _claim("2", "mended"))]) == [None]
    assert books.counters(context.database) == {"a": 2, "b": 1, "c": 1}


@pytest.mark.parametrize("at", range(4))
def test_a_fold_left_halfway_is_never_used_again(context: Context, at: int) -> None:
    """Whether the fault comes first or last, and although the sketch was open before."""
    _create(context, k=2)
    count_one(context, "views", _one("a"))
    together = [_one("a"), _one("b"), _one("a")]
    together.insert(at, _broken())
    outcomes = count_submissions(context, "views", together)
    assert [number for number, outcome in enumerate(outcomes) if outcome] == [at]
    count_one(context, "views", _one("b"))
    assert books.counters(context.database) == {"a": 3, "b": 2}


def test_a_batch_with_a_foreign_key_is_refused_alone(context: Context) -> None:
    _create(context, universe=of_values(["a", "b"]))
    together = [_one("a", _claim("1")), _one("elsewhere", _claim("2")), _one("b")]
    assert _kinds(count_submissions(context, "views", together)) == [None, BadBatch, None]
    assert books.counters(context.database) == {"a": 1, "b": 1}
    assert count_submissions(context, "views", [_one("b", _claim("2", "mended"))]) == [None]  # the claim is not used up


def test_batches_of_a_revoked_key_are_refused_alone(context: Context) -> None:
    _create(context)
    good, bad = (create_key(context, "n", ["ingest"], "*").key.id for _ in range(2))
    count_one(context, "views", _one("a", _claim("1"), bad))
    revoke_key(context, bad)
    together = [
        _one("a", None, good),
        _one("b", _claim("1"), bad),
        _one("c", None, bad),
        _one("d"),
        _one("a", None, good),
    ]
    assert _kinds(count_submissions(context, "views", together)) == [None, Unauthenticated, Unauthenticated, None, None]
    assert books.counters(context.database) == {"a": 3, "d": 1}


def test_one_claim_twice_in_a_group_counts_once(context: Context) -> None:
    _create(context)
    together = [_one("a", _claim("1")), _one("b"), _one("a", _claim("1")), _one("c", _claim("1", "other")), _one("b")]
    with _commits(context.database) as commits:
        assert _kinds(count_submissions(context, "views", together)) == [None, None, None, IdempotencyKeyReused, None]
    assert commits.number == 1
    assert books.counters(context.database) == {"a": 1, "b": 2}


def test_a_claim_of_an_earlier_group_counts_once(context: Context) -> None:
    _create(context)
    count_one(context, "views", _one("a", _claim("1")))
    together = [_one("b"), _one("a", _claim("1")), _one("c", _claim("1", "other")), _one("d", _claim("2"))]
    for _ in range(2):
        assert _kinds(count_submissions(context, "views", together)) == [None, None, IdempotencyKeyReused, None]
    assert books.counters(context.database) == {"a": 1, "b": 2, "d": 1}


def test_after_a_faulty_batch_its_claim_is_free_for_a_later_one_of_the_group(context: Context) -> None:
    _create(context)
    together = [_broken(_claim("1")), _one("a", _claim("1", "mended")), _one("a", _claim("1", "mended"))]
    assert [outcome is None for outcome in count_submissions(context, "views", together)] == [False, True, True]
    assert books.counters(context.database) == {"a": 1}


def test_a_retry_is_acknowledged_after_the_sketch_was_deleted_and_a_new_batch_is_not(context: Context) -> None:
    _create(context)
    count_one(context, "views", _one("a", _claim("1")))
    delete_sketch(context, "views")
    together = [
        _one("a", _claim("1")),
        _one("b", _claim("1", "other")),
        _one("c", _claim("2")),
        _one("d"),
        _one("a", _claim("1")),
    ]
    expected = [None, IdempotencyKeyReused, UnknownSketch, UnknownSketch, None]
    assert _kinds(count_submissions(context, "views", together)) == expected
    assert _kinds(count_submissions(context, "views", together)) == expected
    assert _claims(context) == 1


def test_a_retry_is_acknowledged_after_the_sketch_became_a_sum_and_a_new_batch_is_not(context: Context) -> None:
    for name in ("views", "more"):
        _create(context, name)
        count_one(context, name, _one("a", _claim("1") if name == "views" else None))
    merge_sketches(context, "views", ["more"], "summed")
    before = books.counters(context.database)
    together = [_one("b"), _one("a", _claim("1")), _one("c", _claim("2")), Submission(batch_of([]))]
    assert _kinds(count_submissions(context, "views", together)) == [Conflict, None, Conflict, Conflict]
    assert books.counters(context.database) == before


def test_an_unknown_sketch_refuses_all(context: Context) -> None:
    outcomes = count_submissions(context, "missing", [_one("a"), _broken(), _one("b", _claim("1"))])
    assert _kinds(outcomes) == [UnknownSketch] * 3
    assert _claims(context) == 0


def test_a_database_that_goes_away_fails_all_and_counts_nothing(context: Context) -> None:
    _create(context)
    count_one(context, "views", _one("a"))
    together = [_one("a", _claim("1")), _one("b", _claim("2")), _one("a", _claim("3"))]
    with _first_commit(context.database, _lose):
        assert _kinds(count_submissions(context, "views", together)) == [Unavailable] * 3
    assert books.counters(context.database) == {"a": 1}
    assert _claims(context) == 0
    assert count_submissions(context, "views", [*together, *together]) == [None] * 6
    assert books.counters(context.database) == {"a": 3, "b": 1}


def test_a_commit_whose_answer_is_lost_is_not_repeated_by_a_retry(context: Context) -> None:
    _create(context)
    count_one(context, "views", _one("a"))
    together = [_one("a", _claim("1")), _one("b", _claim("2"))]
    with _first_commit(context.database, _commit_and_lose):
        assert _kinds(count_submissions(context, "views", together)) == [Unavailable] * 2
    assert books.counters(context.database) == {"a": 2, "b": 1}
    assert count_submissions(context, "views", [*together, _one("c")]) == [None] * 3
    assert books.counters(context.database) == {"a": 2, "b": 1, "c": 1}


def test_a_fault_of_the_commit_is_made_up_for_one_by_one(context: Context) -> None:
    _create(context)
    together = [_one("a", _claim("1")), _one("b", _claim("2")), _one("a", _claim("3"))]
    with _first_commit(context.database, _break), _commits(context.database) as commits:
        assert count_submissions(context, "views", together) == [None] * 3
    assert commits.number >= 3
    assert books.counters(context.database) == {"a": 2, "b": 1}


@pytest.mark.parametrize("failure", [_lose, _break, _commit_and_lose])
def test_after_a_failed_commit_the_counters_are_those_of_the_acknowledged_batches(
    context: Context, failure: Any
) -> None:
    """Against the plain definition, on a sketch so small that every event out of place shows."""
    _create(context, k=3)
    with context.database.reading() as session:
        expected = states.load(session, sketches.get(session, "views"), for_update=False)
    keys = [f"k{number * number % 7}" for number in range(60)]
    for number, key in enumerate(keys):
        submission = _one(key, _claim(str(number)))
        if number % 10 == 9:
            with _first_commit(context.database, failure):
                count_submissions(context, "views", [submission])
        count_one(context, "views", submission)
    expected = expected.extended((key, 1) for key in keys)  # type: ignore[union-attr]  # a stream sketch
    assert books.counters(context.database) == expected.counters


def test_an_empty_batch_changes_nothing_but_takes_its_claim(context: Context) -> None:
    _create(context)
    empty = Submission(batch_of([]), _claim("1"))
    other = _one("a", _claim("1", "other"))
    assert _kinds(count_submissions(context, "views", [empty, empty, other])) == [None, None, IdempotencyKeyReused]
    assert _kinds(count_submissions(context, "views", [other])) == [IdempotencyKeyReused]
    assert books.counters(context.database) == {}


def test_what_was_folded_too_early_is_folded_again(context: Context, settings: Settings) -> None:
    """Where another process wrote meanwhile, or a batch turns out to be a retry; again where every event shows."""
    _create(context, k=3)
    with context.database.reading() as session:
        expected = states.load(session, sketches.get(session, "views"), for_update=False)
    other = build_context(settings)
    keys = [f"k{number * number % 7}" for number in range(60)]
    batches = [_one(key, _claim(str(number))) for number, key in enumerate(keys)]
    for number, batch in enumerate(batches):
        process = other if number % 7 in (2, 3, 5) else context
        assert count_submissions(process, "views", [batch, batches[number // 2]]) == [None] * 2
    other.database.close()
    expected = expected.extended((key, 1) for key in keys)  # type: ignore[union-attr]  # a stream sketch
    assert books.counters(context.database) == expected.counters
