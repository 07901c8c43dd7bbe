"""Reduced counters under Gaussian noise are δ-approximately ρ-zCDP on all small neighbours, n and Σc beside them.

Checked by the definition: given that no key is reported that one side alone stores, which fails with probability at
most δ, the Rényi divergence of every order α is at most α·ρ. And once more by the (ε, δ) that follows from it.
"""

import math
from collections.abc import Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from app.core.errors import NoMechanism
from app.core.ledger.budget import Cost
from app.core.mechanisms import reduced_approx, reduced_gaussian
from app.core.mechanisms.reduced_gaussian import ReducedGaussian, delta_needed
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch, beside, squared_distance
from tests.core.mechanisms.moves import Move
from tests.core.mechanisms.recorded import Recorded, gaussian, no_noise
from tests.laws import normal
from tests.laws.divergence import ROUNDING, KeyLaws, cut_at, divergences, grouped
from tests.laws.law import Array, Gaussian
from tests.questions import question
from tests.streams import neighbours, small_streams

SMALL_K = pytest.mark.parametrize("k", [1, 2, 3])
SOURCES = pytest.mark.parametrize("sources", [1, 2])
ORDERS = (1.01, 1.5, 2.0, 5.0)

CALIBRATED = ReducedGaussian(k=3, sigma=2.0, lattice=16, threshold=10)


def in_rho(rho: str, delta: str) -> Cost:
    return Cost.charged_in_rho(rho=rho, delta=delta)


def rho_of(mechanism: ReducedGaussian) -> float:
    return float(mechanism.rho(Cost(0, 0, 1)))


def coarse(k: int, sources: int, scale: float, delta: float, m: int = 1) -> ReducedGaussian:
    """On the coarsest lattice, σ so many steps, at the lowest threshold that δ allows."""
    threshold = next(t for t in range(1, 10**4) if delta_needed(k, m, scale, 1, t * (k + 1)) <= delta)
    sigma = scale / (k + 1)
    return ReducedGaussian(k=k, max_contributions=m, sources=sources, sigma=sigma, lattice=k + 1, threshold=threshold)


def one_event(mechanism: ReducedGaussian) -> Iterator[tuple[tuple[Move, ...], list[int]]]:
    """How the keys move, in steps, and the numbers beside them, from low and high counters (`lem:nb-cases`)."""
    k, both, cut = mechanism.k, beside(mechanism.sources) == 2, mechanism.threshold * (mechanism.k + 1)
    lower = [0, 1, cut - 1, cut + math.ceil(9 * mechanism.scale)]
    for number in range(k + 1):
        for fallen in combinations_with_replacement([(low, low + 1) for low in lower], number):
            yield fallen, [1, k] if both else [1]
            if number < k:
                for low, by in product(lower, {1, k}):
                    yield (*fallen, (low + by, low)), [1, 1] if both else [1]


def key_laws(mechanism: ReducedGaussian, move: Move) -> tuple[Array, Array]:
    """What is reported of a key on both sides: nothing, or a value from the threshold on."""
    law, cut = Gaussian(mechanism.scale), mechanism.threshold * (mechanism.k + 1)
    top = max(cut, *move) + math.ceil(30 * mechanism.scale)
    start = max(cut, min(move) - math.ceil(30 * mechanism.scale))
    left, right = (cut_at(law, start, counter, top) for counter in move)
    return left, right


def renyi(alpha: float, p: Array, q: Array) -> float:
    some = (p > 0) & (q > 0)
    return math.log(math.fsum(p[some] * (p[some] / q[some]) ** (alpha - 1))) / (alpha - 1)


def moved_by(mechanism: ReducedGaussian, by: int) -> tuple[Array, Array]:
    """A number with noise and no threshold, on one side higher."""
    values = np.arange(-math.ceil(34 * mechanism.scale), math.ceil(34 * mechanism.scale) + by + 1.0)
    law = Gaussian(mechanism.scale)
    return law.probability(values), law.probability(values - by)


