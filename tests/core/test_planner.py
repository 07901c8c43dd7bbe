"""The planner: the least bound first, from public parameters alone, and no release that a proof does not cover."""

from dataclasses import replace

import numpy as np
import pytest

from app.core.errors import NoMechanism
from app.core.mechanisms import MECHANISMS
from app.core.mechanisms.reduced_approx import ReducedApprox
from app.core.mechanisms.reduced_pure import ReducedPure
from app.core.noise.samplers import SYSTEM_NOISE
from app.core.planner import AUTO, Family, Question, choose, offers, run
from app.core.sketches.compact import CompactSketch
from app.core.sketches.state import Sketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch
from app.core.sketches.universe import of_range
from tests.laws.law import Laplace
from tests.questions import question

STREAM = StreamSketch(64, {"1": 100_000, "2": 5})
SKETCHES: dict[Family, Sketch] = {
    "stream": STREAM,
    "compact": CompactSketch.of_stream(STREAM),
    "summed": SummedSketch.of_stream(STREAM),
}


def names(asked: Question) -> list[str]:
    return [offer.mechanism for offer in offers(asked)]


@pytest.mark.parametrize("family", SKETCHES)
@pytest.mark.parametrize("size", [None, 1000])
@pytest.mark.parametrize("m", [1, 5])
def test_the_least_bound_comes_first_and_is_what_auto_takes(family: Family, size: int | None, m: int) -> None:
    found = offers(question(family, size=size, m=m))
    bounds = [offer.noise_bound.unlisted for offer in found]
    assert bounds == sorted(bounds)
    assert choose(question(family, size=size, m=m), AUTO) == found[0]


@pytest.mark.parametrize("family", SKETCHES)
def test_each_family_is_offered_what_its_neighbours_allow(family: Family) -> None:
    """Which families a mechanism covers is written down in its own tests."""
    covering = {each for each in MECHANISMS if family in each.families}
    assert set(names(question(family, size=100, rho="0.5"))) == {each.name for each in covering}
    assert set(names(question(family, size=100))) == {each.name for each in covering if not each.needs_rho}


@pytest.mark.parametrize("family", SKETCHES)
def test_every_offer_can_be_run_on_a_sketch_of_its_family(family: Family) -> None:
    universe = of_range(0, 999)
    for asked in (question(family, size=1000), question(family, size=1000, delta="0")):
        for offer in offers(asked):
            counts = run(offer, SKETCHES[family], universe, SYSTEM_NOISE).histogram.counts
            assert "1" in counts, offer.mechanism  # far above every threshold here


@pytest.mark.parametrize("family", SKETCHES)
@pytest.mark.parametrize("other", SKETCHES)
def test_an_offer_for_another_family_is_not_run(family: Family, other: Family) -> None:
    for offer in offers(question(family, size=1000)):
        reduced = offer.mechanism.startswith("reduced") and "compact" not in (family, other)  # a stream is a sum of one
        if family == other or reduced:
            run(offer, SKETCHES[other], of_range(0, 999), SYSTEM_NOISE)
        else:
            with pytest.raises(NoMechanism):
                run(offer, SKETCHES[other], of_range(0, 999), SYSTEM_NOISE)


def test_a_summed_sketch_is_not_handed_to_pmg_even_as_an_offer_for_a_stream() -> None:
    with pytest.raises(NoMechanism):
        run(choose(question("stream"), "pmg"), SKETCHES["summed"], None, SYSTEM_NOISE)


@pytest.mark.parametrize(
    ("family", "mechanism"), [("compact", "pmg"), ("summed", "pmg"), ("stream", "gshm"), ("summed", "gshm")]
)
def test_a_mechanism_for_another_family_is_refused_by_name(family: Family, mechanism: str) -> None:
    with pytest.raises(NoMechanism, match=f"A {family} sketch cannot be released with {mechanism}"):
        choose(question(family), mechanism)


def test_without_delta_a_universe_is_asked_for() -> None:
    with pytest.raises(NoMechanism, match="universe"):
        offers(question(delta="0"))
    (offer,) = offers(question(delta="0", size=10**6))
    assert offer.mechanism == "reduced-pure"


