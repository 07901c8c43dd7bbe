"""Which mechanism, at what error, from public parameters alone: never counters, stored keys or the true n.

What can be chosen is what lies in `mechanisms/`; which families of sketch a mechanism may release, it says itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from app.core import totals
from app.core.errors import NoMechanism
from app.core.histogram import NoiseBound, Released
from app.core.ledger.budget import RHO_DIGITS, Cost
from app.core.mechanism import Calibrated, Family, Mechanism, Question
from app.core.mechanisms import of_family
from app.core.noise.samplers import Noise, draw_ahead
from app.core.sketches.compact import CompactSketch
from app.core.sketches.state import Sketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch
from app.core.sketches.universe import Universe
from app.core.totals import Total

__all__ = [
    "AUTO",
    "Family",
    "Offer",
    "Output",
    "Question",
    "at_rho",
    "choose",
    "choose_among",
    "draw_for",
    "offers",
    "offers_among",
    "run",
]

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Offer:
    """A mechanism calibrated for a question: what it would give, and what it would charge."""

    question: Question
    by: Mechanism[Any]
    calibrated: Calibrated[Any]
    cost: Cost  # of the histogram and the total together
    noise_bound: NoiseBound
    smallest_likely_count: int  # in the sketch
    total: Total | None = None  # how the number of events would be released, where it is asked for

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""
        return self.by.name

    @property
    def version(self) -> int:
        """The version of the mechanism, for the ledger's entry."""
        return self.by.version

    @property
    def theorem(self) -> str:
        """The label of the theorem that the guarantee rests on."""
        return self.by.theorem

    @property
    def is_gaussian(self) -> bool:
        """Whether ρ comes from the noise itself, and not from ε."""
        return self.by.rho_of is not None

    @property
    def rho(self) -> Fraction:
        """ρ-zCDP, but for δ: as the cost states it; else what the noise is if it is Gaussian, or what ε implies."""
        if self.cost.rho_units:
            return self.cost.rho
        _, histogram = totals.shares(self.question.cost, self.question.total_share)
        alone = self.calibrated.rho(self.by.charge(histogram))
        return alone if self.total is None else alone + self.total.rho()

    @property
    def beta_of_total(self) -> float:
        """The part of β at which the interval of the total fails."""
        return self.question.beta * float(totals.SHARE_OF_BETA)

    def parameters(self) -> dict[str, object]:
        """What a sceptic needs to recompute the guarantee, as it is stored and published."""
        return self.calibrated.parameters() | (self.total.parameters() if self.total else {})


def offers(question: Question) -> list[Offer]:
    """What every applicable mechanism offers, the one with the least error bound at equal price first."""
    found, reasons = [], []
    for mechanism in of_family(question.family):
        try:
            found.append(_offer(mechanism, question))
        except NoMechanism as reason:
            reasons.append(str(reason))
    if not found:
        raise NoMechanism(" ".join(reasons))
    return sorted(found, key=_error_at_equal_price(found))


def choose(question: Question, mechanism: str) -> Offer:
    """What the named mechanism offers, or for "auto" the best of all."""
    if mechanism == AUTO:
        return offers(question)[0]
    possible = {each.name: each for each in of_family(question.family)}
    if mechanism in possible:
        return _offer(possible[mechanism], question)
    raise NoMechanism(
        f"A {question.family} sketch cannot be released with {mechanism}: its neighbours are not those that the proof "
        f"of {mechanism} needs. Use {AUTO}, or one of: {', '.join(possible)}."
    )


def offers_among(questions: Sequence[Question]) -> list[Offer]:
    """What is offered for the same data in several families, the one with the least error bound at equal price first.

    What the sketches themselves may miss is at most n/(k+1) in every family, so noise alone decides.
    """
    return _best_of(questions, offers)


def choose_among(questions: Sequence[Question], mechanism: str) -> Offer:
    """What the named mechanism offers in one of several families, or for "auto" the best of all."""
    return _best_of(questions, lambda question: [choose(question, mechanism)])[0]


def _best_of(questions: Sequence[Question], ask: Callable[[Question], list[Offer]]) -> list[Offer]:
    found, reasons = list[Offer](), []
    for question in questions:
        try:
            found += ask(question)
        except NoMechanism as reason:
            reasons.append(str(reason))
    if not found:
        raise NoMechanism(" ".join(reasons))
    return sorted(found, key=_error_at_equal_price(found))