@SMALL_K
@SOURCES
@pytest.mark.parametrize(("scale", "delta"), [(3.0, 0.01), (8.0, 1e-6), (4.5, 1e-3)])
def test_given_that_no_own_key_is_reported_every_order_costs_at_most_rho(
    k: int, sources: int, scale: float, delta: float
) -> None:
    """In both directions. Where all counters are high, exactly ρ is needed."""
    mechanism = coarse(k, sources, scale, delta)
    rho = rho_of(mechanism)
    of_key = cache(lambda alpha, move: renyi(alpha, *key_laws(mechanism, move)))
    of_other = cache(lambda alpha, by: renyi(alpha, *moved_by(mechanism, by)))
    for alpha in ORDERS:
        found = 0.0
        for keys, others in one_event(mechanism):
            common = [move for move in keys if min(move) > 0]
            for turned in (common, [(right, left) for left, right in common]):
                cost = sum(of_key(alpha, move) for move in turned) + sum(of_other(alpha, by) for by in others)
                found = max(found, cost)
        assert found == pytest.approx(alpha * rho, rel=1e-6)


@SMALL_K
@SOURCES
@pytest.mark.parametrize(("scale", "delta"), [(3.0, 0.01), (8.0, 1e-6), (4.5, 1e-3)])
def test_own_keys_are_reported_with_probability_at_most_delta(k: int, sources: int, scale: float, delta: float) -> None:
    """On either side, all together; and one threshold lower, too often."""
    mechanism = coarse(k, sources, scale, delta)
    for lowered, holds in ((0, True), (1, False)):
        cut = (mechanism.threshold - lowered) * (k + 1)
        worst = max(
            max(reported(mechanism.scale, cut, own), reported(mechanism.scale, cut, other))
            for keys, _ in one_event(mechanism)
            for own, other in [([a for a, b in keys if b == 0], [b for a, b in keys if a == 0])]
        )
        assert (worst <= delta) == holds
        needed = delta_needed(k, 1, mechanism.scale, 1, cut)
        assert worst <= needed <= 1.4 * worst  # more than 1 by the lattice, which is as coarse as can be here


def reported(scale: float, cut: int, counters: Iterable[int]) -> float:
    """Pr[some key with one of these counters reaches the cut]."""
    law = Gaussian(scale)
    missed = [float(law.at_least(np.array([float(cut - counter)]))[0]) for counter in counters]
    return -math.expm1(math.fsum(math.log1p(-each) for each in missed))


def delta_of(rho: float, epsilon: float) -> float:
    """The δ at ε of ρ-zCDP, by the best of many orders (Canonne, Kamath & Steinke)."""
    alphas = 1 + np.geomspace(1e-3, 1e3, 2000)
    logs = (alphas - 1) * (alphas * rho - epsilon) + alphas * np.log1p(-1 / alphas) - np.log(alphas - 1)
    return float(np.exp(logs.min()))


@SOURCES
@pytest.mark.parametrize(("k", "scale", "delta"), [(1, 3.0, 0.01), (1, 4.0, 1e-4), (2, 2.0, 0.01)])
def test_whole_outputs_diverge_by_no_more_than_follows(k: int, sources: int, scale: float, delta: float) -> None:
    """Keys, n and Σc together, own keys too: at every ε at most δ and what ρ-zCDP leaves."""
    mechanism = coarse(k, sources, scale, delta)
    rho = rho_of(mechanism)
    of_key = cache(lambda move: grouped(KeyLaws(*key_laws(mechanism, move))))
    of_other = cache(lambda by: grouped(KeyLaws(*moved_by(mechanism, by))))
    for keys, others in one_event(mechanism):
        laws = [*map(of_key, keys), *map(of_other, others)]
        for epsilon in (0.0, math.sqrt(2 * rho), 3 * math.sqrt(2 * rho)):
            assert divergences(epsilon, laws).worst <= delta + delta_of(rho, epsilon) + ROUNDING
    beyond = divergences(math.sqrt(2 * rho), [of_key((k, 0)), of_other(1)]).worst
    assert beyond > 0  # it is not pure, and not (√(2ρ), δ)-private at a δ that counts own keys alone:
    tall = mechanism.threshold * (k + 1) + math.ceil(9 * scale)
    raised = divergences(math.sqrt(2 * rho), [of_key((tall + k, tall)), *map(of_other, [1] * beside(sources))]).worst
    assert raised > delta


