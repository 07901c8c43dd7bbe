"""Which mechanism, at what error, from public parameters alone: never counters, stored keys or the true n."""

from dataclasses import dataclass

from app.core.budget import Cost
from app.core.errors import NoMechanism
from app.core.histogram import ErrorBound
from app.core.mechanisms import pmg

AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Everything that a choice may depend on."""

    k: int
    cost: Cost
    beta: float
    expected_events: int | None


@dataclass(frozen=True, slots=True)
class Offer:
    """What a mechanism would give."""

    mechanism: str
    version: int
    theorem: str
    calibrated: pmg.Pmg
    error_bound: ErrorBound
    smallest_likely_count: int


def offers(question: Question) -> list[Offer]:
    """Every applicable mechanism, the one with the least error bound first."""
    calibrated = pmg.calibrate(question.k, question.cost)
    bound = calibrated.error_bound(question.beta, question.expected_events)
    likely = calibrated.smallest_likely_count(question.beta) + (bound.sketch_low or 0)
    return [Offer(pmg.NAME, pmg.VERSION, pmg.THEOREM, calibrated, bound, likely)]


def choose(question: Question, mechanism: str) -> Offer:
    """The named mechanism, or the best for "auto"."""
    for offer in offers(question):
        if mechanism in (AUTO, offer.mechanism):
            return offer
    raise NoMechanism(f"Mechanism {mechanism!r} cannot release this sketch; use {AUTO!r}.")
