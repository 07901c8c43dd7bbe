"""What a ledger proves after its total was changed: phases, added up exactly, and never from anything but entries."""

from collections.abc import Sequence
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.ledger.accountants import ACCOUNTANTS, Accountant, Price
from app.core.ledger.budget import Budget, Cost
from app.core.ledger.chain import Entry
from app.core.ledger.proven import Proven, proven
from tests.core.ledger import concentrated

BASIC, ZCDP = ACCOUNTANTS["basic"], ACCOUNTANTS["zcdp"]

Step = Budget | Cost  # a total that is set, or a release


def granted(epsilon: str, delta: str = "1e-5") -> Budget:
    return Budget.granted(epsilon=epsilon, delta=delta)


RELEASE = Cost.charged(epsilon="0.1", delta="1e-9")


def price(accountant: Accountant, cost: Cost) -> Price:
    return accountant.price(cost, cost.epsilon**2 / 2)


def after(accountant: Accountant, *steps: Step) -> Proven:
    """The first step opens the ledger."""
    return proven(accountant, [_entry(accountant, number, step) for number, step in enumerate(steps, start=1)])


def _entry(accountant: Accountant, number: int, step: Step) -> Entry:
    kind = "open" if number == 1 else "budget"
    return Entry(
        ledger="views",
        sequence=number,
        kind="release" if isinstance(step, Cost) else kind,
        created_at="",
        reason="",
        snapshot=None,
        mechanism=None,
        mechanism_version=None,
        parameters=None,
        epsilon_units=step.epsilon_units,
        delta_units=step.delta_units,
        price=price(accountant, step).main if isinstance(step, Cost) else 0,
    )


def adds(found: Proven) -> Sequence[Budget | None]:
    return [change.adds for change in found.changes]


def test_what_is_spent_is_proven_at_a_basic_ledger_whatever_was_changed() -> None:
    found = after(BASIC, granted("1"), RELEASE, granted("5"), RELEASE, granted("0.3"), RELEASE)
    assert found.guarantee == Budget(300_000_000, 3_000_000_000)
    assert [(change.entry, change.total) for change in found.changes] == [(3, granted("5")), (5, granted("0.3"))]
    assert adds(found) == [None, None]


@pytest.mark.parametrize("releases", [0, 1, 20])
def test_the_total_is_proven_at_a_zcdp_ledger_however_little_is_spent(releases: int) -> None:
    found = after(ZCDP, granted("6"), *[RELEASE] * releases)
    assert (found.guarantee, found.changes) == (granted("6"), [])
    assert found.paid == Price(releases * price(ZCDP, RELEASE).main, releases * RELEASE.delta_units)


def test_a_change_before_any_release_replaces_the_total() -> None:
    for total in (granted("2"), granted("9"), granted("6", "1e-4")):
        found = after(ZCDP, granted("6"), total, RELEASE)
        assert (found.guarantee, found.changes) == (total, [])


def test_a_lowered_total_leaves_what_was_granted() -> None:
    found = after(ZCDP, granted("6"), RELEASE, granted("2"), RELEASE, granted("2", "1e-6"), RELEASE)
    assert found.guarantee == granted("6")
    assert found.total == granted("2", "1e-6")
    assert adds(found) == [None, None]


def test_a_total_that_was_lowered_may_come_back_up_to_what_was_granted() -> None:
    found = after(ZCDP, granted("6"), RELEASE, granted("2"), RELEASE, granted("6"), RELEASE)
    assert found.guarantee == granted("6")


