"""The JSON of requests: every number and name is checked here, before a use case sees it.

The models without a docstring have none on purpose: it would go into the OpenAPI document.
"""

from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from app.api.fields import (
    NAME,
    SNAPSHOT_ID,
    Beta,
    Counters,
    Delta,
    Epsilon,
    EventKey,
    ExpectedEvents,
    MaxContributions,
    MechanismName,
    Rho,
    Text,
    TotalShare,
    UnitIn,
    UniverseSize,
    Whole,
)
from app.core.ledger.budget import Budget, Cost
from app.core.people import Enforcement
from app.core.planner import AUTO
from app.core.sketches.parameters import Contributions, SketchParameters
from app.core.sketches.universe import Universe, of_range, of_values
from app.usecases.access import Scope
from app.usecases.manage_sketches import OwnBudget, SketchSpec
from app.usecases.plan_release import Terms


def example(body: dict[str, Any]) -> dict[str, Any]:
    """`openapi_extra` that fills in a request. In the model pydantic would sort its keys, and people read it."""
    return {"requestBody": {"content": {"application/json": {"example": body}}}}


class Input(BaseModel):
    """A request's body. A member that it does not know is refused, because it may be a misspelt one."""

    model_config = ConfigDict(extra="forbid")


class TotalIn(Input):
    epsilon: Epsilon
    delta: Delta

    def total(self) -> Budget:
        """The total, exactly as it was written."""
        return Budget.granted(epsilon=self.epsilon, delta=self.delta)


class BudgetIn(TotalIn):
    accountant: Literal["basic", "zcdp"] = Field(
        "basic",
        description="`basic` adds up ε and δ; what is spent is the guarantee, at any moment. `zcdp` adds up ρ, which "
        "comes to far less for many small releases, and sets half of δ aside for it; the total is the guarantee",
    )


class ContributionsIn(Input):
    """The most that one person contributes to all sketches of the ledger together."""

    unit: UnitIn = "event"
    max: MaxContributions

    def contributions(self) -> Contributions:
        """The bound, as use cases know it."""
        return Contributions(self.unit, self.max)


class LedgerIn(BudgetIn):
    contributions: ContributionsIn | None = Field(
        None,
        description="Count a person's contributions over all sketches of this ledger, which then must have this unit "
        "and max_contributions and can be merged",
    )


class BudgetChangeIn(TotalIn):
    reason: Text = Field(min_length=1, max_length=1000, description="Why; it stays in the ledger for good")


class UniverseIn(Input):
    """All possible keys: listed, or the whole numbers of a range."""

    values: list[EventKey] | None = Field(None, min_length=1, max_length=10_000, description="Every possible key")
    range: tuple[Whole, Whole] | None = Field(None, description="First and last", examples=[[0, 999_999]])

    @model_validator(mode="after")
    def _one_kind(self) -> "UniverseIn":
        if (self.values is None) == (self.range is None):
            raise ValueError("give either values or range")
        return self

    def universe(self) -> Universe:
        """The universe; InvalidRequest where the range is none."""
        return of_range(*self.range) if self.range is not None else of_values(self.values or [])


class SketchIn(Input):
    k: Counters
    unit: UnitIn = "event"
    max_contributions: MaxContributions = 1
    enforcement: Enforcement | None = Field(
        None,
        description="`enforced`: items name a `user`, and the service counts no more of each than allowed; the default "
        "for unit `user` or max_contributions above 1. `declared`: it trusts the senders, and every snapshot says so",
        examples=["declared"],
    )
    ledger: str | None = Field(None, pattern=NAME, description="A shared ledger that pays for releases")
    budget: BudgetIn | None = Field(None, description="Or a budget of its own, in a ledger of the sketch's name")
    universe: UniverseIn | None = Field(
        None,
        description="All possible keys. It allows releases without δ; events with other keys are refused",
    )
    description: Text = Field("", max_length=1000, description="For people")

    @model_validator(mode="after")
    def _one_payer(self) -> "SketchIn":
        if (self.ledger is None) == (self.budget is None):
            raise ValueError("give either ledger or budget")
        return self

    def spec(self) -> SketchSpec:
        """The sketch to make. Where people count, the service enforces the bound unless the request says otherwise."""
        usual: Enforcement = "enforced" if self.unit == "user" or self.max_contributions > 1 else "declared"
        own = OwnBudget(self.budget.total(), self.budget.accountant) if self.budget else None
        parameters = SketchParameters(
            k=self.k,
            unit=self.unit,
            max_contributions=self.max_contributions,
            enforcement=self.enforcement or usual,
            universe=self.universe.universe() if self.universe else None,
        )
        return SketchSpec(parameters, ledger=own or self.ledger or "", description=self.description)


