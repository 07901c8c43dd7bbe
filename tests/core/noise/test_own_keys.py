"""The probability that an own key is reported: never understated, exact where it can be, and the lowest threshold."""

import math
from fractions import Fraction
from time import process_time

import mpmath
import numpy as np
import pytest

from app.core.noise import own_keys
from app.core.noise.own_keys import Cells, gaussian_cells, group_threshold, laplace_cells, raised_and_keys
from app.core.noise.tails import one_key_tail, two_key_tail
from tests.laws.law import Gaussian, Laplace, Law

DELTA = Fraction(1, 10**6)


def summed(law: Law, height: float, gap: float, others: int, steps: int = 1) -> float:
    """Pr[η + max(ζ₁, ζ₂ − gap, …) ≥ height] over the values of η themselves, `steps` of them a count."""
    reach = math.ceil(45 * law.scale + abs(height) * steps)
    shared = np.arange(-reach, reach + 1, dtype=np.float64)
    with np.errstate(divide="ignore"):
        none = np.log1p(-law.at_least(np.ceil(height * steps) - shared))
        none += others * np.log1p(-law.at_least(np.ceil((height + gap) * steps) - shared))
    return float(law.probability(shared) @ -np.expm1(none))


@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0, 5.000000000000001, 40.0, 123.4])
@pytest.mark.parametrize(("gap", "others"), [(0, 1), (0, 1023), (1, 1), (3, 5), (40, 79)])
def test_laplace_cells_of_one_value_are_exact(scale: float, gap: int, others: int) -> None:
    for height in sorted({-3, 0, 1, 7, *np.linspace(0, 30 * scale, 8).astype(int).tolist()}):
        exact = summed(Laplace(scale), height, gap, others)
        found = laplace_cells(scale).own_key_tail(Fraction(height), gap, others)
        assert exact * (1 - 1e-11) <= found <= exact * (1 + 1e-5) + 1e-24


def test_one_event_gives_the_closed_forms() -> None:
    for scale in (0.3, 1.0, 10.0, 123.4):
        for threshold in (1, 2, 17, math.ceil(15 * scale)):
            height = Fraction(threshold - 1)
            one, two = (laplace_cells(scale).own_key_tail(height, 1, others) for others in (0, 1))
            assert one == pytest.approx(float(one_key_tail(scale, threshold)), rel=1e-6)
            assert two == pytest.approx(float(two_key_tail(scale, threshold)), rel=1e-6)
            assert Fraction(one) >= Fraction(one_key_tail(scale, threshold))
            assert Fraction(two) >= Fraction(two_key_tail(scale, threshold))


def continuous(sigma: float, height: float, gap: float, others: int) -> float:
    """The same for continuous Gaussian noise, by mpmath's quadrature."""
    a, b = height / sigma, (height + gap) / sigma

    def exceeds(eta: mpmath.mpf) -> mpmath.mpf:
        one, other = mpmath.ncdf(eta - a), mpmath.ncdf(eta - b)  # tails
        return mpmath.npdf(eta) * -mpmath.expm1(mpmath.log1p(-one) + others * mpmath.log1p(-other))

    with mpmath.workdps(30):
        return float(mpmath.quad(exceeds, [-14, -8, -4, -2, 0, *(a * i / 8 for i in range(1, 9)), a + 4, a + 12]))


@pytest.mark.parametrize(("sigma", "height"), [(1.0, 8), (10.0, 70), (22.4, 155), (0.1, 1), (1e9, 5 * 10**9)])
@pytest.mark.parametrize(("gap", "others"), [(1, 0), (1, 1), (0, 1023)])
def test_gaussian_cells_agree_with_quadrature(sigma: float, height: int, gap: int, others: int) -> None:
    """Taking η at the upper end of a cell raises the probability by as much as half a cell does."""
    exact = continuous(sigma, height, gap, others)
    found = gaussian_cells(sigma).own_key_tail(Fraction(height), gap, others)
    assert exact * (1 - 1e-11) <= found <= exact * 1.03


