"""What holds of every mechanism in the folder, of one that is added tomorrow too."""

import json
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from app.core.errors import NoMechanism
from app.core.ledger.budget import Cost
from app.core.mechanism import FAMILIES, Family, Mechanism, Question
from app.core.mechanisms import COUNTED_BY_RHO, MECHANISMS, of_family, rho_of_entry
from app.core.noise.samplers import SYSTEM_NOISE, Noise, draw_ahead
from app.core.sketches.compact import CompactSketch
from app.core.sketches.state import Sketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch
from app.core.sketches.universe import of_range
from tests.questions import question

K = 16
UNIVERSE = of_range(0, 999)
FULL = StreamSketch(K, {str(number): 10**6 + number for number in range(K)})
EMPTY = StreamSketch.empty(K)

EVERY = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)


def of(family: Family, stream: StreamSketch) -> Sketch:
    made: dict[Family, Sketch] = {
        "stream": stream,
        "compact": CompactSketch.of_stream(stream),
        "summed": SummedSketch.of_stream(stream),
    }
    return made[family]


def asked(mechanism: Mechanism[Any], family: Family | None = None, *, m: int = 1) -> Question:
    """A question that the mechanism has an answer to."""
    delta = "0" if mechanism.is_pure else "1e-6"
    rho = "0.5" if mechanism.needs_rho else None
    return question(family or mechanism.families[0], k=K, delta=delta, size=UNIVERSE.size, m=m, rho=rho)


@pytest.mark.parametrize("family", FAMILIES.values())
def test_each_family_has_the_mechanisms_that_cover_it(family: Family) -> None:
    assert of_family(family)
    assert [each.name for each in of_family(family)] == [each.name for each in MECHANISMS if family in each.families]


@EVERY
def test_a_mechanism_releases_the_families_that_it_covers(mechanism: Mechanism[Any]) -> None:
    """Far above every threshold here, every key is reported."""
    for family in mechanism.families:
        calibrated = mechanism.calibrated(asked(mechanism, family))
        counts = mechanism.release(calibrated, of(family, FULL), UNIVERSE, SYSTEM_NOISE).counts
        assert counts.keys() == of(family, FULL).counters.keys()
        assert list(counts) == sorted(counts)
        assert min(counts.values()) >= calibrated.threshold


@EVERY
def test_a_mechanism_refuses_the_families_that_it_does_not_cover(mechanism: Mechanism[Any]) -> None:
    calibrated = mechanism.calibrated(asked(mechanism))
    others: set[Family] = {*FAMILIES.values()} - {*mechanism.families}
    for family in others:
        with pytest.raises(NoMechanism, match=f"{mechanism.name} cannot release this sketch."):
            mechanism.release(calibrated, of(family, FULL), UNIVERSE, SYSTEM_NOISE)


@EVERY
def test_what_is_drawn_does_not_depend_on_what_the_sketch_holds(mechanism: Mechanism[Any]) -> None:
    """Draws that were made for an empty sketch are enough for a full one: otherwise giving them out fails."""
    family = mechanism.families[0]
    calibrated = mechanism.calibrated(asked(mechanism))

    def rehearsed(noise: Noise) -> object:
        return mechanism.release(calibrated, of(family, EMPTY), UNIVERSE, noise)

    for sketch in (EMPTY, FULL):
        drawn = draw_ahead(SYSTEM_NOISE, rehearsed)
        mechanism.release(calibrated, of(family, sketch), UNIVERSE, drawn)


@EVERY
def test_without_delta_a_mechanism_is_offered_exactly_if_it_does_not_need_one(mechanism: Mechanism[Any]) -> None:
    without = replace(asked(mechanism), cost=replace(asked(mechanism).cost, delta_units=0), universe_size=1000)
    if mechanism.needs_delta:
        with pytest.raises(NoMechanism, match=f"{mechanism.name} .* needs a delta above 0"):
            mechanism.calibrated(without)
    else:
        assert mechanism.calibrated(without).parameters()["universe_size"] == 1000


@EVERY
def test_without_a_universe_a_mechanism_is_offered_exactly_if_it_does_not_need_one(mechanism: Mechanism[Any]) -> None:
    without = replace(asked(mechanism), cost=replace(asked(mechanism).cost, delta_units=10**12), universe_size=None)
    if mechanism.needs_universe:
        with pytest.raises(NoMechanism, match=f"{mechanism.name} needs a sketch with a declared universe."):
            mechanism.calibrated(without)
    else:
        assert "universe_size" not in mechanism.calibrated(without).parameters()


