"""The JSON of requests and responses. No model here can hold a sketch's state."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from app.core.access import Scope
from app.core.budget import Budget, Cost
from app.core.histogram import Snapshot
from app.core.planner import Offer
from app.core.sketches.stream import MAX_K
from app.usecases.manage_keys import KeyView, NewKey
from app.usecases.manage_ledgers import EntryView, LedgerView
from app.usecases.manage_sketches import OwnBudget, SketchSpec, SketchView
from app.usecases.plan_release import Plan, Terms

T = TypeVar("T")

NAME = r"^[a-z0-9][a-z0-9._-]{0,99}$"


def _short_number(value: Any) -> Any:
    if isinstance(value, bool) or len(str(value)) > 64:
        raise ValueError("write a number, or a decimal string of at most 64 characters")
    return value


Amount = Annotated[Decimal, BeforeValidator(_short_number)]
Epsilon = Annotated[Amount, Field(gt=0, le=1000, description="ε, a decimal string or number", examples=["0.5"])]
Delta = Annotated[Amount, Field(ge=0, lt=1, description="δ, a decimal string or number", examples=["1e-6"])]
Beta = Annotated[
    Amount,
    Field(
        ge=Decimal("1e-9"),
        le=Decimal("0.5"),
        description="Error bounds hold with probability 1 − β",
        examples=["0.05"],
    ),
]
ExpectedEvents = Annotated[
    int | None,
    Field(
        ge=0,
        le=2**53,
        description="How many events you expect the sketch to hold. Only this figure, never the true one, enters "
        "the part of the error bound that comes from the sketch itself.",
        examples=[100_000],
    ),
]


class Input(BaseModel):
    model_config = ConfigDict(extra="forbid")


class BudgetIn(Input):
    epsilon: Epsilon
    delta: Delta
    accountant: Literal["basic"] = Field("basic", description="`basic` adds up ε and δ")

    def total(self) -> Budget:
        return Budget.granted(epsilon=self.epsilon, delta=self.delta)


class LedgerIn(BudgetIn):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"epsilon": "2", "delta": "1e-5", "accountant": "basic"}]},
    )


class SketchIn(Input):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "k": 1024,
                    "unit": "event",
                    "budget": {"epsilon": "1", "delta": "1e-5"},
                    "description": "Page views of the shop",
                }
            ]
        },
    )

    k: int = Field(ge=1, le=MAX_K, description="Counters. A count is at most n/(k+1) too low, n the number of events")
    unit: Literal["event"] = Field("event", description="What is protected: one event")
    max_contributions: Literal[1] = Field(1, description="Events per person that the guarantee covers")
    ledger: str | None = Field(None, pattern=NAME, description="A shared ledger that pays for releases")
    budget: BudgetIn | None = Field(None, description="Or a budget of its own, in a ledger of the sketch's name")
    description: str = Field("", max_length=1000)

    @model_validator(mode="after")
    def _one_payer(self) -> "SketchIn":
        if (self.ledger is None) == (self.budget is None):
            raise ValueError("give either ledger or budget")
        return self

    def spec(self) -> SketchSpec:
        own = OwnBudget(self.budget.total(), self.budget.accountant) if self.budget else None
        return SketchSpec(self.k, self.unit, self.max_contributions, own or self.ledger or "", self.description)


class PlanIn(Input):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"epsilon": "0.5", "delta": "1e-6", "beta": "0.05", "expected_events": 100_000}]
        },
    )

    epsilon: Epsilon
    delta: Delta
    beta: Beta = Decimal("0.05")
    expected_events: ExpectedEvents = None

    def terms(self) -> Terms:
        cost = Cost.charged(epsilon=self.epsilon, delta=self.delta)
        return Terms(cost=cost, beta=self.beta, expected_events=self.expected_events)


class ParametersPlanIn(PlanIn):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"k": 1024, "unit": "event", "epsilon": "0.5", "delta": "1e-6", "expected_events": 100_000}]
        },
    )

    k: int = Field(ge=1, le=MAX_K)
    unit: Literal["event"] = "event"
    max_contributions: Literal[1] = 1


class SnapshotIn(PlanIn):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"epsilon": "0.5", "delta": "1e-6", "mechanism": "auto", "expected_events": 100_000}]
        },
    )

    mechanism: Literal["auto", "pmg"] = Field("auto", description="`auto` takes the one with the least error bound")


class KeyIn(Input):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"name": "web shop", "scopes": ["ingest"], "sketches": "page-*"}]},
    )

    name: str = Field(min_length=1, max_length=100, description="For people; need not be unique")
    scopes: list[Scope] = Field(min_length=1, max_length=4, description="`admin` includes the others")
    sketches: str = Field(
        "*",
        pattern=r"^[a-z0-9._*-]{1,100}$",
        description="The sketch and ledger names it may touch; `*` stands for any text",
    )


class AmountOut(BaseModel):
    epsilon: str = Field(examples=["0.5"])
    delta: str = Field(examples=["1e-6"])


class LedgerAmountOut(AmountOut):
    ledger: str = Field(examples=["page-views"])


class LedgerOut(BaseModel):
    name: str = Field(examples=["page-views"])
    accountant: str = Field(examples=["basic"])
    total: AmountOut
    spent: AmountOut
    remaining: AmountOut
    releases_like_the_last: int | None = Field(
        description="How many more releases of the last one's cost fit; null before the first", examples=[1]
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
            releases_like_the_last=ledger.releases_like_the_last,
            created_at=ledger.created_at,
        )


class MechanismParametersOut(BaseModel):
    """What a sceptic needs to recompute the guarantee."""

    noise: str = Field(examples=["discrete-laplace"])
    scale: str = Field(description="Of each draw, in counts", examples=["2"])
    threshold: int = Field(description="The smallest noisy count that is reported", examples=[33])
    k: int = Field(examples=[1024])


class EntryOut(BaseModel):
    """One payment, with what was run."""

    number: int
    created_at: datetime
    snapshot: str
    mechanism: str = Field(examples=["pmg"])
    mechanism_version: int = Field(examples=[1])
    parameters: MechanismParametersOut
    epsilon: str = Field(examples=["0.5"])
    delta: str = Field(examples=["1e-6"])

    @classmethod
    def of(cls, entry: EntryView) -> "EntryOut":
        return cls(
            number=entry.number,
            created_at=entry.created_at,
            snapshot=entry.snapshot,
            mechanism=entry.mechanism,
            mechanism_version=entry.mechanism_version,
            parameters=MechanismParametersOut.model_validate(entry.parameters),
            **entry.cost,
        )


class SketchOut(BaseModel):
    """Public parameters and budget state. Nothing in it depends on the events."""

    name: str = Field(examples=["page-views"])
    k: int = Field(examples=[1024])
    unit: str = Field(examples=["event"])
    max_contributions: int = Field(examples=[1])
    description: str = Field(examples=["Page views of the shop"])
    ledger: LedgerOut
    created_at: datetime

    @classmethod
    def of(cls, sketch: SketchView) -> "SketchOut":
        return cls(
            name=sketch.name,
            k=sketch.k,
            unit=sketch.unit,
            max_contributions=sketch.max_contributions,
            description=sketch.description,
            ledger=LedgerOut.of(sketch.ledger),
            created_at=sketch.created_at,
        )


class ReceiptOut(BaseModel):
    accepted: int = Field(
        description="How many events your batch has, counts added up; a function of your request alone"
    )


class ErrorBoundOut(BaseModel):
    """With probability 1 − β, for every key at once: true − sketch_low − noise_low ≤ released ≤ true + noise_high.

    A key that is absent from the histogram counts as released with 0.
    """

    noise_low: int = Field(description="Noise and threshold together", examples=[54])
    noise_high: int = Field(examples=[22])
    sketch_low: int | None = Field(
        description="expected_events/(k+1); null where expected_events was not given", examples=[97]
    )


class OfferOut(BaseModel):
    mechanism: str = Field(examples=["pmg"])
    theorem: str = Field(examples=["thm:final_theorem"])
    parameters: MechanismParametersOut
    error_bound: ErrorBoundOut
    smallest_likely_count: int = Field(
        description="The smallest true count of a given key that is reported with probability 1 − β; without "
        "expected_events, before the sketch's own error",
        examples=[139],
    )
    charge: AmountOut
    releases_remaining: int | None = Field(description="How many such releases the ledger still covers", examples=[2])

    @classmethod
    def of(cls, offer: Offer, plan: Plan) -> "OfferOut":
        return cls(
            mechanism=offer.mechanism,
            theorem=offer.theorem,
            parameters=MechanismParametersOut.model_validate(offer.calibrated.parameters()),
            error_bound=ErrorBoundOut.model_validate(offer.error_bound, from_attributes=True),
            smallest_likely_count=offer.smallest_likely_count,
            charge=AmountOut(**plan.cost.as_strings()),
            releases_remaining=plan.releases_remaining,
        )


class PlanOut(BaseModel):
    recommended: str = Field(examples=["pmg"])
    mechanisms: list[OfferOut]

    @classmethod
    def of(cls, plan: Plan) -> "PlanOut":
        mechanisms = [OfferOut.of(offer, plan) for offer in plan.offers]
        return cls(recommended=mechanisms[0].mechanism, mechanisms=mechanisms)


class BarOut(BaseModel):
    """A reported key. With probability 1 − β all true counts lie in their [low, high]."""

    key: str = Field(examples=["/pricing"])
    count: int = Field(examples=[1043])
    low: int = Field(examples=[1021])
    high: int | None = Field(description="null where expected_events was not given", examples=[1162])


class SnapshotSummaryOut(BaseModel):
    """A release without its histogram."""

    id: str = Field(examples=["0f8fad5bd9cb469fa16570867728950e"])
    sketch: str = Field(examples=["page-views"])
    created_at: datetime
    mechanism: str = Field(examples=["pmg"])
    theorem: str = Field(description="Label in the paper", examples=["thm:final_theorem"])
    epsilon: str = Field(examples=["0.5"])
    delta: str = Field(examples=["1e-6"])
    beta: str = Field(examples=["0.05"])
    parameters: MechanismParametersOut
    error_bound: ErrorBoundOut
    charged: list[LedgerAmountOut]
    remaining: list[LedgerAmountOut] = Field(description="What each ledger had left right after this release")

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        return cls.model_validate(snapshot, from_attributes=True)


class SnapshotOut(SnapshotSummaryOut):
    histogram: list[BarOut] = Field(description="In key order")


class KeyOut(BaseModel):
    id: str = Field(examples=["9f86d081884c7d65"])
    name: str = Field(examples=["web shop"])
    scopes: list[str] = Field(examples=[["ingest"]])
    sketches: str = Field(examples=["page-*"])
    created_at: datetime
    revoked_at: datetime | None

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
    cursor: str | None = Field(description="Pass it as `cursor` for the next page; null on the last")


class HealthOut(BaseModel):
    status: Literal["ok"] = "ok"
