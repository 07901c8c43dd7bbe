"""Which mechanism, at what error, from public parameters alone: never counters, stored keys or the true n.

This is also the one place that says which family of sketch may be released with what (`released`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from app.core.errors import NoMechanism
from app.core.histogram import Counts, ErrorBound
from app.core.ledger.budget import Cost
from app.core.mechanisms import gshm, laplace_compact, pmg, reduced_approx, reduced_pure
from app.core.mechanisms.gshm import Gshm
from app.core.mechanisms.laplace_compact import LaplaceCompact
from app.core.mechanisms.pmg import Pmg
from app.core.mechanisms.reduced_approx import ReducedApprox
from app.core.mechanisms.reduced_pure import ReducedPure
from app.core.noise.samplers import Noise, draw_ahead
from app.core.sketches.compact import CompactSketch
from app.core.sketches.state import Sketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch
from app.core.sketches.universe import Universe

AUTO = "auto"

Family = Literal["stream", "compact", "summed"]
Calibrated = Pmg | ReducedApprox | ReducedPure | Gshm | LaplaceCompact


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Everything that a choice may depend on."""

    family: Family
    k: int
    max_contributions: int  # events of one person; 1 where a person is one set of keys
    sources: int  # streams in a summed sketch; 1 otherwise
    universe_size: int | None
    cost: Cost
    beta: float
    expected_events: int | None


@dataclass(frozen=True, slots=True)
class Offer:
    """What a mechanism would give, and what it would charge."""

    question: Question
    mechanism: str
    version: int
    theorem: str
    calibrated: Calibrated
    cost: Cost
    error_bound: ErrorBound
    smallest_likely_count: int

    @property
    def is_gaussian(self) -> bool:
        return isinstance(self.calibrated, Gshm)

    @property
    def rho(self) -> Fraction:
        """ρ-zCDP, but for δ: what the noise is where it is Gaussian, else what ε implies."""
        if isinstance(self.calibrated, Gshm):
            return self.calibrated.rho()
        return self.cost.epsilon**2 / 2


def offers(question: Question) -> list[Offer]:
    """Every applicable mechanism, the one with the least error bound first."""
    found, reasons = [], []
    for make in _MECHANISMS[question.family]:
        try:
            found.append(make(question))
        except NoMechanism as reason:
            reasons.append(str(reason))
    if not found:
        raise NoMechanism(" ".join(reasons))
    return sorted(found, key=lambda offer: (offer.error_bound.noise_low, offer.error_bound.noise_high))


def choose(question: Question, mechanism: str) -> Offer:
    """The named mechanism, or the best for "auto"."""
    if mechanism == AUTO:
        return offers(question)[0]
    for make in _MECHANISMS[question.family]:
        if _NAMES[make] == mechanism:
            return make(question)
    possible = ", ".join(_NAMES[make] for make in _MECHANISMS[question.family])
    raise NoMechanism(
        f"A {question.family} sketch cannot be released with {mechanism}: its neighbours are not those that the proof "
        f"of {mechanism} needs. Use {AUTO}, or one of: {possible}."
    )


def released(offer: Offer, sketch: Sketch, universe: Universe | None, noise: Noise) -> Counts:
    """Run the mechanism. Pairs that no proof covers are not written here, so they cannot be run."""
    if isinstance(offer.calibrated, ReducedApprox | ReducedPure) and isinstance(sketch, StreamSketch):
        sketch = SummedSketch.of_stream(sketch)
    match offer.calibrated, sketch:
        case Pmg() as mechanism, StreamSketch():
            return mechanism.release(sketch, noise.laplace)
        case ReducedApprox() as mechanism, SummedSketch():
            return mechanism.release(sketch, noise.laplace, noise.below)
        case ReducedPure() as mechanism, SummedSketch() if universe is not None:
            return mechanism.release(sketch, universe, noise.laplace, noise.below)
        case Gshm() as mechanism, CompactSketch():
            return mechanism.release(sketch, noise.gaussian)
        case LaplaceCompact(universe_size=None) as mechanism, CompactSketch():
            return mechanism.release(sketch, noise.laplace)
        case LaplaceCompact() as mechanism, CompactSketch() if universe is not None:
            return mechanism.release_everywhere(sketch, universe, noise.laplace, noise.below)
    raise NoMechanism(f"{offer.mechanism} cannot release this sketch.")


