"""The JSON of responses. No model here can hold a sketch's state."""

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)
from pydantic.json_schema import SkipJsonSchema

from app.core.comparison import Comparison
from app.core.histogram import Snapshot
from app.core.ledger.budget import Budget
from app.core.mechanisms import MECHANISMS
from app.core.planner import AUTO, Offer
from app.usecases.manage_api_keys import KeyView, NewKey
from app.usecases.manage_ledgers import EntryView, LedgerView
from app.usecases.manage_sketches import SketchView
from app.usecases.plan_release import Plan

T = TypeVar("T")

_EXAMPLE = MECHANISMS[0]  # in the documentation

EpsilonOut = Annotated[str, Field(description="ε, exactly", examples=["0.5"])]
DeltaOut = Annotated[str, Field(description="δ, exactly", examples=["1e-6"])]


class AmountOut(BaseModel):
    epsilon: EpsilonOut
    delta: DeltaOut


class Sparse(BaseModel):
    """A model whose absent members are left out instead of being null."""

    @model_serializer(mode="wrap")
    def _those_given(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if value is not None}


class LedgerAmountOut(AmountOut):
    ledger: str = Field(examples=["page-views"])


class ChargeOut(Sparse, LedgerAmountOut):
    rho: str | SkipJsonSchema[None] = Field(None, description="What a `zcdp` ledger counted", examples=["0.125"])


class ContributionsOut(BaseModel):
    unit: str = Field(description="Events, or sets of keys", examples=["event"])
    max: int = Field(description="The most that one person contributes to all its sketches together", examples=[5])


class LedgerOut(BaseModel):
    """The public state of a budget. It moves with releases, never with events."""

    name: str = Field(examples=["page-views"])
    accountant: str = Field(description="How costs add up", examples=["basic"])
    total: AmountOut = Field(examples=[{"epsilon": "1", "delta": "1e-5"}])
    spent: AmountOut = Field(
        description="What the releases so far come to. Of a `basic` ledger it is the guarantee that holds; of a `zcdp` "
        "ledger it is bookkeeping, and the guarantee is in the report",
        examples=[{"epsilon": "0.5", "delta": "1e-6"}],
    )
    remaining: AmountOut = Field(
        description="The total minus what is spent; of a `zcdp` ledger bookkeeping too",
        examples=[{"epsilon": "0.5", "delta": "9e-6"}],
    )
    rho: str | None = Field(description="ρ spent, at a `zcdp` ledger", examples=[None])
    releases_like_the_last: int | None = Field(
        description="How many more releases of the last one's cost fit; null before the first", examples=[1]
    )
    contributions: ContributionsOut | None = Field(
        description="A bound over all its sketches; null where each has its own"
    )
    created_at: datetime

    @classmethod
    def of(cls, ledger: LedgerView) -> "LedgerOut":
        return cls(
            name=ledger.name,
            accountant=ledger.accountant,
            total=AmountOut(**ledger.total.as_strings()),
            spent=AmountOut(**ledger.spent.as_strings()),
            remaining=AmountOut(**ledger.remaining.as_strings()),
            rho=ledger.rho,
            releases_like_the_last=ledger.releases_like_the_last,
            contributions=ContributionsOut(unit=ledger.contributions.unit, max=ledger.contributions.most)
            if ledger.contributions
            else None,
            created_at=ledger.created_at,
        )


class MechanismParametersOut(Sparse):
    """What a sceptic needs to recompute the guarantee."""

    noise: str = Field(description="The law of each draw", examples=["discrete-laplace"])
    scale: str | SkipJsonSchema[None] = Field(None, description="Of each Laplace draw, in counts", examples=["2"])
    sigma: str | SkipJsonSchema[None] = Field(None, description="Of each Gaussian draw, in counts")
    lattice: int | SkipJsonSchema[None] = Field(None, description="Gaussian draws are multiples of 1/lattice")
    threshold: int = Field(description="The smallest noisy count that is reported", examples=[33])
    k: int = Field(description="Counters of the sketch", examples=[1024])
    max_contributions: int | SkipJsonSchema[None] = Field(None, description="Events per person", examples=[1])
    universe_size: int | SkipJsonSchema[None] = Field(None, description="Keys that got noise, stored or not")


class EntryOut(BaseModel):
    """One line of a ledger. `open` and `budget` set the total; `release` is a payment, with what was run.

    `sketch` and `merge` say that a sketch which the ledger pays for was made, or holds its data now; they cost nothing.
    """

    number: int = Field(description="1, 2, 3 … in this ledger", examples=[2])
    kind: str = Field(description="`open`, `budget`, `sketch`, `merge` or `release`", examples=["release"])
    created_at: datetime
    epsilon: EpsilonOut
    delta: DeltaOut
    reason: str = Field(description="Why the budget was changed", examples=[""])
    snapshot: str | None = Field(description="Id of what was paid for", examples=["0f8fad5bd9cb469fa16570867728950e"])
    mechanism: str | None = Field(examples=[_EXAMPLE.name])
    mechanism_version: int | None = Field(description="Of what is drawn and cut", examples=[1])
    parameters: MechanismParametersOut | None
    hash: str = Field(description="SHA-256 in hex over this entry, what it rests on and the hash of the one before")

    @classmethod
    def of(cls, view: EntryView) -> "EntryOut":
        entry = view.entry
        return cls(
            number=entry.sequence,
            kind=entry.kind,
            created_at=datetime.fromisoformat(entry.created_at),
            reason=entry.reason,
            snapshot=entry.snapshot,
            mechanism=entry.mechanism,
            mechanism_version=entry.mechanism_version,
            parameters=MechanismParametersOut.model_validate(entry.parameters) if entry.parameters else None,
            hash=view.hash.hex(),
            **Budget(entry.epsilon_units, entry.delta_units).as_strings(),
        )


