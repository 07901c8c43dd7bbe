"""Which k, which accountant and which price suit what an operator has and wants. From public parameters alone.

A release covers everything since its sketch was made; then one event is in all releases that follow, and one budget
pays for them all. Or it covers a period, such as a day: then each period has a sketch and a budget of its own, which
pays for the releases of that period alone. Nothing here knows a mechanism by name: all figures are the planner's, and
how many releases fit is the ledger's own arithmetic.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from app.core.comparison import MOST_CONTRIBUTIONS
from app.core.counters import larger_k, sizes
from app.core.errors import InvalidNumber, NoMechanism, Refusal
from app.core.ledger.account import Account
from app.core.ledger.accountants import ACCOUNTANTS, Price
from app.core.ledger.budget import EPSILON_DIGITS, MAX_EPSILON, Budget, Cost, decimal_string
from app.core.planner import AUTO, Offer, Question, choose
from app.core.sketches.parameters import Contributions, SketchParameters

Period = Literal["hour", "day", "week", "month", "year"]
Covers = Literal["everything", "period"]

USUAL_BUDGET = Budget.granted(epsilon="1", delta="1e-6")
MOST_RELEASES = 100_000  # of one budget
_DAYS: Mapping[Period, Fraction] = {
    "hour": Fraction(1, 24),
    "day": Fraction(1),
    "week": Fraction(7),
    "month": Fraction(365, 12),
    "year": Fraction(365),
}
_DIGITS = 4  # of a price, so that people can read and write it


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What one sketch and its ledger must do."""

    events: int  # the most that the sketch holds when it is released
    releases: int  # that the budget must pay for
    contributions: Contributions
    budget: Budget
    beta: Decimal
    total_share: Fraction  # of each price, for the number of events; 0 where it is not asked for

    def question(self, k: int, cost: Cost) -> Question:
        """What a release at this cost would be, of a sketch of k counters."""
        unit, most = self.contributions.unit, self.contributions.most
        sketch = SketchParameters(k=k, unit=unit, max_contributions=most)
        return Question(
            family=sketch.first_family,
            k=k,
            max_contributions=sketch.covered_events,
            sources=1,
            universe_size=None,
            cost=cost,
            beta=float(self.beta),
            total_share=self.total_share,
            paid_in_rho=bool(cost.rho_units),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What an operator has and wants, in everyday terms."""

    events_per_day: int  # events, or keys of all people's sets together
    smallest_count: int | None  # keys that have it in what a release covers shall be listed
    number: int  # of releases in each period
    every: Period
    days: int  # that it all goes on
    covers: Covers
    contributions: Contributions
    budget: Budget | None  # None: the usual one
    beta: Decimal
    total_share: Fraction

    def need(self) -> Need:
        """What one sketch and its ledger must do for this: everything, or one period."""
        alone = self.covers == "period"
        days = min(_DAYS[self.every], Fraction(self.days)) if alone else Fraction(self.days)
        return Need(
            events=math.ceil(self.events_per_day * days),
            releases=self.number if alone else math.ceil(self.days * self.number / _DAYS[self.every]),
            contributions=self.contributions,
            budget=self.budget or USUAL_BUDGET,
            beta=self.beta,
            total_share=self.total_share,
        )


@dataclass(frozen=True, slots=True)
class Setup:
    """A sketch, its ledger and the price of each release: what they give."""

    need: Need
    k: int
    accountant: str
    offer: Offer  # of each release
    asked: Cost  # what each release asks for
    fits: int  # so many such releases, by the ledger's own arithmetic

    @property
    def sketch_error(self) -> int:
        """How much the sketch itself may miss in the worst case. A release measures how much it was."""
        return self.need.events // (self.k + 1)

    @property
    def smallest_likely_count(self) -> int:
        """The smallest true count of a given key that is listed with probability 1 − β, in the worst case."""
        return self.offer.smallest_likely_count + self.sketch_error

    @property
    def width(self) -> int:
        """From the low to the high end of the interval of a listed count, in the worst case."""
        return self.offer.noise_bound.below + self.offer.noise_bound.above + self.sketch_error


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that is changed, to what, and what that gives."""

    change: str
    to: str
    setup: Setup


@dataclass(frozen=True, slots=True)
class Advice:
    """What to take, beside what else there was: other accountants, and one step more or less of everything."""

    wish: Wish
    setup: Setup
    others: list[Setup]  # the same by the other accountants
    steps: list[Step]
    larger_k: str | None  # says that more counters would be free, where they are

    @property
    def is_met(self) -> bool | None:
        """Whether the smallest count that was wished for is likely to be listed; None where none was named."""
        least = self.wish.smallest_count
        return None if least is None else self.setup.smallest_likely_count <= least


def advise(wish: Wish, max_k: int) -> Advice:
    """What suits the wish; a refusal says what to change where nothing does."""
    need = wish.need()
    if need.releases > MOST_RELEASES:
        raise InvalidNumber(
            f"That would be {need.releases:,} releases from one budget; advice goes up to {MOST_RELEASES:,}. Release "
            "less often, for fewer days, or a sketch for each period (covers: period)."
        )
    if not need.budget.delta_units:
        raise InvalidNumber(
            "A budget without delta pays only for releases over a declared universe, which POST /v1/plan plans. Give "
            "a delta above 0, for example 1e-6."
        )
    candidates = sizes(max_k)
    few = setups(need, candidates[0])
    best_by = {setup.accountant: setup.offer.mechanism for setup in few}
    k = _counters(few[0], wish.smallest_count, candidates)
    best, *others = setups(need, k, best_by)
    setup = arranged(need, k, best.accountant)
    return Advice(wish, setup, others, list(_steps(wish, setup, max_k, best_by)), larger_k(setup.offer, max_k))


@lru_cache(maxsize=4096)
def arranged(need: Need, k: int, accountant: str, mechanism: str = AUTO) -> Setup:
    """What this k and this accountant give, each release at an equal share of what the ledger allows."""
    by = ACCOUNTANTS[accountant]
    limit = by.limit(need.budget)
    main, delta = _share(limit.main, need.releases), _share(limit.delta, need.releases)
    if not (main and delta):
        raise InvalidNumber(
            f"The budget cannot be divided into {need.releases:,} releases. Release less often, or grant more."
        )
    cost = Cost(0, delta, main) if by.counts_rho else Cost(main, delta)
    offer = choose(need.question(k, cost), mechanism)
    fits = Account("", by, need.budget, Price(0, 0), limit).how_many(offer)
    return Setup(need, k, accountant, offer, cost, fits)


def setups(need: Need, k: int, best_by: Mapping[str, str] | None = None) -> list[Setup]:
    """What each accountant gives, the one that lists the smallest counts first.

    `best_by` names the mechanism that is best by each accountant, where that is known: to compare them all takes long.
    """
    found, reasons = [], []
    for accountant in ACCOUNTANTS:
        try:
            found.append(arranged(need, k, accountant, (best_by or {}).get(accountant, AUTO)))
        except (NoMechanism, InvalidNumber) as reason:
            reasons.append(reason)
    if not found:
        raise reasons[0]
    return sorted(found, key=lambda setup: (setup.smallest_likely_count, setup.width))


def _share(whole: int, parts: int) -> int:
    """An equal part in units, rounded down to a few digits."""
    part = whole // parts
    step: int = 10 ** max(0, len(str(part)) - _DIGITS)
    return part - part % step


def _counters(few: Setup, smallest_count: int | None, candidates: Sequence[int]) -> int:
    """The fewest counters that list counts nearly as small as any k does: a quarter more, or a twentieth of the wish.

    Noise is computed at both ends and taken as a power of k between, which is how it grows.
    """
    many = arranged(few.need, candidates[-1], few.accountant, few.offer.mechanism)
    noise, grown = few.offer.smallest_likely_count, many.offer.smallest_likely_count
    power = math.log(grown / noise) / math.log(many.k / few.k) if many.k > few.k else 0.0
    likely = {k: noise * float(k / few.k) ** power + few.need.events // (k + 1) for k in candidates}
    best, wished = min(likely.values()), smallest_count or 0
    most = best + max(best / 4, wished / 20)
    if best <= wished:
        most = min(most, wished)
    return next(k for k in candidates if likely[k] <= most)


def _steps(wish: Wish, setup: Setup, max_k: int, best_by: Mapping[str, str]) -> Iterator[Step]:
    """One thing changed at a time. What is refused then is left out.

    The accountant stays, unless the number of releases changes; the mechanism stays as long as the accountant does.
    """
    for change, to, need, k in _changes(wish, setup, max_k):
        with suppress(Refusal):
            stays = need.releases == setup.need.releases and change != "covers"
            by = (
                setups(need, k, best_by)[0] if not stays else arranged(need, k, setup.accountant, setup.offer.mechanism)
            )
            yield Step(change, to, by)


def _changes(wish: Wish, setup: Setup, max_k: int) -> Iterator[tuple[str, str, Need, int]]:
    """What is changed, to what, and what is to be arranged then, with how many counters."""
    need, k = setup.need, setup.k
    for counters in _half_and_double(k, max_k):
        yield "k", str(counters), need, counters
    for releases in _half_and_double(need.releases, MOST_RELEASES):
        yield "releases", str(releases), replace(need, releases=releases), k
    for units in _half_and_double(need.budget.epsilon_units, int(MAX_EPSILON) * 10**EPSILON_DIGITS):
        budget = replace(need.budget, epsilon_units=units)
        yield "epsilon", decimal_string(units, EPSILON_DIGITS), replace(need, budget=budget), k
    if need.contributions.unit == "event":  # the noise of people's sets does not depend on their size
        for most in _half_and_double(need.contributions.most, MOST_CONTRIBUTIONS):
            yield "max_contributions", str(most), replace(need, contributions=Contributions("event", most)), k
    covers: Covers = "everything" if wish.covers == "period" else "period"
    otherwise = replace(wish, covers=covers).need()
    if otherwise != need and otherwise.releases <= MOST_RELEASES:
        yield "covers", covers, otherwise, k


def _half_and_double(value: int, most: int) -> list[int]:
    return [other for other in (value // 2, 2 * value) if 1 <= other <= most]
