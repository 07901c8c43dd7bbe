"""Draws beyond 64 bits keep their law: where a draw has saturated, it is continued as far as it would have gone."""

import pytest

from app.core.noise.samplers import LARGEST, SMALLEST, Sampler, _laplace_in_64_bits, discrete_laplace, unbounded
from tests.laws.law import Laplace, Seeded, fits

DRAWS = 20_000
COMMON = 2.0**62  # at this scale one draw in seven saturates


class Batches:
    """The draws that it was told to give, call after call; remembers how many were asked for."""

    def __init__(self, *batches: list[int]) -> None:
        self.batches = list(batches)
        self.asked: list[int] = []

    def __call__(self, scale: float, size: int) -> list[int]:
        self.asked.append(size)
        return self.batches.pop(0)


def test_opendp_gives_the_bound_for_what_lies_beyond() -> None:
    """Without this there would be nothing to continue."""
    draws = _laplace_in_64_bits(COMMON, 2000)
    assert draws.count(LARGEST) > 50
    assert draws.count(SMALLEST) > 50
    assert all(SMALLEST <= draw <= LARGEST for draw in draws)


def test_draws_within_64_bits_are_given_as_they_are() -> None:
    drawn = [3, LARGEST - 1, 0, SMALLEST + 1]
    sample = Batches(drawn)
    assert unbounded(sample)(1.0, 4) == drawn
    assert sample.asked == [4]
    assert unbounded(Batches([]))(1.0, 0) == []


def test_a_saturated_draw_goes_on_by_the_excess_of_the_next_positive_one() -> None:
    sample = Batches([5, LARGEST, SMALLEST, -7], [0, -2, 11, 4, 4, 4, 4, 4], [0] * 8, [-1, 1, 9, 9, 9, 9, 9, 9])
    assert unbounded(sample)(1.0, 4) == [5, LARGEST + 10, SMALLEST, -7]
    assert sample.batches == []


def test_an_excess_that_saturates_goes_on_too() -> None:
    sample = Batches([LARGEST], [LARGEST, *[-1] * 7], [LARGEST, *[-1] * 7], [42, *[-1] * 7])
    assert unbounded(sample)(1.0, 1) == [LARGEST + (LARGEST + (LARGEST + 41) - 1) - 1]
    sample = Batches([SMALLEST], [LARGEST, *[-1] * 7], [42, *[-1] * 7])
    assert unbounded(sample)(1.0, 1) == [SMALLEST - (LARGEST + 41 - 1)]


def test_draws_follow_the_law_where_saturation_is_common() -> None:
    draws = discrete_laplace(COMMON, DRAWS)
    assert max(draws) > LARGEST
    assert min(draws) < SMALLEST
    assert fits(draws, Laplace(COMMON))
    assert not fits(draws, Laplace(COMMON * 1.1))  # the test can fail
    assert not fits(draws, Laplace(COMMON / 1.1))


def test_saturated_draws_would_be_noticed() -> None:
    assert not fits(_laplace_in_64_bits(COMMON, DRAWS), Laplace(COMMON))


def test_the_largest_scale_that_can_be_asked_for_is_drawn_exactly() -> None:
    """The reduced counters of k = 65,536 with m = 1000 at ε = 1e-9: nearly every draw saturates, and each goes on."""
    scale = (2 * 65_536 - 1) * 1000 * 1e9
    draws = discrete_laplace(scale, 2000)
    assert fits(draws, Laplace(scale))
    assert not fits(draws, Laplace(scale * 1.5))  # fewer draws tell less apart
    assert not fits(draws, Laplace(scale / 1.5))


def clipped(at: int) -> Sampler:
    """Seeded draws of the law, saturated as OpenDP's are, but at a bound that leaves most of the law beyond it."""
    exact = Seeded(Laplace, 6)

    def sample(scale: float, size: int) -> list[int]:
        return [max(-at - 1, min(at, draw)) for draw in exact(scale, size)]

    return sample


def test_any_bound_gives_back_the_whole_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Value by value, which at a scale of 2^62 cannot be seen."""
    monkeypatch.setattr("app.core.noise.samplers.LARGEST", 2)
    monkeypatch.setattr("app.core.noise.samplers.SMALLEST", -3)
    draws = unbounded(clipped(2))(3.0, 50_000)
    assert fits(draws, Laplace(3.0))
    assert not fits(draws, Laplace(3.0 * 1.1))  # the test can fail
    assert not fits(clipped(2)(3.0, 50_000), Laplace(3.0))
