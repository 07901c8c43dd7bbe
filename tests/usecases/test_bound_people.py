"""A person counts up to the allowance, whatever fails, is retried, raced or forgotten meanwhile; others are untouched.

Started as a program, `python -m tests.usecases.test_bound_people DATABASE_URL`, it is killed -9 at one moment after the
other of ingest, and reports each time what was counted and what was used.
"""

import json
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import delete, event, insert, select, update
from sqlalchemy.orm import Session

from app.core.kernel import batch_of, sets_of
from app.core.ledger.budget import Budget
from app.core.people import Enforcement, Unit
from app.core.sketches.parameters import Contributions, SketchParameters
from app.main import build_context
from app.refusals import Unauthenticated, Unavailable, WrongUserKey
from app.settings import Settings
from app.store import allowances, open_sketches
from app.store.claims import Claim
from app.store.database import Database
from app.store.open_sketches import OpenSketches
from app.store.tables import AllowanceRow, RegisterRow, RequestRow
from app.store.user_key import UserKey
from app.usecases import merge_sketches as merging
from app.usecases.context import Context
from app.usecases.ingest.count import count_submissions
from app.usecases.ingest.people import rules_of
from app.usecases.ingest.submission import Outcome, Submission
from app.usecases.manage_api_keys import create_key, revoke_key
from app.usecases.manage_ledgers import create_ledger
from app.usecases.manage_sketches import OwnBudget, SketchSpec, close_sketch, create_sketch
from app.usecases.merge_sketches import merge_sketches
from tests import books
from tests.counting import count_one
from tests.usecases import crashing

pytestmark = pytest.mark.long

Item = tuple[str, str] | tuple[str, str, int]  # user, key, count

_BUDGET = Budget.granted(epsilon="10", delta="1e-3")


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    """With a key of the test's own."""
    return Settings(database_url=database_url, user_key_file=str(tmp_path / "user.key"))


def _create(
    context: Context,
    name: str = "views",
    *,
    m: int = 5,
    k: int = 64,
    unit: Unit = "event",
    enforcement: Enforcement = "enforced",
    ledger: str | None = None,
) -> None:
    spec = SketchSpec(
        SketchParameters(k=k, unit=unit, max_contributions=m, enforcement=enforcement),
        ledger=ledger or OwnBudget(_BUDGET, "basic"),
    )
    create_sketch(context, name, spec)


def _claim(key: str) -> Claim:
    return Claim.of(secret="s", operation="events", target="views", key=key, content=b"")


def _events(context: Context, items: Sequence[Item], name: str = "views", claim: str | None = None) -> Submission:
    rules = rules_of(context, name)
    batch = batch_of([(item[1], item[2] if len(item) == 3 else 1) for item in items], [item[0] for item in items])
    return Submission(batch, _claim(claim) if claim else None, None, rules.people_in(batch), rules)


def _sets(context: Context, sets: Sequence[tuple[str, Sequence[str]]], name: str = "views") -> Submission:
    rules = rules_of(context, name)
    batch = sets_of(sets, rules.max_contributions)
    return Submission(batch, None, None, rules.people_in(batch), rules)


def _send(context: Context, items: Sequence[Item], name: str = "views", claim: str | None = None) -> None:
    count_one(context, name, _events(context, items, name, claim))


def _used(database: Database) -> dict[bytes, int]:
    """What all people have used, by fingerprint."""
    found: Counter[bytes] = Counter()
    with database.reading() as session:
        for usages in session.scalars(select(AllowanceRow.usages)):
            for person, used in struct.iter_unpack("<12sH", usages):
                found[person] = max(found[person], used)
    return dict(found)


def _in_step(context: Context, name: str = "views") -> int:
    """As many events were counted as allowances used; how many."""
    counted = sum(books.counters(context.database, name).values())
    assert counted == sum(_used(context.database).values())
    return counted


# Within batches and over them


def test_a_user_beyond_the_allowance_counts_up_to_it_and_others_in_the_batch_as_sent(context: Context) -> None:
    _create(context)
    _send(context, [("u", "a"), ("v", "a"), *[("u", "b")] * 9, ("w", "c", 5), ("v", "b", 2), ("u", "c")])
    assert books.counters(context.database) == {"a": 2, "b": 4 + 2, "c": 5}
    assert sorted(_used(context.database).values()) == [3, 5, 5]


def test_a_count_is_cut_to_what_is_left(context: Context) -> None:
    _create(context)
    _send(context, [("u", "a", 7), ("v", "a", 2), ("v", "b", 2**31 - 1), ("v", "c")])
    assert books.counters(context.database) == {"a": 7, "b": 3}