def test_a_compact_sketch_without_delta_is_released_on_its_universe() -> None:
    (offer,) = offers(question("compact", delta="0", size=1000))
    assert offer.mechanism == "laplace-compact"
    assert offer.cost.delta == 0
    with pytest.raises(NoMechanism, match="delta above 0, or a declared universe"):
        offers(question("compact", delta="0"))


@pytest.mark.parametrize("family", SKETCHES)
def test_a_pure_release_without_its_universe_is_not_run(family: Family) -> None:
    (offer,) = offers(question(family, delta="0", size=1000))
    with pytest.raises(NoMechanism):
        run(offer, SKETCHES[family], None, SYSTEM_NOISE)


@pytest.mark.parametrize("family", SKETCHES)
def test_several_contributions_never_get_the_noise_of_one(family: Family) -> None:
    for delta in ("1e-6", "0"):
        one, five = (
            {offer.mechanism: offer for offer in offers(question(family, delta=delta, size=1000, m=m))} for m in (1, 5)
        )
        assert one.keys() == five.keys()
        assert all(five[name].noise_bound.below > 3 * one[name].noise_bound.below for name in one)


@pytest.mark.parametrize("family", SKETCHES)
def test_less_privacy_never_enlarges_the_bound(family: Family) -> None:
    costs = [("0.1", "1e-9"), ("0.1", "1e-6"), ("1", "1e-6"), ("1", "1e-3"), ("5", "1e-3")]
    bounds = [
        offers(question(family, epsilon=epsilon, delta=delta))[0].noise_bound.unlisted for epsilon, delta in costs
    ]
    assert bounds == sorted(bounds, reverse=True)


def test_a_pure_mechanism_charges_no_delta() -> None:
    assert choose(question(size=10**6), "reduced-pure").cost.delta == 0
    assert choose(question(size=10**6), "pmg").cost.delta > 0


def test_the_answer_depends_on_the_question_alone() -> None:
    assert offers(question(size=50)) == offers(question(size=50))
    assert offers(question()) != offers(replace(question(), beta=0.01))


@pytest.mark.parametrize("mechanism", ["reduced-approx", "reduced-pure"])
@pytest.mark.parametrize("epsilon", ["1", "5", "20"])
@pytest.mark.parametrize("left_over", [0, 1, 64])
def test_a_reduced_count_that_is_called_likely_is_missed_with_probability_at_most_beta(
    mechanism: str, epsilon: str, left_over: int
) -> None:
    """Whatever n/(k+1) leaves over: the sketch may take all of it, down to (k+1)·f − n steps."""
    events = 65 * 1000 + left_over
    offer = choose(question(epsilon=epsilon, size=1000), mechanism)
    assert isinstance(offer.calibrated, ReducedApprox | ReducedPure)
    needed = 65 * offer.calibrated.threshold - (65 * (offer.smallest_likely_count + events // 65) - events)
    assert Laplace(offer.calibrated.scale).less_than(np.array([needed]))[0] <= 0.05


def test_groups_of_events_beat_sets_of_keys_until_about_twenty() -> None:
    """For m events of a person PMG grows with m; a sketch of sets does not, but starts high."""

    def threshold(asked: Question) -> int:
        return int(str(offers(asked)[0].calibrated.parameters()["threshold"]))

    sets = threshold(question("compact", k=1024))
    assert threshold(question(k=1024, m=5)) <= 95
    assert threshold(question(k=1024, m=5)) == 90
    assert sets == 420
    assert threshold(question(k=1024, m=20)) < sets < threshold(question(k=1024, m=30))


def test_a_sum_beats_a_merge_while_streams_are_short() -> None:
    """A merge is wrong by n/(k+1) too, so what tells the two apart is the noise: 2/ε beside √k·ln(k/δ)/ε."""
    asked = [replace(question(family, k=1024), sources=100) for family in ("summed", "compact")]
    summed, compact = (offers(one)[0].noise_bound for one in asked)
    assert 10_000 // 1025 + summed.unlisted < 100 < 500 < 10_000 // 1025 + compact.unlisted


def test_a_sum_needs_less_noise_than_a_merge() -> None:
    summed, compact = offers(question("summed", k=1024))[0], offers(question("compact", k=1024))[0]
    assert summed.noise_bound.unlisted * 5 < compact.noise_bound.unlisted