def real_pairs(k: int, m: int, longest: int) -> Iterator[tuple[SummedSketch, SummedSketch]]:
    """Small streams and the same with up to m events less."""
    sketches = {
        stream: SummedSketch.of_stream(StreamSketch.empty(k).extended((key, 1) for key in stream))
        for stream in small_streams(k + 1, longest)
    }
    for stream, sketch in sketches.items():
        shorter = {stream}
        for _ in range(m):
            shorter = {further for each in shorter for further in neighbours(each)}
            yield from ((sketch, sketches[each]) for each in shorter)


@pytest.mark.parametrize(
    ("k", "m", "longest"), [(1, 1, 7), (2, 1, 6), (3, 1, 5), (1, 2, 7), (2, 2, 6), (2, 3, 6), (3, 2, 5)]
)
@pytest.mark.parametrize(("scale", "delta"), [(3.0, 0.01), (12.0, 1e-6)])
def test_keys_of_one_side_of_real_streams_are_hidden(k: int, m: int, longest: int, scale: float, delta: float) -> None:
    mechanism = coarse(k, 1, scale, delta, m)
    cut, worst = mechanism.threshold * (k + 1), 0.0
    for pair in real_pairs(k, m, longest):
        for one, other in (pair, pair[::-1]):
            own = [count for key, count in one.counters.items() if key not in other.counters]
            assert len(own) <= k
            assert sum(own) <= m * k
            worst = max(worst, reported(scale, cut, own))
    assert 0 < worst <= delta_needed(k, m, scale, 1, cut) <= delta


def steps_of_one_event(k: int) -> list[tuple[int, ...]]:
    """The most that one event adds to k keys: k to one of them, or one to each of some of them."""
    return [tuple(k if key == raised else 0 for key in range(k)) for raised in range(k)] + list(
        product((0, 1), repeat=k)
    )


@pytest.mark.parametrize(("k", "m"), [(1, 1), (2, 1), (3, 1), (1, 3), (2, 2), (2, 3), (3, 2), (3, 3)])
@pytest.mark.parametrize("scale", [0.8, 3.0, 12.0])
def test_the_worst_of_m_events_is_among_the_three_that_are_looked_at(k: int, m: int, scale: float) -> None:
    """Every way in which m events can add up, on a threshold low and high."""
    for cut in (m * k + 1, m * k + math.ceil(3 * scale), m * k + math.ceil(8 * scale)):
        worst = max(
            reported(scale, cut, [count for count in map(sum, zip(*steps, strict=True)) if count])
            for steps in combinations_with_replacement(steps_of_one_event(k), m)
        )
        assert worst <= delta_needed(k, m, scale, 1, cut)
        if m == 1 and scale > 10:
            assert delta_needed(k, m, scale, 1, cut) == pytest.approx(worst, rel=0.01)


FIGURES = [("0.001", 135), ("0.005", 60), ("0.02", 30), ("0.125", 12), ("0.5", 6)]