def test_a_user_beyond_the_allowance_over_many_batches_counts_up_to_it(context: Context) -> None:
    _create(context)
    for number in range(10):
        _send(context, [("u", f"k{number}"), (f"other-{number}", "a")])
    assert books.counters(context.database) == {"a": 10} | {f"k{number}": 1 for number in range(5)}


def test_the_batches_of_a_group_count_one_after_the_other(context: Context) -> None:
    _create(context)
    together = [_events(context, [("u", f"k{number}", 2), (f"o{number}", "a")]) for number in range(6)]
    assert count_submissions(context, "views", together) == [None] * 6
    assert books.counters(context.database) == {"a": 6, "k0": 2, "k1": 2, "k2": 1}


def test_a_batch_without_people_is_a_fault_whether_or_not_the_sketch_is_open(context: Context) -> None:
    """The API asks for them first; whatever went wrong there, nobody is counted without an allowance."""
    _create(context)
    unnamed = Submission(batch_of([("x", 5)]), rules=rules_of(context, "views"))
    for _ in range(2):
        (outcome,) = count_submissions(context, "views", [unnamed])
        assert isinstance(outcome, RuntimeError)
        _send(context, [("u", "a")])
    assert books.counters(context.database) == {"a": 2}


def test_a_retry_uses_nothing_in_its_group_or_later(context: Context) -> None:
    _create(context)
    first = _events(context, [("u", "a", 2), ("v", "a")], claim="1")
    second = _events(context, [("u", "b", 4)], claim="2")
    assert count_submissions(context, "views", [first, first, second, first, second]) == [None] * 5
    assert count_submissions(context, "views", [second, first]) == [None] * 2
    assert books.counters(context.database) == {"a": 3, "b": 3}
    _send(context, [("v", "c", 9)])
    assert books.counters(context.database) == {"a": 3, "b": 3, "c": 4}


def test_the_first_set_of_a_person_counts_cut_to_its_first_different_keys(context: Context) -> None:
    _create(context, unit="user", m=2)
    first = [("u", ["c", "a", "c", "b"]), ("v", ["a"]), ("u", ["d"]), ("w", ["b", "b"])]
    count_one(context, "views", _sets(context, first))
    assert books.counters(context.database) == {"c": 1, "a": 2, "b": 1}
    count_one(context, "views", _sets(context, [("v", ["b", "d"]), ("x", ["d"]), ("u", ["d"])]))
    assert books.counters(context.database) == {"c": 1, "a": 2, "b": 1, "d": 1}
    assert sorted(_used(context.database).values()) == [1] * 4


def test_a_declared_sketch_counts_everything_and_writes_nobody_down(context: Context) -> None:
    _create(context, m=2, enforcement="declared")
    _send(context, [("u", "a", 9), ("u", "b")])
    assert books.counters(context.database) == {"a": 9, "b": 1}
    with context.database.reading() as session:
        assert session.scalars(select(AllowanceRow)).all() == []
        assert session.scalars(select(RegisterRow)).all() == []


def test_a_batch_of_which_nothing_counts_writes_like_any_other(context: Context) -> None:
    """The time must not tell that somebody's allowance was used up."""
    _create(context)
    statements: list[list[str]] = []
    for _ in range(3):
        with _statements(context.database) as seen:
            _send(context, [("u", "a", 5)])
        statements.append(seen)
    assert statements[1] == statements[2]
    assert sorted(statements[1]) == sorted(set(statements[1]))
    assert books.counters(context.database) == {"a": 5}
    fresh = _statements_of(context, [("somebody new", "a", 5)])
    assert fresh == statements[1]


@contextmanager
def _statements(database: Database) -> Iterator[list[str]]:
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        seen.append(statement)

    event.listen(database.engine, "before_cursor_execute", note)
    yield seen
    event.remove(database.engine, "before_cursor_execute", note)


def _statements_of(context: Context, items: Sequence[Item]) -> list[str]:
    with _statements(context.database) as seen:
        _send(context, items)
    return seen


_streams = st.lists(
    st.lists(st.tuples(st.sampled_from("uvw"), st.sampled_from("abc"), st.integers(1, 4)), max_size=6), max_size=6
)


