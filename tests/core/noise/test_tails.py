"""The tail probabilities that decide thresholds and error bounds, against plain sums over the law itself."""

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from app.core.noise import tails
from app.core.noise.tails import (
    draw_bound,
    draw_tail,
    many_key_tail,
    noise_bound,
    one_key_tail,
    smallest,
    some_draw_tail,
    two_key_tail,
)
from tests.laws.law import Array, Laplace

Tail = Callable[[float, int], Decimal]

SCALES = [0.05, 0.3, 0.5, 1.0, 2.0, 10.000000000000002, 123.4]


def shared_draws(scale: float, threshold: int) -> Array:
    """All η that matter beside a threshold: what lies further out has a relative weight below 1e-16."""
    reach = threshold + math.ceil(40 * scale) + 1
    return np.arange(-reach, reach + 1, dtype=np.float64)


def thresholds(scale: float) -> list[int]:
    """From 1 to a tail of about 1e-12."""
    return sorted({1, 2, 3, *np.linspace(1, 30 * scale + 2, 12).astype(int).tolist()})


def summed_one_key_tail(scale: float, threshold: int) -> float:
    law, shared = Laplace(scale), shared_draws(scale, threshold)
    return float(law.probability(shared) @ law.at_least(threshold - 1 - shared))


def summed_two_key_tail(scale: float, threshold: int) -> float:
    law, shared = Laplace(scale), shared_draws(scale, threshold)
    one = law.at_least(threshold - 1 - shared)
    other = law.at_least(threshold - shared)
    return float(law.probability(shared) @ (one + other - one * other))


@pytest.mark.parametrize("scale", SCALES)
def test_the_closed_forms_equal_the_sums(scale: float) -> None:
    for threshold in thresholds(scale):
        assert float(one_key_tail(scale, threshold)) == pytest.approx(summed_one_key_tail(scale, threshold), rel=1e-12)
        assert float(two_key_tail(scale, threshold)) == pytest.approx(summed_two_key_tail(scale, threshold), rel=1e-12)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("draws", [1, 3, 1024])
def test_tails_of_single_draws_and_of_many_equal_the_sums(scale: float, draws: int) -> None:
    law = Laplace(scale)
    for j in (0, *thresholds(scale)):
        one = float(law.at_least(np.array([j]))[0])
        assert float(draw_tail(scale, j)) == pytest.approx(one, rel=1e-12)
        assert float(some_draw_tail(scale, draws, j)) == pytest.approx(-math.expm1(draws * math.log1p(-one)), rel=1e-12)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("keys", [1, 3, 1024])
def test_the_tail_of_many_keys_is_never_understated_and_hardly_overstated(scale: float, keys: int) -> None:
    """k keys of count 1 under one shared draw, down to a tail of about 1e-12."""
    law = Laplace(scale)
    for threshold in thresholds(scale):
        shared = shared_draws(scale, threshold)
        with np.errstate(divide="ignore"):  # log(0): a key reaches the threshold for certain
            some = -np.expm1(keys * np.log1p(-law.at_least(threshold - 1 - shared)))
        exact = float(law.probability(shared) @ some)
        assert exact < many_key_tail(scale, keys, threshold) < exact * (1 + 2e-9) + 1e-25


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("beta", [0.3, 0.05, 1e-9])
def test_a_bound_on_draws_holds_and_is_the_smallest_that_the_union_bound_gives(scale: float, beta: float) -> None:
    for draws in (1, 16, 65_536):
        bound = draw_bound(scale, draws, beta)
        assert some_draw_tail(scale, draws, bound + 1) <= beta
        assert bound == 0 or draws * draw_tail(scale, bound) > beta * (1 - 1e-11)  # one less would not be enough


def test_the_smallest_case_is_right_by_hand() -> None:
    """At p = 1/2: Pr[ζ = j] = 2^−|j|/3, so Pr[η + ζ = 0] = 5/27 and Pr[η + ζ ≥ 0] = (1 + 5/27)/2."""
    assert float(one_key_tail(1 / math.log(2), 1)) == pytest.approx(16 / 27, rel=1e-14)


@pytest.mark.parametrize("scale", [0.001, *SCALES, 1e9])
def test_tails_fall_with_the_threshold_and_two_keys_weigh_more_than_one(scale: float) -> None:
    rising = sorted({1, 2, 3, 5, 8, 13, *(math.ceil(scale * factor) for factor in (0.5, 1, 2, 4, 8, 16, 32))})
    for tail in (one_key_tail, two_key_tail):
        values = [tail(scale, threshold) for threshold in rising]
        assert all(above > below > 0 for above, below in pairwise(values))
    for threshold in rising:
        one = one_key_tail(scale, threshold)
        assert one <= two_key_tail(scale, threshold) <= 2 * one


