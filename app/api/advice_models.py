"""The JSON of advice: what an operator has and wants, and the parameters that suit it. All of it is public.

The models without a docstring have none on purpose: it would go into the OpenAPI document.
"""

from decimal import Decimal
from fractions import Fraction
from typing import Any

from pydantic import BaseModel, Field, StrictBool

from app.api.fields import Beta, Days, EventsPerDay, MaxContributions, ReleaseNumber, SmallestCount, UnitIn
from app.api.inputs import Input, TotalIn
from app.api.outputs import EXAMPLE, AmountOut
from app.api.release_outputs import CostOut, OfferOut
from app.core import totals
from app.core.advice import USUAL_BUDGET, Advice, Covers, Period, Setup, Step, Wish
from app.core.advice_words import said
from app.core.sketches.parameters import Contributions

_USUAL = USUAL_BUDGET.as_strings()


class ReleasesIn(Input):
    number: ReleaseNumber = 1
    every: Period = Field("day", description="In each of these", examples=["day"])


class AdviceIn(Input):
    events_per_day: EventsPerDay
    smallest_count: SmallestCount = None
    releases: ReleasesIn = Field(
        ReleasesIn(number=1, every="day"),
        description="How often you want to see a histogram; once a day if you do not say",
    )
    days: Days = 365
    covers: Covers = Field(
        "everything",
        description="`everything`: one sketch goes on for all days, and each release covers all events since the "
        "start; an event is in all releases that follow it, and one budget pays for them. `period`: a new sketch with "
        "a budget of its own is made for every hour, day, week, month or year, as `releases.every` says, and its "
        "releases cover its own events alone",
    )
    unit: UnitIn = "event"
    max_contributions: MaxContributions = 1
    budget: TotalIn | None = Field(
        None,
        description="The total that may ever leave about an event, or a person of a sketch. "
        f"ε = {_USUAL['epsilon']}, δ = {_USUAL['delta']} if you name none",
    )
    beta: Beta = Decimal("0.05")
    total: StrictBool = Field(
        False, description="Releases also give the number of events, or people, for a small share"
    )

    def wish(self) -> Wish:
        """What is asked for, as use cases know it."""
        return Wish(
            events_per_day=self.events_per_day,
            smallest_count=self.smallest_count,
            number=self.releases.number,
            every=self.releases.every,
            days=self.days,
            covers=self.covers,
            contributions=Contributions(self.unit, self.max_contributions),
            budget=self.budget.total() if self.budget else None,
            beta=self.beta,
            total_share=totals.USUAL_SHARE if self.total else Fraction(0),
        )


class RecommendedOut(BaseModel):
    k: int = Field(description="Counters of the sketch", examples=[32_768])
    unit: str = Field(description="What is counted and protected", examples=["event"])
    max_contributions: int = Field(description="Events of a person, or keys in a person's set", examples=[1])
    accountant: str = Field(description="How the ledger adds up costs", examples=["zcdp"])
    budget: AmountOut = Field(description="The total of the ledger", examples=[{"epsilon": "1", "delta": "1e-6"}])
    per_release: CostOut = Field(description="What each release asks for")
    releases: int = Field(description="How many releases the budget must pay for", examples=[52])
    releases_that_fit: int = Field(description="How many such releases it pays for", examples=[52])
    mechanism: str = Field(description="What `auto` takes then", examples=[EXAMPLE.name])


class AccountantOut(BaseModel):
    accountant: str = Field(examples=["basic"])
    per_release: CostOut
    smallest_likely_count: int = Field(description="As of the release", examples=[1250])


class StepOut(BaseModel):
    """One thing changed, and what a release would give then. All else stays, but perhaps the accountant."""

    change: str = Field(
        description="`k`, `releases`, `epsilon` (of the budget), `max_contributions` or `covers`", examples=["k"]
    )
    to: str = Field(description="Its new value", examples=["65536"])
    accountant: str = Field(description="The better one then", examples=["zcdp"])
    threshold: int = Field(description="The smallest noisy count that is reported", examples=[455])
    smallest_likely_count: int = Field(description="As of the release", examples=[610])
    interval_width: int = Field(description="From `low` to `high` of a listed count, at worst", examples=[640])

    @classmethod
    def of(cls, step: Step) -> "StepOut":
        """The step as it is answered."""
        return cls(
            change=step.change,
            to=step.to,
            accountant=step.setup.accountant,
            threshold=step.setup.offer.calibrated.threshold,
            smallest_likely_count=step.setup.smallest_likely_count,
            interval_width=step.setup.width,
        )


class RequestsOut(BaseModel):
    """Bodies that are ready to be sent."""

    create_sketch: dict[str, Any] = Field(
        description="Of `PUT /v1/sketches/{name}`; where `covers` is `period`, once for each, under a new name",
        examples=[{"k": 32_768, "budget": {"epsilon": "1", "delta": "1e-6", "accountant": "basic"}}],
    )
    create_snapshot: dict[str, Any] = Field(
        description="Of each `POST /v1/sketches/{name}/snapshots`", examples=[{"epsilon": "1", "delta": "1e-6"}]
    )


class AdviceOut(BaseModel):
    recommended: RecommendedOut
    most_events: int = Field(
        description="The most events that the sketch holds when it is released: all of them, or those of a period. The "
        "figures of `release` are for so many",
        examples=[1_000_000],
    )
    release: OfferOut = Field(description="What each release gives, as a plan says it")
    meets_smallest_count: bool | None = Field(
        description="Whether `smallest_count` is likely to be listed; null where none was asked for", examples=[True]
    )
    accountants: list[AccountantOut] = Field(description="What each accountant would give, the recommended one first")
    steps: list[StepOut] = Field(description="What one step more or less of each would change")
    words: str = Field(description="All of it in a few sentences")
    requests: RequestsOut

    @classmethod
    def of(cls, advice: Advice) -> "AdviceOut":
        """The advice as it is answered."""
        setup = advice.setup
        return cls(
            recommended=_recommended(setup),
            most_events=setup.need.events,
            release=OfferOut.of(setup.offer, setup.fits, setup.need.events),
            meets_smallest_count=advice.is_met,
            accountants=[
                AccountantOut(
                    accountant=each.accountant,
                    per_release=CostOut(**each.asked.as_strings()),
                    smallest_likely_count=each.smallest_likely_count,
                )
                for each in (setup, *advice.others)
            ],
            steps=[StepOut.of(step) for step in advice.steps],
            words=said(advice),
            requests=_requests(advice),
        )


def _recommended(setup: Setup) -> RecommendedOut:
    return RecommendedOut(
        k=setup.k,
        unit=setup.need.contributions.unit,
        max_contributions=setup.need.contributions.most,
        accountant=setup.accountant,
        budget=AmountOut(**setup.need.budget.as_strings()),
        per_release=CostOut(**setup.asked.as_strings()),
        releases=setup.need.releases,
        releases_that_fit=setup.fits,
        mechanism=setup.offer.mechanism,
    )


def _requests(advice: Advice) -> RequestsOut:
    setup = advice.setup
    return RequestsOut(
        create_sketch={
            "k": setup.k,
            "unit": setup.need.contributions.unit,
            "max_contributions": setup.need.contributions.most,
            "budget": {**setup.need.budget.as_strings(), "accountant": setup.accountant},
        },
        create_snapshot={
            **setup.asked.as_strings(),
            "beta": str(advice.wish.beta),
            **({"total": True} if setup.need.total_share else {}),
        },
    )
