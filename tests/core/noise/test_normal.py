"""The logarithm of the normal distribution function, against 60 digits and far into both tails."""

from decimal import Decimal

import numpy as np
import pytest

from app.core.noise.normal import log_phi
from tests.laws import normal

POINTS = np.unique(np.concatenate([np.linspace(-60, 40, 401), np.linspace(-30.01, -29.99, 21), np.linspace(-2, 2, 81)]))


def relative_error(value: float, exact: Decimal) -> float:
    return abs(float(Decimal(value) / exact - 1))


def test_both_expansions_of_the_yardstick_agree() -> None:
    """Where both converge; and each with a value from the tables."""
    for z in ("3.5", "4", "5", "7"):
        assert relative_error(1.0, normal.tail_by_series(Decimal(z)) / normal.tail_by_fraction(Decimal(z))) < 1e-55
    assert float(normal.phi(Decimal("1.959963984540054235524594"))) == pytest.approx(0.975, rel=1e-15)
    assert float(normal.tail(Decimal(6))) == pytest.approx(9.865876450376981e-10, rel=1e-15)


def test_the_logarithm_is_right_to_a_few_last_digits_everywhere() -> None:
    """From −60, where Φ is 1e-784, to 37, beyond which 1 − Φ is too small for a double."""
    for z, value in zip(POINTS, log_phi(POINTS), strict=True):
        if z <= 37:
            assert relative_error(float(value), normal.log_phi(Decimal(float(z)))) < 2e-13, z
        else:
            assert -1e-300 < value <= 0, z


def test_it_rises_through_the_change_of_method() -> None:
    near = np.linspace(-30.001, -29.999, 2001)
    assert (np.diff(log_phi(near)) > 0).all()


def test_the_shape_of_the_argument_is_kept() -> None:
    assert log_phi(np.zeros((2, 3))).shape == (2, 3)
    assert log_phi(np.array([-np.inf, np.inf])).tolist() == [-np.inf, 0.0]