def draw_for(offer: Offer, universe: Universe | None, noise: Noise) -> Noise:
    """Make every draw that `released` will ask for, and return noise that gives these out, each once.

    For a stream or a compact sketch. What a mechanism asks of those depends on public parameters, never on what they
    hold: k + 1 draws, as many coins, and a few for keys that noise alone lifts. So an empty one asks for the same.
    """
    k = offer.question.k
    empty = StreamSketch.empty(k) if offer.question.family == "stream" else CompactSketch.empty(k)
    return draw_ahead(noise, lambda noted: released(offer, empty, universe, noted))


def _pmg(question: Question) -> Offer:
    calibrated = pmg.calibrate(question.k, question.cost, question.max_contributions)
    bound = calibrated.error_bound(question.beta, question.expected_events)
    return _offer(question, pmg.NAME, pmg.VERSION, pmg.THEOREM, calibrated, bound)


def _reduced_approx(question: Question) -> Offer:
    calibrated = reduced_approx.calibrate(question.k, question.max_contributions, question.cost)
    bound = calibrated.error_bound(question.beta, question.expected_events, question.sources)
    return _offer(question, reduced_approx.NAME, reduced_approx.VERSION, reduced_approx.THEOREM, calibrated, bound)


def _reduced_pure(question: Question) -> Offer:
    if question.universe_size is None:
        raise NoMechanism("reduced-pure needs a sketch with a declared universe.")
    calibrated = reduced_pure.calibrate(
        question.k, question.max_contributions, question.universe_size, question.cost, question.beta
    )
    bound = calibrated.error_bound(question.beta, question.expected_events, question.sources)
    return _offer(question, reduced_pure.NAME, reduced_pure.VERSION, reduced_pure.THEOREM, calibrated, bound)


def _gshm(question: Question) -> Offer:
    calibrated = gshm.calibrate(question.k, question.cost, question.max_contributions)
    bound = calibrated.error_bound(question.beta, question.expected_events)
    return _offer(question, gshm.NAME, gshm.VERSION, gshm.THEOREM, calibrated, bound)


def _laplace_compact(question: Question) -> Offer:
    """With a threshold if there is a δ to pay for it, else on the whole universe."""
    if question.cost.delta == 0 and question.universe_size is not None:
        size = question.universe_size
        calibrated = laplace_compact.calibrate_everywhere(
            question.k, size, question.cost, question.beta, question.max_contributions
        )
    else:
        calibrated = laplace_compact.calibrate(question.k, question.cost, question.max_contributions)
    bound = calibrated.error_bound(question.beta, question.expected_events)
    name, version, theorem = laplace_compact.NAME, laplace_compact.VERSION, laplace_compact.THEOREM
    return _offer(question, name, version, theorem, calibrated, bound)


def _offer(
    question: Question, name: str, version: int, theorem: str, calibrated: Calibrated, bound: ErrorBound
) -> Offer:
    pure = isinstance(calibrated, ReducedPure)
    cost = question.cost.without_delta() if pure else question.cost  # a pure mechanism needs no δ and pays none
    likely = calibrated.smallest_likely_count(question.beta) + (bound.sketch_low or 0)
    return Offer(question, name, version, theorem, calibrated, cost, bound, likely)


_Maker = Callable[[Question], Offer]
_NAMES: dict[_Maker, str] = {
    _pmg: pmg.NAME,
    _reduced_approx: reduced_approx.NAME,
    _reduced_pure: reduced_pure.NAME,
    _gshm: gshm.NAME,
    _laplace_compact: laplace_compact.NAME,
}
_MECHANISMS: dict[Family, list[_Maker]] = {
    "stream": [_pmg, _reduced_approx, _reduced_pure],
    "compact": [_gshm, _laplace_compact],
    "summed": [_reduced_approx, _reduced_pure],
}
