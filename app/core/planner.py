"""Which mechanism, at what error, from public parameters alone: never counters, stored keys or the true n.

What can be chosen is what lies in `mechanisms/`; which families of sketch a mechanism may release, it says itself.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from app.core.errors import NoMechanism
from app.core.histogram import Counts, ErrorBound
from app.core.ledger.budget import Cost
from app.core.mechanism import Calibrated, Family, Mechanism, Question
from app.core.mechanisms import of_family
from app.core.noise.samplers import Noise, draw_ahead
from app.core.sketches.compact import CompactSketch
from app.core.sketches.state import Sketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.universe import Universe

__all__ = ["AUTO", "Family", "Offer", "Question", "choose", "draw_for", "offers", "run"]

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Offer:
    """A mechanism calibrated for a question: what it would give, and what it would charge."""

    question: Question
    by: Mechanism[Any]
    calibrated: Calibrated[Any]
    cost: Cost
    error_bound: ErrorBound
    smallest_likely_count: int

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
        """ρ-zCDP, but for δ: what the noise is where it is Gaussian, else what ε implies."""
        return self.calibrated.rho(self.cost)


def offers(question: Question) -> list[Offer]:
    """What every applicable mechanism offers, the one with the least error bound first."""
    found, reasons = [], []
    for mechanism in of_family(question.family):
        try:
            found.append(_offer(mechanism, question))
        except NoMechanism as reason:
            reasons.append(str(reason))
    if not found:
        raise NoMechanism(" ".join(reasons))
    return sorted(found, key=lambda offer: (offer.error_bound.noise_low, offer.error_bound.noise_high))


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


def _offer(mechanism: Mechanism[Any], question: Question) -> Offer:
    calibrated = mechanism.calibrated(question)
    bound = calibrated.error_bound(question.beta, question.expected_events)
    likely = calibrated.smallest_likely_count(question.beta) + (bound.sketch_low or 0)
    return Offer(question, mechanism, calibrated, mechanism.charge(question.cost), bound, likely)


def run(offer: Offer, sketch: Sketch, universe: Universe | None, noise: Noise) -> Counts:
    """Draw the offer's noise and release the sketch with it. A sketch that no proof covers is refused."""
    return offer.by.release(offer.calibrated, sketch, universe, noise)


def draw_for(offer: Offer, universe: Universe | None, noise: Noise) -> Noise:
    """Make every draw that `run` will ask for, and return noise that gives these out, each once.

    For a stream or a compact sketch. What a mechanism asks of those depends on public parameters, never on what they
    hold: k + 1 draws, as many coins, and a few for keys that noise alone lifts. So an empty one asks for the same.
    """
    k = offer.question.k
    empty = StreamSketch.empty(k) if offer.question.family == "stream" else CompactSketch.empty(k)
    return draw_ahead(noise, lambda noted: run(offer, empty, universe, noted))
