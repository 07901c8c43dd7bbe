"""On PostgreSQL a state is cut into parts, of which only those are written that changed. On SQLite it is one."""

from collections.abc import Callable
from threading import Event, Thread

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from app.core.kernel import batch_of
from app.core.ledger.budget import Budget
from app.core.sketches.parameters import SketchParameters
from app.main import build_context
from app.settings import Settings
from app.store import sketches, states
from app.store.claims import Claim
from app.store.database import Database
from app.usecases.context import Context
from app.usecases.ingest.submission import Submission
from app.usecases.manage_sketches import OwnBudget, SketchSpec, create_sketch, delete_sketch
from tests import books
from tests.counting import count_one

_SIZES = (1, 3999, 4000, 4001, 8000, 20_500)
_K = 4096


def _create(context: Context, *, k: int = _K) -> None:
    budget = OwnBudget(Budget.granted(epsilon="1", delta="1e-5"), "basic")
    spec = SketchSpec(SketchParameters(k=k, unit="event", max_contributions=1), ledger=budget)
    create_sketch(context, "views", spec)


def _post(context: Context, keys: list[str], claim: str = "") -> None:
    claimed = Claim.of(secret="s", operation="events", target="views", key=claim, content=b"") if claim else None
    count_one(context, "views", Submission(batch_of([(key, 1) for key in keys]), claimed))


def _keys(number: int = _K) -> list[str]:
    return [f"key-{at:012}" for at in range(number)]


def _write(database: Database, stored: bytes, over: bytes | None) -> None:
    with database.writing() as session:
        states.write(
            session, sketches.get(session, "views").id, stored, over=None if over is None else states.Version(0, over)
        )


def _on_postgresql(database: Database) -> bool:
    return str(database.engine.dialect.name) == "postgresql"


def _versions(database: Database) -> dict[int, str]:
    """Of each part, the transaction that wrote it."""
    with database.reading() as session:
        first, further = "SELECT 0, xmin::text FROM sketch_states", "SELECT number, xmin::text FROM sketch_parts"
        return {row[0]: row[1] for row in session.execute(text(f"{first} UNION ALL {further}"))}


@pytest.mark.parametrize("known", [True, False])
def test_what_was_written_is_read_whatever_was_there(context: Context, known: bool) -> None:
    _create(context)
    _, before = books.stored(context.database)
    for number, size in enumerate((*_SIZES, *reversed(_SIZES), *_SIZES)):
        stored = bytes([number]) * size
        _write(context.database, stored, before if known else None)
        assert books.stored(context.database)[1] == stored
        before = stored


def test_every_byte_that_changes_is_written(context: Context) -> None:
    _create(context)
    before = bytes(8001)
    _write(context.database, before, None)
    for at in (0, 3999, 4000, 7999, 8000):
        stored = before[:at] + b"x" + before[at + 1 :]
        _write(context.database, stored, before)
        assert books.stored(context.database)[1] == stored
        before = stored


@pytest.mark.parametrize("claimed", [False, True])
def test_an_event_rewrites_the_parts_that_it_changes(context: Context, claimed: bool) -> None:
    """In a transaction, as with an idempotency key, and in a single statement."""
    if not _on_postgresql(context.database):
        pytest.skip("SQLite sees for itself which pages change")
    _create(context)
    keys = _keys()
    _post(context, keys)
    _post(context, keys)
    before = _versions(context.database)
    assert len(before) > 30
    for number, key in enumerate((keys[0], keys[-1])):
        _post(context, [key], str(number) if claimed else "")
        after = _versions(context.database)
        assert 1 <= sum(after[part] != version for part, version in before.items()) <= 2
        before = after
    assert books.counters(context.database) == dict.fromkeys(keys, 2) | {keys[0]: 3, keys[-1]: 3}


def test_a_new_version_takes_the_room_of_an_older_one(context: Context) -> None:
    if not _on_postgresql(context.database):
        pytest.skip("SQLite has one version")
    _create(context)
    keys = _keys()
    with context.database.writing() as session:
        for table in ("sketch_states", "sketch_parts"):
            session.execute(text(f"ALTER TABLE {table} SET (autovacuum_enabled = off)"))

    def size() -> int:
        with context.database.reading() as session:
            tables = "pg_relation_size('sketch_parts') + pg_relation_size('sketch_states')"
            found: int = session.execute(text(f"SELECT {tables}")).scalar_one()
            return found

    for _ in range(5):
        _post(context, keys)
    before = size()
    for _ in range(60):
        _post(context, keys)
    assert size() == before  # of one value at a time, 60 × 128 KiB would wait for a vacuum
    assert before < 3 * len(books.stored(context.database)[1])


def test_a_sketch_whose_keys_need_more_room_grows(context: Context) -> None:
    _create(context, k=256)
    short, long = _keys(128), ["k" * (200 + at) for at in range(128)]
    for keys in (short, long[:5], long, short):
        _post(context, keys)
    assert len(books.stored(context.database)[1]) > 256 * 32
    assert books.counters(context.database) == (
        dict.fromkeys(short, 2) | {key: 2 if at < 5 else 1 for at, key in enumerate(long)}
    )


def test_what_is_read_is_of_one_moment(context: Context, settings: Settings) -> None:
    """While another process counts every key once more, over and over, all counters are always equal."""
    _create(context)
    keys = _keys()
    _post(context, keys)
    over = Event()
    writer = build_context(settings)

    def write() -> None:
        while not over.is_set():
            _post(writer, keys)

    def torn(read: Callable[[], dict[str, int]]) -> list[set[int]]:
        return [found for found in (set(read().values()) for _ in range(60)) if len(found) > 1]

    def locked() -> dict[str, int]:
        with context.database.writing() as session:
            return dict(states.load(session, sketches.get(session, "views"), for_update=True).counters)

    thread = Thread(target=write)
    thread.start()
    try:
        assert torn(lambda: books.counters(context.database)) == []
        assert torn(locked) == []
    finally:
        over.set()
        thread.join()
        writer.database.close()
    assert books.counters(context.database)[keys[0]] > 10


@pytest.mark.parametrize("hot", [True, False])
def test_a_part_that_is_gone_is_nobody_elses_fault(context: Context, settings: Settings, hot: bool) -> None:
    """The sender is not told that the batch is bad, and nothing more is made of what is left."""
    if not _on_postgresql(context.database):
        pytest.skip("SQLite has one part")
    _create(context)
    _post(context, _keys())
    with context.database.writing() as session:
        session.execute(text("DELETE FROM sketch_parts WHERE number = 2"))
    other = context if hot else build_context(settings)
    with pytest.raises(RuntimeError, match=r"part of a state is missing|damaged"):
        _post(other, _keys(), "with a claim")
    other.database.close()


def test_no_row_holds_more_than_a_part(context: Context) -> None:
    """As a worker of an older version would write it."""
    if not _on_postgresql(context.database):
        pytest.skip("SQLite has one part")
    _create(context, k=16)
    for change in (
        "UPDATE sketch_states SET state = :new",
        "INSERT INTO sketch_parts SELECT id, 9, :new FROM sketches",
    ):
        with pytest.raises(IntegrityError, match="one_part"), context.database.writing() as session:
            session.execute(text(change), {"new": bytes(4001)})


def test_a_deleted_sketch_leaves_no_part(context: Context) -> None:
    _create(context)
    _post(context, _keys())
    delete_sketch(context, "views")
    with context.database.reading() as session:
        for table in ("sketch_states", "sketch_parts"):
            assert session.execute(text(f"SELECT count(*) FROM {table}")).scalar_one() == 0
