"""The log of what people have used: whoever reads it, from wherever they stand, knows the same."""

import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from random import Random
from threading import Event

import pytest
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.core.kernel import new_allowances
from app.store import allowances
from app.store.database import Database
from app.store.tables import AllowanceRow, RegisterRow
from app.usecases.context import Context

Used = dict[bytes, int]

_NOW = datetime(2024, 6, 7, tzinfo=UTC)


@pytest.fixture
def database(context: Context) -> Database:
    return context.database


@pytest.fixture
def scope(database: Database) -> int:
    with database.writing() as session:
        return allowances.create(session, "sketch/views", bytes(12))


def _person(number: int) -> bytes:
    return Random(number).randbytes(12)


def _packed(used: Used) -> bytes:
    return b"".join(person + struct.pack("<H", number) for person, number in used.items())


def _unpacked(usages: bytes) -> Used:
    return dict(struct.iter_unpack("<12sH", usages))


def _read(session: Session, scope: int, sequence: int = 0, known: Used | None = None) -> Used:
    """What a process knows that remembered so much, after it caught up."""
    learning = new_allowances()
    learning.learn(_packed(known or {}))
    for usages in allowances.usages_after(session, scope, sequence):
        learning.learn(usages)
    return _unpacked(learning.usages())


def _levels(session: Session, scope: int) -> list[int]:
    query = select(AllowanceRow.level).where(AllowanceRow.register_id == scope).order_by(AllowanceRow.sequence)
    return list(session.scalars(query))


def _append(session: Session, scope: int, used: Used) -> int:
    return allowances.append(session, allowances.lock(session, scope), _packed(used))


def _use(rng: Random, known: Used, most: int = 3) -> Used:
    """Some people use some more."""
    changed = {}
    for person in (_person(rng.randrange(40)) for _ in range(rng.randrange(most + 1))):
        known[person] = changed[person] = known.get(person, 0) + rng.randint(1, 5)
    return changed


