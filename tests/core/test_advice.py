"""Advice: what it recommends is covered by the ledger that it recommends, and its steps are what they say."""

import time
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from app.core.advice import MOST_RELEASES, USUAL_BUDGET, Advice, Setup, Wish, advise, arranged, setups
from app.core.advice_words import said
from app.core.counters import larger_k, sizes
from app.core.errors import InvalidNumber
from app.core.ledger.account import Account
from app.core.ledger.accountants import ACCOUNTANTS, Price
from app.core.ledger.budget import Budget, Cost
from app.core.planner import choose, offers
from app.core.sketches.parameters import Contributions
from tests.questions import question

MAX_K = 65_536

_A_MILLION: dict[str, Any] = {
    "events_per_day": 1_000_000,
    "smallest_count": 500,
    "number": 1,
    "every": "day",
    "days": 365,
    "covers": "everything",
    "contributions": Contributions("event", 1),
    "budget": None,
    "beta": Decimal("0.05"),
    "total_share": Fraction(0),
}


def wish(**changed: Any) -> Wish:
    return Wish(**(_A_MILLION | changed))


def advice(**changed: Any) -> Advice:
    return advise(wish(**changed), MAX_K)


WISHES: dict[str, dict[str, Any]] = {
    "daily for a year": {},
    "a sketch a day": {"covers": "period"},
    "weekly": {"every": "week", "events_per_day": 20_000},
    "once": {"every": "year"},
    "hourly for ten years": {"every": "hour", "days": 3650},
    "people's events": {"contributions": Contributions("event", 10), "every": "month"},
    "people's sets": {"contributions": Contributions("user", 10), "every": "week"},
    "sets of a week": {"contributions": Contributions("user", 10), "every": "week", "covers": "period"},
    "with totals": {"total_share": Fraction(2, 100), "every": "week"},
    "a large budget": {"budget": Budget.granted(epsilon="8", delta="1e-4"), "number": 3, "covers": "period"},
    "few events": {"events_per_day": 3, "smallest_count": None, "days": 1},
}


@pytest.fixture(params=WISHES)
def given(request: pytest.FixtureRequest) -> Advice:
    return advice(**WISHES[request.param])


def _spent_until_refused(setup: Setup, most: int) -> int:
    """How many of the releases the ledger really pays for, one after the other."""
    by = ACCOUNTANTS[setup.accountant]
    account = Account("views", by, setup.need.budget, Price(0, 0), by.limit(setup.need.budget))
    paid = 0
    while paid < most and account.covers(setup.offer):
        account, paid = account.after(setup.offer), paid + 1
    return paid


def test_the_ledger_pays_for_all_releases_that_are_needed_and_for_no_more_than_is_said(given: Advice) -> None:
    setup = given.setup
    assert setup.fits >= setup.need.releases
    if setup.need.releases <= 1000:
        assert _spent_until_refused(setup, most=setup.fits + 1) == setup.fits
    every_step = [step.setup for step in given.steps]
    assert all(each.fits >= each.need.releases for each in (*given.others, *every_step))


def test_the_budget_is_used_up_but_for_rounding(given: Advice) -> None:
    setup = given.setup
    assert setup.fits <= setup.need.releases * 1.002 + 1


def test_a_release_is_what_auto_would_make_of_what_is_asked_for(given: Advice) -> None:
    setup = given.setup
    asked = setup.need.question(setup.k, setup.asked)
    assert setup.offer == choose(asked, "auto")
    assert asked.paid_in_rho == ACCOUNTANTS[setup.accountant].counts_rho == bool(setup.asked.rho_units)


def test_the_recommended_accountant_lists_the_smallest_counts(given: Advice) -> None:
    both = {given.setup.accountant, *(other.accountant for other in given.others)}
    assert both == ACCOUNTANTS.keys()
    assert all(given.setup.smallest_likely_count <= other.smallest_likely_count for other in given.others)


