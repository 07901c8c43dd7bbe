"""The error bounds that go out with a release hold as often as they say, for every family and mechanism.

`thm:final_theorem`, `lem:pure-dp-postprocessing-error`, `lem:user-level-merge-error` and `thm:user-level`, each with
the noise and the threshold that are really used. A release may break its bound with probability β. Then more than
`most_failures` of them do so with probability `law.FALSE_ALARM`: of the `RUNS` seeded streams, whose noise has the
right law and comes from a seeded generator, and of the fewer ones with the operating system's noise.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from app.core.histogram import Counts, ErrorBound
from app.core.ledger.budget import Cost
from app.core.mechanism import FAMILIES, Mechanism
from app.core.mechanisms import of_family
from app.core.mechanisms.gshm import Gshm
from app.core.mechanisms.pmg import Pmg
from app.core.mechanisms.reduced_approx import ReducedApprox
from app.core.mechanisms.reduced_pure import ReducedPure
from app.core.noise.samplers import SYSTEM_NOISE, Noise
from app.core.noise.tails import draw_bound
from app.core.planner import Family, Offer, Question, choose, run
from app.core.sketches.compact import CompactSketch
from app.core.sketches.state import Sketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch
from app.core.sketches.universe import of_range
from tests.laws.law import Gaussian, Laplace, Seeded, most_failures

pytestmark = pytest.mark.long

K = 4
BETA = 0.1
RUNS = 10_000
REAL_RUNS = 300
SOURCES = 3
LONGEST = 40
UNIVERSE = of_range(0, 11)
COST = Cost.charged(epsilon="1", delta="0.01")
PURE = Cost(COST.epsilon_units, 0)


@dataclass(frozen=True)
class Case:
    """One random input, sketched by every family: as one stream, and as three."""

    true: Counter[str]
    sketches: dict[Family, Sketch]

    @property
    def events(self) -> int:
        return self.true.total()


def exact(events: list[tuple[str, int]]) -> Counter[str]:
    true: Counter[str] = Counter()
    for key, count in events:
        true[key] += count
    return true


def cases(number: int) -> Iterator[Case]:
    """Short and long streams, of few or many keys, even or with one key that leads: more keys than counters."""
    shapes = np.random.default_rng(7)
    for _ in range(number):
        size, keys, skew = shapes.integers(0, LONGEST + 1), shapes.integers(1, 9), shapes.uniform(1, 3)
        ranks = (keys * shapes.random(size) ** skew).astype(int).tolist()
        events = [(str(rank), count) for rank, count in zip(ranks, shapes.integers(1, 12, size).tolist(), strict=True)]
        sources = [StreamSketch.empty(K).extended(events[start::SOURCES]) for start in range(SOURCES)]
        yield Case(
            exact(events),
            {
                "stream": StreamSketch.empty(K).extended(events),
                "compact": CompactSketch.of_stream(sources[0])
                .merged(CompactSketch.of_stream(sources[1]))
                .extended(events[2::SOURCES]),
                "summed": SummedSketch.of_stream(sources[0])
                .plus(SummedSketch.of_stream(sources[1]))
                .plus(SummedSketch.of_stream(sources[2])),
            },
        )


@cache
def all_cases() -> list[Case]:
    return list(cases(RUNS))


def question(family: Family, cost: Cost) -> Question:
    return Question(
        family=family,
        k=K,
        max_contributions=1,
        sources=SOURCES if family == "summed" else 1,
        universe_size=UNIVERSE.size,
        cost=cost,
        beta=BETA,
        expected_events=None,
    )


def bound_of(offer: Offer, events: int) -> ErrorBound:
    """For the number of events that is declared; nothing else in it depends on that."""
    return replace(offer.error_bound, sketch_low=events // (K + 1))


def within_the_bound(case: Case, counts: Counts, bound: ErrorBound) -> bool:
    """Every key of the universe, an absent one with the count 0."""
    assert bound.sketch_low is not None
    lowest = bound.noise_low + bound.sketch_low
    keys = case.true.keys() | counts.keys()
    return all(-lowest <= counts.get(key, 0) - case.true[key] <= bound.noise_high for key in keys)


def within_the_bars(case: Case, counts: Counts, bound: ErrorBound, offer: Offer) -> bool:
    """Every reported key."""
    bars = offer.calibrated.bars(counts, bound)
    return all(bar.high is not None and bar.low <= case.true[bar.key] <= bar.high for bar in bars)


def seeded(seed: int) -> Noise:
    return Noise(Seeded(Laplace, seed), Seeded(Gaussian, seed), random.Random(seed).randrange)


@cache
def releases(family: Family, mechanism: str, cost: Cost) -> list[Counts]:
    """One release of each case."""
    offer, noise = choose(question(family, cost), mechanism), seeded(11)
    return [run(offer, case.sketches[family], UNIVERSE, noise) for case in all_cases()]


Pairing = tuple[Family, str, Cost]


def costs(mechanism: Mechanism[Any]) -> list[Cost]:
    """With and without δ, where the mechanism has a form for each; the latter is on the whole universe."""
    return [PURE] if mechanism.is_pure else [COST] if mechanism.needs_delta else [COST, PURE]


PAIRINGS: list[Pairing] = [
    (family, mechanism.name, cost)
    for family in FAMILIES.values()
    for mechanism in of_family(family)
    for cost in costs(mechanism)
]
EVERY_PAIRING = pytest.mark.parametrize("pairing", PAIRINGS, ids=lambda p: f"{p[0]}-{p[1]}-{float(p[2].delta):g}")


def divided(bound: ErrorBound, noise: int, sketch: int) -> ErrorBound:
    """A bound that is too small."""
    assert bound.sketch_low is not None
    return ErrorBound(bound.noise_low // noise, bound.noise_high // noise, bound.sketch_low // sketch)


def failures(offer: Offer, found: Iterable[tuple[Case, Counts]], *, noise: int = 1, sketch: int = 1) -> tuple[int, int]:
    """How many releases lie outside of the bound, and outside of the bars, both made smaller by divisors."""
    outside_bound = outside_bars = 0
    for case, counts in found:
        bound = divided(bound_of(offer, case.events), noise, sketch)
        outside_bound += not within_the_bound(case, counts, bound)
        outside_bars += not within_the_bars(case, counts, bound, offer)
    return outside_bound, outside_bars


def seeded_failures(pairing: Pairing, *, noise: int = 1, sketch: int = 1) -> tuple[int, int]:
    family, mechanism, cost = pairing
    found = zip(all_cases(), releases(*pairing), strict=True)
    return failures(choose(question(family, cost), mechanism), found, noise=noise, sketch=sketch)


@EVERY_PAIRING
def test_all_keys_are_within_the_bound_and_the_bars_as_often_as_promised(pairing: Pairing) -> None:
    assert max(seeded_failures(pairing)) <= most_failures(RUNS, BETA)


@EVERY_PAIRING
def test_bounds_far_too_small_are_found_out(pairing: Pairing) -> None:
    """The same check of the same releases: a fifth of the noise, no noise at all, half of it beside an exact sketch."""
    tolerated = most_failures(RUNS, BETA)
    assert seeded_failures(pairing, noise=5)[0] > tolerated
    assert min(seeded_failures(pairing, noise=10**6)) > tolerated
    assert min(seeded_failures(pairing, noise=2, sketch=10**6)) > tolerated


@EVERY_PAIRING
def test_the_operating_systems_noise_keeps_the_promise_too(pairing: Pairing) -> None:
    family, mechanism, cost = pairing
    offer = choose(question(family, cost), mechanism)
    found = [(case, run(offer, case.sketches[family], UNIVERSE, SYSTEM_NOISE)) for case in all_cases()[:REAL_RUNS]]
    assert max(failures(offer, found)) <= most_failures(REAL_RUNS, BETA)
    assert failures(offer, found, noise=10**6)[0] > most_failures(REAL_RUNS, BETA)  # the test can fail


@EVERY_PAIRING
def test_without_a_universe_no_key_is_reported_that_never_occurred(pairing: Pairing) -> None:
    """With certainty. With one, noise alone lifts such a key in at most a third of β of all releases."""
    invented = sum(
        not counts.keys() <= case.true.keys() for case, counts in zip(all_cases(), releases(*pairing), strict=True)
    )
    assert invented == 0 if pairing[2] == COST else 0 < invented <= most_failures(RUNS, BETA / 3)


@EVERY_PAIRING
def test_the_bound_declares_the_sketch_part_for_the_declared_events(pairing: Pairing) -> None:
    family, mechanism, cost = pairing
    declared = replace(question(family, cost), expected_events=1004)
    undeclared = choose(question(family, cost), mechanism)
    assert undeclared.error_bound.sketch_low is None
    assert choose(declared, mechanism).error_bound == replace(undeclared.error_bound, sketch_low=1004 // (K + 1))


def allowed_noise(offer: Offer) -> int:
    """The largest draw that the bound allows for, in the units in which it is drawn."""
    calibrated, draws = offer.calibrated, K * (SOURCES if offer.mechanism.startswith("reduced") else 1)
    if isinstance(calibrated, Gshm):
        return offer.error_bound.noise_high * calibrated.lattice
    if isinstance(calibrated, ReducedApprox):
        return draw_bound(calibrated.scale, draws, BETA / 2)
    if isinstance(calibrated, ReducedPure):
        return draw_bound(calibrated.scale, draws, BETA / 3)
    return offer.error_bound.noise_high


def alone(family: Family, count: int) -> Sketch:
    """A stream of one key."""
    stream = StreamSketch(K, {"3": count})
    sketches: dict[Family, Sketch] = {
        "stream": stream,
        "compact": CompactSketch.of_stream(stream),
        "summed": SummedSketch.of_stream(stream),
    }
    return sketches[family]


@EVERY_PAIRING
def test_the_worst_noise_that_is_allowed_for_attains_the_bound(pairing: Pairing) -> None:
    """So nothing is left out of it, the threshold least of all, and nothing is counted twice."""
    family, mechanism, cost = pairing
    offer = choose(replace(question(family, cost), sources=SOURCES), mechanism)
    worst = -allowed_noise(offer)
    others = 0 if isinstance(offer.calibrated, Pmg) else worst  # PMG adds its first draw to every counter
    lowest = Noise(
        lambda scale, size: [worst, *[others] * size][:size],
        lambda scale, size: [worst] * size,
        lambda limit: 0,
    )
    missing = []
    for count in range(1, 200):
        found = run(offer, alone(family, count), UNIVERSE, lowest).get("3", 0)
        reduction = count // (K + 1) if mechanism.startswith("reduced") else 0
        missing.append(count - found - reduction)
    assert offer.error_bound.noise_low - 1 <= max(missing) <= offer.error_bound.noise_low


def reported(offer: Offer, family: Family, count: int, noise: Noise, runs: int) -> int:
    """How many releases report a key with this many events, alone in its stream."""
    return sum("3" in run(offer, alone(family, count), UNIVERSE, noise) for _ in range(runs))


@EVERY_PAIRING
def test_a_smallest_likely_count_is_reported_as_often_as_it_says(pairing: Pairing) -> None:
    """The count for which the plan says 1 − β, its own n declared; a much smaller one is missed too often."""
    family, mechanism, cost = pairing
    noise, runs = seeded(13), 2000

    def likely(count: int) -> int:
        asked = replace(question(family, cost), expected_events=count)
        return choose(asked, mechanism).smallest_likely_count

    count = next(count for count in range(1, 10**6) if likely(count) <= count)
    offer = choose(question(family, cost), mechanism)
    assert runs - reported(offer, family, count, noise, runs) <= most_failures(runs, BETA)
    assert runs - reported(offer, family, count // 2, noise, runs) > most_failures(runs, BETA)