@SOURCES
@pytest.mark.parametrize(("rho", "threshold"), FIGURES)
def test_the_thresholds_of_a_usual_sketch_by_60_digits(rho: str, threshold: int, sources: int) -> None:
    """k = 1024 and δ = 1e-6: a quarter of what Laplace noise needs at the same price."""
    k, cost = 1024, in_rho(rho, "1e-6")
    mechanism = reduced_gaussian.calibrate(k, 1, sources, cost)
    assert mechanism.threshold == threshold
    assert 4 * threshold <= reduced_approx.calibrate(k, 1, sources, cost.in_epsilon()).threshold + 4
    squared = k * k + k + (1 if sources == 1 else 0)
    sigma = (Decimal(squared) / 2 / Decimal(rho)).sqrt() / (k + 1)
    assert mechanism.sigma == pytest.approx(float(sigma), rel=1e-12)
    for t, holds in ((threshold, True), (threshold - 1, False)):
        small, tall = (normal.tail((t - Decimal(steps) / (k + 1)) / sigma) for steps in (1, k))
        needed = max(1 - (1 - small) ** k, tall)
        assert (needed <= Decimal("1e-6")) == holds
        found = delta_needed(k, 1, mechanism.scale, mechanism.lattice // (k + 1), t * mechanism.lattice)
        assert found == pytest.approx(float(needed), rel=0.002)
        assert found > float(needed)  # drawing on a lattice is allowed for


@pytest.mark.parametrize("k", [1, 3, 1024, 65_536])
@SOURCES
@pytest.mark.parametrize("m", [1, 7])
@pytest.mark.parametrize("rho", ["1e-9", "0.02", "0.5", "100"])
def test_no_more_rho_is_given_than_was_charged_and_hardly_less(k: int, sources: int, m: int, rho: str) -> None:
    cost = in_rho(rho, "1e-6")
    mechanism = reduced_gaussian.calibrate(k, m, sources, cost)
    finer = mechanism.lattice // (k + 1)
    given = Fraction(squared_distance(k, m, sources) * finer**2) / (2 * Fraction(mechanism.scale) ** 2)
    assert given == mechanism.rho(cost) <= cost.rho < given * Fraction(10**12 + 1, 10**12)
    assert mechanism.scale >= 2**12
    assert mechanism.lattice == (k + 1) * finer
    assert finer & (finer - 1) == 0


def test_noise_that_would_saturate_is_refused() -> None:
    with pytest.raises(NoMechanism, match="rho"):
        reduced_gaussian.calibrate(65_536, 1000, 1, in_rho("1e-15", "1e-6"))


def test_it_is_offered_for_costs_in_rho_alone() -> None:
    with pytest.raises(NoMechanism, match="reduced-gaussian is priced in ρ"):
        reduced_gaussian.MECHANISM.calibrated(question(k=3))
    with pytest.raises(NoMechanism, match="needs a delta above 0"):
        reduced_gaussian.MECHANISM.calibrated(question(k=3, delta="0"))


def test_counters_are_noised_and_cut_in_steps_and_reported_in_counts() -> None:
    sketch = SummedSketch(3, 1, {"below": 39, "at": 40, "above": 49})
    assert CALIBRATED.release(sketch, gaussian(no_noise)).counts == {"at": 10, "above": 12}
    one_lower = CALIBRATED.release(sketch, gaussian(Recorded(-1, -1, -1)))
    assert one_lower.counts == {"above": 12}


@pytest.mark.parametrize("stored", [0, 1, 3, 7])
@pytest.mark.parametrize("known", [(), (5, 6)])
@pytest.mark.parametrize("sources", [1, 3])
def test_as_many_draws_are_made_as_there_can_be_keys(stored: int, known: tuple[int, ...], sources: int) -> None:
    sample = Recorded()
    sketch = SummedSketch(3, 3, {f"key {number}": 9 for number in range(stored)}, *known)
    ReducedGaussian(k=3, sources=sources, sigma=2.0, lattice=16, threshold=10).release(sketch, gaussian(sample))
    assert sample.asked == [(32.0, beside(sources)), (32.0, 9)]


def test_parameters_let_a_sceptic_recompute_the_guarantee() -> None:
    assert CALIBRATED.parameters() == {
        "noise": "discrete-gaussian",
        "sigma": "2",
        "lattice": 16,
        "threshold": 10,
        "k": 3,
        "max_contributions": 1,
        "sources": 1,
    }
    assert CALIBRATED.rho(in_rho("1", "0")) == Fraction(13 * 16, 2 * 32**2)


@SOURCES
@pytest.mark.parametrize("beta", [0.2, 0.01])
def test_the_bound_is_what_normal_draws_reach_but_for_the_union_bound(sources: int, beta: float) -> None:
    """By 60 digits; three counters in each source."""
    mechanism = reduced_gaussian.calibrate(3, 1, sources, in_rho("0.0001", "1e-6"))
    bound, keys = mechanism.noise_bound(beta), 3 * sources
    for reach, draws in ((bound.below, beside(sources)), (bound.above, 2)):
        sigma = Decimal(mechanism.sigma) * Decimal(draws).sqrt()
        assert keys * normal.tail((reach + 1) / sigma) <= Decimal(beta) / 2
        assert keys * normal.tail((reach - 2) / sigma) > Decimal(beta) / 2
    assert bound.unlisted in range(mechanism.threshold + bound.above - 1, mechanism.threshold + bound.above + 1)


def test_the_proof_covers_these_families_of_sketch_and_no_others() -> None:
    assert reduced_gaussian.MECHANISM.families == ("stream", "summed")
