"""What `accuracy.py` compares: ways to release one stream's histogram, ours, published and without a sketch.

Each contender carries the bound that it promises, so that a measurement beyond it is noticed. The mechanisms are the
service's own; where a contender differs from them, it is in the parameters that the paper publishes.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from app.core.histogram import Counts, ErrorBound
from app.core.ledger.budget import Cost
from app.core.mechanisms import gshm, laplace_compact, pmg, reduced_approx
from app.core.mechanisms.gshm import Gshm
from app.core.mechanisms.laplace_compact import LaplaceCompact
from app.core.mechanisms.pmg import Pmg
from app.core.mechanisms.reduced_approx import ReducedApprox
from app.core.noise.samplers import Noise, laplace_scale
from app.core.noise.tails import draw_bound, draw_tail, smallest
from app.core.planner import AUTO, Offer, Question, choose, run
from app.core.sketches.compact import CompactSketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch

BETA = 0.05  # a bound may fail in so many of all releases

OURS = "ours"
EASY = "GSHM, easy"
EXACT = "exact counts"
UNPROTECTED = "sketch alone"

COMPACT, SUMMED = "compact, gshm", "summed, reduced-approx"
COMPACT_ALONE, SUMMED_ALONE = "compact alone", "summed alone"

MEANING = {
    OURS: "what the planner chooses for a stream sketch: {}",
    "PMG, published": "the same noise, cut at 1 + 2⌈ln(6e^ε/((e^ε+1)δ))/ε⌉ (sec:practitioners)",
    "reduced": "reduced-approx of the service",
    "reduced, published": "sensitivity 2 and threshold 4 + 2·ln(1/δ)/ε (sec:pure)",
    "GSHM": "Gaussian noise, calibrated exactly (`thm:sparse-gaussian`), for the same counters as a merged sketch",
    EASY: "the same by `lem:gaussian-sparse-easy-version`, which needs ε < 1",
    "Laplace k/ε": "Chan et al. with a threshold: laplace-compact, for the same counters as a merged sketch",
    EXACT: "no sketch: every key is counted, Laplace noise of scale 1/ε, the lowest private threshold",
    UNPROTECTED: "no privacy: the Misra-Gries counters as they are",
}


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to release a histogram, with what it promises."""

    name: str
    threshold: int  # the smallest count that is released
    bound: int  # with probability 1 − β no key's error is larger
    release: Callable[[Noise], Counts]


@dataclass(frozen=True, slots=True)
class Folded:
    """A stream, counted exactly and by a sketch."""

    events: int
    truth: Mapping[str, int]
    sketch: StreamSketch


