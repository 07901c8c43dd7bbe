"""A small model of lineage and budgets, run beside the real thing by Hypothesis: they must always agree."""

from decimal import Decimal

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from app.core.errors import BudgetExhausted, IncompatibleSketches
from app.core.kernel import batch_of
from app.core.ledger.budget import Budget, Cost
from app.core.sketches.parameters import SketchParameters
from app.main import build_context
from app.refusals import Conflict, UnknownSketch
from app.settings import Settings
from app.usecases import manage_ledgers, manage_sketches
from app.usecases.audit_ledger import verify_ledgers
from app.usecases.ingest.submission import Submission
from app.usecases.manage_sketches import OwnBudget, SketchSpec
from app.usecases.merge_sketches import merge_sketches
from app.usecases.plan_release import Terms
from app.usecases.release_snapshot import release_snapshot, release_together
from tests.conftest import NewDatabase
from tests.counting import count_one

pytestmark = pytest.mark.long

BASES = ("a", "b", "c")
NAMES = (*BASES, "x", "y")
LIMIT = 5  # releases of a fifth


class Model(RuleBasedStateMachine):
    """`holds` maps a live sketch to the bases whose events are in it; `spent` counts fifths."""

    new_database: NewDatabase

    def __init__(self) -> None:
        super().__init__()
        self.context = build_context(Settings(database_url=self.new_database()))
        for name in BASES:
            budget = OwnBudget(Budget.granted(epsilon="1", delta="1e-3"), "basic")
            spec = SketchSpec(SketchParameters(k=4, unit="event", max_contributions=1), ledger=budget)
            manage_sketches.create_sketch(self.context, name, spec)
        self.holds = {name: {name} for name in BASES}
        self.ledgers = {name: {name} for name in BASES}
        self.spent = dict.fromkeys(BASES, 0)
        self.gone: set[str] = set()

    def teardown(self) -> None:
        self.context.database.close()

    @rule(name=st.sampled_from(NAMES))
    def release(self, name: str) -> None:
        terms = Terms(cost=Cost.charged(epsilon="0.2", delta="1e-9"), beta=Decimal("0.05"))
        if name not in self.holds:
            with pytest.raises(UnknownSketch):
                release_snapshot(self.context, name, terms, "auto", None)
        elif any(self.spent[ledger] == LIMIT for ledger in self.ledgers[name]):
            with pytest.raises(BudgetExhausted) as refused:
                release_snapshot(self.context, name, terms, "auto", None)
            assert set(refused.value.blocking) == {one for one in self.ledgers[name] if self.spent[one] == LIMIT}
        else:
            snapshot = release_snapshot(self.context, name, terms, "auto", None)
            assert {paid["ledger"] for paid in snapshot.charged} == self.ledgers[name]
            for ledger in self.ledgers[name]:
                self.spent[ledger] += 1

    @rule(names=st.sets(st.sampled_from(NAMES), min_size=2))
    def release_several(self, names: set[str]) -> None:
        terms = Terms(cost=Cost.charged(epsilon="0.2", delta="1e-9"), beta=Decimal("0.05"))
        if not names <= self.holds.keys():
            with pytest.raises(UnknownSketch):
                release_together(self.context, list(names), "compact", terms, "auto", None)
            return
        ledgers = set.union(*(self.ledgers[name] for name in names))
        if sum(len(self.holds[name]) for name in names) > len(set.union(*(self.holds[name] for name in names))):
            with pytest.raises(IncompatibleSketches):
                release_together(self.context, list(names), "compact", terms, "auto", None)
        elif any(self.spent[ledger] == LIMIT for ledger in ledgers):
            with pytest.raises(BudgetExhausted) as refused:
                release_together(self.context, list(names), "compact", terms, "auto", None)
            assert set(refused.value.blocking) == {one for one in ledgers if self.spent[one] == LIMIT}
        else:
            snapshot = release_together(self.context, list(names), "compact", terms, "auto", None)
            assert {paid["ledger"] for paid in snapshot.charged} == ledgers
            for ledger in ledgers:
                self.spent[ledger] += 1

    @rule(into=st.sampled_from(("x", "y")), source=st.sampled_from(NAMES))
    def merge(self, into: str, source: str) -> None:
        held = self.holds.get(into, {into})
        if source not in self.holds:
            with pytest.raises(UnknownSketch):
                merge_sketches(self.context, into, [source], "compact")
        elif into in self.gone:
            with pytest.raises(Conflict):
                merge_sketches(self.context, into, [source], "compact")
        elif held & self.holds[source]:
            with pytest.raises(IncompatibleSketches):
                merge_sketches(self.context, into, [source], "compact")
        else:
            merge_sketches(self.context, into, [source], "compact")
            self.holds[into] = held | self.holds[source]
            self.ledgers[into] = self.ledgers.get(into, set()) | self.ledgers[source]

    @rule(name=st.sampled_from(NAMES))
    def post(self, name: str) -> None:
        if name in self.holds:
            count_one(self.context, name, Submission(batch_of([("k", 1)])))

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        if name in self.holds and len(self.holds) > 3:
            manage_sketches.delete_sketch(self.context, name)
            del self.holds[name], self.ledgers[name]
            self.gone.add(name)

    @invariant()
    def the_ledgers_agree(self) -> None:
        for name in BASES:
            view = manage_ledgers.get_ledger(self.context, name)
            assert view.spent.epsilon_units == self.spent[name] * 200_000_000
        assert verify_ledgers(self.context) == []


def test_the_service_agrees_with_the_model(new_database: NewDatabase) -> None:
    Model.new_database = staticmethod(new_database)
    quick = settings(
        max_examples=10, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    run_state_machine_as_test(Model, settings=quick)