def test_wide_cells_never_understate_what_narrow_ones_find(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = {cells: cells(61.7) for cells in (laplace_cells, gaussian_cells)}
    monkeypatch.setattr(own_keys, "_CELLS", 64)
    for cells, fine in narrow.items():
        wide: Cells = cells.__wrapped__(61.7)
        assert wide.width > 16 * fine.width
        for height in range(-70, 400, 7):
            for gap, others in ((0, 3), (5, 9), (61, 100)):
                exact = fine.own_key_tail(Fraction(height), gap, others)
                assert wide.own_key_tail(Fraction(height), gap, others) >= exact * (1 - 1e-8)


def test_a_height_beyond_the_table_is_rounded_to_the_side_of_more_reports() -> None:
    """High ones count as if they were lower, and far too low ones as always reported."""
    cells = laplace_cells(2.0)
    assert 0 < cells.own_key_tail(Fraction(10**6), 10**6, 9) < 1e-20
    assert cells.own_key_tail(Fraction(-(10**6)), 0, 9) == 1
    assert cells.own_key_tail(Fraction(-(10**6)), 2 * 10**6, 9) == 1


def test_the_keys_on_one_side_are_counted_as_the_note_says() -> None:
    assert raised_and_keys(3, 1024) == [(0, 1), (1, 3), (2, 5), (3, 6)]
    assert raised_and_keys(3, 4) == [(0, 1), (1, 3), (2, 4), (3, 4)]
    assert raised_and_keys(1, 1) == [(0, 1), (1, 1)]


@pytest.mark.parametrize("k", [1, 2, 5, 1024])
@pytest.mark.parametrize("m", [2, 3, 7, 40, 300])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_threshold_is_enough_for_every_u_and_one_lower_is_not(k: int, m: int, epsilon: float) -> None:
    """Where cells are wide, it may be too high by a few of them, a thousandth of the scale."""
    cells = laplace_cells(m / epsilon)
    lower = 1 if cells.width == 1 else int(3 * cells.width)
    threshold = group_threshold(cells, k, m, DELTA)

    def worst(t: int) -> float:
        return max(cells.own_key_tail(Fraction(t - m), u, w - 1) for u, w in raised_and_keys(m, k))

    assert worst(threshold) <= 1e-6 < worst(threshold - lower)


@pytest.mark.parametrize("delta", [Fraction(1, 10**18), Fraction(1, 100), Fraction(99, 100)])
def test_every_delta_has_a_threshold(delta: Fraction) -> None:
    for m in (1, 2, 1000):
        for cells in (
            laplace_cells(m / 1000),
            laplace_cells(m / 1e-9),
            gaussian_cells(m / 40),
            gaussian_cells(m * 2e7),
        ):
            assert group_threshold(cells, 65_536, m, delta) >= 1
    with pytest.raises(ValueError, match="delta of 0"):
        group_threshold(laplace_cells(1.0), 4, 2, Fraction(0))


def test_a_thousand_events_are_calibrated_in_a_second() -> None:
    start = process_time()
    assert 22_600 < group_threshold(laplace_cells.__wrapped__(1000.0), 1024, 1000, DELTA) < 22_700
    assert group_threshold(gaussian_cells.__wrapped__(10_000.0), 1024, 1000, DELTA, Fraction(1, 4096)) > 80_000
    assert process_time() - start < 1


@pytest.mark.parametrize(("sigma", "threshold"), [(1.0, 8), (2.0, 15), (10.0, 70)])
def test_draws_on_a_fine_lattice_need_no_higher_threshold(sigma: float, threshold: int) -> None:
    """δ = 1e-6, one event: the law of the lattice itself, beside continuous noise with `slack`."""
    lattice = 4096
    assert group_threshold(gaussian_cells(sigma), 1024, 1, DELTA, Fraction(1, lattice)) == threshold
    law = Gaussian(sigma * lattice)
    assert summed(law, threshold - 1, 1, 1, lattice) <= 1e-6 < summed(law, threshold - 2, 1, 1, lattice)
