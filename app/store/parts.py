"""The bytes of a sketch on PostgreSQL: cut into rows, of which a commit writes those that changed.

Two versions of a row fit into a page. So a new version goes into the page of the old one, no index has to learn of it,
and the next one takes its room; one large value would be written anew each time, and the old one left for a vacuum.
SQLite sees for itself which pages of a large value change: there the first part is all of it.
"""

from functools import cache

from sqlalchemy import (
    ColumnElement,
    Dialect,
    Integer,
    LargeBinary,
    Select,
    Update,
    bindparam,
    cast,
    delete,
    func,
    insert,
    literal_column,
    select,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from app.store.tables import PartRow, StateRow

_PART_BYTES = 4000

Part = tuple[int, bytes]  # number and content

_ZERO: ColumnElement[int] = literal_column("0")
_READ = union_all(
    select(_ZERO.label("number"), StateRow.state).where(StateRow.sketch_id == bindparam("sketch")),
    select(PartRow.number, PartRow.content).where(PartRow.sketch_id == bindparam("sketch")),
).order_by("number")
_REWRITE = (
    update(PartRow)
    .where(PartRow.sketch_id == bindparam("sketch"), PartRow.number == bindparam("which"))
    .values(content=bindparam("new_content"))
)


def are_cut(dialect: Dialect) -> bool:
    """Whether this database keeps the bytes of a sketch in several rows."""
    return dialect.name == "postgresql"


def remembered(stored: bytes, dialect: Dialect) -> bytes | None:
    """What must be known of these bytes to say what changed when others are stored over them."""
    return stored if are_cut(dialect) else None


def first(stored: bytes, dialect: Dialect) -> bytes:
    """The part that is in the row of the state itself."""
    return stored[:_PART_BYTES] if are_cut(dialect) else stored


def further(stored: bytes) -> list[Part]:
    """The parts that are in rows of their own."""
    return [(at // _PART_BYTES, stored[at : at + _PART_BYTES]) for at in range(_PART_BYTES, len(stored), _PART_BYTES)]


def changed(stored: bytes, over: bytes | None) -> list[Part] | None:
    """Those of the further parts that differ from what is stored now; None where that is not known, or has another
    size."""
    if over is None or len(over) != len(stored):
        return None
    return [(at, part) for at, part in further(stored) if part != over[at * _PART_BYTES : (at + 1) * _PART_BYTES]]


def read(session: Session, sketch_id: int) -> bytes | None:
    """The bytes of a sketch, read in one statement, so that all parts are of one moment; None where there are none."""
    rows = session.connection().execute(_READ, {"sketch": sketch_id}).all()
    return b"".join(content for _, content in rows) if rows else None


def are_complete(session: Session, sketch_id: int) -> bool:
    """Whether the stored parts follow each other without a gap, each full but the last."""
    rows = session.connection().execute(_READ, {"sketch": sketch_id}).all()
    if not are_cut(session.get_bind().dialect):
        return len(rows) == 1
    full = all(len(content) == _PART_BYTES for _, content in rows[:-1])
    return full and [number for number, _ in rows] == list(range(len(rows)))


def write_further(session: Session, sketch_id: int, stored: bytes, over: bytes | None) -> None:
    """Store the further parts: those that changed, where it is known what is stored now; else all of them."""
    rewritten = changed(stored, over)
    if rewritten is None:
        erase_further(session, sketch_id)
        rows = [{"sketch_id": sketch_id, "number": number, "content": content} for number, content in further(stored)]
        if rows:
            session.connection().execute(insert(PartRow), rows)
    elif rewritten:
        values = [{"sketch": sketch_id, "which": number, "new_content": content} for number, content in rewritten]
        if session.connection().execute(_REWRITE, values).rowcount != len(values):
            raise RuntimeError("a part of a state is missing")


def erase_further(session: Session, sketch_id: int) -> None:
    """Delete the parts that are in rows of their own."""
    session.connection().execute(delete(PartRow).where(PartRow.sketch_id == sketch_id))


def with_further(write: Update, rewritten: list[Part]) -> tuple[Select[tuple[int]], dict[str, object]]:
    """A statement that does what `write` does and, where that changes a row, writes these parts too; with its further
    values."""
    numbers, contents = [number for number, _ in rewritten], b"".join(content for _, content in rewritten)
    if numbers[-1] - numbers[0] + 1 == len(numbers):
        return _with_range(write), {"lowest": numbers[0], "highest": numbers[-1], "contents": contents}
    return _with_some(write), {"numbers": numbers, "contents": contents}


@cache
def _with_range(write: Update) -> Select[tuple[int]]:
    """The statement for all parts between two numbers: a large batch changes many, and they lie side by side."""
    lowest, highest = (cast(bindparam(name), Integer) for name in ("lowest", "highest"))
    return _with(write, PartRow.number - lowest, PartRow.number.between(lowest, highest))


@cache
def _with_some(write: Update) -> Select[tuple[int]]:
    numbers = func.unnest(cast(bindparam("numbers"), ARRAY(Integer)))
    given = numbers.table_valued("number", with_ordinality="position").render_derived("given")
    return _with(write, cast(given.c.position, Integer) - literal_column("1"), PartRow.number == given.c.number)


def _with(write: Update, position: ColumnElement[int], which: ColumnElement[bool]) -> Select[tuple[int]]:
    """`position` says for each of these parts where it is in the contents."""
    size: ColumnElement[int] = literal_column(f"{_PART_BYTES}")
    content = func.substr(cast(bindparam("contents"), LargeBinary), position * size + literal_column("1"), size)
    written = write.returning(StateRow.sketch_id).cte("written")
    ours = update(PartRow).where(PartRow.sketch_id == written.c.sketch_id, which)
    return select(written.c.sketch_id).add_cte(ours.values(content=content).cte("rewritten"))