@hypothesis_settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_streams, st.lists(st.sampled_from(["", "evict", "other", "together"]), min_size=6, max_size=6))
def test_whatever_happens_between_batches_each_person_counts_their_first_events(
    context: Context, settings: Settings, stream: list[list[tuple[str, str, int]]], between: list[str]
) -> None:
    """Evicted from memory, counted by another process, or with the log put together."""
    name = f"s{next(_numbers)}"
    _create(context, name, m=5)
    other = replace(context, open_sketches=OpenSketches(10**6))
    expected: Counter[str] = Counter()
    left = dict.fromkeys("uvw", 5)
    for batch, what in zip(stream, between, strict=False):
        context.open_sketches.put("filler", _Huge()) if what == "evict" else None
        with pytest.MonkeyPatch.context() as patched:
            if what == "together":
                patched.setattr(allowances, "_TOGETHER", 1)
            _send(other if what == "other" else context, batch, name)
        for user, key, count in batch:
            share = min(count, left[user])
            left[user] -= share
            expected[key] += share
    assert books.counters(context.database, name) == {key: count for key, count in expected.items() if count}


_numbers = iter(range(10**6))


class _Huge:
    nbytes = 10**12


# Failures


class _Broken:
    """A batch that cannot be limited, as if memory were gone halfway."""

    def __len__(self) -> int:
        return 1

    def counts(self) -> bytes:
        return (1).to_bytes(4, "little")

    def limited(self, _granted: bytes) -> object:
        raise ArithmeticError


@pytest.mark.parametrize("at", range(3))
def test_a_batch_that_fails_in_a_group_uses_nobodys_allowance(context: Context, at: int) -> None:
    """It was granted something before it failed."""
    _create(context, m=2)
    _send(context, [("v", "a")])
    good = _events(context, [("u", "a")])
    together = [good, good]
    together.insert(at, replace(good, batch=cast(Any, _Broken())))
    outcomes = count_submissions(context, "views", together)
    assert [number for number, outcome in enumerate(outcomes) if outcome] == [at]
    assert books.counters(context.database) == {"a": 3}
    assert _in_step(context) == 3
    _send(context, [("u", "b"), ("v", "b", 2)])
    assert books.counters(context.database) == {"a": 3, "b": 1}


@contextmanager
def _first_commit_fails(database: Database, *, after_it: bool = False) -> Iterator[None]:
    left = [1]

    def fail(connection: Any) -> None:
        if left:
            left.pop()
            if after_it:
                connection.connection.driver_connection.commit()
            raise Unavailable("the database is gone")

    event.listen(database.engine, "commit", fail)
    yield
    event.remove(database.engine, "commit", fail)
    assert not left


def test_a_group_that_is_not_committed_uses_nobodys_allowance(context: Context) -> None:
    _create(context, m=2)
    _send(context, [("u", "a")])
    together = [_events(context, [("u", "b")], claim="1"), _events(context, [("v", "b", 2)], claim="2")]
    with _first_commit_fails(context.database):
        assert _kinds(count_submissions(context, "views", together)) == [Unavailable] * 2
    assert _in_step(context) == 1
    assert count_submissions(context, "views", together) == [None] * 2
    assert books.counters(context.database) == {"a": 1, "b": 3}
    assert _in_step(context) == 4


def test_a_commit_whose_answer_is_lost_is_remembered_by_its_retry(context: Context) -> None:
    _create(context, m=2)
    together = [_events(context, [("u", "a")], claim="1"), _events(context, [("v", "a", 2)])]
    with _first_commit_fails(context.database, after_it=True):
        assert _kinds(count_submissions(context, "views", together)) == [Unavailable] * 2
    assert count_submissions(context, "views", together) == [None] * 2
    _send(context, [("u", "b", 5)])
    assert books.counters(context.database) == {"a": 3, "b": 1}
    assert _in_step(context) == 4


def _kinds(outcomes: Sequence[Outcome]) -> list[type[Exception] | None]:
    return [None if outcome is None else type(outcome) for outcome in outcomes]


def test_a_process_killed_at_any_moment_leaves_no_event_without_allowance_and_none_the_other_way(
    context: Context, settings: Settings
) -> None:
    _create(context, m=1000, k=1024)
    command = [sys.executable, "-m", "tests.usecases.test_bound_people", settings.database_url, settings.user_key_file]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    moments = [report["moment"] for report in reports]
    assert {
        "before commit",
        "after commit",
        "after INSERT INTO allowance_entries",
        "after UPDATE sketch_states SET",
    } <= {*moments}
    for number, report in enumerate(reports):
        committed = report["moment"] == "after commit" or report["answered"]
        assert report["crashed"] == {"counted": 3 * (number + committed), "used": 3 * (number + committed)}, report
        assert report["retried"] == {"counted": 3 * (number + 1), "used": 3 * (number + 1)}, report