@EVERY
def test_a_release_over_a_universe_needs_it(mechanism: Mechanism[Any]) -> None:
    if mechanism.needs_delta:
        return  # it has no such release
    calibrated = mechanism.calibrated(question(mechanism.families[0], k=K, delta="0", size=1000))
    with pytest.raises(NoMechanism, match=f"{mechanism.name} cannot release this sketch."):
        mechanism.release(calibrated, of(mechanism.families[0], FULL), None, SYSTEM_NOISE)


@EVERY
def test_a_pure_mechanism_charges_no_delta_and_the_others_all_of_it(mechanism: Mechanism[Any]) -> None:
    cost = asked(mechanism).cost
    charged = replace(cost, delta_units=10**12)
    assert mechanism.charge(charged) == (Cost(cost.epsilon_units, 0) if mechanism.is_pure else charged)


@EVERY
def test_a_mechanism_that_is_priced_in_rho_is_not_offered_at_an_epsilon(mechanism: Mechanism[Any]) -> None:
    in_epsilon = question(mechanism.families[0], k=K, size=UNIVERSE.size)
    if mechanism.needs_rho:
        with pytest.raises(NoMechanism, match=f"{mechanism.name} is priced in ρ"):
            mechanism.calibrated(in_epsilon)
    else:
        assert mechanism.calibrated(in_epsilon).threshold > 0


@EVERY
def test_the_published_parameters_give_rho_or_else_epsilon_does(mechanism: Mechanism[Any]) -> None:
    for m in (1, 5):
        wanted = asked(mechanism, m=m)
        calibrated = mechanism.calibrated(wanted)
        rho = calibrated.rho(wanted.cost)
        published = json.loads(json.dumps(calibrated.parameters()))
        found = rho_of_entry(mechanism.name, published)
        assert (found is not None) == (mechanism.name in COUNTED_BY_RHO)
        if found is None:
            assert rho == wanted.cost.epsilon**2 / 2
        else:
            assert abs(found / rho - 1) < Fraction(1, 10**15)
        assert not mechanism.needs_rho or rho <= wanted.cost.rho < rho * (1 + Fraction(1, 10**15))


def test_nothing_is_made_of_the_parameters_of_an_unknown_mechanism() -> None:
    assert rho_of_entry(None, {}) is None
    assert rho_of_entry("long-gone", {"sigma": "1"}) is None


@EVERY
def test_a_mechanism_publishes_what_its_guarantee_is_made_of(mechanism: Mechanism[Any]) -> None:
    calibrated = mechanism.calibrated(asked(mechanism, m=3))
    published = calibrated.parameters()
    expected = {"threshold": calibrated.threshold, "k": K, "max_contributions": 3}
    assert {name: published[name] for name in expected} == expected
    scales = ({"scale"}, {"sigma", "lattice"}, {"shared_sigma", "own_sigma", "lattice"})
    assert "noise" in published
    assert any(names <= published.keys() for names in scales)


@EVERY
def test_a_noise_bound_covers_the_threshold_and_grows_as_it_may_fail_less_often(mechanism: Mechanism[Any]) -> None:
    calibrated = mechanism.calibrated(asked(mechanism))
    often, seldom = calibrated.noise_bound(0.5), calibrated.noise_bound(0.001)
    assert 0 <= often.below < seldom.below
    assert 0 <= often.above < seldom.above
    assert calibrated.threshold <= often.unlisted < seldom.unlisted
    assert calibrated.least in (0, 1)


@EVERY
def test_a_sketch_that_does_not_know_its_own_error_is_released_without_one(mechanism: Mechanism[Any]) -> None:
    """And with the same draws; they are made ahead for a sketch that knows its own."""
    for family in mechanism.families:
        calibrated = mechanism.calibrated(asked(mechanism, family))
        unknown = of(family, replace(FULL, lowered=None))
        known = of(family, replace(FULL, lowered=7))
        drawn = draw_ahead(SYSTEM_NOISE, partial(mechanism.release, calibrated, known, UNIVERSE))
        released = mechanism.release(calibrated, unknown, UNIVERSE, drawn)
        assert released.sketch_error is None
        assert released.counts


@EVERY
def test_a_likely_count_is_above_the_threshold(mechanism: Mechanism[Any]) -> None:
    calibrated = mechanism.calibrated(asked(mechanism))
    assert calibrated.threshold <= calibrated.smallest_likely_count(0.5) <= calibrated.smallest_likely_count(0.01)
