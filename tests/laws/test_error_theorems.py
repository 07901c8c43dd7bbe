"""The error bounds that go out with a release hold as often as they say, for every family and mechanism.

`thm:final_theorem`, `lem:pure-dp-postprocessing-error`, `lem:user-level-merge-error` and `thm:user-level`, each with
the noise and the threshold that are really used, and with the sketch's own error as it was released. A release may
break its bound with probability β. Then more than `most_failures` of them do so with probability `law.FALSE_ALARM`: of
the `RUNS` seeded streams, whose noise has the right law and comes from a seeded generator, and of the fewer ones with
the operating system's noise.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

import numpy as np
import pytest

from app.core.histogram import ErrorBound, Released, bars
from app.core.ledger.budget import Cost
from app.core.mechanism import FAMILIES, Mechanism
from app.core.mechanisms import of_family
from app.core.noise.samplers import SYSTEM_NOISE, Noise
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
IN_RHO = Cost.charged_in_rho(rho="0.02", delta="0.01")  # so little that its noise is seen beside what sums miss


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
    )


def bound_of(offer: Offer, released: Released, *, noise: int = 1) -> ErrorBound:
    """As it goes out with the release; or one that is too small, its noise divided."""
    whole = offer.noise_bound.with_sketch(released.sketch_error, reduction=released.reduction)
    assert whole.sketch is not None
    assert whole.unlisted is not None
    unlisted = whole.sketch + (whole.unlisted - whole.sketch) // noise
    return ErrorBound(whole.below // noise, whole.above // noise, whole.sketch, unlisted)


def within(case: Case, released: Released, bound: ErrorBound, offer: Offer) -> tuple[bool, bool]:
    """Whether every key that is not listed, and every listed one, is where the bound says."""
    assert bound.unlisted is not None
    unlisted = all(case.true[key] <= bound.unlisted for key in case.true.keys() - released.counts.keys())
    listed = bars(released.counts, bound, offer.calibrated.least)
    return unlisted, all(bar.high is not None and bar.low <= case.true[bar.key] <= bar.high for bar in listed)


def seeded(seed: int) -> Noise:
    return Noise(Seeded(Laplace, seed), Seeded(Gaussian, seed), random.Random(seed).randrange)


@cache
def releases(family: Family, mechanism: str, cost: Cost) -> list[Released]:
    """One release of each case."""
    offer, noise = choose(question(family, cost), mechanism), seeded(11)
    return [run(offer, case.sketches[family], UNIVERSE, noise).histogram for case in all_cases()]


Pairing = tuple[Family, str, Cost]


def costs(mechanism: Mechanism[Any]) -> list[Cost]:
    """With and without δ, where the mechanism has a form for each; the latter is on the whole universe."""
    if mechanism.needs_rho:
        return [IN_RHO]
    return [PURE] if mechanism.is_pure else [COST] if mechanism.needs_delta else [COST, PURE]


PAIRINGS: list[Pairing] = [
    (family, mechanism.name, cost)
    for family in FAMILIES.values()
    for mechanism in of_family(family)
    for cost in costs(mechanism)
]
EVERY_PAIRING = pytest.mark.parametrize("pairing", PAIRINGS, ids=lambda p: f"{p[0]}-{p[1]}-{float(p[2].delta):g}")


def failures(offer: Offer, found: Iterable[tuple[Case, Released]], *, noise: int = 1) -> tuple[int, int]:
    """How many releases have an unlisted, and a listed, key outside of the bound, its noise divided."""
    checked = [within(case, released, bound_of(offer, released, noise=noise), offer) for case, released in found]
    return sum(not unlisted for unlisted, _ in checked), sum(not listed for _, listed in checked)


def seeded_failures(pairing: Pairing, *, noise: int = 1) -> tuple[int, int]:
    family, mechanism, cost = pairing
    found = zip(all_cases(), releases(*pairing), strict=True)
    return failures(choose(question(family, cost), mechanism), found, noise=noise)


@EVERY_PAIRING
def test_all_keys_are_within_the_bound_at_once_as_often_as_promised(pairing: Pairing) -> None:
    assert sum(seeded_failures(pairing)) <= most_failures(RUNS, BETA)


@EVERY_PAIRING
def test_bounds_far_too_small_are_found_out(pairing: Pairing) -> None:
    """The same check of the same releases, with a fifth of the noise and with none."""
    tolerated = most_failures(RUNS, BETA)
    assert sum(seeded_failures(pairing, noise=5)) > tolerated
    assert min(seeded_failures(pairing, noise=10**6)) > tolerated


@EVERY_PAIRING
def test_the_operating_systems_noise_keeps_the_promise_too(pairing: Pairing) -> None:
    family, mechanism, cost = pairing
    offer = choose(question(family, cost), mechanism)
    some = all_cases()[:REAL_RUNS]
    found = [(case, run(offer, case.sketches[family], UNIVERSE, SYSTEM_NOISE).histogram) for case in some]
    assert sum(failures(offer, found)) <= most_failures(REAL_RUNS, BETA)
    assert sum(failures(offer, found, noise=10**6)) > most_failures(REAL_RUNS, BETA)  # the test can fail


@EVERY_PAIRING
def test_a_sketch_that_was_lowered_more_than_it_says_is_found_out(pairing: Pairing) -> None:
    """The upper ends need the sketch's own error: without it true counts are outside."""
    family, mechanism, cost = pairing
    offer = choose(question(family, cost), mechanism)
    outside = 0
    for case, released in zip(all_cases(), releases(*pairing), strict=True):
        whole = offer.noise_bound.with_sketch(released.sketch_error)
        least = ErrorBound(whole.below, whole.above, -(10**6), -(10**6))
        outside += not all(within(case, released, least, offer))
    assert outside > most_failures(RUNS, BETA)


