"""Eight processes merge, release and post at once over sketches with overlapping lineage."""

import json
import subprocess
import sys
from collections import Counter

import pytest

from app.core.ledger.budget import Budget
from app.core.sketches.parameters import SketchParameters
from app.main import build_context
from app.settings import Settings
from app.store import ledger
from app.store.database import Database
from app.usecases.audit_ledger import verify_ledgers
from app.usecases.context import Context
from app.usecases.manage_sketches import OwnBudget, SketchSpec, create_sketch
from tests import books
from tests.usecases.racing import BASES, COST

pytestmark = pytest.mark.long

_PROCESSES, _OPERATIONS = 8, 250


def _create(context: Context) -> None:
    for number, name in enumerate(BASES):
        accountant = "zcdp" if number % 2 else "basic"
        budget = OwnBudget(Budget.granted(epsilon="1.5", delta="1e-5"), accountant)
        spec = SketchSpec(SketchParameters(k=8, unit="event", max_contributions=1), ledger=budget)
        create_sketch(context, name, spec)


def _race(database_url: str) -> tuple[Counter[str], set[str]]:
    command = [sys.executable, "-m", "tests.usecases.racing", database_url]
    running = [
        subprocess.Popen([*command, str(seed), str(_OPERATIONS)], stdout=subprocess.PIPE, text=True)
        for seed in range(_PROCESSES)
    ]
    reports = [json.loads(process.communicate(timeout=400)[0]) for process in running]
    outcomes = sum((Counter(report["outcomes"]) for report in reports), Counter[str]())
    return outcomes, {name for report in reports for name in report["exhausted"]}


def test_no_race_overspends_deadlocks_or_refuses_wrongly(database_url: str) -> None:
    context = build_context(Settings(database_url=database_url))
    _create(context)
    outcomes, exhausted = _race(database_url)
    assert sum(outcomes.values()) == _PROCESSES * _OPERATIONS
    assert outcomes["Unavailable"] == 0  # no deadlock, no timeout
    done = ("release", "release_together", "merge", "post", "exhausted")
    assert min(outcomes[each] for each in done) > 0
    assert verify_ledgers(context) == []
    for name in BASES:
        found = books.read(context.database, name)
        assert found.spent == found.entries  # by the sum of the entries, not by a running total
        _check_refusals(context.database, name, refused=name in exhausted)
    context.database.close()


def _check_refusals(database: Database, name: str, *, refused: bool) -> None:
    """What is left only shrinks, so a ledger that once could not pay this cost cannot pay it at the end."""
    with database.reading() as session:
        record = ledger.get(session, name)
        price = record.account.accountant.price(COST, COST.epsilon**2 / 2)
        assert not refused or not record.left.covers(price)
