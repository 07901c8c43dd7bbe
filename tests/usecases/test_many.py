"""Lists and reports of very many ledgers, sketches and entries: a fixed number of statements, and bounded answers."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import event, insert, select, update
from sqlalchemy.orm import Session

from app.core.ledger.budget import Budget, Cost
from app.core.sketches.parameters import SketchParameters
from app.core.sketches.universe import Universe, as_document, of_document, of_range, of_values
from app.store.tables import EntryRow, LedgerRow, LineageRow, SketchRow, Table
from app.usecases.context import Context
from app.usecases.manage_ledgers import create_ledger, list_ledgers, set_budget
from app.usecases.manage_sketches import OwnBudget, SketchSpec, create_sketch, get_sketch, list_sketches
from app.usecases.merge_sketches import merge_sketches
from app.usecases.plan_release import Terms, plan_sketch
from app.usecases.recent import Recent
from app.usecases.release_snapshot import release_snapshot
from app.usecases.report_ledger import report_ledger
from app.usecases.together import Mode

_TOTAL = Budget.granted(epsilon="10", delta="1e-3")


@contextmanager
def _statements(context: Context) -> Iterator[list[str]]:
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if not statement.startswith("BEGIN"):
            seen.append(statement)

    event.listen(context.database.engine, "before_cursor_execute", note)
    yield seen
    event.remove(context.database.engine, "before_cursor_execute", note)


def _create(context: Context, *names: str) -> None:
    for name in names:
        budget = OwnBudget(_TOTAL, "basic")
        spec = SketchSpec(SketchParameters(k=8, unit="event", max_contributions=1), ledger=budget)
        create_sketch(context, name, spec)


def _release(context: Context, name: str, epsilon: str = "1") -> None:
    terms = Terms(cost=Cost.charged(epsilon=epsilon, delta="1e-6"), beta=Decimal("0.05"))
    release_snapshot(context, name, terms, "auto", None)


def _add_ledgers(context: Context, sketch: str, number: int) -> None:
    """Of other data that the sketch holds. Made later, but named to come first."""
    with context.database.writing() as session:
        row = session.scalars(select(SketchRow).where(SketchRow.name == sketch)).one()
        made = _like(session, LedgerRow, row.ledger_id, (f"{number - at:05}" for at in range(number)))
        session.execute(insert(LineageRow), [{"sketch_id": row.id, "ledger_id": ledger["id"]} for ledger in made])


def _add_sketches(context: Context, name: str, number: int) -> None:
    """Copies of a sketch, each with a ledger of its own, made by a few statements."""
    with context.database.writing() as session:
        row = session.scalars(select(SketchRow).where(SketchRow.name == name)).one()
        names = [f"{name}{at:05}" for at in range(number)]
        ledgers = _like(session, LedgerRow, row.ledger_id, names)
        made = _like(session, SketchRow, row.id, names)
        paid = list(zip(made, ledgers, strict=True))
        for sketch, ledger in paid:
            session.execute(update(SketchRow).where(SketchRow.id == sketch["id"]).values(ledger_id=ledger["id"]))
        rows = [{"sketch_id": sketch["id"], "ledger_id": ledger["id"]} for sketch, ledger in paid]
        session.execute(insert(LineageRow), rows)


def _like(session: Session, table: type[Table], row_id: int, names: Iterable[str]) -> list[dict[str, Any]]:
    """Rows like this one, with other names and ids."""
    columns = table.__table__.columns
    row = dict(session.execute(select(table.__table__).where(columns["id"] == row_id)).mappings().one())
    made = [row | {"id": 1000 + at, "name": name} for at, name in enumerate(names)]
    session.connection().execute(insert(table), made)
    return made


def test_a_page_takes_as_many_statements_as_one_item(context: Context) -> None:
    counts = []
    _create(context, "a")
    for number in (1, 21, 1000):
        if number == 21:
            _create(context, *(f"b{at}" for at in range(20)))
        elif number == 1000:
            _add_sketches(context, "a", 979)
        with _statements(context) as of_sketches:
            sketches = list_sketches(context, "*", None, 1000)
        with _statements(context) as of_ledgers:
            ledgers = list_ledgers(context, "*", None, 1000)
        assert [item.name for item in sketches.items] == [item.name for item in ledgers.items]
        assert len(sketches.items) == number
        counts.append((len(of_sketches), len(of_ledgers)))
    assert counts == [(4, 2), (4, 2), (4, 2)]


@pytest.mark.parametrize("mode", ["compact", "summed"])
def test_a_merge_reads_each_source_once_and_takes_no_other_statement_for_it(context: Context, mode: Mode) -> None:
    """The target is loaded and saved once, and the ledgers and origins of all sources are inherited together."""
    counts = []
    for number in (2, 12):
        names = [f"{number}-{at}" for at in range(number)]
        _create(context, *names)
        with _statements(context) as seen:
            assert merge_sketches(context, f"all-{number}", names, mode).ledger_count == number
        counts.append(len(seen))
    assert counts[1] - counts[0] == 12 - 2


def test_each_item_of_a_page_is_shown_with_its_own_ledgers_and_last_release(context: Context) -> None:
    _create(context, "a", "b", "c", "d")
    merge_sketches(context, "c", ["b", "a"], "compact")
    _release(context, "a", "2")
    set_budget(context, "a", Budget.granted(epsilon="20", delta="1e-3"), "more")
    _release(context, "c", "1")
    _release(context, "b", "3")
    shown = list_sketches(context, "*", None, 1000).items
    assert [(item.name, item.ledgers, item.ledger_count) for item in shown] == [
        ("a", ["a"], 1),
        ("b", ["b"], 1),
        ("c", ["a", "b", "c"], 3),
        ("d", ["d"], 1),
    ]
    assert [item.ledger.releases_like_the_last for item in shown] == [17, 2, 9, None]
    assert [item.ledger for item in shown] == list_ledgers(context, "*", None, 1000).items
    assert [get_sketch(context, item.name) for item in shown] == shown
    first, second = (list_sketches(context, "*", after, 2) for after in (None, "b"))
    assert first.items + second.items == shown


def test_an_empty_page_is_a_page(context: Context) -> None:
    assert list_sketches(context, "*", None, 10).items == []
    assert list_ledgers(context, "*", None, 10).items == []


def test_of_many_ledgers_the_first_hundred_are_named_and_all_are_counted(context: Context) -> None:
    _create(context, "a", "b")
    _add_ledgers(context, "b", 250)
    with _statements(context) as seen:
        a, b = list_sketches(context, "*", None, 1000).items
    assert len(seen) == 4
    assert (a.ledgers, a.ledger_count) == (["a"], 1)
    assert b.ledger_count == 251
    assert b.ledgers == [*(f"{number:05}" for number in range(152, 251)), "b"]


def test_a_plan_and_a_release_ask_for_all_ledgers_at_once(context: Context) -> None:
    terms = Terms(cost=Cost.charged(epsilon="1", delta="1e-6"), beta=Decimal("0.05"))
    _create(context, "a")
    _add_ledgers(context, "a", 50)
    with _statements(context) as seen:
        assert plan_sketch(context, "a", terms).offers[0][1] == 10
    assert len(seen) == 2


@pytest.mark.parametrize("accountant", ["basic", "zcdp"])
def test_a_report_is_read_by_one_statement_and_made_once_for_the_same_entries(
    context: Context, accountant: str
) -> None:
    create_ledger(context, "team", accountant, _TOTAL, None)
    spec = SketchSpec(SketchParameters(k=8, unit="event", max_contributions=1), ledger="team")
    create_sketch(context, "a", spec)
    for epsilon in ("1", "0.5", "1"):
        _release(context, "a", epsilon)
    loaded: list[object] = []
    event.listen(EntryRow, "load", note := lambda row, _: loaded.append(row))
    with _statements(context) as seen:
        first = report_ledger(context, "team")
    assert len(seen) == 3  # the ledger, its entries, and whether it pays for a marked sketch
    assert loaded == []  # no row is kept as an object
    event.remove(EntryRow, "load", note)
    with _statements(context) as seen:
        assert report_ledger(context, "team") is first
    assert len(seen) == 1
    assert first.releases == 3
    _release(context, "a", "0.25")
    second = report_ledger(context, "team")
    assert (second.releases, second.numerical_epsilon) != (first.releases, first.numerical_epsilon)
    set_budget(context, "team", Budget.granted(epsilon="20", delta="1e-3"), "more")
    assert [change.entry for change in report_ledger(context, "team").changes] == [7]


def test_a_report_is_of_the_entries_that_its_hash_stands_for(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that comes between the two statements is left for the next report."""
    _create(context, "a")
    _release(context, "a")
    find = Recent.find

    def find_while_released(self: Recent[Any, Any], key: Any) -> Any:
        if context.database.engine.dialect.name == "postgresql":  # SQLite shows all statements the same moment
            monkeypatch.undo()
            _release(context, "a")
        return find(self, key)

    monkeypatch.setattr(Recent, "find", find_while_released)
    assert report_ledger(context, "a").releases == 1


def test_what_is_recent_is_bounded_and_what_was_not_used_goes_first() -> None:
    recent: Recent[str, int] = Recent(2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.find("a") == 1
    recent.put("c", 3)
    assert [recent.find(key) for key in "abc"] == [1, None, 3]


@pytest.mark.parametrize("universe", [of_values("bacab"), of_range(-3, 9)])
def test_a_stored_universe_is_read_back_as_it_was(universe: Universe) -> None:
    assert of_document(as_document(universe)) == universe
    assert of_values("aab").size == 2


@pytest.mark.parametrize("keys", [["b", "a"], ["a", "a"]])
def test_a_stored_universe_that_somebody_put_out_of_order_is_put_in_order(keys: list[str]) -> None:
    """Otherwise its keys would not be found in it."""
    assert of_document({"values": keys}) == of_values(keys)
    assert of_range(1, 1).size == 1