@pytest.mark.parametrize("tail", [one_key_tail, two_key_tail, draw_tail])
@pytest.mark.parametrize("scale", [0.001, *SCALES, 1e6, 1e9])
def test_a_probability_is_never_understated_and_hardly_overstated(
    tail: Tail, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the same formula with 400 digits: what rounding and cancellation lose is less than what is added."""
    rising = [1, 2, 17, *(math.ceil(scale * factor) for factor in (1, 7, 40))]
    used = [tail(scale, threshold) for threshold in rising]
    monkeypatch.setattr(tails, "CONTEXT", Context(prec=400))
    monkeypatch.setattr(tails, "OUTWARD", Decimal(1))
    for threshold, value in zip(rising, used, strict=True):
        overstated = Fraction(value) / Fraction(tail(scale, threshold)) - 1
        assert 0 < overstated < Fraction(1, 10**59), (threshold, float(overstated))


@pytest.mark.parametrize("scale", [*SCALES, 1e6, 1e9])
def test_the_tail_of_many_draws_is_never_understated_where_a_delta_can_be(
    scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Down to 1e-30, beside the least δ of 1e-18. Far below, 1 − (1 − tail) has no digits left, and is 0."""
    reached = [j for j in (1, 2, 17, *(math.ceil(scale * factor) for factor in (1, 7, 40))) if j <= 60 * scale]
    used = [some_draw_tail(scale, 65_536, j) for j in reached]
    monkeypatch.setattr(tails, "CONTEXT", Context(prec=400))
    monkeypatch.setattr(tails, "OUTWARD", Decimal(1))
    for j, value in zip(reached, used, strict=True):
        overstated = Fraction(value) / Fraction(some_draw_tail(scale, 65_536, j)) - 1
        assert 0 < overstated < Fraction(1, 10**58), (j, float(overstated))


@pytest.mark.parametrize("factor", [0.5, 1, 5, 20, 45])
def test_the_noise_of_a_tiny_epsilon_is_nearly_continuous(factor: float) -> None:
    """At ε = 1e-9, with x = t·ε: the same probabilities for the Laplace density, by integration."""
    threshold = round(factor * 1e9)
    once, twice = math.exp(-factor), math.exp(-2 * factor)
    assert float(one_key_tail(1e9, threshold)) == pytest.approx(once * (2 + factor) / 4, rel=1e-8)
    both = once * 5 / 12 - twice / 12
    assert float(two_key_tail(1e9, threshold)) == pytest.approx(once * (2 + factor) / 2 - both, rel=1e-8)


@pytest.mark.parametrize("tail", [one_key_tail, two_key_tail])
def test_the_noise_of_a_huge_epsilon_is_nearly_none(tail: Tail) -> None:
    """At ε = 1024 a count of 1 reaches 1, and it reaches 2 only if one of two draws is 1, each with e^−1024."""
    reached = Fraction(tail(2.0**-10, 1)), Fraction(tail(2.0**-10, 2)) / (2 * Fraction(Decimal(-1024).exp()))
    assert all(abs(ratio - 1) < Fraction(1, 10**25) for ratio in reached)


@pytest.mark.parametrize("start", [0, 1, 7])
def test_the_smallest_is_found_in_few_steps(start: int) -> None:
    for target in (*range(start, start + 70), 10**11):
        asked: list[int] = []

        def holds(number: int, target: int = target, asked: list[int] = asked) -> bool:
            asked.append(number)
            return number >= target

        assert smallest(holds, start) == target
        assert len(asked) <= 2 + 2 * (target - start).bit_length()


def some_exceeds(scale: float, keys: int, bound: int, step: int = 1, *, pessimistic: bool = True) -> float:
    """Pr[η + ζ_i > bound for some of so many ζ_i].

    With a step above 1, η is moved up (pessimistic) or down to the next multiple: the truth lies between the two.
    """
    reach = math.ceil(scale * 40 / step) * step
    starts = np.arange(-reach, reach + step, step, dtype=np.float64)
    law = Laplace(scale)
    weight = law.at_least(starts) - law.at_least(starts + step)
    shared = starts + (step - 1 if pessimistic else 0)
    one = law.at_least(bound + 1 - shared)
    with np.errstate(divide="ignore"):  # log(0): some draw exceeds for certain
        some = -np.expm1(keys * np.log1p(-one))
    return float(weight @ some)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("beta", [0.5, 0.05, 1e-3, 5e-10])
def test_the_noise_bound_is_the_smallest_that_holds(scale: float, beta: float) -> None:
    for keys in (1, 2, 16, 1024, 65_536):
        bound = noise_bound(scale, keys, beta)
        assert some_exceeds(scale, keys, bound) <= beta * (1 + 1e-6)  # both sums round, and β may be 1e-9
        assert bound == 0 or some_exceeds(scale, keys, bound - 1) > beta * (1 - 1e-6)


@pytest.mark.parametrize("keys", [1, 1024, 65_536])
@pytest.mark.parametrize("beta", [0.05, 5e-10])
def test_the_noise_bound_of_a_large_scale_is_safe_and_at_most_one_percent_too_high(keys: int, beta: float) -> None:
    scale = 1e6
    bound = noise_bound(scale, keys, beta)
    assert some_exceeds(scale, keys, bound, step=100, pessimistic=True) <= beta
    assert some_exceeds(scale, keys, math.floor(bound / 1.01), step=100, pessimistic=False) > beta


def test_a_single_key_is_bounded_by_its_closed_form() -> None:
    """Pr[η + ζ > b] is Pr[η + 1 + ζ ≥ b + 2]."""
    for scale in SCALES:
        bound = noise_bound(scale, 1, 0.01)
        assert one_key_tail(scale, bound + 2) <= 0.01
        assert bound == 0 or one_key_tail(scale, bound + 1) > 0.01


def test_the_noise_bound_holds_out_to_both_ends_of_the_range_of_epsilon() -> None:
    assert noise_bound(0.001, 65_536, 1e-9) == 0
    assert noise_bound(1e9, 1024, 0.025) == pytest.approx(1000 * noise_bound(1e6, 1024, 0.025), rel=1e-3)
