"""From ρ to (ε, δ): the figures of oracles, never on the unsafe side, and the same on whatever machine."""

import importlib.util
import math
from collections.abc import Iterator
from fractions import Fraction

import dp_accounting
import mpmath
import pytest
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.ledger import conversion
from app.core.ledger.conversion import largest_rho, smallest_epsilon
from tests.core.ledger import concentrated
from tests.documents import ROOT

EPSILONS = st.integers(1, 10**12).map(lambda units: Fraction(units, 10**9))
DELTAS = st.integers(1, 5 * 10**17 - 1).map(lambda units: Fraction(units, 10**18))
SMALL_DELTAS = st.integers(1, 10**13).map(lambda units: Fraction(units, 10**18))
RHOS = st.integers(1, 10**18).map(lambda units: Fraction(units, 10**15))
HALF = Fraction(1, 2 * 10**5)  # δ′ of a ledger of δ = 1e-5


@pytest.fixture(autouse=True)
def _precise() -> Iterator[None]:
    with mpmath.workdps(60):
        yield


def exactly(number: Fraction) -> mpmath.mpf:
    return mpmath.mpf(number.numerator) / number.denominator


@pytest.mark.parametrize(
    ("epsilon", "releases", "before", "gain"), [(6, 143, 119, 1.197), (1, 5, 3, 1.442)], ids=["loose", "tight"]
)
def test_so_many_releases_fit_where_fewer_did(epsilon: int, releases: int, before: int, gain: float) -> None:
    rho = largest_rho(Fraction(epsilon), HALF)
    earlier = concentrated.earlier_rho_of(mpmath.mpf(epsilon), exactly(HALF))
    assert rho // Fraction("0.005") == releases
    assert int(earlier / mpmath.mpf("0.005")) == before
    assert gain < exactly(rho) / earlier < gain + 0.001


@settings(max_examples=60, deadline=None)
@given(EPSILONS, st.one_of(DELTAS, SMALL_DELTAS))
def test_the_largest_rho_is_that_of_the_formula_and_never_above(epsilon: Fraction, delta: Fraction) -> None:
    rho = exactly(largest_rho(epsilon, delta))
    oracle = concentrated.rho_of(exactly(epsilon), exactly(delta))
    assert oracle * (1 - mpmath.mpf("2e-15")) - mpmath.mpf("1e-17") <= rho <= oracle
    assert rho == 0 or concentrated.least_delta(rho, exactly(epsilon)) <= exactly(delta)


@settings(max_examples=60, deadline=None)
@given(RHOS, st.one_of(DELTAS, SMALL_DELTAS))
def test_the_smallest_epsilon_is_that_of_the_formula_and_never_below(rho: Fraction, delta: Fraction) -> None:
    epsilon = exactly(smallest_epsilon(rho, delta))
    oracle = concentrated.epsilon_of(exactly(rho), exactly(delta))
    assert oracle <= epsilon <= oracle + mpmath.mpf("2e-15") * mpmath.sqrt(-exactly(rho) * mpmath.log(exactly(delta)))


@settings(max_examples=200, deadline=None)
@given(EPSILONS, RHOS, st.one_of(DELTAS, SMALL_DELTAS))
def test_it_is_never_worse_than_the_formula_of_earlier_versions(
    epsilon: Fraction, rho: Fraction, delta: Fraction
) -> None:
    """In the units of a ledger: those that an earlier version filled to the brim are within their bounds still."""
    earlier = concentrated.earlier_rho_of(exactly(epsilon), exactly(delta))
    assert math.floor(largest_rho(epsilon, delta) * 10**15) >= int(earlier * 10**15)
    assert exactly(smallest_epsilon(rho, delta)) < concentrated.earlier_epsilon_of(exactly(rho), exactly(delta))