def main(url: str, key_file: str) -> None:
    """Runs in a process of its own, which forks and must have no other thread."""
    settings = Settings(database_url=url, user_key_file=key_file)
    pytest.MonkeyPatch().setattr(crashing, "build_context", lambda _: build_context(settings))  # with the same key
    moment, answered = 0, False
    while not answered:

        def run(context: Context, moment: int = moment) -> None:
            _send(context, [("u", "a", 2), ("v", "b")], claim=f"moment {moment}")

        answered, name = crashing._in_child(url, moment, run)
        crashed = _sums(settings)
        crashing._in_child(url, -1, run)
        report = {"moment": name, "answered": answered, "crashed": crashed, "retried": _sums(settings)}
        print(json.dumps(report))  # noqa: T201
        moment += 1


def _sums(settings: Settings) -> dict[str, int]:
    database = Database(settings.database_url)
    found = {
        "counted": sum(books.counters(database).values()),
        "used": sum(_used(database).values()),
    }
    database.close()
    return found


# Several processes


def test_processes_that_take_turns_know_what_the_others_counted(context: Context, settings: Settings) -> None:
    """Also those that remember less than the log has, since it was put together in between."""
    _create(context, m=5)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(allowances, "_TOGETHER", 3)
        processes = [replace(context, open_sketches=OpenSketches(10**6)) for _ in range(3)]
        for number in range(30):
            _send(processes[number * number % 7 % 3], [("u", "a"), (f"other-{number % 4}", "b", 2)])
    assert books.counters(context.database) == {"a": 5, "b": 20}
    assert sorted(_used(context.database).values()) == [5] * 5


def test_threads_on_two_sketches_of_one_ledger_share_the_allowance(context: Context) -> None:
    """Whoever is slower puts back what is older, and reads on from there."""
    create_ledger(context, "shared", "basic", _BUDGET, Contributions("event", 20))
    for name in ("one", "two"):
        _create(context, name, m=20, ledger="shared")
    with ThreadPoolExecutor(4) as threads:
        done = [
            threads.submit(_send, context, [("u", name), (f"{name}-{number}", "b", 2)], name)
            for number in range(20)
            for name in ("one", "two")
        ]
        for one in done:
            one.result(60)
    found = [books.counters(context.database, name) for name in ("one", "two")]
    assert sum(counters.get(name, 0) for counters, name in zip(found, ("one", "two"), strict=True)) == 20
    assert [counters["b"] for counters in found] == [40, 40]