@pytest.mark.parametrize("together", [2, 3])
def test_rows_put_together_are_what_they_were_for_everybody_who_remembers_some(
    database: Database, scope: int, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader from every earlier sequence, through both levels, catches up exactly."""
    monkeypatch.setattr(allowances, "_TOGETHER", together)
    rng, known = Random(together), dict[bytes, int]()
    earlier: list[tuple[int, Used]] = [(0, {})]
    with database.writing() as session:
        for number in range(1, 2 * together**2 + together + 2):
            earlier.append((_append(session, scope, _use(rng, known)), dict(known)))
            assert _read(session, scope) == known
            assert all(_read(session, scope, *remembered) == known for remembered in earlier)
            tens, ones = divmod(number % together**2, together)
            assert _levels(session, scope) == [2] * (number // together**2) + [1] * tens + [0] * ones


def test_many_commits_are_a_few_rows(database: Database, scope: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the tens, so that two hundred show it: the rule is the same by the hundred."""
    monkeypatch.setattr(allowances, "_TOGETHER", 10)
    rng, known = Random(1), dict[bytes, int]()
    with database.writing() as session:
        for _ in range(219):
            _append(session, scope, _use(rng, known))
        assert _levels(session, scope) == [2] * 2 + [1] * 1 + [0] * 9
        assert _read(session, scope) == known


def test_a_hundred_rows_are_put_together_and_ninety_nine_are_not(database: Database, scope: int) -> None:
    with database.writing() as session:
        for number in range(99):
            _append(session, scope, {_person(number % 7): number + 1})
        assert _levels(session, scope) == [0] * 99
        _append(session, scope, {})
        assert _levels(session, scope) == [1]
        assert _read(session, scope) == {_person(number % 7): number + 1 for number in range(92, 99)}


def test_the_ten_thousandth_commit_puts_the_hundreds_together(database: Database, scope: int) -> None:
    with database.writing() as session:
        session.get_one(RegisterRow, scope).sequence = 9_900 << 31
        session.flush()
        old = {"register_id": scope, "level": 1}
        for number in (100, 9_900):
            session.add(AllowanceRow(sequence=number << 31, usages=_packed({_person(number): 5}), **old))
        session.flush()
        for number in range(100):
            assert _levels(session, scope) == [1, 1] + [0] * number
            _append(session, scope, {_person(number % 3): number + 1})
        assert _levels(session, scope) == [2]
        older = {_person(100): 5, _person(9_900): 5}
        assert _read(session, scope) == older | {_person(0): 100, _person(1): 98, _person(2): 99}


def test_rows_that_would_be_very_large_together_stay_apart_and_are_not_looked_at_again(
    database: Database, scope: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a level has no rows at all to be put together."""
    monkeypatch.setattr(allowances, "_TOGETHER", 3)
    monkeypatch.setattr(allowances, "_LARGEST_ROW", 3 * 14 - 1)
    known: Used = {}
    with database.writing() as session:
        for number in range(12):
            known[_person(number)] = 1
            _append(session, scope, {_person(number): 1})
            assert _read(session, scope) == known
        assert _levels(session, scope) == [0] * 12
        for _ in range(3):
            _append(session, scope, {})
        assert _levels(session, scope) == [0] * 12 + [1]  # of the last three alone
        for _ in range(3):
            _append(session, scope, {})
        assert _levels(session, scope) == [0] * 12 + [2]
        assert _read(session, scope) == known


def test_scopes_do_not_see_each_other(database: Database, scope: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowances, "_TOGETHER", 2)
    with database.writing() as session:
        other = allowances.create(session, "sketch/other", bytes(12))
        for number in range(9):
            _append(session, scope, {_person(0): number + 1})
            _append(session, other, {_person(1): number + 1})
        assert _read(session, scope) == {_person(0): 9}
        assert _read(session, other) == {_person(1): 9}
        allowances.drop(session, scope, _NOW)
        assert _read(session, scope) == {}
        assert _read(session, other) == {_person(1): 9}
        assert (allowances.lock(session, scope).dropped, allowances.lock(session, other).dropped) == (True, False)


def test_a_sequence_tells_two_histories_of_the_same_length_apart(database: Database, scope: int) -> None:
    """A database put back to an earlier day and written to since does not have the row that a process remembers."""
    with database.writing() as session:
        held = allowances.lock(session, scope)
        ours = allowances.append(session, held, b"")
        assert allowances.is_past(session, scope, ours)
        session.query(AllowanceRow).delete()
        theirs = allowances.append(session, held, b"")
        assert theirs != ours
        assert theirs >> 31 == ours >> 31 == 1
        assert allowances.is_past(session, scope, theirs)
        assert not allowances.is_past(session, scope, ours)


def test_sequences_grow(database: Database, scope: int) -> None:
    with database.writing() as session:
        found = [_append(session, scope, {}) for _ in range(50)]
        assert found == sorted(set(found))
        assert allowances.lock(session, scope).sequence == found[-1]


def test_what_is_rolled_back_was_never_used(database: Database, scope: int) -> None:
    with database.writing() as session:
        _append(session, scope, {_person(0): 1})
    with pytest.raises(ArithmeticError), database.writing() as session:  # noqa: PT012  # the block is the test
        _append(session, scope, {_person(0): 5, _person(1): 1})
        raise ArithmeticError
    with database.reading() as session:
        assert _read(session, scope) == {_person(0): 1}


def test_who_waits_for_a_scope_sees_what_was_written_meanwhile(database: Database, scope: int) -> None:
    holding, go_on = Event(), Event()

    def first() -> int:
        with database.writing() as session:
            sequence = _append(session, scope, {_person(0): 5})
            holding.set()
            assert go_on.wait(30)
            return sequence

    def second() -> tuple[int, Used]:
        with database.writing() as session:
            return allowances.lock(session, scope).sequence, _read(session, scope)

    with ThreadPoolExecutor(2) as threads:
        writing = threads.submit(first)
        assert holding.wait(30)
        waiting = threads.submit(second)
        go_on.set()
        assert waiting.result(30) == (writing.result(30), {_person(0): 5})


def test_a_scope_made_by_two_at_once_is_one(database: Database) -> None:
    """On PostgreSQL the second waits for the first and then finds its row."""
    made, go_on = Event(), Event()

    def make(wait: bool) -> int:
        with database.writing() as session:
            found = allowances.create(session, "sketch/raced", bytes(12))
            made.set()
            assert not wait or go_on.wait(30)
            return found

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(make, True)
        assert made.wait(30)
        second = threads.submit(make, False)
        go_on.set()
        assert first.result(30) == second.result(30)


def _all(session: Session) -> Iterator[bytes]:
    yield from session.scalars(select(AllowanceRow.usages))


def test_dropped_fingerprints_are_in_no_row(database: Database, scope: int) -> None:
    with database.writing() as session:
        for number in range(5):
            _append(session, scope, {_person(number): 1})
        assert len(list(_all(session))) == 5
        allowances.drop(session, scope, _NOW)
        assert list(_all(session)) == []


@pytest.mark.parametrize("largest", [10**6, 30])
def test_a_log_has_no_hole_whatever_was_put_together_and_one_that_lost_a_row_has(
    database: Database, scope: int, monkeypatch: pytest.MonkeyPatch, largest: int
) -> None:
    """Also where rows stay apart because they would be too large together."""
    monkeypatch.setattr(allowances, "_TOGETHER", 3)
    monkeypatch.setattr(allowances, "_LARGEST_ROW", largest)
    rng, known = Random(largest), dict[bytes, int]()
    for _ in range(25):
        with database.writing() as session:
            _append(session, scope, _use(rng, known))
        with database.reading() as session:
            assert allowances.faults(session, allowances.get(session, scope)) == []
    with database.reading() as session:
        sequences = session.scalars(select(AllowanceRow.sequence)).all()
    for sequence in sequences:
        assert _faults_without(database, scope, sequence) == ["rows of its log of allowances are missing"]


def _faults_without(database: Database, scope: int, sequence: int) -> list[str]:
    with database.writing() as session:
        session.execute(delete(AllowanceRow).where(AllowanceRow.sequence == sequence))
        found = allowances.faults(session, allowances.get(session, scope))
        session.rollback()
    return found
