"""Say what a release would give and cost. Spends nothing and reads no data."""

from dataclasses import dataclass
from decimal import Decimal

from app.core.budget import Cost
from app.core.errors import InvalidNumber
from app.core.planner import Offer, Question, offers
from app.store import ledger, sketches
from app.usecases.context import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a requester says about a release, planned or real."""

    cost: Cost
    beta: Decimal
    expected_events: int | None

    def question(self, k: int) -> Question:
        return Question(k=k, cost=self.cost, beta=float(self.beta), expected_events=self.expected_events)


@dataclass(frozen=True, slots=True)
class Plan:
    offers: list[Offer]
    cost: Cost
    releases_remaining: int | None  # None before a sketch exists


def plan_sketch(context: Context, name: str, terms: Terms) -> Plan:
    """The plan for an existing sketch, from its public parameters and its ledger."""
    with context.database.reading() as session:
        row = sketches.get_live(session, name)
        remaining = ledger.read(session, row.ledger_id).remaining
    return Plan(offers(terms.question(row.k)), terms.cost, remaining.how_many(terms.cost))


def plan_parameters(context: Context, k: int, terms: Terms) -> Plan:
    """The plan for parameters that no sketch has yet."""
    if k > context.max_k:
        raise InvalidNumber(f"k may be at most {context.max_k} on this server.")
    return Plan(offers(terms.question(k)), terms.cost, None)