def test_an_idle_process_that_forgot_reads_everything_again(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    _create(context)
    _send(context, [("u", "a", 3)])
    monkeypatch.setattr(open_sketches, "_IDLE_SECONDS", -1.0)
    context.open_sketches.drop_idle()
    assert context.open_sketches.take(("people", 1)) is None
    _send(context, [("u", "b", 9)])
    assert books.counters(context.database) == {"a": 3, "b": 2}


# An earlier day


@contextmanager
def _put_back(database: Database) -> Iterator[None]:
    """What is written meanwhile is lost, as by restoring a backup, or by failing over to a replica that was behind."""
    tables = (RegisterRow, AllowanceRow, RequestRow)
    state = books.stored(database)
    with database.reading() as session:
        backup = {table: [dict(row) for row in session.execute(select(table.__table__)).mappings()] for table in tables}
    yield
    with database.writing() as session:
        for table in (AllowanceRow, RequestRow):
            session.execute(delete(table))
            for row in backup[table]:
                session.connection().execute(insert(table), row)
        for row in backup[RegisterRow]:
            session.execute(update(RegisterRow).where(RegisterRow.id == row["id"]).values(sequence=row["sequence"]))
    books.put_back(database, state)


def test_a_database_put_back_to_an_earlier_day_is_noticed(context: Context) -> None:
    _create(context)
    _send(context, [("u", "a", 2)])
    with _put_back(context.database):
        for _ in range(3):
            _send(context, [("u", "lost"), ("v", "lost")])
    _send(context, [("u", "b", 9), ("v", "b", 9)])
    assert books.counters(context.database) == {"a": 2, "b": 3 + 5}
    assert _in_step(context) == 10


@pytest.mark.parametrize("later", [1, 3, 5])
def test_a_database_put_back_and_written_to_by_others_since_is_noticed(context: Context, later: int) -> None:
    """Its log may be as long as the process remembers, or longer, and is another one all the same."""
    _create(context)
    other = replace(context, open_sketches=OpenSketches(10**6))
    _send(context, [("u", "a")])
    with _put_back(context.database):
        for _ in range(3):
            _send(context, [("lost", "lost")])
    for _ in range(later):
        _send(other, [("u", "b"), ("v", "b")])
    _send(context, [("u", "c", 9), ("v", "c", 9)])
    assert books.counters(context.database).get("c", 0) == max(0, 4 - later) + max(0, 5 - later)
    assert _in_step(context) == 10


# Another key


def test_under_another_key_nothing_is_counted_and_under_the_first_one_it_goes_on(
    context: Context, tmp_path: Path
) -> None:
    _create(context)
    _send(context, [("u", "a", 3)])
    other = replace(context, user_key=UserKey(None, tmp_path / "another.key"), open_sketches=OpenSketches(10**6))
    with pytest.raises(WrongUserKey, match="DISCREET_USER_KEY"):
        rules_of(other, "views")
    _send(context, [("u", "b", 3)])
    assert books.counters(context.database) == {"a": 3, "b": 2}


# Sketches made at the same moment


def test_a_sketch_made_by_many_at_once_has_one_scope(context: Context) -> None:
    """With a shared ledger, which does not make them queue."""
    create_ledger(context, "shared", "basic", _BUDGET, None)
    with ThreadPoolExecutor(6) as threads:
        for one in [threads.submit(_create, context, "views", ledger="shared") for _ in range(6)]:
            one.result(60)
    with context.database.reading() as session:
        assert session.scalars(select(RegisterRow.name)).all() == ["sketch/views"]
    _send(context, [("u", "a", 9)])
    assert books.counters(context.database) == {"a": 5}


# Merged sketches


def test_a_sketch_merged_from_one_with_its_own_scope_counts_its_people_together_with_it(context: Context) -> None:
    _create(context)
    _send(context, [("u", "a", 2)])
    merge_sketches(context, "copy", ["views"], "compact")
    _send(context, [("u", "b", 2), ("v", "b")], "copy")
    _send(context, [("u", "c", 9), ("v", "c", 9)])
    assert books.counters(context.database, "copy") == {"a": 2, "b": 3}
    assert books.counters(context.database) == {"a": 2, "c": 1 + 4}
    close_sketch(context, "views")
    _send(context, [("u", "d"), ("w", "d", 9)], "copy")  # the people are still known
    assert books.counters(context.database, "copy") == {"a": 2, "b": 3, "d": 5}
    close_sketch(context, "copy")
    assert _used(context.database) == {}


def test_two_merges_that_make_targets_of_one_ledger_at_once_queue(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nothing else in common: both new rows refer to the scope that both must hold."""
    create_ledger(context, "shared", "basic", _BUDGET, Contributions("event", 5))
    for name in ("one", "two"):
        _create(context, name, ledger="shared")
        _send(context, [("u", name, 3)], name)
    both = Barrier(2)
    merge = merging._merge

    def meet_and_merge(*arguments: Any) -> None:
        with suppress(BrokenBarrierError):
            both.wait(1)  # which they never do
        merge(*arguments)

    monkeypatch.setattr(merging, "_merge", meet_and_merge)
    with ThreadPoolExecutor(2) as threads:
        done = [threads.submit(merge_sketches, context, f"copy-{name}", [name], "compact") for name in ("one", "two")]
        assert [one.result(60).closed_at for one in done] == [None, None]
    assert [books.counters(context.database, f"copy-{name}") for name in ("one", "two")] == [{"one": 3}, {"two": 2}]


def test_an_api_key_that_is_revoked_while_a_register_is_waited_for_counts_nothing(
    context: Context, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others of its group are counted, once, and use their allowances once."""
    if settings.database_url.startswith("sqlite"):
        pytest.skip("SQLite has one writer, who cannot be revoking meanwhile")
    _create(context, m=3)
    good, bad = (create_key(context, name, ["ingest"], "*").key.id for name in ("good", "bad"))
    lock, waits = allowances.lock, [bad]

    def wait(session: Session, register_id: int) -> allowances.HeldRegister:
        if waits:
            revoke_key(context, waits.pop())
        return lock(session, register_id)

    first, second = _events(context, [("u", "a", 2)]), _events(context, [("v", "b", 2)])
    together = [replace(first, api_key_id=bad), replace(second, api_key_id=good), first]
    monkeypatch.setattr(allowances, "lock", wait)
    assert _kinds(count_submissions(context, "views", together)) == [Unauthenticated, None, None]
    assert books.counters(context.database) == {"a": 2, "b": 2}
    assert count_submissions(context, "views", [first, second]) == [None] * 2
    assert books.counters(context.database) == {"a": 3, "b": 3}


if __name__ == "__main__":
    main(*sys.argv[1:])