def at_rho(question: Question, rho: Fraction) -> Question:
    """The same question at a price in ρ, rounded down."""
    units = max(1, int(rho * 10**RHO_DIGITS))
    return replace(question, cost=Cost(0, question.cost.delta_units, units))


def _error_at_equal_price(found: list[Offer]) -> Any:
    """How offers are ranked: by their error bounds, each at the price of the cheapest on the ledgers that pay.

    All offers at one ε, or at one ρ, cost the same where ε, or ρ, is counted. At one ε Gaussian noise costs less ρ than
    Laplace noise: ledgers that count ρ are offered each at the ρ of the cheapest, to compare them.

    Reduced counters of one stream come last: what they miss besides, up to n/(k+1), is in no bound of noise, and others
    are offered.
    """

    def error(offer: Offer) -> tuple[bool, int, int]:
        bound = offer.noise_bound
        last = offer.by.reduces and offer.question.family == "stream"
        return last, bound.unlisted, bound.below + bound.above

    question = found[0].question
    if not question.paid_in_rho or question.cost.rho_units or len(found) == 1:
        return error
    least = min(offer.rho for offer in found)
    return lambda offer: error(_offer(offer.by, at_rho(offer.question, least)))


def _offer(mechanism: Mechanism[Any], question: Question) -> Offer:
    if not question.total_share:
        return _histogram_offer(mechanism, question)
    for_total, for_histogram = totals.shares(question.cost, question.total_share)
    if not (for_histogram.epsilon_units or for_histogram.rho_units):
        raise NoMechanism("The price is too small to be shared with a total. Ask for more, or without the total.")
    beta = question.beta * float(1 - totals.SHARE_OF_BETA)
    alone = _histogram_offer(mechanism, replace(question, cost=for_histogram, beta=beta))
    cost = Cost(*(mine + theirs for mine, theirs in zip(_units(alone.cost), _units(for_total), strict=True)))
    return replace(alone, question=question, cost=cost, total=totals.calibrate(for_total, question.max_contributions))


def _histogram_offer(mechanism: Mechanism[Any], question: Question) -> Offer:
    calibrated = mechanism.calibrated(question)
    bound, likely = calibrated.noise_bound(question.beta), calibrated.smallest_likely_count(question.beta)
    return Offer(question, mechanism, calibrated, mechanism.charge(question.cost), bound, likely)


def _units(cost: Cost) -> tuple[int, int, int]:
    return cost.epsilon_units, cost.delta_units, cost.rho_units


@dataclass(frozen=True, slots=True)
class Output:
    """What a release gives: the histogram, and the number of events where it was asked for. Safe to publish."""

    histogram: Released
    total: int | None


def run(offer: Offer, sketch: Sketch, universe: Universe | None, noise: Noise) -> Output:
    """Draw the offer's noise and release the sketch with it. A sketch that no proof covers is refused."""
    histogram = offer.by.release(offer.calibrated, sketch, universe, noise)
    if offer.total is None:
        return Output(histogram, None)
    number = sketch.items if isinstance(sketch, CompactSketch) else sketch.events
    if number is None:
        raise NoMechanism("How many events this sketch holds is not known: an earlier version counted the first ones.")
    return Output(histogram, offer.total.release(number, noise))


def draw_for(offer: Offer, universe: Universe | None, noise: Noise) -> Noise:
    """Make every draw that `run` will ask for, and return noise that gives these out, each once.

    What a mechanism asks for depends on public parameters, never on what a sketch holds: k + 2 draws at most, or for a
    sum one for each key that it may have; as many coins; and a few for keys that noise alone lifts. So an empty sketch
    asks for the same. (But for a sum that may have more keys than `samplers.MOST_HIDDEN`: not for those.)
    """
    return draw_ahead(noise, lambda noted: run(offer, _empty(offer.question), universe, noted))


def _empty(question: Question) -> Sketch:
    match question.family:
        case "stream":
            return StreamSketch.empty(question.k)
        case "compact":
            return CompactSketch.empty(question.k)
        case "summed":
            return SummedSketch.empty(question.k, question.sources)