def test_one_release_is_paid_by_basic_and_very_many_by_zcdp() -> None:
    assert advice(every="year").setup.accountant == "basic"
    assert advice(covers="period").setup.accountant == "basic"
    assert advice(every="hour").setup.accountant == "zcdp"


def test_the_counters_nearly_list_the_smallest_counts_that_any_number_lists(given: Advice) -> None:
    """Compared with what the planner really says at every power of two, not with what was estimated."""
    setup = given.setup
    likely = {k: arranged(setup.need, k, setup.accountant).smallest_likely_count for k in sizes(MAX_K)}
    slack = max(0.3 * min(likely.values()), (given.wish.smallest_count or 0) / 20)
    assert setup.smallest_likely_count <= min(likely.values()) + slack


def test_a_smaller_number_of_counters_is_not_taken_where_it_lists_less(given: Advice) -> None:
    fewer = [step.setup for step in given.steps if (step.change, step.to) == ("k", str(given.setup.k // 2))]
    if given.setup.k > sizes(MAX_K)[0]:
        assert fewer[0].smallest_likely_count > given.setup.smallest_likely_count


def test_no_more_counters_than_the_server_allows() -> None:
    assert advise(wish(), 1000).setup.k == 512
    assert advise(wish(), 10).setup.k == 10
    assert all(step.setup.k <= 1000 for step in advise(wish(), 1000).steps)


def test_each_step_changes_one_thing_and_is_what_the_planner_says(given: Advice) -> None:
    need, k = given.setup.need, given.setup.k
    for step in given.steps:
        changed = step.setup
        assert (changed.k == k) == (step.change != "k")
        assert (changed.need.contributions == need.contributions) == (step.change != "max_contributions")
        assert (changed.need.budget == need.budget) == (step.change != "epsilon")
        assert (changed.need.events == need.events) or step.change == "covers"
        assert changed.offer == choose(changed.need.question(changed.k, changed.asked), changed.offer.mechanism)


def test_less_of_what_costs_privacy_lists_smaller_counts() -> None:
    for contributions in (Contributions("event", 4), Contributions("user", 4)):
        found = advice(contributions=contributions, every="week")
        here = found.setup.offer.calibrated.threshold
        cut = {(step.change, step.to): step.setup.offer.calibrated.threshold for step in found.steps}
        releases = found.setup.need.releases
        assert cut["releases", str(releases // 2)] < here < cut["releases", str(2 * releases)]
        assert cut["epsilon", "2"] < here < cut["epsilon", "0.5"]
        assert cut["covers", "period"] < here
        if contributions.unit == "event":
            assert cut["max_contributions", "2"] < here < cut["max_contributions", "8"]


def test_more_events_never_list_smaller_counts_nor_take_fewer_counters() -> None:
    for unit in ("event", "user"):
        found = [
            advice(events_per_day=events, contributions=Contributions(unit, 5), smallest_count=None).setup
            for events in (10, 1000, 100_000, 10_000_000)
        ]
        assert [each.smallest_likely_count for each in found] == sorted(each.smallest_likely_count for each in found)
        assert [each.k for each in found] == sorted(each.k for each in found)


def test_what_a_release_covers_decides_how_many_share_a_budget() -> None:
    everything, period = wish(every="week"), wish(every="week", covers="period", number=2)
    assert (everything.need().releases, everything.need().events) == (53, 365_000_000)
    assert (period.need().releases, period.need().events) == (2, 7_000_000)
    assert wish(every="month").need().releases == 12
    assert wish(every="hour", number=2, days=2).need().releases == 96


def test_a_wish_is_met_or_the_words_say_what_would_meet_it() -> None:
    met, unmet, hopeless = advice(covers="period"), advice(), advice(smallest_count=1, covers="period")
    assert (met.is_met, unmet.is_met, hopeless.is_met) == (True, False, False)
    assert advice(smallest_count=None).is_met is None
    assert "500 that you asked for is met" in said(met)
    assert "With covers = period it would be." in said(unmet)
    assert "No single step meets it" in said(hopeless)


def test_the_words_have_the_figures(given: Advice) -> None:
    text, setup = said(given), given.setup
    for figure in (setup.k, setup.need.releases, setup.smallest_likely_count, setup.sketch_error, setup.need.events):
        assert f"{figure:,}" in text or figure == 1
    assert ("usual totals" in text) == (given.wish.budget is None)
    assert f"a {setup.accountant} ledger of ε = {setup.need.budget.as_strings()['epsilon']}" in text
    assert ("comes to within" in text) == bool(given.wish.total_share)


def test_the_usual_budget_is_taken_where_none_is_named() -> None:
    assert advice().setup.need.budget == USUAL_BUDGET
    mine = Budget.granted(epsilon="3", delta="1e-5")
    assert advice(budget=mine).setup.need.budget == mine


def test_prices_are_short_and_never_more_than_an_equal_share() -> None:
    for setup in setups(wish().need(), 1024):
        limit = ACCOUNTANTS[setup.accountant].limit(setup.need.budget)
        main = setup.asked.rho_units or setup.asked.epsilon_units
        assert 0.999 * limit.main < 365 * main <= limit.main
        assert 0.999 * limit.delta < 365 * setup.asked.delta_units <= limit.delta
        assert len(str(main).rstrip("0")) <= 4


def test_what_cannot_be_is_refused_with_what_to_change() -> None:
    with pytest.raises(InvalidNumber, match="Release less often"):
        advice(number=1000, every="hour")
    with pytest.raises(InvalidNumber, match="Give a delta above 0"):
        advice(budget=Budget.granted(epsilon="1", delta="0"))
    with pytest.raises(InvalidNumber, match="cannot be divided into 365 releases"):
        advice(budget=Budget.granted(epsilon="1e-9", delta="1e-6"))
    assert wish(number=MOST_RELEASES, every="year", days=1).need().releases <= MOST_RELEASES


def test_advice_is_quick() -> None:
    """In processor time. Two runs of the same are one: calibrations are kept."""
    slowest = 0.0
    for changed in WISHES.values():
        arranged.cache_clear()
        begun = time.process_time()
        advice(**changed, beta=Decimal("0.049"))
        slowest = max(slowest, time.process_time() - begun)
    assert slowest < 3  # about one on an idle machine


# Counters


def test_twice_as_many_counters_are_free_for_a_stream_and_not_for_sets() -> None:
    stream, sets = (offers(question(family, k=1024))[0] for family in ("stream", "compact"))
    words = larger_k(stream, MAX_K)
    assert words is not None
    assert words.startswith("k = 2,048 would be free")
    assert f"threshold stays at {stream.calibrated.threshold}" in words
    assert larger_k(sets, MAX_K) is None
    assert larger_k(stream, 2047) is None


def test_more_counters_are_called_free_only_where_the_threshold_stays() -> None:
    for k in (1, 2, 3, 64, 4096):
        for cost in (("0.1", "1e-9"), ("1", "1e-6"), ("10", "1e-3")):
            offer = offers(question(k=k, epsilon=cost[0], delta=cost[1]))[0]
            doubled = choose(replace(offer.question, k=2 * k), offer.mechanism)
            raised = doubled.calibrated.threshold > offer.calibrated.threshold
            assert (larger_k(offer, MAX_K) is None) == raised


def test_sizes_are_powers_of_two_within_what_is_allowed() -> None:
    assert sizes(MAX_K) == [2**bits for bits in range(6, 17)]
    assert sizes(1000)[-1] == 512
    assert sizes(40) == [40]


def test_costs_in_rho_are_asked_for_in_rho() -> None:
    asked = arranged(wish().need(), 1024, "zcdp").asked
    assert asked == Cost(0, asked.delta_units, asked.rho_units)
    assert arranged(wish().need(), 1024, "basic").asked.rho_units == 0