class MergeIn(Input):
    sources: list[Annotated[str, Field(pattern=NAME)]] = Field(
        min_length=1, max_length=1000, description="Sketches whose data go into the target; they stay as they are"
    )
    mode: Literal["compact", "summed"] = Field(
        description="`compact` keeps k counters and takes further events; `summed` keeps every key and needs less "
        "noise, which is better for short streams"
    )


Together = Annotated[list[Annotated[str, Field(pattern=NAME)]], Field(min_length=2, max_length=1000)]
TogetherMode = Annotated[
    Literal["compact", "summed"] | None,
    Field(
        description="`summed` adds up reduced counters, of streams and sums; `compact` merges counters, of streams and "
        "compact sketches. By default the one with the least error bound",
        examples=["summed"],
    ),
]


class TermsIn(Input):
    epsilon: Epsilon | None = Field(None, description="ε, a decimal string or number", examples=["0.5"])
    rho: Rho | None = Field(
        None,
        description="ρ instead of ε, where every ledger that pays is `zcdp`: Gaussian noise is then offered too",
        examples=["0.005"],
    )
    delta: Delta
    beta: Beta = Decimal("0.05")
    total: bool = Field(
        False, description="Also release how many events, or people, there are, for a small share of the price"
    )
    total_share: TotalShare = Decimal("0.02")

    @model_validator(mode="after")
    def _one_currency(self) -> Self:
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError("give either epsilon or rho")
        return self

    def terms(self) -> Terms:
        """What is asked for, its cost exactly as it was written."""
        if self.rho is not None:
            cost = Cost.charged_in_rho(rho=self.rho, delta=self.delta)
        else:
            cost = Cost.charged(epsilon=self.epsilon or Decimal(0), delta=self.delta)
        share = Fraction(self.total_share) if self.total else Fraction(0)
        return Terms(cost=cost, beta=self.beta, total_share=share)


class PlanIn(TermsIn):
    expected_events: ExpectedEvents = None


class AnyPlanIn(PlanIn):
    k: Counters | None = Field(None, description="Counters, for parameters that no sketch has yet", examples=[1024])
    unit: UnitIn = "event"
    max_contributions: MaxContributions = 1
    universe_size: UniverseSize | None = Field(
        None, description="How many keys are possible, where that is known", examples=[1_000_000]
    )
    sketches: Together | None = Field(None, description="Or several sketches that would be released together")
    mode: TogetherMode = None

    @model_validator(mode="after")
    def _one_subject(self) -> Self:
        if (self.k is None) == (self.sketches is None):
            raise ValueError("give either k and what else a sketch would have, or sketches")
        named = self.sketches is not None
        others = self.model_fields_set & ({"unit", "max_contributions", "universe_size"} if named else {"mode"})
        if others:
            raise ValueError(f"{min(others)} does not go with {'sketches' if named else 'k'}")
        return self

    def parameters(self) -> SketchParameters:
        """What the sketch would be made from. Of a universe only the size matters to a plan, so any universe of that
        size stands for it."""
        return SketchParameters(
            k=self.k or 1,
            unit=self.unit,
            max_contributions=self.max_contributions,
            universe=of_range(1, self.universe_size) if self.universe_size else None,
        )


class SnapshotIn(TermsIn):
    mechanism: MechanismName = Field(AUTO, description=f"`{AUTO}` takes the one with the least error bound")


class TogetherIn(SnapshotIn):
    sketches: Together = Field(description="Sketches to be released as one; they stay as they are")
    mode: TogetherMode = None


class SumIn(Input):
    snapshots: list[Annotated[str, Field(pattern=SNAPSHOT_ID)]] = Field(
        min_length=1, max_length=400, description="Their ids; no two may hold events of the same sketch"
    )


class KeyIn(Input):
    name: Text = Field(min_length=1, max_length=100, description="For people; need not be unique")
    scopes: list[Scope] = Field(min_length=1, max_length=4, description="`admin` includes the others")
    sketches: str = Field(
        "*",
        pattern=r"^[a-z0-9._*-]{1,100}$",
        description="The sketch and ledger names it may touch; `*` stands for any text",
    )
