"""The JSON of plans and releases: what a mechanism would give, what was released and paid.

All of it is public. The models without a docstring have none on purpose: it would go into the OpenAPI document.
"""

from datetime import datetime
from typing import Self

from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from app.api.outputs import EXAMPLE, AmountOut, DeltaOut, EpsilonOut, MechanismParametersOut, RhoOut, Sparse
from app.core.comparison import Comparison
from app.core.histogram import ErrorBound, Snapshot
from app.core.planner import AUTO, Offer
from app.core.snapshot_sum import SnapshotSum
from app.usecases.plan_release import Plan


class LedgerAmountOut(AmountOut):
    ledger: str = Field(examples=["page-views"])


class CostOut(Sparse):
    """The cost of a release: in ε, or in ρ where it was asked for in ρ; and δ."""

    epsilon: EpsilonOut | SkipJsonSchema[None] = None
    rho: RhoOut | SkipJsonSchema[None] = None
    delta: DeltaOut


class ChargeOut(CostOut):
    ledger: str = Field(examples=["page-views"])
    rho: str | SkipJsonSchema[None] = Field(None, description="What a `zcdp` ledger counted", examples=["0.125"])


class ErrorBoundOut(BaseModel):
    """With probability 1 − β, for every key at once: a listed key has a true count from `count − below` to
    `count + above + sketch`, and a key that is not listed one of at most `unlisted`."""

    below: int = Field(description="Noise alone", examples=[22])
    above: int = Field(description="Noise alone", examples=[19])
    sketch: int | None = Field(
        description="By how much the sketch itself may be too low. A release measures it, with noise, so it may be "
        "negative; a plan takes expected_events/(k+1); null where neither is known",
        examples=[43],
    )
    unlisted: int | None = Field(description="Noise, threshold and sketch together; null as `sketch` is", examples=[94])
    reason: str = Field(description="Why the last two are not known; empty where they are", examples=[""])

    @classmethod
    def of(cls, bound: ErrorBound) -> "ErrorBoundOut":
        """The bound as it is answered."""
        return cls.model_validate(bound, from_attributes=True)


class TotalOut(BaseModel):
    """How many events, or people, there are: with noise, and where the true number lies."""

    unit: str = Field(description="`event` or `user`: what is counted", examples=["event"])
    count: int = Field(examples=[10_021])
    low: int = Field(examples=[9_713])
    high: int = Field(examples=[10_329])


class OfferOut(BaseModel):
    """What one mechanism would give, from public parameters alone."""

    mode: str | None = Field(
        description="How several sketches would be taken together: `summed` or `compact`; null without several",
        examples=[None],
    )
    mechanism: str = Field(examples=[EXAMPLE.name])
    theorem: str = Field(description="Label in the paper", examples=[EXAMPLE.theorem])
    parameters: MechanismParametersOut
    error_bound: ErrorBoundOut
    smallest_likely_count: int = Field(
        description="The smallest true count of a given key that is reported with probability 1 − β; without "
        "expected_events, before the sketch's own error",
        examples=[136],
    )
    total_within: int | None = Field(
        description="How far off the total may be; null where it is not asked for", examples=[None]
    )
    charge: CostOut = Field(description="What the ledger would pay")
    releases_remaining: int | None = Field(
        description="How many such releases the ledger still covers; null without a sketch", examples=[2]
    )

    @classmethod
    def of(
        cls, offer: Offer, releases_remaining: int | None, events: int | None, *, together: bool = False
    ) -> "OfferOut":
        """The offer as it is answered, for a sketch that holds so many events, or nobody knows how many; or for several
        `together`."""
        sketch = None if events is None else events // (offer.question.k + 1)
        return cls(
            mode=offer.question.family if together else None,
            mechanism=offer.mechanism,
            theorem=offer.theorem,
            parameters=MechanismParametersOut.model_validate(offer.parameters()),
            error_bound=ErrorBoundOut.of(offer.noise_bound.with_sketch(sketch)),
            smallest_likely_count=offer.smallest_likely_count + (sketch or 0),
            total_within=offer.total.reach(offer.beta_of_total) if offer.total else None,
            charge=CostOut(**offer.cost.as_strings()),
            releases_remaining=releases_remaining,
        )


class ComparisonOut(BaseModel):
    """The same question by both units of privacy."""

    event_threshold: int = Field(description="The smallest count that unit `event` reports", examples=[90])
    user_threshold: int = Field(description="The smallest count that unit `user` reports", examples=[420])
    turns_at: int | None = Field(
        description="From so many contributions on unit `user` cuts lower; null if never", examples=[22]
    )
    words: str = Field(description="The same in words")

    @classmethod
    def of(cls, comparison: Comparison) -> "ComparisonOut":
        """The comparison as it is answered."""
        return cls(
            event_threshold=comparison.by_events.calibrated.threshold,
            user_threshold=comparison.by_users.calibrated.threshold,
            turns_at=comparison.turns_at,
            words=comparison.words,
        )


