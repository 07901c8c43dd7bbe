"""What `accuracy.py` compares: ways to release one stream's histogram, ours, earlier, published and without a sketch.

Each contender carries the bound that it promises, so that a measurement beyond it is noticed. The service's own
mechanisms learn from each release how wrong the sketch itself is; the others promise n/(k+1) for it, with the right n.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.core.histogram import Counts, ErrorBound
from app.core.ledger.budget import Cost
from app.core.mechanism import Calibrated, Family
from app.core.mechanisms import gshm, laplace_compact, pmg, reduced_approx
from app.core.mechanisms.pmg import Pmg
from app.core.noise.samplers import Noise, laplace_scale
from app.core.noise.tails import draw_bound, draw_tail, smallest
from app.core.planner import AUTO, Question, choose
from app.core.sketches.compact import CompactSketch
from app.core.sketches.state import Sketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch
from benchmarks import before

BETA = 0.05  # a bound may fail in so many of all releases

OURS = "ours"
EASY = "GSHM, easy"
EXACT = "exact counts"
UNPROTECTED = "sketch alone"

COMPACT, SUMMED = "compact, gshm", "summed, reduced-approx"
COMPACT_BEFORE, SUMMED_BEFORE = "compact, before", "summed, before"
COMPACT_ALONE, SUMMED_ALONE = "compact alone", "summed alone"

MEANING = {
    OURS: "what the planner chooses for a stream sketch: {}",
    "PMG, published": "the same noise, cut at 1 + 2⌈ln(6e^ε/((e^ε+1)δ))/ε⌉ (sec:practitioners)",
    "reduced": "reduced-approx of the service: what was taken from all counters is given back, with noise",
    "reduced, before": "the version before: reduced counters alone",
    "reduced, published": "sensitivity 2 and threshold 4 + 2·ln(1/δ)/ε (sec:pure)",
    "GSHM": "gshm of the service: Gaussian noise, one draw shared, for the same counters as a merged sketch",
    "GSHM, uncorrelated": "the version before: a draw for each key, calibrated exactly (`thm:sparse-gaussian`)",
    EASY: "the same by `lem:gaussian-sparse-easy-version`, which needs ε < 1",
    "Laplace k/ε": "Chan et al. with a threshold: laplace-compact, for the same counters as a merged sketch",
    EXACT: "no sketch: every key is counted, Laplace noise of scale 1/ε, the lowest private threshold",
    UNPROTECTED: "no privacy: the Misra-Gries counters as they are",
}

Promised = tuple[Counts, int]  # a release, and the error that no key's passes with probability 1 − β


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to release a histogram, with what it promises."""

    name: str
    threshold: int  # the smallest count that is released
    release: Callable[[Noise], Promised]


@dataclass(frozen=True, slots=True)
class Folded:
    """A stream, counted exactly and by a sketch."""

    events: int
    truth: Mapping[str, int]
    sketch: StreamSketch


def contenders(folded: Folded, cost: Cost) -> list[Contender]:
    """Every contender that this cost allows, in the order of MEANING."""
    k, at_most = folded.sketch.k, folded.events // (folded.sketch.k + 1)
    compact, summed = CompactSketch.of_stream(folded.sketch), SummedSketch.of_stream(folded.sketch)
    easy = [_gshm(EASY, easy_gshm(k, cost), compact, at_most)] if cost.epsilon < 1 else []
    return [
        _ours(OURS, choose(question("stream", k, cost), AUTO).calibrated, folded.sketch),
        _pmg("PMG, published", published_pmg(k, cost), folded.sketch, at_most),
        _ours("reduced", reduced_approx.calibrate(k, 1, 1, cost), summed),
        _reduced("reduced, before", before.calibrate_reduced(k, cost), summed, at_most),
        _reduced("reduced, published", published_reduced(k, cost), summed, at_most),
        _ours("GSHM", gshm.calibrate(k, cost), compact),
        _gshm("GSHM, uncorrelated", before.calibrate_gshm(k, cost), compact, at_most),
        *easy,
        _ours("Laplace k/ε", laplace_compact.calibrate(k, cost), compact),
        _exact(folded, cost),
        _other(UNPROTECTED, 1, folded.sketch.lowered or 0, lambda _: folded.sketch.counters),
    ]