def contenders(folded: Folded, cost: Cost) -> list[Contender]:
    """Every contender that this cost allows, in the order of MEANING."""
    k = folded.sketch.k
    easy = [_gshm(EASY, easy_gshm(k, cost), folded)] if cost.epsilon < 1 else []
    return [
        _planned(folded, cost),
        _pmg("PMG, published", published_pmg(k, cost), folded),
        _reduced("reduced", reduced_approx.calibrate(k, 1, cost), folded),
        _reduced("reduced, published", published_reduced(k, cost), folded),
        _gshm("GSHM", gshm.calibrate(k, cost), folded),
        *easy,
        _laplace("Laplace k/ε", laplace_compact.calibrate(k, cost), folded),
        _exact(folded, cost),
        Contender(UNPROTECTED, 1, folded.events // (k + 1), lambda _: folded.sketch.counters),
    ]


def merged_contenders(compact: CompactSketch, summed: SummedSketch, events: int, cost: Cost) -> list[Contender]:
    """The same shards merged in the two ways, each of them released with noise and as it is."""
    gaussian = gshm.calibrate(compact.k, cost)
    reduced = reduced_approx.calibrate(summed.k, 1, cost)
    gaussian_bound = largest_error(gaussian.error_bound(BETA, events))
    reduced_bound = largest_error(replace(reduced, sources=summed.sources).error_bound(BETA, events))
    sketch_bound = events // (compact.k + 1)
    whole = {key: steps // (summed.k + 1) for key, steps in summed.counters.items()}
    return [
        Contender(COMPACT, gaussian.threshold, gaussian_bound, lambda of: gaussian.release(compact, of)),
        Contender(SUMMED, reduced.threshold, reduced_bound, lambda of: reduced.release(summed, of)),
        Contender(COMPACT_ALONE, 1, sketch_bound, lambda _: compact.counters),
        Contender(SUMMED_ALONE, 1, sketch_bound + 1, lambda _: whole),  # 1: steps are rounded down to counts
    ]


def planned(k: int, events: int, cost: Cost) -> Offer:
    """What the service would choose for a stream of so many declared events."""
    question = Question(
        family="stream",
        k=k,
        max_contributions=1,
        sources=1,
        universe_size=None,
        cost=cost,
        beta=BETA,
        expected_events=events,
    )
    return choose(question, AUTO)


def published_pmg(k: int, cost: Cost) -> Pmg:
    """PMG with the threshold that the paper publishes."""
    epsilon, delta = float(cost.epsilon), float(cost.delta)
    largest_draw = math.log(6 * math.exp(epsilon) / ((math.exp(epsilon) + 1) * delta)) / epsilon
    return replace(pmg.calibrate(k, cost), threshold=1 + 2 * math.ceil(largest_draw))


def published_reduced(k: int, cost: Cost) -> ReducedApprox:
    """The reduced mechanism with the parameters that the paper publishes."""
    distance = 2 * (k + 1)  # 2 counts, in steps
    threshold = math.ceil(4 + 2 * math.log(1 / cost.delta) / float(cost.epsilon))
    scale = laplace_scale(cost.epsilon / distance)
    return ReducedApprox(k=k, sensitivity=distance, scale=scale, threshold=threshold)


def easy_gshm(k: int, cost: Cost) -> Gshm:
    """On the lattice of the exact calibration: fine enough for its smaller σ, so fine enough here."""
    epsilon, delta = float(cost.epsilon), float(cost.delta)
    sigma = math.sqrt(2 * k * math.log(2.5 / delta)) / epsilon
    tau = math.sqrt(2 * math.log(2 * k / delta)) * sigma
    exact = gshm.calibrate(k, cost)
    return replace(exact, sigma=sigma, threshold=math.ceil(1 + tau + 1 / (2 * exact.lattice)))


def _planned(folded: Folded, cost: Cost) -> Contender:
    offer = planned(folded.sketch.k, folded.events, cost)
    bound = largest_error(offer.error_bound)
    return Contender(OURS, offer.calibrated.threshold, bound, lambda noise: run(offer, folded.sketch, None, noise))


def _pmg(name: str, mechanism: Pmg, folded: Folded) -> Contender:
    bound = largest_error(mechanism.error_bound(BETA, folded.events))
    return Contender(name, mechanism.threshold, bound, lambda noise: mechanism.release(folded.sketch, noise))


def _reduced(name: str, mechanism: ReducedApprox, folded: Folded) -> Contender:
    summed = SummedSketch.of_stream(folded.sketch)
    bound = largest_error(mechanism.error_bound(BETA, folded.events))
    return Contender(name, mechanism.threshold, bound, lambda noise: mechanism.release(summed, noise))


def _gshm(name: str, mechanism: Gshm, folded: Folded) -> Contender:
    compact = CompactSketch.of_stream(folded.sketch)
    bound = largest_error(mechanism.error_bound(BETA, folded.events))
    return Contender(name, mechanism.threshold, bound, lambda noise: mechanism.release(compact, noise))


def _laplace(name: str, mechanism: LaplaceCompact, folded: Folded) -> Contender:
    compact = CompactSketch.of_stream(folded.sketch)
    bound = largest_error(mechanism.error_bound(BETA, folded.events))
    return Contender(name, mechanism.threshold, bound, lambda noise: mechanism.release(compact, noise))


def _exact(folded: Folded, cost: Cost) -> Contender:
    """One event changes one count by one, so a key that has it alone must stay below the threshold: Pr[1 + ζ ≥ t]."""
    scale = laplace_scale(cost.epsilon)
    threshold = smallest(lambda t: draw_tail(scale, t - 1) <= cost.delta, start=1)
    counted = {key: count for key, count in sorted(folded.truth.items()) if count > 0}

    def release(noise: Noise) -> Counts:
        draws = noise.laplace(scale, len(counted))
        noisy = {key: count + draw for (key, count), draw in zip(counted.items(), draws, strict=True)}
        return {key: count for key, count in noisy.items() if count >= threshold}

    bound = threshold - 1 + draw_bound(scale, len(folded.truth), BETA / 2)
    return Contender(EXACT, threshold, bound, release)


def largest_error(bound: ErrorBound) -> int:
    """Of a count that is too low or too high; n is declared in all these measurements."""
    return max(bound.noise_low + (bound.sketch_low or 0), bound.noise_high)
