"""Say what a release would give and cost. Spends nothing and reads no data."""

from dataclasses import dataclass
from decimal import Decimal

from app.core.comparison import Comparison, compare
from app.core.errors import InvalidNumber
from app.core.ledger.budget import Cost
from app.core.planner import Family, Offer, Question, offers
from app.core.sketches.parameters import SketchParameters
from app.store import ledger, sketches
from app.usecases.context import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a requester says about a release, planned or real."""

    cost: Cost
    beta: Decimal
    expected_events: int | None

    def about(self, parameters: SketchParameters, *, family: Family, sources: int = 1) -> Question:
        """The question for a sketch of these public parameters, and of this family, on these terms."""
        return Question(
            family=family,
            k=parameters.k,
            max_contributions=parameters.covered_events,
            sources=sources,
            universe_size=parameters.universe_size,
            cost=self.cost,
            beta=float(self.beta),
            expected_events=self.expected_events,
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """Offers, the best first, each with how many such releases the ledger still covers (None without a sketch)."""

    offers: list[tuple[Offer, int | None]]
    comparison: Comparison | None = None


def plan_sketch(context: Context, name: str, terms: Terms) -> Plan:
    """The plan for an existing sketch, from its public parameters and its ledgers."""
    with context.database.reading() as session:
        sketch = sketches.get_live(session, name)
        accounts = [payer.account for payer in ledger.payers(session, sketch.id)]
    found = offers(terms.about(sketch.parameters, family=sketch.family, sources=sketch.sources))
    return Plan([(offer, min(account.how_many(offer) for account in accounts)) for offer in found])


def plan_parameters(context: Context, parameters: SketchParameters, terms: Terms) -> Plan:
    """The plan for parameters that no sketch has yet."""
    if parameters.k > context.max_k:
        raise InvalidNumber(f"k may be at most {context.max_k} on this server.")
    question = terms.about(parameters, family=parameters.first_family)
    found = offers(question)
    return Plan([(offer, None) for offer in found], compare(question, parameters.max_contributions))
