"""Say what a release would give and cost. Spends nothing and reads no data."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from sqlalchemy.orm import Session

from app.core.comparison import Comparison, compare
from app.core.counters import larger_k
from app.core.errors import InvalidNumber, InvalidRequest
from app.core.ledger.account import Account, require_currency
from app.core.ledger.budget import Cost
from app.core.noise.samplers import MOST_HIDDEN
from app.core.planner import Family, Offer, Question, at_rho, offers, offers_among
from app.core.sketches.parameters import SketchParameters
from app.store import ledger, sketches
from app.store.records import SketchRecord
from app.usecases.context import Context
from app.usecases.together import Mode, modes, require_fitting


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
class Subject:
    """What is planned or released: one sketch as it is, or several as one."""

    sketches: Sequence[SketchRecord]  # in the order of their ids
    mode: Mode | None  # in which several are to be taken together; None for the better, and for one sketch
    accounts: list[Account]  # of all ledgers that pay, each once

    def questions(self, terms: Terms) -> list[Question]:
        """What to ask the planner: of several sketches once for each mode in which they can be taken together."""
        first = self.sketches[0]
        families: Sequence[Family] = [first.family]
        if len(self.sketches) > 1:
            families = [self.mode] if self.mode else modes(self.sketches)
        streams = sum(sketch.sources for sketch in self.sketches)
        return [
            terms.about(
                first.parameters,
                family=family,
                sources=streams if family == "summed" else 1,
                accounts=self.accounts,
            )
            for family in families
        ]


def read_subject(session: Session, names: Sequence[str], mode: Mode | None) -> Subject:
    """The live sketches of these names with their payers; IncompatibleSketches where they cannot be taken together."""
    found = sketches.read_live(session, names)
    if len(found) > 1:
        require_fitting(session, found, mode)
        _require_few(found)
    payers = ledger.payers(session, [sketch.id for sketch in found])
    return Subject(found, mode, [payer.account for payer in payers])


def require_several(names: Sequence[str]) -> None:
    """Refuse names that are not of several sketches."""
    if len(names) < 2 or len(set(names)) != len(names):
        raise InvalidRequest("Name two sketches at least, each once.")


def _require_few(found: Sequence[SketchRecord]) -> None:
    """Refuse more sketches than noise can be drawn for ahead: one draw for each counter that they can have together."""
    counters = sum(sketch.sources for sketch in found) * found[0].parameters.k
    if counters > MOST_HIDDEN:
        raise InvalidRequest(
            f"These sketches have up to {counters:,} counters together, and at most {MOST_HIDDEN:,} can be released "
            "together. Name fewer, or make them with a smaller k, or merge them and release what comes of it."
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
    return _plan(context, [name], None, terms)


def plan_together(context: Context, names: Sequence[str], mode: Mode | None, terms: Terms) -> Plan:
    """The plan for several existing sketches as one."""
    require_several(names)
    return _plan(context, names, mode, terms)


def _plan(context: Context, names: Sequence[str], mode: Mode | None, terms: Terms) -> Plan:
    with context.database.reading() as session:
        subject = read_subject(session, names, mode)
    accounts = subject.accounts
    require_currency(accounts, terms.cost)
    found = offers_among(subject.questions(terms))
    counted = [(offer, min(account.how_many(offer) for account in accounts)) for offer in found]
    return Plan(counted, in_rho=_better_in_rho(found[0]))


def plan_parameters(context: Context, parameters: SketchParameters, terms: Terms) -> Plan:
    """The plan for parameters that no sketch has yet."""
    if parameters.k > context.max_k:
        raise InvalidNumber(f"k may be at most {context.max_k} on this server.")
    question = terms.about(parameters, family=parameters.first_family)
    found = offers(question)
    comparison = compare(question, parameters.max_contributions)
    return Plan([(offer, None) for offer in found], comparison, larger_k=larger_k(found[0], context.max_k))


def _better_in_rho(best: Offer) -> Offer | None:
    """What the price of the best offer gives where it is asked for in ρ, if ledgers count ρ and that is better."""
    question = best.question
    if not question.paid_in_rho or question.cost.rho_units:
        return None
    offer = offers(at_rho(question, best.rho))[0]
    return offer if offer.noise_bound.unlisted < best.noise_bound.unlisted else None