@settings(max_examples=200, deadline=None)
@given(EPSILONS, RHOS, DELTAS, st.fractions(0, 1))
def test_both_directions_fit_together_and_rise_with_what_they_are_given(
    epsilon: Fraction, rho: Fraction, delta: Fraction, share: Fraction
) -> None:
    fits = largest_rho(epsilon, delta)
    assert fits == 0 or smallest_epsilon(fits, delta) <= epsilon
    assert largest_rho(smallest_epsilon(rho, delta), delta) >= rho
    assert (rho <= fits) == (smallest_epsilon(rho, delta) <= epsilon)
    less = Fraction(math.ceil(delta * share * 10**18) or 1, 10**18)
    assert largest_rho(epsilon, less) <= fits
    assert smallest_epsilon(rho, less) >= smallest_epsilon(rho, delta)
    assert largest_rho(epsilon * share, delta) <= fits
    assert share == 0 or smallest_epsilon(rho * share, delta) <= smallest_epsilon(rho, delta)


@pytest.mark.parametrize("error", [-3e-6, 3e-6])
def test_floats_decide_where_to_look_and_not_what_is_found(monkeypatch: pytest.MonkeyPatch, error: float) -> None:
    """With logarithms that are wrong in the sixth digit, which no machine has."""
    questions = [(Fraction(epsilon), Fraction(delta)) for epsilon in ("1e-3", "1", "1e3") for delta in ("1e-9", "0.3")]
    plain = [(largest_rho(*each), smallest_epsilon(*each)) for each in questions]
    monkeypatch.setattr(conversion, "log1p", lambda x: math.log1p(x) * (1 + error))
    wrong = [(largest_rho.__wrapped__(*each), smallest_epsilon.__wrapped__(*each)) for each in questions]
    assert wrong == plain


@pytest.mark.parametrize("epsilon", ["0.000000001", "0.01", "1", "6", "1000"])
@pytest.mark.parametrize("delta", ["1e-18", "5e-6", "0.499999999999999999"])
def test_the_migration_that_raised_limits_found_the_same_by_halving(epsilon: str, delta: str) -> None:
    """It keeps a copy of its own, so that it stays what it was."""
    found = importlib.util.spec_from_file_location("m", ROOT / "migrations/versions/0009_tighter_conversion.py")
    assert found is not None
    assert found.loader is not None
    migration = importlib.util.module_from_spec(found)
    found.loader.exec_module(migration)
    given = Fraction(epsilon), Fraction(delta)
    assert migration._limit(*given) == math.floor(largest_rho(*given) * 10**15)


@pytest.mark.parametrize("rho", [0.0005, 0.005, 0.1, 0.5, 3.0])
@pytest.mark.parametrize("delta", [1e-9, 5e-6, 1e-3])
def test_another_library_finds_the_same_over_orders_of_its_own(rho: float, delta: float) -> None:
    orders = [1 + 2 ** (number / 100) for number in range(-300, 1500)]
    theirs = RdpAccountant(orders).compose(dp_accounting.GaussianDpEvent(math.sqrt(1 / (2 * rho)))).get_epsilon(delta)
    ours = float(smallest_epsilon(Fraction(rho), Fraction(delta)))
    assert ours * (1 - 1e-12) <= theirs <= ours * (1 + 1e-4)


@pytest.mark.parametrize("epsilon", ["0.1", "1", "6"])
@pytest.mark.parametrize("delta", ["1e-9", "5e-6", "1e-3"])
def test_gaussian_noise_of_the_largest_rho_keeps_the_promise(epsilon: str, delta: str) -> None:
    """Its δ is known exactly (Balle & Wang 2018). With half as much ρ again it is not kept."""
    rho = exactly(largest_rho(Fraction(epsilon), Fraction(delta)))

    def needed(mu: mpmath.mpf) -> mpmath.mpf:
        ratio = mpmath.mpf(epsilon) / mu
        return mpmath.ncdf(mu / 2 - ratio) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - ratio)

    assert needed(mpmath.sqrt(2 * rho)) <= mpmath.mpf(delta)
    assert needed(mpmath.sqrt(3 * rho)) > mpmath.mpf(delta)
