"""Say what a release would give and cost. Spends nothing and reads no data."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from app.core.comparison import Comparison, compare
from app.core.counters import larger_k
from app.core.errors import InvalidNumber
from app.core.ledger.account import Account, require_currency
from app.core.ledger.budget import Cost
from app.core.planner import Family, Offer, Question, at_rho, offers
from app.core.sketches.parameters import SketchParameters
from app.store import ledger, sketches
from app.usecases.context import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a requester says about a release, planned or real."""

    cost: Cost
    beta: Decimal
    total_share: Fraction = Fraction(0)  # of the cost, for the number of events; 0 where it is not asked for

    def about(
        self, parameters: SketchParameters, *, family: Family, sources: int = 1, accounts: list[Account] | None = None
    ) -> Question:
        """The question for a sketch of these public parameters, and of this family, on these terms."""
        return Question(
            family=family,
            k=parameters.k,
            max_contributions=parameters.covered_events,
            sources=sources,
            universe_size=parameters.universe_size,
            cost=self.cost,
            beta=float(self.beta),
            total_share=self.total_share,
            paid_in_rho=accounts is not None and all(account.accountant.counts_rho for account in accounts),
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """Offers, the best first, each with how many such releases the ledger still covers (None without a sketch)."""

    offers: Sequence[tuple[Offer, int | None]]
    comparison: Comparison | None = None
    in_rho: Offer | None = None  # what the same price, asked for in ρ, would give with less error
    larger_k: str | None = None  # says that more counters would be free, where no sketch has settled on a number


def plan_sketch(context: Context, name: str, terms: Terms) -> Plan:
    """The plan for an existing sketch, from its public parameters and its ledgers."""
    with context.database.reading() as session:
        sketch = sketches.get_live(session, name)
        accounts = [payer.account for payer in ledger.payers(session, sketch.id)]
    require_currency(accounts, terms.cost)
    question = terms.about(sketch.parameters, family=sketch.family, sources=sketch.sources, accounts=accounts)
    found = offers(question)
    counted = [(offer, min(account.how_many(offer) for account in accounts)) for offer in found]
    return Plan(counted, in_rho=_better_in_rho(question, found[0]))


def plan_parameters(context: Context, parameters: SketchParameters, terms: Terms) -> Plan:
    """The plan for parameters that no sketch has yet."""
    if parameters.k > context.max_k:
        raise InvalidNumber(f"k may be at most {context.max_k} on this server.")
    question = terms.about(parameters, family=parameters.first_family)
    found = offers(question)
    comparison = compare(question, parameters.max_contributions)
    return Plan([(offer, None) for offer in found], comparison, larger_k=larger_k(found[0], context.max_k))


def _better_in_rho(question: Question, best: Offer) -> Offer | None:
    """What the price of the best offer gives where it is asked for in ρ, if ledgers count ρ and that is better."""
    if not question.paid_in_rho or question.cost.rho_units:
        return None
    offer = offers(at_rho(question, best.rho))[0]
    return offer if offer.noise_bound.unlisted < best.noise_bound.unlisted else None
