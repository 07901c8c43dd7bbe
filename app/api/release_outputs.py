"""The JSON of plans and releases: what a mechanism would give, what was released and paid.

All of it is public. The models without a docstring have none on purpose: it would go into the OpenAPI document.
"""

from datetime import datetime
from typing import Self

from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from app.api.outputs import EXAMPLE, AmountOut, DeltaOut, EpsilonOut, MechanismParametersOut, Sparse
from app.core.comparison import Comparison
from app.core.histogram import Snapshot
from app.core.planner import AUTO, Offer
from app.usecases.plan_release import Plan


class LedgerAmountOut(AmountOut):
    ledger: str = Field(examples=["page-views"])


class ChargeOut(Sparse, LedgerAmountOut):
    rho: str | SkipJsonSchema[None] = Field(None, description="What a `zcdp` ledger counted", examples=["0.125"])


class ErrorBoundOut(BaseModel):
    """With probability 1 − β, for every key at once: true − sketch_low − noise_low ≤ released ≤ true + noise_high.

    A key that is absent from the histogram counts as released with 0.
    """

    noise_low: int = Field(description="Noise and threshold together", examples=[54])
    noise_high: int = Field(description="Noise alone: it may add, the threshold only takes away", examples=[22])
    sketch_low: int | None = Field(
        description="expected_events/(k+1); null where expected_events was not given", examples=[97]
    )


class OfferOut(BaseModel):
    """What one mechanism would give, from public parameters alone."""

    mechanism: str = Field(examples=[EXAMPLE.name])
    theorem: str = Field(description="Label in the paper", examples=[EXAMPLE.theorem])
    parameters: MechanismParametersOut
    error_bound: ErrorBoundOut
    smallest_likely_count: int = Field(
        description="The smallest true count of a given key that is reported with probability 1 − β; without "
        "expected_events, before the sketch's own error",
        examples=[136],
    )
    charge: AmountOut = Field(description="What the ledger would pay")
    releases_remaining: int | None = Field(
        description="How many such releases the ledger still covers; null without a sketch", examples=[2]
    )

    @classmethod
    def of(cls, offer: Offer, releases_remaining: int | None) -> "OfferOut":
        """The offer as it is answered."""
        return cls(
            mechanism=offer.mechanism,
            theorem=offer.theorem,
            parameters=MechanismParametersOut.model_validate(offer.calibrated.parameters()),
            error_bound=ErrorBoundOut.model_validate(offer.error_bound, from_attributes=True),
            smallest_likely_count=offer.smallest_likely_count,
            charge=AmountOut(**offer.cost.as_strings()),
            releases_remaining=releases_remaining,
        )


class ComparisonOut(BaseModel):
    """The same question by both units of privacy."""

    event_threshold: int = Field(description="The smallest count that unit `event` reports", examples=[92])
    user_threshold: int = Field(description="The smallest count that unit `user` reports", examples=[813])
    turns_at: int | None = Field(
        description="From so many contributions on unit `user` cuts lower; null if never", examples=[40]
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
    comparison: ComparisonOut | SkipJsonSchema[None] = Field(
        None, description="Of both units, where no sketch has settled on one"
    )

    @classmethod
    def of(cls, plan: Plan) -> "PlanOut":
        """The plan as it is answered."""
        mechanisms = [OfferOut.of(*offer) for offer in plan.offers]
        comparison = ComparisonOut.of(plan.comparison) if plan.comparison else None
        return cls(recommended=mechanisms[0].mechanism, mechanisms=mechanisms, comparison=comparison)


class BarOut(BaseModel):
    """A reported key. With probability 1 − β all true counts lie in their [low, high]."""

    key: str = Field(examples=["/pricing"])
    count: int = Field(description="With noise", examples=[1043])
    low: int = Field(examples=[1021])
    high: int | None = Field(description="null where expected_events was not given", examples=[1162])


class SnapshotSummaryOut(BaseModel):
    """A release without its histogram."""

    id: str = Field(examples=["0f8fad5bd9cb469fa16570867728950e"])
    sketch: str = Field(examples=["page-views"])
    created_at: datetime
    mechanism: str = Field(examples=[EXAMPLE.name])
    theorem: str = Field(description="Label in the paper", examples=[EXAMPLE.theorem])
    epsilon: EpsilonOut
    delta: DeltaOut
    beta: str = Field(description="Error bounds hold with probability 1 − β", examples=["0.05"])
    parameters: MechanismParametersOut
    error_bound: ErrorBoundOut
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
        return cls.model_validate(snapshot, from_attributes=True)


class UnlistedOut(BaseModel):
    """A key that was asked for and is not reported. It joins the statement about all true counts."""

    key: str = Field(examples=["/secret-offer"])
    at_most: int | None = Field(
        description="What its true count is at most; null where expected_events was not given", examples=[151]
    )


class SnapshotOut(SnapshotSummaryOut):
    """A release. It is written down piece by piece (`rendering.py`); this is what comes of it."""

    histogram: list[BarOut] = Field(description="The largest counts first, of equal counts the smaller key; or `order`")
    unlisted: list[UnlistedOut] | SkipJsonSchema[None] = Field(
        None, description="With `key` alone: those of the named keys that are not in the histogram, in key order"
    )