class PlanOut(Sparse):
    recommended: str = Field(description=f"What `{AUTO}` would take", examples=[EXAMPLE.name])
    mechanisms: list[OfferOut] = Field(description="Those that apply, the recommended one first")
    in_rho: OfferOut | SkipJsonSchema[None] = Field(
        None,
        description="Where every ledger that pays is `zcdp`: what the price of the recommended mechanism would give "
        "if it were asked for as `rho`, where that is better",
    )
    comparison: ComparisonOut | SkipJsonSchema[None] = Field(
        None, description="Of both units, where no sketch has settled on one"
    )
    larger_k: str | SkipJsonSchema[None] = Field(
        None, description="Says that twice as many counters would raise no threshold, where that is so"
    )

    @classmethod
    def of(cls, plan: Plan, events: int | None, *, together: bool = False) -> "PlanOut":
        """The plan as it is answered, for a sketch, or several `together`, with so many events, or nobody knows."""
        mechanisms = [OfferOut.of(*offer, events, together=together) for offer in plan.offers]
        in_rho = OfferOut.of(plan.in_rho, None, events, together=together) if plan.in_rho else None
        comparison = ComparisonOut.of(plan.comparison) if plan.comparison else None
        return cls(
            recommended=mechanisms[0].mechanism,
            mechanisms=mechanisms,
            in_rho=in_rho,
            comparison=comparison,
            larger_k=plan.larger_k,
        )


class BarOut(BaseModel):
    """A reported key. With probability 1 − β all true counts lie in their [low, high]."""

    key: str = Field(examples=["/pricing"])
    count: int = Field(description="With noise", examples=[1043])
    low: int = Field(examples=[1021])
    high: int | None = Field(description="null where the sketch's own error is not known", examples=[1105])
    share: float | SkipJsonSchema[None] = Field(None, description="In percent of the total, where that was released")


class OtherOut(BaseModel):
    """The events of all keys that are not in this answer: the total minus what is shown."""

    count: int = Field(examples=[812])
    low: int = Field(examples=[240])
    high: int = Field(examples=[1399])
    share: float | None = Field(description="In percent of the total", examples=[8.1])


class SnapshotSummaryOut(Sparse):
    """A release without its histogram."""

    id: str = Field(examples=["0f8fad5bd9cb469fa16570867728950e"])
    sketch: str | SkipJsonSchema[None] = Field(
        None, description="The sketch; absent where several were released together", examples=["page-views"]
    )
    sketches: list[str] = Field(description="All sketches that it is of", examples=[["page-views"]])
    mode: str | SkipJsonSchema[None] = Field(
        None, description="How several were taken together: `summed` or `compact`", examples=["summed"]
    )
    created_at: datetime
    mechanism: str = Field(examples=[EXAMPLE.name])
    theorem: str = Field(description="Label in the paper", examples=[EXAMPLE.theorem])
    epsilon: EpsilonOut | SkipJsonSchema[None] = Field(None, description="Absent where the release is stated in ρ")
    rho: RhoOut | SkipJsonSchema[None] = Field(None, description="Absent where the release is stated in ε")
    delta: DeltaOut
    beta: str = Field(description="Error bounds hold with probability 1 − β", examples=["0.05"])
    parameters: MechanismParametersOut
    error_bound: ErrorBoundOut
    total: TotalOut | SkipJsonSchema[None] = Field(None, description="Where it was asked for")
    guarantee: str = Field(
        description="What is protected, against what, under which assumption",
        examples=["Protects any one event from whoever sees this snapshot, whatever else they know: …"],
    )
    truncated: bool = Field(
        description="Whether the smallest counts were left out, because the keys have more bytes together than this "
        "server lists. The error bound covers what was left out",
        examples=[False],
    )
    charged: list[ChargeOut] = Field(description="What each ledger paid")
    remaining: list[LedgerAmountOut] = Field(description="What each ledger had left right after this release")

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        """The snapshot as it is answered, without its bars."""
        shown = cls.model_validate(snapshot, from_attributes=True)
        return shown.model_copy(update={"sketch": snapshot.sketches[0]}) if len(snapshot.sketches) == 1 else shown


class SumBoundOut(BaseModel):
    unlisted: int | None = Field(
        description="What the true count of a key that is not listed is at most; null where a part does not know it",
        examples=[151],
    )


class SumSummaryOut(Sparse):
    """Released histograms, added up, without their bars."""

    snapshots: list[str] = Field(examples=[["0f8fad5bd9cb469fa16570867728950e"]])
    sketches: list[str] = Field(description="All sketches that they are of", examples=[["page-views"]])
    unit: str = Field(description="`event` or `user`: what is counted", examples=["event"])
    beta: str = Field(
        description="All error bounds hold together with probability 1 − β, which is the product of what the parts "
        "have. Parts that were released with a smaller β give a smaller one",
        examples=["0.0975"],
    )
    error_bound: SumBoundOut
    total: TotalOut | SkipJsonSchema[None] = Field(None, description="Where every part has one")
    truncated: bool = Field(
        description="Whether the smallest counts of a part were left out; the error bound covers them", examples=[False]
    )

    @classmethod
    def of(cls, added: SnapshotSum) -> Self:
        """The sum as it is answered, without its bars."""
        return cls.model_validate(added, from_attributes=True)


class UnlistedOut(BaseModel):
    """A key that was asked for and is not reported. It joins the statement about all true counts."""

    key: str = Field(examples=["/secret-offer"])
    at_most: int | None = Field(
        description="What its true count is at most; null where expected_events was not given", examples=[151]
    )


class _HistogramOut(BaseModel):
    histogram: list[BarOut] = Field(description="The largest counts first, of equal counts the smaller key; or `order`")
    other: OtherOut | SkipJsonSchema[None] = Field(
        None, description="Where the total was released, and events are counted. In CSV it is a row without a key"
    )
    unlisted: list[UnlistedOut] | SkipJsonSchema[None] = Field(
        None, description="With `key` alone: those of the named keys that are not in the histogram, in key order"
    )


class SnapshotOut(_HistogramOut, SnapshotSummaryOut):
    """A release. It is written down piece by piece (`rendering.py`); this is what comes of it."""


class SumOut(_HistogramOut, SumSummaryOut):
    """Released histograms, added up. A key that a part does not list counts as 0 there, up to what it is at most."""