def merged_contenders(compact: CompactSketch, summed: SummedSketch, events: int, cost: Cost) -> list[Contender]:
    """The same shards merged in the two ways, each of them released with noise, now and before, and as it is."""
    k, at_most = compact.k, events // (compact.k + 1)
    whole = {key: steps // (k + 1) for key, steps in summed.counters.items()}
    return [
        _ours(COMPACT, gshm.calibrate(k, cost), compact),
        _ours(SUMMED, reduced_approx.calibrate(k, 1, summed.sources, cost), summed),
        _gshm(COMPACT_BEFORE, before.calibrate_gshm(k, cost), compact, at_most),
        _reduced(SUMMED_BEFORE, before.calibrate_reduced(k, cost), summed, at_most),
        _other(COMPACT_ALONE, 1, compact.lowered or 0, lambda _: compact.counters),
        _other(SUMMED_ALONE, 1, at_most + 1, lambda _: whole),  # 1: steps are rounded down to counts
    ]


def question(family: Family, k: int, cost: Cost, *, max_contributions: int = 1, sources: int = 1) -> Question:
    """What the planner is asked about such a sketch."""
    return Question(
        family=family,
        k=k,
        max_contributions=max_contributions,
        sources=sources,
        universe_size=None,
        cost=cost,
        beta=BETA,
    )


def published_pmg(k: int, cost: Cost) -> Pmg:
    """PMG with the threshold that the paper publishes."""
    return replace(pmg.calibrate(k, cost), threshold=published_threshold(float(cost.epsilon), float(cost.delta)))


def published_threshold(epsilon: float, delta: float) -> int:
    """1 + 2⌈ln(6e^ε/((e^ε+1)δ))/ε⌉ (sec:practitioners)."""
    return 1 + 2 * math.ceil(math.log(6 * math.exp(epsilon) / ((math.exp(epsilon) + 1) * delta)) / epsilon)


def published_reduced(k: int, cost: Cost) -> before.Reduced:
    """The reduced mechanism with the parameters that the paper publishes."""
    distance = 2 * (k + 1)  # 2 counts, in steps
    threshold = math.ceil(4 + 2 * math.log(1 / cost.delta) / float(cost.epsilon))
    return before.Reduced(k, distance, laplace_scale(cost.epsilon / distance), threshold)


def easy_gshm(k: int, cost: Cost) -> before.Gshm:
    """On the lattice of the exact calibration: fine enough for its smaller σ, so fine enough here."""
    epsilon, delta = float(cost.epsilon), float(cost.delta)
    sigma = math.sqrt(2 * k * math.log(2.5 / delta)) / epsilon
    tau = math.sqrt(2 * math.log(2 * k / delta)) * sigma
    lattice = before.calibrate_gshm(k, cost).lattice
    return before.Gshm(k, sigma, lattice, math.ceil(1 + tau + 1 / (2 * lattice)))


def _ours(name: str, mechanism: Calibrated[Any], sketch: Sketch) -> Contender:
    bound = mechanism.noise_bound(BETA)

    def release(noise: Noise) -> Promised:
        released = mechanism.release(sketch, noise)
        return released.counts, largest_error(bound.with_sketch(released.sketch_error, reduction=released.reduction))

    return Contender(name, mechanism.threshold, release)


def largest_error(bound: ErrorBound) -> int:
    """Of any key, where one that is not listed counts as 0; all these sketches know their own error."""
    return max(bound.below, bound.above + (bound.sketch or 0), bound.unlisted or 0)


def _other(name: str, threshold: int, bound: int, release: Callable[[Noise], Counts]) -> Contender:
    return Contender(name, threshold, lambda noise: (release(noise), bound))


def _pmg(name: str, mechanism: Pmg, sketch: StreamSketch, at_most: int) -> Contender:
    bound = before.pmg_promise(mechanism, BETA).largest_error(at_most)
    return _other(name, mechanism.threshold, bound, lambda noise: mechanism.release(sketch, noise).counts)


def _reduced(name: str, mechanism: before.Reduced, summed: SummedSketch, at_most: int) -> Contender:
    bound = mechanism.promise(BETA, summed.sources).largest_error(at_most)
    return _other(name, mechanism.threshold, bound, lambda noise: mechanism.release(summed, noise))


def _gshm(name: str, mechanism: before.Gshm, compact: CompactSketch, at_most: int) -> Contender:
    bound = mechanism.promise(BETA).largest_error(at_most)
    return _other(name, mechanism.threshold, bound, lambda noise: mechanism.release(compact, noise))


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
    return _other(EXACT, threshold, bound, release)