def allowance(total: Budget, *paid: Cost) -> tuple[mpmath.mpf, Fraction]:
    """(ε, δ) of a phase that begins after these releases, straight from the formula, in 60 digits."""
    with mpmath.workdps(60):
        set_aside = mpmath.mpf(total.delta_units // 2) / 10**18
        whole = concentrated.rho_of(mpmath.mpf(total.epsilon_units) / 10**9, set_aside)
        rho = whole - sum(mpmath.mpf(cost.epsilon_units) ** 2 / 2 for cost in paid) / 10**18
        return concentrated.epsilon_of(rho, set_aside), total.delta - sum(cost.delta for cost in paid)


@pytest.mark.parametrize("raised", [granted("9"), granted("6", "1e-4"), granted("3", "1e-4")])
def test_a_total_raised_after_releases_adds_what_it_allows_from_then_on(raised: Budget) -> None:
    """Either limit is enough. The oracle rounds nothing; ours is at most a millionth above it, never below."""
    found = after(ZCDP, granted("6"), RELEASE, RELEASE, raised, RELEASE)
    epsilon, delta = allowance(raised, RELEASE, RELEASE)
    (added,) = adds(found)
    assert added is not None
    assert 0 <= added.epsilon_units - epsilon * 10**9 < 1000
    assert added.delta == delta
    assert found.guarantee == granted("6").plus(added)
    assert found.guarantee.epsilon > raised.epsilon  # the present total alone is not proven


def test_a_raise_by_an_earlier_version_allows_more_now_and_the_sum_says_so() -> None:
    """The figures of accountants.md."""
    found = after(ZCDP, granted("6"), *[RELEASE] * 100, granted("9"), RELEASE)
    assert float(found.guarantee.epsilon) == pytest.approx(12.98, abs=0.005)
    half = mpmath.mpf("5e-6")
    then = concentrated.earlier_rho_of(mpmath.mpf(9), half) - mpmath.mpf("0.5")
    assert float(6 + concentrated.earlier_epsilon_of(then, half)) == pytest.approx(12.73, abs=0.005)


def test_each_raise_adds_a_phase_of_its_own() -> None:
    found = after(ZCDP, granted("2"), RELEASE, granted("4"), RELEASE, granted("3"), RELEASE, granted("5"), RELEASE)
    first, second, third = adds(found)
    assert second is None
    assert first is not None
    assert third is not None
    assert found.guarantee == granted("2").plus(first).plus(third)


def test_a_raise_that_is_taken_back_before_a_release_adds_nothing() -> None:
    found = after(ZCDP, granted("6"), RELEASE, granted("9"), granted("6"), RELEASE)
    assert found.guarantee == granted("6")
    assert adds(found) == [None, None]
    twice = after(ZCDP, granted("6"), RELEASE, granted("7"), granted("9"), RELEASE)
    assert twice.guarantee == after(ZCDP, granted("6"), RELEASE, granted("9"), RELEASE).guarantee


TOTALS = st.builds(Budget, st.integers(10**8, 10**10), st.integers(10**10, 10**14))
COSTS = st.builds(Cost, st.integers(10**5, 10**8), st.integers(0, 10**9))


@settings(deadline=None)
@given(TOTALS, st.lists(st.one_of(TOTALS, COSTS), max_size=12))
def test_a_guarantee_that_answers_were_given_under_is_never_taken_back(opened: Budget, later: list[Step]) -> None:
    """Whatever is released and changed next: after each release ε and δ are at least what they were."""
    steps: list[Step] = [opened]
    paid, limit, before = Price(0, 0), ZCDP.limit(opened), Budget(0, 0)
    for step in later:
        if isinstance(step, Budget) and ZCDP.limit(step).covers(paid):
            limit = ZCDP.limit(step)
            steps.append(step)
        elif isinstance(step, Cost) and limit.covers(paid.plus(price(ZCDP, step))):
            paid = paid.plus(price(ZCDP, step))
            steps.append(step)
            found = after(ZCDP, *steps)
            assert found.paid == paid
            assert found.guarantee.epsilon_units >= before.epsilon_units
            assert found.guarantee.delta_units >= max(before.delta_units, paid.delta)
            before = found.guarantee
    spent = sum(step.epsilon_units for step in steps if isinstance(step, Cost))
    assert after(BASIC, *steps).guarantee == Budget(spent, paid.delta)