class SketchOut(BaseModel):
    """Public parameters and budget state. Nothing in it depends on the events."""

    name: str = Field(examples=["page-views"])
    k: int = Field(description="Counters", examples=[1024])
    unit: str = Field(description="What is counted and protected", examples=["event"])
    max_contributions: int = Field(description="Events of a person, or keys in a person's set", examples=[1])
    enforcement: str = Field(
        description="`enforced`: no more of a named user was counted. `declared`: the senders are trusted",
        examples=["declared"],
    )
    description: str = Field(examples=["Page views of the shop"])
    family: str = Field(description="How it was built, which decides what may release it", examples=["stream"])
    universe_size: int | None = Field(description="How many keys are possible; null if undeclared", examples=[None])
    ledger: LedgerOut = Field(description="The ledger of its own events")
    ledgers: list[str] = Field(
        description="Ledgers whose data it holds; each pays for a release. By name, and of more than 100 the 100 that "
        "were made first",
        examples=[["a"]],
    )
    ledger_count: int = Field(description="How many ledgers there are whose data it holds", examples=[1])
    created_at: datetime
    closed_at: datetime | None = Field(description="null while it takes events", examples=[None])
    not_covered: str | None = Field(
        description="What the guarantee of its snapshots does not cover; null where it covers all that was counted",
        examples=[None],
    )

    @classmethod
    def of(cls, sketch: SketchView) -> "SketchOut":
        return cls(
            name=sketch.name,
            k=sketch.k,
            unit=sketch.unit,
            max_contributions=sketch.max_contributions,
            enforcement=sketch.enforcement,
            description=sketch.description,
            family=sketch.family,
            universe_size=sketch.universe_size,
            ledger=LedgerOut.of(sketch.ledger),
            ledgers=sketch.ledgers,
            ledger_count=sketch.ledger_count,
            created_at=sketch.created_at,
            closed_at=sketch.closed_at,
            not_covered=sketch.not_covered,
        )


class ReceiptOut(BaseModel):
    accepted: int = Field(
        description="How many events, or users' sets, your batch has, counts added up. A function of your request "
        "alone: it does not tell how many of them counted",
        examples=[552],
    )


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

    mechanism: str = Field(examples=[_EXAMPLE.name])
    theorem: str = Field(description="Label in the paper", examples=[_EXAMPLE.theorem])
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
        return cls(
            event_threshold=comparison.by_events.calibrated.threshold,
            user_threshold=comparison.by_users.calibrated.threshold,
            turns_at=comparison.turns_at,
            words=comparison.words,
        )


class PlanOut(Sparse):
    recommended: str = Field(description=f"What `{AUTO}` would take", examples=[_EXAMPLE.name])
    mechanisms: list[OfferOut] = Field(description="Those that apply, the recommended one first")
    comparison: ComparisonOut | SkipJsonSchema[None] = Field(
        None, description="Of both units, where no sketch has settled on one"
    )

    @classmethod
    def of(cls, plan: Plan) -> "PlanOut":
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
    mechanism: str = Field(examples=[_EXAMPLE.name])
    theorem: str = Field(description="Label in the paper", examples=[_EXAMPLE.theorem])
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
        return cls.model_validate(snapshot, from_attributes=True)


class SnapshotOut(SnapshotSummaryOut):
    """A release. It is written down piece by piece (`rendering.py`); this is what comes of it."""

    histogram: list[BarOut] = Field(description="In key order")


class KeyOut(BaseModel):
    id: str = Field(description="For DELETE; not secret", examples=["9f86d081884c7d65"])
    name: str = Field(examples=["web shop"])
    scopes: list[str] = Field(examples=[["ingest"]])
    sketches: str = Field(description="The sketch and ledger names it may touch", examples=["page-*"])
    created_at: datetime
    revoked_at: datetime | None = Field(description="null while it works", examples=[None])

    @classmethod
    def of(cls, key: KeyView) -> "KeyOut":
        return cls.model_validate(key, from_attributes=True)


class NewKeyOut(KeyOut):
    secret: str = Field(description="Shown now and never again", examples=["dsk_9f86d081884c7d65_…"])

    @classmethod
    def created(cls, new: NewKey) -> "NewKeyOut":
        return cls(**KeyOut.of(new.key).model_dump(), secret=new.secret)


class PageOut(BaseModel, Generic[T]):
    items: list[T]
    cursor: str | None = Field(description="Pass it as `cursor` for the next page; null on the last", examples=[None])


class HealthOut(BaseModel):
    status: Literal["ok"] = "ok"
