"""Say what a release would give and cost. Spends nothing and reads no data."""

from dataclasses import dataclass
from decimal import Decimal

from app.core.comparison import Comparison, compare
from app.core.errors import InvalidNumber
from app.core.ledger.budget import Cost
from app.core.people import Unit
from app.core.planner import Family, Offer, Question, offers
from app.store import ledger, sketches
from app.store.tables import SketchRow
from app.usecases.context import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a requester says about a release, planned or real."""

    cost: Cost
    beta: Decimal
    expected_events: int | None

    def about(self, row: SketchRow) -> Question:
        """The question for a sketch: its public parameters, and these terms."""
        universe = sketches.universe(row)
        return self.question(
            family=row.family,
            k=row.k,
            max_contributions=covered(row.unit, row.max_contributions),
            sources=row.sources,
            universe_size=None if universe is None else universe.size,
        )

    def question(
        self, *, family: Family, k: int, max_contributions: int, sources: int = 1, universe_size: int | None = None
    ) -> Question:
        return Question(
            family=family,
            k=k,
            max_contributions=max_contributions,
            sources=sources,
            universe_size=universe_size,
            cost=self.cost,
            beta=float(self.beta),
            expected_events=self.expected_events,
        )


def covered(unit: Unit, max_contributions: int) -> int:
    """The events of one person that a mechanism must cover. The size of a set does not matter to PAMG."""
    return max_contributions if unit == "event" else 1


@dataclass(frozen=True, slots=True)
class Plan:
    """Offers, the best first, each with how many such releases the ledger still covers (None without a sketch)."""

    offers: list[tuple[Offer, int | None]]
    comparison: Comparison | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What a sketch would be made from."""

    k: int
    unit: Unit
    max_contributions: int
    universe_size: int | None


def plan_sketch(context: Context, name: str, terms: Terms) -> Plan:
    """The plan for an existing sketch, from its public parameters and its ledgers."""
    with context.database.reading() as session:
        row = sketches.get_live(session, name)
        accounts = [ledger.account(payer) for payer in ledger.payers(session, row.id)]
    found = offers(terms.about(row))
    return Plan([(offer, min(account.how_many(offer) for account in accounts)) for offer in found])


def plan_parameters(context: Context, parameters: Parameters, terms: Terms) -> Plan:
    """The plan for parameters that no sketch has yet."""
    if parameters.k > context.max_k:
        raise InvalidNumber(f"k may be at most {context.max_k} on this server.")
    question = terms.question(
        family="stream" if parameters.unit == "event" else "compact",
        k=parameters.k,
        max_contributions=covered(parameters.unit, parameters.max_contributions),
        universe_size=parameters.universe_size,
    )
    found = offers(question)
    return Plan([(offer, None) for offer in found], compare(question, parameters.max_contributions))
