"""Noise drawn in blocks reaches a release in order, each draw once within a case."""

from collections.abc import Callable, Mapping
from itertools import count

import pytest

from app.core.histogram import Released
from app.core.noise.samplers import Noise
from tests.audit.drawing import ABSENT, UNKNOWN, Reserve, Source, outputs


class Numbered:
    """Draws that tell at which scale and in which place they were drawn."""

    def __init__(self) -> None:
        self.numbers = count()

    def __call__(self, scale: float, size: int) -> list[int]:
        return [int(scale) * 10**9 + next(self.numbers) for _ in range(size)]


def test_no_draw_is_served_twice_within_a_case() -> None:
    reserve = Reserve(Numbered())
    served = [draw for scale in (1.0, 2.0, 1.0) for size in (3, 0, 20_000, 5) for draw in reserve(scale, size)]
    assert len(served) == len(set(served)) == 3 * 20_008
    assert [draw // 10**9 for draw in served] == [1] * 20_008 + [2] * 20_008 + [1] * 20_008


def test_the_next_case_gets_the_same_draws_again() -> None:
    source = Source(Noise(Numbered(), Numbered(), lambda sides: 0))
    first = source.for_a_case().laplace(1.0, 100)
    assert source.for_a_case().laplace(1.0, 100) == first


def released(counts: Mapping[str, int], *errors: int | None) -> list[list[int]]:
    given = iter(errors)
    releases: Callable[[Noise], Released] = lambda noise: Released(counts, next(given))  # noqa: E731
    found: list[list[int]] = outputs(releases, ["a", "b"], len(errors), Source().for_a_case()).tolist()
    return found


def test_an_output_is_a_row_with_a_place_for_each_key_and_one_for_the_sketch_error() -> None:
    assert released({"b": 7}, 4, -2) == [[ABSENT, 7, 4], [ABSENT, 7, -2]]
    assert released({"b": 7}, None, None) == [[ABSENT, 7, UNKNOWN]] * 2


@pytest.mark.parametrize("counts", [{"c": 7}, {"a": -1}])
def test_what_the_audit_could_not_see_is_refused(counts: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="reported"):
        released(counts, 0)


def test_a_sketch_error_that_is_reported_now_and_then_is_refused() -> None:
    """Whether there is one must not depend on draws, nor on data."""
    with pytest.raises(ValueError, match="sketch error"):
        released({}, 1, None)