@pytest.mark.parametrize("pairing", [pairing for pairing in PAIRINGS if pairing[0] == "summed"], ids=lambda p: p[1])
def test_what_the_sources_of_a_sum_were_reduced_by_must_not_be_added_to_its_counts(pairing: Pairing) -> None:
    """A source without a counter of a key took nothing from it: lower ends would lie above true counts."""
    family, mechanism, cost = pairing
    offer, noise, runs = choose(question(family, cost), mechanism), seeded(17), 300
    true = {"1": 2000, "2": 500, "3": 400}
    sketch = reduce(
        SummedSketch.plus, (SummedSketch.of_stream(StreamSketch(K, {key: true[key]}, lowered=0)) for key in true)
    )
    assert sketch.reduction is not None
    added, false, false_if_added = sketch.reduction // (K + 1), 0, 0
    for _ in range(runs):
        counts = run(offer, sketch, UNIVERSE, noise).histogram.counts
        lows = {key: count - offer.noise_bound.below for key, count in counts.items()}
        false += any(low > true.get(key, 0) for key, low in lows.items())
        false_if_added += any(low + added > true.get(key, 0) for key, low in lows.items())
    assert false <= most_failures(runs, BETA)
    assert false_if_added == runs


@EVERY_PAIRING
def test_without_a_universe_no_key_is_reported_that_never_occurred(pairing: Pairing) -> None:
    """With certainty. With one, noise alone lifts such a key in at most a third of β of all releases."""
    invented = sum(
        not released.counts.keys() <= case.true.keys()
        for case, released in zip(all_cases(), releases(*pairing), strict=True)
    )
    assert invented == 0 if pairing[2] != PURE else 0 < invented <= most_failures(RUNS, BETA / 3)


def alone(family: Family, count: int) -> Sketch:
    """A stream of one key."""
    stream = StreamSketch.empty(K).extended([("3", count)])
    sketches: dict[Family, Sketch] = {
        "stream": stream,
        "compact": CompactSketch.of_stream(stream),
        "summed": SummedSketch.of_stream(stream),
    }
    return sketches[family]


def reported(offer: Offer, family: Family, count: int, noise: Noise, runs: int) -> int:
    """How many releases report a key with this many events, alone in its stream."""
    found = (run(offer, alone(family, count), UNIVERSE, noise).histogram for _ in range(runs))
    return sum("3" in released.counts for released in found)


@EVERY_PAIRING
def test_a_smallest_likely_count_is_reported_as_often_as_it_says(pairing: Pairing) -> None:
    """The count for which the plan says 1 − β, its own n declared; a much smaller one is missed too often."""
    family, mechanism, cost = pairing
    noise, runs = seeded(13), 2000
    offer = choose(question(family, cost), mechanism)
    count = next(count for count in range(1, 10**6) if offer.smallest_likely_count + count // (K + 1) <= count)
    assert runs - reported(offer, family, count, noise, runs) <= most_failures(runs, BETA)
    assert runs - reported(offer, family, count // 2, noise, runs) > most_failures(runs, BETA)
